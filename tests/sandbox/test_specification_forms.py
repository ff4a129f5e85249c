"""What the two forms of the sandbox differ in besides the answers to single requests: events, and
the zones of visits, which both forms share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.sandboxes import Sandbox, running

# The pattern of the specification, Appointment.
ZONE = re.compile(
    r"[A-Z][A-Za-z_]+(/[A-Z][A-Za-z_+-]+)+|Etc/[A-Za-z0-9+-]+"
    r"|CET|CST6CDT|EET|EST|EST5EDT|MET|MST|MST7MDT|PST8PDT|HST"
)
SHORT = {"EST", "EST5EDT", "CST6CDT", "MST", "MST7MDT", "PST8PDT"}
NOBODY = "http://127.0.0.1:9/nobody"


@pytest.fixture(scope="module", params=[False, True], ids=["default", "as-specified"])
def world(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with running(users=60, orders=400, seed=19, as_specified=request.param) as sandbox:
        sandbox.control("webhooks", {"url": NOBODY})
        yield sandbox


def announced(world: Sandbox, event_type: str) -> list[dict[str, Any]]:
    """`data` of several events of the type."""
    for seed in range(6):
        world.control("announce", {"event_types": [event_type], "seed": seed})
    rows = world.query(
        "SELECT body::json -> 'data' FROM sandbox_message WHERE event_type = %s", (event_type,)
    )
    assert rows
    return [row[0] for row in rows]


def test_events_carry_no_removed_fields(world: Sandbox) -> None:
    connected = announced(world, "provider.connection.created")
    assert all(data["provider"]["slug"] for data in connected)
    assert any("source" in data for data in connected) is not world.as_specified
    pulled = announced(world, "historical.data.sleep.created")
    assert any("is_final" in data for data in pulled) is not world.as_specified
    for event_type in ("daily.data.activity.created", "daily.data.glucose.created"):
        sources = [data["source"] for data in announced(world, event_type)]
        removed = {"name", "slug", "logo"}
        assert any(removed & source.keys() for source in sources) is not world.as_specified
        assert all({"provider", "type"} <= source.keys() for source in sources)


def test_events_of_orders_have_the_form_of_answers(world: Sandbox) -> None:
    for data in announced(world, "labtest.order.updated"):
        assert ("last_event" in data) is not world.as_specified
        assert ("description" in data["lab_test"]) is world.as_specified
        if data.get("patient_details"):
            assert ("T" in data["patient_details"]["dob"]) is not world.as_specified


def test_some_visits_are_in_short_zones(world: Sandbox) -> None:
    zones = {row[0] for row in world.query("SELECT iana_timezone FROM sandbox_appointment")}
    assert zones & SHORT and zones - SHORT
    assert [zone for zone in zones if not ZONE.fullmatch(zone)] == []
