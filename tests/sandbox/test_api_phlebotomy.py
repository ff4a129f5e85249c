"""Visits at home: booked, moved, cancelled, requested; with what the order shows of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.sandbox import soundness
from tests.sandbox.visiting import READY, REQUEST, World, visiting

HOME = "at_home_phlebotomy"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with visiting() as world:
        yield world


def booked(world: World, **more: Any) -> tuple[str, dict[str, Any]]:
    order = world.order(HOME, zips=READY)
    slot = world.free(order)[0]
    answer = world.act(order, "phlebotomy", "book", {"booking_key": slot["booking_key"], **more})
    assert answer.status_code == 200, answer.text
    return order, answer.json()


def reason(world: World, name: str = "Patient is ill") -> str:
    found = world.get("/v3/order/phlebotomy/appointment/cancellation-reasons")
    return next(str(each["id"]) for each in found if each["name"] == name)


def test_a_booking_takes_the_slot_and_moves_the_order(world: World) -> None:
    order = world.order(HOME, zips=READY)
    slot = next(slot for slot in world.free(order) if slot["num_appointments_available"] == 1)
    body = {"booking_key": slot["booking_key"], "appointment_notes": "Made-up note: blue door"}
    answer = world.act(order, "phlebotomy", "book", body)
    assert answer.status_code == 200, answer.text
    visit = answer.json()
    assert (visit["start_at"], visit["end_at"]) == (slot["start"], slot["end"])
    assert (visit["status"], visit["event_status"]) == ("confirmed", "scheduled")
    assert visit["can_reschedule"] and visit["appointment_notes"] == body["appointment_notes"]
    assert [event["status"] for event in visit["events"]] == ["pending", "scheduled"]
    written = visit["address"]["first_line"]
    assert written.lower() == world.address(order)["first_line"].lower()
    assert written.isupper(), "as the provider writes it, not as it was sent"
    assert visit["order_id"] == order and visit["provider"] == "draw-at-home"
    assert world.get(f"/v3/order/{order}/phlebotomy/appointment") == visit
    assert world.lows(order)[-2:] == ["appointment_pending", "appointment_scheduled"]
    assert world.record(order)["details"]["data"]["appointment_id"] == visit["id"]
    assert slot["start"] not in {each["start"] for each in world.free(order)}
    assert world.told(order) == [
        ("labtest.order.updated", "collecting_sample.at_home_phlebotomy.appointment_scheduled"),
        ("labtest.appointment.created", "scheduled"),
        ("labtest.order.updated", "collecting_sample.at_home_phlebotomy.appointment_scheduled"),
        ("labtest.appointment.updated", "scheduled"),
    ]


def test_a_second_booking_of_the_order_is_refused(world: World) -> None:
    order, visit = booked(world)
    key = world.free(order)[3]["booking_key"]
    answer = world.act(order, "phlebotomy", "book", {"booking_key": key})
    assert (answer.status_code, "active appointment" in answer.text) == (400, True)
    assert world.get(f"/v3/order/{order}/phlebotomy/appointment") == visit


def test_no_idempotency_key_is_heard(world: World) -> None:
    order = world.order(HOME, zips=READY)
    body = {"booking_key": world.free(order)[0]["booking_key"]}
    path = f"/v3/order/{order}/phlebotomy/appointment/book"
    headers = {"x-idempotency-key": "made-up-key"}
    answers = [world.http.post(path, json=body, headers=headers) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 400]


def test_reschedule_keeps_appointment_and_frees_old_slot(world: World) -> None:
    order, before = booked(world, appointment_notes="Made-up note: one")
    slot = world.free(order)[5]
    body = {"booking_key": slot["booking_key"], "appointment_notes": "Made-up note: two"}
    answer = world.act(order, "phlebotomy", "reschedule", body)
    assert answer.status_code == 200, answer.text
    after = answer.json()
    assert after["id"] == before["id"] and after["start_at"] == slot["start"]
    assert after["provider_id"] == before["provider_id"]
    assert after["appointment_notes"] == "Made-up note: two"
    assert after["event_data"] == {"origin": "team", "is_reschedule": True}
    assert [event["status"] for event in after["events"]] == ["pending", "scheduled", "scheduled"]
    assert world.lows(order)[-2:] == ["appointment_scheduled", "appointment_scheduled"]
    assert before["start_at"] in {each["start"] for each in world.free(order)}


def test_notes_stay_when_a_reschedule_names_none(world: World) -> None:
    order, _ = booked(world, appointment_notes="Made-up note: stays")
    body = {"booking_key": world.free(order)[2]["booking_key"]}
    after = world.act(order, "phlebotomy", "reschedule", body).json()
    assert after["appointment_notes"] == "Made-up note: stays"


def test_order_can_be_booked_again_after_cancellation(world: World) -> None:
    order, visit = booked(world)
    body = {"cancellation_reason_id": reason(world), "notes": "Made-up: flu"}
    answer = world.act(order, "phlebotomy", "cancel", body)
    assert answer.status_code == 200, answer.text
    after = answer.json()
    assert (after["id"], after["status"], after["event_status"]) == (
        visit["id"],
        "cancelled",
        "cancelled",
    )
    assert not after["can_reschedule"]
    assert after["event_data"] == {"cancellation_reason": "Patient is ill", "note": "Made-up: flu"}
    assert world.lows(order)[-1] == "appointment_cancelled"
    assert world.record(order)["details"]["data"]["appointment_id"] is None
    assert world.http.get(f"/v3/order/{order}/phlebotomy/appointment").status_code == 404
    assert visit["start_at"] in {each["start"] for each in world.free(order)}

    again = world.act(order, "phlebotomy", "cancel", body)
    assert (again.status_code, "already cancelled" in again.text) == (400, True)
    key = world.free(order)[0]["booking_key"]
    anew = world.act(order, "phlebotomy", "book", {"booking_key": key})
    assert anew.status_code == 200 and anew.json()["id"] != visit["id"]
    assert world.lows(order)[-2:] == ["appointment_pending", "appointment_scheduled"]


def test_a_reason_must_exist_and_the_key_be_spelled_right(world: World) -> None:
    order, _ = booked(world)
    for body, loc in (
        ({"cancellation_reason_id": order}, ["body", "cancellation_reason_id"]),
        ({"cancellation_reason_id": "no uuid"}, ["body", "cancellation_reason_id"]),
        ({"cancellationReasonId": reason(world)}, ["body", "cancellation_reason_id"]),
    ):
        answer = world.act(order, "phlebotomy", "cancel", body)
        assert answer.status_code == 422
        assert answer.json()["detail"][0]["loc"] == loc
    assert world.lows(order)[-1] == "appointment_scheduled"


def test_one_active_visit_per_patient_and_provider(world: World) -> None:
    order, _ = booked(world)
    user = world.record(order)["user_id"]
    other = world.order(HOME, zips=READY)
    key = world.free(other)[0]["booking_key"]
    with world.bent(other, "user_id", user):
        answer = world.act(other, "phlebotomy", "book", {"booking_key": key})
    assert (answer.status_code, "with this provider" in answer.text) == (400, True)


def test_nobody_under_eighteen(world: World) -> None:
    order = world.order(HOME, zips=READY)
    body = {"booking_key": world.free(order)[0]["booking_key"]}
    with world.bent(order, "patient_dob", "2008-03-04"):
        answer = world.act(order, "phlebotomy", "book", body)
        assert (answer.status_code, "under 18" in answer.text) == (400, True)
    with world.bent(order, "patient_dob", "2008-03-03"):
        assert world.act(order, "phlebotomy", "book", body).status_code == 200


@pytest.mark.parametrize("low", ["ordered", "completed", "cancelled"])
def test_the_order_must_have_its_requisition_and_not_be_over(world: World, low: str) -> None:
    order = world.order(HOME, zips=READY)
    body = {"booking_key": world.free(order)[0]["booking_key"]}
    with world.bent(order, "low_level_status", low):
        answer = world.act(order, "phlebotomy", "book", body)
    assert answer.status_code == 400, answer.text
    assert world.record(order)["details"]["data"]["appointment_id"] is None


def test_keys_that_are_no_keys_or_of_another_order(world: World) -> None:
    order = world.order(HOME, zips=READY[:5])
    elsewhere = world.order(HOME, zips=READY[5:])
    mine, foreign = (world.free(each)[0]["booking_key"] for each in (order, elsewhere))
    for key in ("nonsense", "é", foreign, mine[:-2], mine[:-2] + "zz", mine + "A" * 8):
        answer = world.act(order, "phlebotomy", "book", {"booking_key": key})
        assert answer.status_code == 400, (key, answer.text)
        assert "booking key" in answer.json()["detail"]
    walk_in = world.order("walk_in_test")
    answer = world.act(walk_in, "phlebotomy", "book", {"booking_key": mine})
    assert (answer.status_code, "collection method" in answer.text) == (400, True)
    for body, loc in (
        ({}, ["body", "booking_key"]),
        ({"booking_key": 7}, ["body", "booking_key"]),
        ({"booking_key": mine, "appointment_notes": "x" * 1001}, ["body", "appointment_notes"]),
        (
            {"booking_key": mine, "async_confirmation_timeout_millisecond": 59_999},
            ["body", "async_confirmation_timeout_millisecond"],
        ),
    ):
        answer = world.act(order, "phlebotomy", "book", body)
        assert answer.status_code == 422 and answer.json()["detail"][0]["loc"] == loc
    assert world.act(order, "phlebotomy", "book", {"booking_key": mine}).status_code == 200


def test_of_many_who_want_the_last_slot_one_gets_it(world: World) -> None:
    by_zip: dict[str, list[str]] = {}
    while max(map(len, by_zip.values()), default=0) < 3:
        order = world.order(HOME, zips=READY)
        by_zip.setdefault(world.address(order)["zip_code"], []).append(order)
    orders = max(by_zip.values(), key=len)
    last = next(s for s in world.free(orders[0]) if s["num_appointments_available"] == 1)
    answers: list[httpx.Response] = []

    def book(order: str) -> None:
        body = {"booking_key": last["booking_key"]}
        answers.append(world.act(order, "phlebotomy", "book", body))

    racers = [threading.Thread(target=book, args=(order,)) for order in orders]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert sorted(answer.status_code for answer in answers) == [200, 400, 400]
    assert all("no longer" in each.text for each in answers if each.status_code == 400)
    assert world.sandbox.query(
        "SELECT count(*) FROM sandbox_appointment a JOIN sandbox_order o ON o.number = a.order_id"
        " WHERE o.id = ANY(%s::uuid[]) AND a.start_at = %s",
        (orders, last["start"]),
    ) == [(1,)]


def test_a_request_waits_for_the_phlebotomist(world: World) -> None:
    order = world.order(HOME, zips=REQUEST)
    body = {"address": world.address(order), "provider": "visit-nurse", "appointment_notes": None}
    answer = world.act(order, "phlebotomy", "request", body)
    assert answer.status_code == 200, answer.text
    visit = answer.json()
    assert (visit["status"], visit["event_status"], visit["can_reschedule"]) == (
        "pending",
        "pending",
        False,
    )
    assert visit["start_at"] is visit["end_at"] is None
    assert world.lows(order)[-1] == "appointment_pending"
    again = world.act(order, "phlebotomy", "request", body)
    assert again.status_code == 400


def test_appointment_agreed_with_patient_cannot_be_rescheduled(
    world: World,
) -> None:
    order = world.order(HOME, zips=("85281", "33101", "60601", "77002", "94103"))
    body = {"address": world.address(order), "provider": "visit-nurse"}
    asked = world.act(order, "phlebotomy", "request", body).json()
    world.sandbox.control("appointments", {"order_id": order, "do": "confirm"})
    visit = world.get(f"/v3/order/{order}/phlebotomy/appointment")
    assert (visit["id"], visit["event_status"]) == (asked["id"], "scheduled")
    assert visit["start_at"] and visit["iana_timezone"] and not visit["can_reschedule"]
    assert world.lows(order)[-1] == "appointment_scheduled"
    key = world.free(order)[0]["booking_key"]
    moved = world.act(order, "phlebotomy", "reschedule", {"booking_key": key})
    assert (moved.status_code, "cannot be rescheduled" in moved.text) == (400, True)
    body = {"cancellation_reason_id": reason(world)}
    assert world.act(order, "phlebotomy", "cancel", body).status_code == 200


def test_a_request_names_a_provider_that_takes_requests_there(world: World) -> None:
    order = world.order(HOME, zips=READY)
    address = world.address(order)
    for provider in ("draw-at-home", "nobody"):
        body = {"address": address, "provider": provider}
        answer = world.act(order, "phlebotomy", "request", body)
        assert (answer.status_code, provider in answer.text) == (400, True)
    missing = {name: text for name, text in address.items() if name not in ("city", "zip_code")}
    answer = world.act(order, "phlebotomy", "request", {"address": missing, "provider": "x"})
    assert answer.status_code == 422
    assert [item["loc"] for item in answer.json()["detail"]] == [
        ["body", "address", "city"],
        ["body", "address", "zip_code"],
    ]


def test_nothing_to_cancel_or_move(world: World) -> None:
    order = world.order(HOME, zips=READY)
    key = world.free(order)[0]["booking_key"]
    cancel = world.act(order, "phlebotomy", "cancel", {"cancellation_reason_id": reason(world)})
    assert cancel.status_code == 404
    assert world.act(order, "phlebotomy", "reschedule", {"booking_key": key}).status_code == 404


def test_the_world_is_sound_after_all_that(world: World) -> None:
    soundness.numbering(world.sandbox)
    soundness.records(world.sandbox)
    soundness.histories(world.sandbox)
    soundness.transactions(world.sandbox)
