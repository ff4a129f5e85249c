"""Times without an offset, sent over the wire: every page shows the day that the laboratory wrote,
in whatever time zone the reader is (case B09)."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from backoffice.accounts.models import User
from backoffice.core.time_formats import calendar_day
from backoffice.service.written_times import Precision, read_written_time
from orders.models import Order, ResultMarker
from tests.api.rows import staff, token_for
from tests.results.test_over_the_wire import CASES, api, glucose_body, send_result, words
from tests.sandbox_service import look_up
from tests.sandboxes import Sandbox

pytestmark = pytest.mark.django_db(transaction=True)

ZONES = ("Pacific/Honolulu", "Pacific/Auckland")
LOCAL = "Nov 9, 2026, 12:30 AM lab’s local time"


def bodies() -> list[dict[str, Any]]:
    """Return the two results of the file: a date alone, and a time without an offset."""
    text, found, place = (CASES / "B09.json").read_text(), [], 0
    while place < len(text):
        body, place = json.JSONDecoder().raw_decode(text, place)
        found.append(body)
        place += len(text[place:]) - len(text[place:].lstrip())
    return found


def viewer(zone: str) -> User:
    user = User.objects.filter(username=zone).first() or staff("clinician", zone)
    user.time_zone = zone
    user.save()
    return user


def viewers() -> list[Client]:
    clients = [Client() for _ in ZONES]
    for client, zone in zip(clients, ZONES, strict=True):
        client.force_login(viewer(zone))
    return clients


def feed_both(world: Sandbox, key: UUID) -> tuple[UUID, UUID]:
    """Send both results of the case as those of one patient; return patient and second order."""
    date_alone, without_offset = bodies()
    world.prepare_answer(f"^/v3/order/{key}/result$", body=date_alone, times=9)
    look_up("results", key)
    patient = Order.objects.get(pk=key).user_id
    assert patient is not None
    [[second]] = world.query(
        "SELECT id FROM sandbox_order WHERE result_status = 'final' AND status LIKE 'completed%%'"
        " AND id <> %s ORDER BY seq LIMIT 1",
        [str(key)],
    )
    look_up("orders", second)
    send_result(world, UUID(str(second)), without_offset)
    Order.objects.filter(pk=second).update(user_id=patient)
    look_up("users", patient)
    return patient, UUID(str(second))


def test_b09_every_page_shows_the_day_as_written(world: Sandbox, key: UUID) -> None:
    patient, second = feed_both(world, key)
    for client in viewers():
        for name in ("reviewing:report", "orders:detail"):
            assert "Collected Nov 13, 2026" in words(client, name, key)
            assert f"Collected {LOCAL}" in words(client, name, second)
        trend = words(client, "reviewing:trend", patient, "loinc:potassium")
        assert trend.index(" Nov 13, 2026 4.2") < trend.index(f" {LOCAL} 4.2"), "newest first"
        latest = words(client, "of-patient:results", patient)
        assert "Nov 13, 2026 4.2 Nov 9, 2026" in latest
        assert "no prior result" not in words(client, "reviewing:report", key)
        assert "4.2 Nov 9, 2026" in words(client, "reviewing:report", key)
        pages = [trend, latest]
        pages += [words(client, "reviewing:report", one) for one in (key, second)]
        pages += [words(client, "orders:detail", one) for one in (key, second)]
        for page in pages:
            assert not re.search(r"Collected (Sun |Thu )?(8|12|14) Nov", page)
            assert not re.search(r"\b(8|12) Nov 2026", page)
    headers = token_for(staff("administrator", "api"))
    for one, text in ((second, "2026-11-09T00:30:00"), (key, "2026-11-13")):
        item = Client().get(f"/api/results/{one}/", headers=headers).json()
        assert item["date_collected"] == text


def test_line_time_without_an_offset_is_kept_as_written(world: Sandbox, key: UUID) -> None:
    body = glucose_body(timestamp="2026-11-09T00:30:00")
    body["metadata"]["date_collected"] = None
    send_result(world, key, body)
    [line] = ResultMarker.objects.filter(result_id=key)
    assert (line.timestamp, line.timestamp_written) == (None, "2026-11-09T00:30:00")
    assert line.unreadable_fields == ""
    patient = Order.objects.get(pk=key).user_id
    look_up("users", patient)
    for client in viewers():
        assert LOCAL in words(client, "reviewing:trend", patient, "loinc:glucose")
        assert " Nov 9, 2026" in words(client, "of-patient:results", patient)
    [item] = api(key)["markers"]
    assert (item["timestamp"], item["timestamp_written"]) == (None, "2026-11-09T00:30:00")
    body["results"][0]["timestamp"] = "2026-11-09T00:30:00-05:00"
    send_result(world, key, body)
    [line] = ResultMarker.objects.filter(result_id=key)
    assert line.timestamp == datetime(2026, 11, 9, 5, 30, tzinfo=UTC)
    assert line.timestamp_written is None


@pytest.mark.parametrize("text", ["soon", "03/04/2026", "2026-02-30", "20261113", 20261113])
def test_text_that_is_no_date_loses_nothing(world: Sandbox, key: UUID, text: str | int) -> None:
    body = glucose_body(timestamp=text)
    body["metadata"]["date_collected"] = text
    send_result(world, key, body)
    [line] = ResultMarker.objects.filter(result_id=key)
    assert (line.text, line.timestamp, line.timestamp_written) == ("80", None, str(text))
    patient = Order.objects.get(pk=key).user_id
    for client in viewers():
        assert str(text) in words(client, "reviewing:trend", patient, "loinc:glucose")
        assert f"Collected {text}" in words(client, "reviewing:report", key)


invented = st.one_of(
    st.datetimes(datetime(1950, 1, 1), datetime(2100, 1, 1)).map(datetime.isoformat),
    st.dates(date(1950, 1, 1), date(2100, 1, 1)).map(date.isoformat),
    st.datetimes(datetime(1950, 1, 1), datetime(2100, 1, 1), timezones=st.timezones()).map(
        datetime.isoformat
    ),
    st.text(max_size=30),
    st.text(alphabet="0123456789-/:T +Z", max_size=20),
    st.none(),
    st.integers(),
)


@settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(collected=invented, stamp=invented)
@example(collected="2026-11-09T00:30:00", stamp=None)
@example(collected=None, stamp="2026-11-09")
def test_invented_times_keep_their_day_on_every_page(
    world: Sandbox, key: UUID, collected: str | int | None, stamp: str | int | None
) -> None:
    body = glucose_body(timestamp=stamp)
    body["metadata"] |= {"date_collected": collected, "date_reported": stamp}
    send_result(world, key, body)
    patient = Order.objects.get(pk=key).user_id
    look_up("users", patient)
    found = read_written_time(None if collected is None else str(collected))
    for zone in ZONES:
        client = Client()
        client.force_login(viewer(zone))
        for name, *about in (
            ("reviewing:report", key),
            ("orders:detail", key),
            ("reviewing:trend", patient, "loinc:glucose"),
            ("of-patient:results", patient),
        ):
            answer = client.get(reverse(name, args=about))
            assert answer.status_code == 200
            if found.precision in (Precision.DAY, Precision.LOCAL_TIME):
                assert found.day is not None
                assert calendar_day(found.day) in answer.content.decode(), name
