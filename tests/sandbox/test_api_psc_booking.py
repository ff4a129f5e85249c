"""Visits at service centers: confirmed at once or later, once per key, and what may go wrong."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.sandbox import soundness
from tests.sandbox.visiting import World, visiting
from tests.waiting import wait_until

WALK_IN = "walk_in_test"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with visiting(orders=600) as world:
        yield world


NEAR_SITES = ("85004", "85281", "10001", "10451", "11201", "02108", "33101", "33602", "30303",
              "60601", "75201", "78701", "77002", "80202", "84101", "98101", "97201", "94103",
              "90012", "92101", "89101")  # fmt: skip


def an_order(world: World) -> tuple[str, list[dict[str, Any]]]:
    """An order of the bookable lab, and the free slots around its patient."""
    while True:  # some have no center that works near them
        order = world.order(WALK_IN, zips=NEAR_SITES, lab="lab-north")
        if days := world.centers(order):
            return order, [slot for day in days for slot in day["slots"]]


def booked(world: World, **more: Any) -> tuple[str, dict[str, Any], list[dict[str, Any]]]:
    order, slots = an_order(world)
    answer = world.act(order, "psc", "book", {"booking_key": slots[0]["booking_key"], **more})
    assert answer.status_code == 200, answer.text
    return order, answer.json(), slots


def place_of(record: dict[str, Any]) -> tuple[str, str]:
    """Where a visit or a center is, whoever writes it."""
    address = record["address"]
    return address["first_line"].casefold(), address.get("zip_code") or address["zip"]


def other(world: World) -> str:
    reasons = world.get("/v3/order/psc/appointment/cancellation-reasons")
    return str(reasons[0]["id"])


def test_a_booking_shows_the_center_and_the_labs_number(world: World) -> None:
    order, slots = an_order(world)
    day = world.centers(order)[0]
    answer = world.act(order, "psc", "book", {"booking_key": day["slots"][0]["booking_key"]})
    assert answer.status_code == 200, answer.text
    visit = answer.json()
    assert visit["start_at"] == day["slots"][0]["start"] == slots[0]["start"]
    assert place_of(visit) == place_of(day["location"])
    assert visit["provider_id"] and visit["provider_id"] != day["location"]["code"]
    assert visit["iana_timezone"] == day["location"]["iana_timezone"]
    assert (visit["type"], visit["provider"]) == ("patient_service_center", "lab-north")
    assert visit["external_id"] and visit["event_status"] == "scheduled"
    assert world.get(f"/v3/order/{order}/psc/appointment") == visit
    assert world.lows(order)[-2:] == ["appointment_pending", "appointment_scheduled"]


def test_confirmation_later(world: World) -> None:
    order, visit, _ = booked(world, async_confirmation=True)
    assert (visit["status"], visit["event_status"]) == ("pending", "pending")
    assert visit["external_id"] is None and visit["start_at"] is not None
    assert world.lows(order)[-1] == "appointment_pending"
    world.sandbox.control("appointments", {"order_id": order, "do": "confirm"})
    after = world.get(f"/v3/order/{order}/psc/appointment")
    assert (after["id"], after["event_status"]) == (visit["id"], "scheduled")
    assert after["start_at"] == visit["start_at"] and after["external_id"]
    assert world.lows(order)[-1] == "appointment_scheduled"


def test_life_confirms_by_itself_within_the_time_given(world: World) -> None:
    order, visit, _ = booked(
        world, async_confirmation=True, async_confirmation_timeout_millisecond=60_000
    )
    assert visit["event_status"] == "pending"
    query = "SELECT next_at - updated_at FROM sandbox_order WHERE id = %s"
    assert timedelta() < world.sandbox.query(query, (order,))[0][0] < timedelta(seconds=60)


def test_one_key_books_once(world: World) -> None:
    order, slots = an_order(world)
    path = f"/v3/order/{order}/psc/appointment/book"
    key = {"x-idempotency-key": str(uuid.uuid4())}
    body = {"booking_key": slots[0]["booking_key"], "async_confirmation": True}
    first = world.http.post(path, json=body, headers=key)
    assert first.status_code == 200 and first.json()["status"] == "pending"
    world.sandbox.control("appointments", {"order_id": order, "do": "confirm"})
    world.sandbox.control("clock", {"advance_seconds": 13 * 86_400})
    again = world.http.post(path, json=body, headers=key)
    # Frozen: it still says pending.
    assert (again.status_code, again.content) == (200, first.content)
    assert world.http.post(path, json=body).status_code == 400
    world.sandbox.control("clock", {"advance_seconds": 2 * 86_400})
    assert world.http.post(path, json=body, headers=key).status_code == 400


def test_failures_are_kept_too_unless_told_otherwise(world: World) -> None:
    order, slots = an_order(world)
    path = f"/v3/order/{order}/psc/appointment/book"
    body = {"booking_key": slots[0]["booking_key"]}
    world.sandbox.control("slots", {"booking_keys": [slots[0]["booking_key"]]})
    kept = {"x-idempotency-key": str(uuid.uuid4())}
    free = {"x-idempotency-key": str(uuid.uuid4()), "x-idempotency-error": "no-cache"}
    for headers in (kept, free):
        assert world.http.post(path, json=body, headers=headers).status_code == 400
    world.sandbox.control("slots", method="DELETE")
    assert world.http.post(path, json=body, headers=kept).status_code == 400
    assert world.http.post(path, json=body, headers=free).status_code == 200


def test_a_lost_slot_is_told_as_production_tells_it_on_demand(world: World) -> None:
    order, slots = an_order(world)
    world.sandbox.control("slots", {"booking_keys": [slots[0]["booking_key"]]})
    for status in (404, 400):
        world.sandbox.control("desk", {"conflict_status": status})
        answer = world.act(order, "psc", "book", {"booking_key": slots[0]["booking_key"]})
        assert (answer.status_code, "no longer" in answer.json()["detail"]) == (status, True)
    world.sandbox.control("slots", method="DELETE")


@pytest.mark.parametrize("made", [True, False])
def test_a_lab_that_does_not_answer_in_time(world: World, made: bool) -> None:
    order, slots = an_order(world)
    world.sandbox.control("desk", {"unanswered": 1, "made": made})
    answer = world.act(order, "psc", "book", {"booking_key": slots[0]["booking_key"]})
    assert answer.status_code == 500
    found = world.http.get(f"/v3/order/{order}/psc/appointment")
    assert found.status_code == (200 if made else 404)
    # The next one is answered again.
    if not made:
        again = world.act(order, "psc", "book", {"booking_key": slots[0]["booking_key"]})
        assert again.status_code == 200, again.text


def test_rescheduling_may_go_to_another_center(world: World) -> None:
    order, before, _ = booked(world)
    days = world.centers(order, radius="100")
    day = next((each for each in days if place_of(each["location"]) != place_of(before)), days[-1])
    slot = day["slots"][-1]
    answer = world.act(order, "psc", "reschedule", {"booking_key": slot["booking_key"]})
    assert answer.status_code == 200, answer.text
    after = answer.json()
    assert (after["id"], after["start_at"]) == (before["id"], slot["start"])
    assert place_of(after) == place_of(day["location"])
    assert after["event_data"]["is_reschedule"] is True


def test_cancelling_takes_camel_case(world: World) -> None:
    order, _, _ = booked(world)
    snake = world.act(order, "psc", "cancel", {"cancellation_reason_id": other(world)})
    assert snake.status_code == 422
    assert snake.json()["detail"][0]["loc"] == ["body", "cancellationReasonId"]
    body = {"cancellationReasonId": other(world), "note": "Made-up note"}
    answer = world.act(order, "psc", "cancel", body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["event_data"] == {"cancellation_reason": "Other", "note": "Made-up note"}
    assert world.lows(order)[-1] == "appointment_cancelled"
    again = world.act(order, "psc", "cancel", body)
    assert (again.status_code, "already cancelled" in again.text) == (400, True)
    reschedule = world.act(
        order,
        "psc",
        "reschedule",
        {"booking_key": world.centers(order)[0]["slots"][0]["booking_key"]},
    )
    assert (reschedule.status_code, "already cancelled" in reschedule.text) == (400, True)


def test_visit_of_a_canceled_order_can_be_canceled(world: World) -> None:
    order, _, _ = booked(world)
    assert world.http.post(f"/v3/order/{order}/cancel").status_code == 200
    key = world.centers(order)[0]["slots"][0]["booking_key"]
    moved = world.act(order, "psc", "reschedule", {"booking_key": key})
    assert (moved.status_code, "in cancelled" in moved.text) == (400, True)
    answer = world.act(order, "psc", "cancel", {"cancellationReasonId": other(world)})
    assert answer.status_code == 200, answer.text
    assert "appointment_cancelled" not in world.lows(order)


def test_what_cannot_be_rescheduled_says_so(world: World) -> None:
    order, _, _ = booked(world)
    world.sandbox.control("appointments", {"order_id": order, "do": "fix"})
    assert world.get(f"/v3/order/{order}/psc/appointment")["can_reschedule"] is False
    key = world.centers(order)[0]["slots"][0]["booking_key"]
    answer = world.act(order, "psc", "reschedule", {"booking_key": key})
    assert (answer.status_code, "cannot be rescheduled" in answer.text) == (400, True)


def test_patients_act_behind_the_clients_back(world: World) -> None:
    order, visit, _ = booked(world)
    done = world.sandbox.control("appointments", {"order_id": order, "do": "reschedule", "days": 2})
    after = world.get(f"/v3/order/{order}/psc/appointment")
    assert after["id"] == visit["id"] == done["appointment_id"]
    assert after["start_at"] > visit["start_at"]
    assert after["event_data"] == {"origin": "patient", "is_reschedule": True}
    world.sandbox.control("appointments", {"order_id": order, "do": "cancel"})
    assert world.http.get(f"/v3/order/{order}/psc/appointment").status_code == 404
    assert world.lows(order)[-1] == "appointment_cancelled"
    assert ("labtest.appointment.updated", "cancelled") in world.told(order)


def test_keys_of_another_lab_or_kind(world: World) -> None:
    order, slots = an_order(world)
    home = world.order("at_home_phlebotomy", zips=("85004", "60601", "75201", "90012", "30303",
                                                   "33602", "80202", "98101"))  # fmt: skip
    visit_key = world.free(home)[0]["booking_key"]
    answer = world.act(order, "psc", "book", {"booking_key": visit_key})
    assert (answer.status_code, "another kind" in answer.text) == (400, True)
    answer = world.act(home, "psc", "book", {"booking_key": slots[0]["booking_key"]})
    assert (answer.status_code, "collection method" in answer.text) == (400, True)


def test_a_lab_without_scheduling_is_not_enabled(world: World) -> None:
    order = world.order(WALK_IN, lab="lab-south")
    _, slots = an_order(world)
    answer = world.act(order, "psc", "book", {"booking_key": slots[0]["booking_key"]})
    assert answer.status_code == 503


COAST = ("10001", "10451", "11201")


def coast(world: World) -> tuple[str, dict[str, Any]]:
    """A reserved appointment at the lab of one state."""
    order = world.order(WALK_IN, zips=COAST)
    world.sandbox.query(
        "UPDATE sandbox_order SET lab_test_id = (SELECT t.id FROM sandbox_labtest t"
        " JOIN sandbox_lab l ON l.id = t.lab_id WHERE l.slug = 'lab-coast')"
        " WHERE id = %s RETURNING 1",
        (order,),
    )
    slot = world.centers(order)[0]["slots"][0]
    answer = world.act(order, "psc", "book", {"booking_key": slot["booking_key"]})
    assert answer.status_code == 200, answer.text
    return order, answer.json()


def test_the_lab_of_one_state_reserves_and_lets_nobody_change(world: World) -> None:
    order, visit = coast(world)
    before = world.lows(order)
    assert (visit["status"], visit["event_status"]) == ("reserved", "reserved")
    assert not visit["can_reschedule"] and "appointment_pending" not in before
    assert world.record(order)["details"]["data"]["appointment_id"] == visit["id"]
    key = world.centers(order)[0]["slots"][-1]["booking_key"]
    assert world.act(order, "psc", "book", {"booking_key": key}).status_code == 400
    for _ in range(2):
        moved = world.act(order, "psc", "reschedule", {"booking_key": key})
        ended = world.act(order, "psc", "cancel", {"cancellationReasonId": other(world)})
        assert (moved.status_code, ended.status_code) == (400, 400)
        if world.lows(order) == before:
            world.sandbox.control("appointments", {"order_id": order, "do": "confirm"})
    after = world.get(f"/v3/order/{order}/psc/appointment")
    assert (after["id"], after["event_status"]) == (visit["id"], "scheduled")
    assert not after["can_reschedule"]
    assert world.lows(order) == [*before, "appointment_pending", "appointment_scheduled"]


def test_unconfirmed_reservation_does_not_change_the_order(world: World) -> None:
    order, visit = coast(world)
    before = world.lows(order)
    world.sandbox.control("appointments", {"order_id": order, "do": "cancel"})
    assert world.lows(order) == before
    assert world.http.get(f"/v3/order/{order}/psc/appointment").status_code == 404
    assert world.told(order)[-1] == ("labtest.appointment.updated", "cancelled")
    assert visit["event_status"] == "reserved"


def test_life_confirms_or_gives_up_what_the_lab_has_reserved(world: World) -> None:
    _, visit = coast(world)
    world.sandbox.control("clock", {"speed": 500_000})
    try:
        wait_until(
            lambda: visit_status(world, visit["id"]) != "reserved", 60, "the lab's answer", 0.3
        )
    finally:
        world.sandbox.control("clock", {"speed": 0})
    statuses = world.sandbox.query(
        "SELECT status FROM sandbox_appointmentevent WHERE appointment_id = %s ORDER BY id",
        (visit["id"],),
    )
    assert statuses[0] == ("reserved",)
    assert statuses[1] in {("scheduled",), ("cancelled",)}


def visit_status(world: World, key: str) -> str:
    query = "SELECT event_status FROM sandbox_appointment WHERE id = %s"
    return str(world.sandbox.query(query, (key,))[0][0])


def test_the_world_is_sound_after_all_that(world: World) -> None:
    soundness.numbering(world.sandbox)
    soundness.records(world.sandbox)
    soundness.histories(world.sandbox)
    soundness.transactions(world.sandbox)
