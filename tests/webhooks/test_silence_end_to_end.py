"""Silence from end to end: the service stops delivering, a sync finds what it did not tell, the
service is asked to send again, and what was lost arrives."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import pytest

from tests.sandboxes import Sandbox
from tests.sandboxes import running as sandbox_running
from tests.sync.back_office import BackOffice, BackOffices, running
from tests.waiting import wait_until
from tests.webhooks.sending import receiving

LISTEN = "from webhooks.tasks import check_silence; check_silence()"
READ = "from patients.wearables.tasks import look_up; look_up()"
DEVICE_DATA = (
    "SELECT (SELECT count(*) FROM wearables_chunk) + (SELECT count(*) FROM wearables_summary)"
)


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BackOffice, Sandbox, str]]:
    back_offices = BackOffices(os.environ["DATABASE_URL"], tmp_path_factory.mktemp("back_offices"))
    try:
        with sandbox_running(users=8, orders=24, seed=11) as sandbox:
            back_office = back_offices.build(sandbox.url)
            back_office.sync()
            with receiving(back_office, workers=1) as url:
                sandbox.control("webhooks", {"url": f"{url}/webhooks/"})
                with running(back_office.start("-m", "tests.webhooks.drainer")):
                    yield back_office, sandbox, url
    finally:
        back_offices.close()


def health(url: str) -> Any:
    with urlopen(f"{url}/health/inbox", timeout=20) as answer:  # noqa: S310 - our own address
        return json.loads(answer.read())


def has_events_of(back_office: BackOffice, orders: list[str]) -> int:
    return int(
        back_office.value(
            "SELECT count(DISTINCT subject_id) FROM webhooks_event WHERE subject_id = ANY(%s)",
            [orders],
        )
    )


def test_missed_events_arrive_after_resend(place: tuple[BackOffice, Sandbox, str]) -> None:
    back_office, sandbox, url = place
    order_ids = sandbox.control("change", {"orders": 3, "seed": 1})["order_ids"]
    wait_until(lambda: has_events_of(back_office, order_ids), 30, "the first events")
    assert health(url) == {"status": "ok", "inbox": []}

    sandbox.control("webhooks", {"url": None})  # As a service does that has given us up.
    before = back_office.value("SELECT count(*) FROM webhooks_event")
    lost = sandbox.control("change", {"orders": 5, "seed": 2})["order_ids"]
    sandbox.control("wearables", {"users": 2, "days": 1})
    back_office.sync("orders")
    assert back_office.value(DEVICE_DATA) == 0
    assert back_office.value("SELECT count(*) FROM webhooks_event") == before
    # An hour passes.
    back_office.query(
        "UPDATE webhooks_event SET received_at = received_at - interval '1 hour',"
        " sent_at = sent_at - interval '1 hour'"
    )
    back_office.query(
        "UPDATE orders_order SET last_event_at = last_event_at"
        " - CASE WHEN id = ANY(%s::uuid[]) THEN interval '5 minutes' ELSE interval '1 hour' END",
        [lost],
    )
    assert health(url) == {"status": "attention", "inbox": ["silent"]}

    sandbox.control("webhooks", {"url": f"{url}/webhooks/"})
    assert back_office.value("SELECT count(*) FROM webhooks_event") == before
    back_office.manage("shell", "-c", LISTEN)
    assert back_office.value("SELECT error FROM sync_lookup WHERE kind = 'events-resent'") == ""
    wait_until(lambda: has_events_of(back_office, lost) >= 3, 40, "what was lost arrives")
    back_office.manage("shell", "-c", READ)
    assert back_office.value(DEVICE_DATA) > 0
    wait_until(lambda: health(url)["status"] == "ok", 40, "all is well again")
