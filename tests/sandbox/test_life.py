"""The world in motion: orders move by themselves, by command, and soundly."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

import httpx
import pytest

from tests.sandbox import soundness
from tests.sandboxes import Sandbox, SandboxFactory
from tests.waiting import wait_until

HEADERS = {"x-service-api-key": "sk_us_local_sandbox"}


def _orders(sandbox: Sandbox, keys: list[str]) -> dict[str, dict[str, Any]]:
    found = {}
    for key in keys:
        answer = httpx.get(f"{sandbox.url}/v3/order/{key}", headers=HEADERS, timeout=30)
        assert answer.status_code == 200, answer.text[:300]
        found[key] = answer.json()
    return found


@pytest.fixture(scope="module")
def fast(sandbox_factory: SandboxFactory) -> Sandbox:
    """Two days a second: every life ends within seconds."""
    return sandbox_factory(users=40, orders=900, seed=21, speed=172_800)


def test_a_fast_world_moves_on_soundly(fast: Sandbox) -> None:
    before = fast.query("SELECT max(id) FROM sandbox_orderevent")[0][0]
    placed = fast.query("SELECT max(number) FROM sandbox_order")[0][0]

    def moved() -> bool:
        events = fast.query("SELECT count(*) FROM sandbox_orderevent WHERE id > %s", (before,))
        orders = fast.query("SELECT count(*) FROM sandbox_order WHERE number > %s", (placed,))
        return bool(events[0][0] > 400 and orders[0][0] > 3)

    wait_until(moved, 60, "orders move on", every=0.5)
    fast.control("clock", {"speed": 0})
    newest = "SELECT max(id), (SELECT count(*) FROM sandbox_order) FROM sandbox_orderevent"
    stood: list[Any] = []
    while len(stood) < 5 or stood[-1] != stood[-5]:  # The tick under way ends.
        stood.append(fast.query(newest))
        time.sleep(0.5)
    soundness.numbering(fast)
    soundness.records(fast)
    soundness.histories(fast)
    soundness.transactions(fast)
    doubled = fast.query(
        "SELECT order_id FROM sandbox_appointment WHERE is_current GROUP BY 1 HAVING count(*) > 1"
    )
    assert doubled == []
    # An appointment's columns say what its last event says.
    torn = fast.query(
        "SELECT a.id FROM sandbox_appointment a JOIN LATERAL (SELECT status FROM "
        "sandbox_appointmentevent e WHERE e.appointment_id = a.id ORDER BY created_at DESC, id DESC"
        " LIMIT 1) e ON true WHERE e.status <> a.event_status"
    )
    assert torn == []


def test_a_world_that_stands_still_does_not_move(sandbox_factory: SandboxFactory) -> None:
    still = sandbox_factory(users=10, orders=60, seed=5, speed=0)
    still.control("clock", {"advance_seconds": 40 * 86_400})
    before = still.query("SELECT count(*), max(updated_at) FROM sandbox_order, sandbox_world")
    time.sleep(3)
    assert still.query("SELECT count(*), max(updated_at) FROM sandbox_order, sandbox_world") == (
        before
    )
    # Let go, the overdue orders move at once.
    still.control("clock", {"speed": 1})
    newest = "SELECT max(updated_at) FROM sandbox_order"
    wait_until(lambda: still.query(newest)[0][0] > before[0][1], 60, "the overdue orders")


@pytest.fixture(scope="module")
def still(sandbox_factory: SandboxFactory) -> Sandbox:
    return sandbox_factory(users=60, orders=700, seed=31, speed=0)


def test_change_moves_open_orders_one_step(still: Sandbox) -> None:
    rows = dict(still.query("SELECT id::text, updated_at FROM sandbox_order"))
    answer = still.control("change", {"orders": 40, "seed": 3})
    keys = answer["order_ids"]
    assert len(keys) == len(set(keys)) == 40
    after = dict(still.query("SELECT id::text, updated_at FROM sandbox_order"))
    changed = {key for key, moment in after.items() if moment != rows.get(key)}
    assert set(keys) <= changed
    for key, record in _orders(still, keys).items():
        assert datetime.fromisoformat(record["updated_at"]) > rows[key]
    # What else changed shows a changed order of its transaction, or is a redraw.
    for key, record in _orders(still, sorted(changed - set(keys))).items():
        group = {each["id"] for each in record["order_transaction"]["orders"]}
        assert group & set(keys), key
    soundness.records(still)
    soundness.histories(still)
    soundness.transactions(still)


def test_the_same_changes_lead_to_the_same_world(sandbox_factory: SandboxFactory) -> None:
    def run() -> list[tuple[Any, ...]]:
        world = sandbox_factory(
            users=20, orders=150, seed=8, speed=0, epoch="2026-02-01T00:00:00+00:00"
        )
        for seed in range(6):
            world.control("change", {"orders": 15, "seed": seed})
        world.control("place", {"orders": 5})
        return world.query(
            "SELECT number, id::text, low_level_status, status_detail, sample_id, interpretation, "
            "step FROM sandbox_order ORDER BY number"
        )

    assert run() == run()


def test_completed_orders_can_be_corrected(still: Sandbox) -> None:
    [key] = still.control("change", {"orders": 1, "seed": 9, "corrected": True})["order_ids"]
    record = _orders(still, [key])[key]
    assert record["last_event"]["status"].endswith(".corrected")
    assert record["events"][-2]["status"].endswith(".completed")
    answer = httpx.get(f"{still.url}/v3/order/{key}/result", headers=HEADERS, timeout=30)
    assert answer.status_code == 200
    assert answer.json()["metadata"]["interpretation"] == record["interpretation"]
    again = httpx.get(f"{still.url}/v3/order/{key}/result", headers=HEADERS, timeout=30)
    assert again.content == answer.content


def test_requisition_link_differs_at_every_reading(still: Sandbox) -> None:
    key = still.query("SELECT id::text FROM sandbox_order WHERE has_requisition LIMIT 1")[0][0]
    first, second = (_orders(still, [key])[key] for _ in range(2))
    assert first["requisition_form_url"] != second["requisition_form_url"]
    assert {**first, "requisition_form_url": None} == {**second, "requisition_form_url": None}
