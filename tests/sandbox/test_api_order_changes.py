"""Cancelling, scheduling and drawing: what may be done when (orders.md 2.10, 4.2)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.sandbox import soundness
from tests.sandbox.ordering import ADDRESS, PHYSICIAN, TEAM, World, misfits, open_world, said

TESTS = {
    "testkit": "Heart Kit",
    "walk_in_test": "Yearly Check",
    "at_home_phlebotomy": "Home Visit Wellness",
    "on_site_collection": "Clinic Draw Basic",
}
SCHEDULABLE = {"ordered", "requisition_created", "appointment_pending", "appointment_scheduled"}
CANCELLABLE = {
    "testkit": {"ordered", "requisition_created"},
    "walk_in_test": SCHEDULABLE | {"appointment_cancelled"},
    "at_home_phlebotomy": SCHEDULABLE | {"appointment_cancelled", "draw_completed"},
    "on_site_collection": {"ordered", "requisition_created", "draw_completed"},
}
BUCKETS = {
    "ordered": "received",
    "requisition_created": "received",
    "partial_results": "sample_with_lab",
    "delivered_to_lab": "sample_with_lab",
    "completed": "completed",
    "cancelled": "cancelled",
    "sample_error": "failed",
    "failure_to_deliver_to_customer": "failed",
}
REACHED = {
    "testkit": (
        "ordered", "requisition_created", "transit_customer", "with_customer", "delivered_to_lab",
        "completed", "sample_error", "failure_to_deliver_to_customer",
    ),
    "walk_in_test": (
        "ordered", "requisition_created", "appointment_pending", "appointment_scheduled",
        "appointment_cancelled", "partial_results", "completed", "redraw_available",
    ),
    "at_home_phlebotomy": (
        "ordered", "requisition_created", "appointment_pending", "appointment_scheduled",
        "appointment_cancelled", "draw_completed", "partial_results", "completed",
    ),
    "on_site_collection": (
        "ordered", "requisition_created", "draw_completed", "partial_results", "completed",
        "sample_error",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with open_world() as world:
        yield world


def _dotted(method: str, low: str) -> str:
    bucket = BUCKETS.get(low, "collecting_sample")
    if low == "draw_completed" and method == "on_site_collection":
        bucket = "sample_with_lab"
    return f"{bucket}.{method}.{low}"


def _order(world: World, method: str, low: str = "ordered", **more: Any) -> str:
    """A new order that has been driven to a status."""
    physician = {} if method in ("testkit", "on_site_collection") else {"physician": PHYSICIAN}
    key = str(world.place(TESTS[method], **physician, **more)["id"])
    if low != "ordered":
        world.go(key, _dotted(method, low))
        assert world.lows(key)[-1] == low
    return key


@pytest.mark.parametrize(
    ("method", "low"), [(method, low) for method, lows in REACHED.items() for low in lows]
)
def test_cancelling_follows_the_table(world: World, method: str, low: str) -> None:
    key = _order(world, method, low)
    before = world.lows(key)
    answer = world.post(f"/v3/order/{key}/cancel")
    if low in CANCELLABLE[method]:
        assert answer.status_code == 200, answer.text
        assert answer.json()["status"] == "success"
        assert answer.json()["order"]["last_event"]["status"] == f"cancelled.{method}.cancelled"
        assert answer.json()["order"]["order_transaction"]["status"] == "cancelled"
        assert world.lows(key) == [*before, "cancelled"]
    else:
        assert answer.status_code == 400
        assert set(answer.json()) == {"error", "message", "status_code"}
        text = answer.json()["message"]
        assert _dotted(method, low) in text
        assert f"cancelled.{method}.cancelled" in text
        assert world.lows(key) == before


def test_an_imported_order_can_be_cancelled(world: World) -> None:
    key = world.post("/v3/order/import", world.imported()).json()["order"]["id"]
    assert world.post(f"/v3/order/{key}/cancel").status_code == 200
    assert world.lows(key) == ["requisition_bypassed", "cancelled"]


@pytest.mark.parametrize(
    ("method", "goes"), [("at_home_phlebotomy", True), ("walk_in_test", False)]
)
def test_a_visit_at_home_goes_with_its_order(world: World, method: str, goes: bool) -> None:
    key = _order(world, method, "appointment_scheduled")
    visit = world.record(key)["details"]["data"]["appointment_id"]
    assert world.post(f"/v3/order/{key}/cancel").status_code == 200
    status = world.value("SELECT status FROM sandbox_appointment WHERE id = %s", visit)
    assert status == ("cancelled" if goes else "confirmed")


def test_cancelling_is_announced_with_its_visit(world: World) -> None:
    world.sandbox.control("webhooks", {"url": "http://127.0.0.1:9/"})
    try:
        key = _order(world, "at_home_phlebotomy", "appointment_scheduled")
        last = world.value("SELECT max(number) FROM sandbox_message")
        world.post(f"/v3/order/{key}/cancel")
        kinds = {
            row[0]
            for row in world.sandbox.query(
                "SELECT event_type FROM sandbox_message WHERE number > %s", (last,)
            )
        }
        assert kinds == {"labtest.order.updated", "labtest.appointment.updated"}
    finally:
        world.sandbox.control("webhooks", {"url": None})


def test_orders_of_nobody_and_of_others(world: World) -> None:
    nobody = "00000000-0000-4000-8000-000000000000"
    foreign = world.value("SELECT id FROM sandbox_order WHERE team_id <> %s LIMIT 1", TEAM)
    for key, status in ((nobody, 404), (foreign, 403)):
        assert world.post(f"/v3/order/{key}/cancel").status_code == status
        assert world.http.patch(f"/v3/order/{key}/draw_completed").status_code == status
        change = world.http.patch(f"/v3/order/{key}", json={"activate_by": None})
        assert change.status_code == status


def _day(world: World, days: int) -> str:
    now = datetime.fromisoformat(world.sandbox.control("status")["now"])
    return (now + timedelta(days=days)).date().isoformat()


def _change(world: World, key: str, day: str | None) -> Any:
    return world.http.patch(f"/v3/order/{key}", json={"activate_by": day})


def test_a_scheduled_order_is_moved_to_another_day(world: World) -> None:
    key = _order(world, "on_site_collection", activate_by=_day(world, 9))
    answer = _change(world, key, _day(world, 4))
    assert answer.status_code == 200
    assert answer.json()["order"]["activate_by"] == _day(world, 4)
    assert world.record(key)["activate_by"] == _day(world, 4)
    assert world.lows(key) == ["ordered"]
    due = world.value("SELECT next_at FROM sandbox_order WHERE id = %s", key)
    assert due.date().isoformat() == _day(world, 4)
    assert _change(world, key, _day(world, 0)).status_code == 200


def test_without_a_date_a_scheduled_order_is_dispatched_at_once(world: World) -> None:
    key = _order(world, "on_site_collection", activate_by=_day(world, 9))
    answer = _change(world, key, None)
    assert answer.json()["order"]["activate_by"] is None
    assert world.lows(key) == ["ordered", "requisition_created"]


def test_dates_that_cannot_be(world: World) -> None:
    plain = _order(world, "on_site_collection")
    refused = _change(world, plain, _day(world, 3))
    assert refused.status_code == 400
    assert "without activate_by" in said(refused)
    key = _order(world, "on_site_collection", activate_by=_day(world, 9))
    past = _change(world, key, _day(world, -1))
    assert past.status_code == 400
    assert "today or later" in said(past)
    assert misfits(world.http.patch(f"/v3/order/{key}", json={})) == {"activate_by"}
    assert world.record(key)["activate_by"] == _day(world, 9)
    world.go(key, "received.on_site_collection.requisition_created")
    late = _change(world, key, _day(world, 3))
    assert late.status_code == 400
    assert "requisition_created" in said(late)


def test_only_on_site_orders_with_a_requisition_are_drawn(world: World) -> None:
    key = _order(world, "on_site_collection", "requisition_created")
    answer = world.http.patch(f"/v3/order/{key}/draw_completed")
    assert answer.status_code == 200
    last = answer.json()["order"]["last_event"]["status"]
    assert last == "sample_with_lab.on_site_collection.draw_completed"
    assert world.http.patch(f"/v3/order/{key}/draw_completed").status_code == 400
    early = _order(world, "on_site_collection")
    assert world.http.patch(f"/v3/order/{early}/draw_completed").status_code == 400
    kit = _order(world, "testkit", "requisition_created")
    refused = world.http.patch(f"/v3/order/{kit}/draw_completed")
    assert refused.status_code == 400
    assert "on-site" in said(refused)


def test_messages_are_switched_per_order(world: World) -> None:
    key = _order(world, "on_site_collection")
    path = f"/v3/order/{key}/communication_settings"
    answer = world.http.patch(path, json={"sms_enabled": False})
    assert answer.json() == {"order_id": key, "sms_enabled": False}
    assert world.http.get(path).json()["sms_enabled"] is False
    assert misfits(world.http.patch(path, json={})) == {"sms_enabled"}


def test_import_starts_without_a_requisition(world: World) -> None:
    strange = {name: each for name, each in ADDRESS.items() if name != "phone_number"}
    body = world.imported(patient_address=strange | {"state": "Somewhere", "zip": "?"})
    order = world.post("/v3/order/import", body).json()["order"]
    assert order["last_event"]["status"] == "received.on_site_collection.requisition_bypassed"
    assert order["sample_id"] == body["sample_id"]
    assert world.http.get(f"/v3/order/{order['id']}/requisition/pdf").status_code == 404
    before = world.count()
    again = world.post("/v3/order/import", body)
    assert misfits(again) == {"sample_id"}
    assert world.count() == before


def test_import_takes_a_pending_account(world: World) -> None:
    pending = world.account("pending", "lab-north")
    body = world.imported(
        order_set={"lab_test_ids": [_offered(world, pending)]},
        collection_method=_method(world, pending),
        lab_account_id=pending,
    )
    answer = world.post("/v3/order/import", body)
    assert answer.status_code == 200, answer.text
    refused = world.post(
        "/v3/order", world.body(order_set=body["order_set"], lab_account_id=pending)
    )
    assert refused.status_code == 400
    suspended = world.account("suspended", "lab-south")
    late = world.post("/v3/order/import", world.imported(lab_account_id=suspended))
    assert "suspended" in said(late)


def _offered(world: World, account: str) -> str:
    return str(
        world.value(
            "SELECT labtest_id FROM sandbox_labaccount_lab_tests WHERE labaccount_id = %s", account
        )
    )


def _method(world: World, account: str) -> str:
    return str(
        world.value(
            "SELECT t.method FROM sandbox_labtest t WHERE t.id = %s", _offered(world, account)
        )
    )


def test_import_asks_for_what_it_needs(world: World) -> None:
    body = world.imported()
    for name in ("billing_type", "order_set", "collection_method", "sample_id"):
        del body[name]
    assert misfits(world.post("/v3/order/import", body)) == {
        "billing_type",
        "order_set",
        "collection_method",
        "sample_id",
    }


def test_simulation_runs_to_the_end_with_the_result_asked_for(world: World) -> None:
    for method in TESTS:
        key = _order(world, method)
        flags = {"interpretation": "critical", "has_missing_results": True}
        assert world.post(f"/v3/order/{key}/test", flags).status_code == 200
        order = world.record(key)
        assert order["last_event"]["status"] == f"completed.{method}.completed"
        assert (order["interpretation"], order["has_missing_results"]) == ("critical", True)
        assert order["order_transaction"]["status"] == "completed"
        result = world.http.get(f"/v3/order/{key}/result").json()
        assert result["metadata"]["interpretation"] == "critical"


def test_simulation_refuses_what_cannot_be(world: World) -> None:
    key = _order(world, "on_site_collection", "completed")
    answer = world.post(f"/v3/order/{key}/test")
    assert answer.status_code == 400
    assert "cannot go from completed to completed" in said(answer)
    path = f"/v3/order/{key}/test?final_status="
    assert world.post(path + "completed.testkit.completed").status_code == 400
    assert misfits(world.post(path + "nonsense")) == {"final_status"}
    assert world.post(path + "completed.on_site_collection.corrected").status_code == 200
    assert misfits(world.post(f"/v3/order/{key}/test", {"interpretation": "bad"})) == {
        "interpretation"
    }


def test_a_redraw_joins_the_transaction(world: World) -> None:
    key = _order(world, "walk_in_test", "redraw_available")
    group = world.record(key)["order_transaction"]
    assert [each["origin"] for each in group["orders"]] == ["initial", "redraw"]
    assert group["status"] == "active"


def test_codes_are_checked_before_an_insured_order(world: World) -> None:
    def check(*codes: str) -> Any:
        answer = world.post("/v3/insurance/validate_icd_codes", {"codes": codes})
        assert answer.status_code == 200
        return answer.json()

    assert check("I10") == {"valid": True, "errors": [], "violations": [], "warnings": []}
    clash = check("E11.9", "E10.9")
    assert not clash["valid"]
    first = clash["violations"][0]
    assert {first["code"], first["conflicts_with"]} == {"E11.9", "E10.9"}
    overlap = check("Z13.220", "E78.5")
    assert overlap["valid"]
    assert overlap["warnings"][0]["overlaps_with"] == "E78.5"
    assert check("X00")["errors"] == ["X00 is not a valid ICD-10 code"]
    assert misfits(world.post("/v3/insurance/validate_icd_codes", {})) == {"codes"}


def test_of_two_cancels_at_once_one_is_carried_out(world: World) -> None:
    key = _order(world, "on_site_collection")
    since = world.sandbox.control("writes")["last"]
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda _: world.post(f"/v3/order/{key}/cancel"), range(2)))
    assert sorted(answer.status_code for answer in answers) == [200, 400]
    assert world.lows(key) == ["ordered", "cancelled"]
    log = world.sandbox.control(f"writes?since={since}")["writes"]
    assert sorted(each["status"] for each in log) == [200, 400]


def test_orders_placed_at_once_are_all_there(world: World) -> None:
    before = world.count()
    bodies = [world.body(passthrough=str(place)) for place in range(12)]
    with ThreadPoolExecutor(6) as pool:
        placed = list(pool.map(lambda body: world.post("/v3/order", body), bodies))
    assert {answer.status_code for answer in placed} == {200}
    assert len({answer.json()["order"]["id"] for answer in placed}) == 12
    assert world.count() == before + 12


def test_the_world_is_sound_after_all_this(world: World) -> None:
    soundness.numbering(world.sandbox)
    soundness.records(world.sandbox)
    soundness.histories(world.sandbox)
    soundness.transactions(world.sandbox)
