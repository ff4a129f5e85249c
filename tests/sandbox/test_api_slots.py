"""Slots: fourteen days on the wall clock of their place, capacity, keys that expire."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.sandbox.visiting import World, visiting

ADDRESS = {
    "first_line": "12 Sample Street",
    "city": "Chicago",
    "state": "IL",
    "zip_code": "60601",
}
PHOENIX = {
    "first_line": "7 West Lincoln Street",
    "city": "Phoenix",
    "state": "AZ",
    "zip_code": "85004",
}
HOME = "/v3/order/phlebotomy/appointment/availability"
PSC = "/v3/order/psc/appointment/availability"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with visiting(placed=150) as world:
        yield world


def at_home(world: World, address: dict[str, Any], **params: Any) -> dict[str, Any]:
    answer = world.http.post(HOME, json=address, params=params)
    assert answer.status_code == 200, answer.text[:500]
    found: dict[str, Any] = answer.json()
    return found


def offsets(days: list[dict[str, Any]], zone: str) -> dict[str, set[tuple[int, float]]]:
    """By day, the local hours of its slots and how far they are from UTC."""
    found = {}
    for day in days:
        starts = [datetime.fromisoformat(slot["start"]) for slot in day["slots"]]
        local = [start.astimezone(ZoneInfo(zone)) for start in starts]
        assert {moment.date().isoformat() for moment in local} <= {day["date"]}
        offset = [moment.utcoffset() for moment in local]
        found[day["date"]] = {
            (moment.minute, each.total_seconds() / 3600)
            for moment, each in zip(local, offset, strict=True)
            if each is not None and 7 <= moment.hour < 16
        }
        assert len(starts) == len(set(starts))
    return found


def test_fourteen_days_on_the_wall_clock_across_the_change(world: World) -> None:
    answer = at_home(world, ADDRESS, start_date="2026-03-05")
    assert answer["timezone"] == "America/Chicago"
    days = answer["slots"]
    assert [day["date"] for day in days] == [
        (date(2026, 3, 5) + timedelta(days=number)).isoformat() for number in range(14)
    ]
    assert all(day["location"] is None for day in days)
    for day, found in offsets(days, "America/Chicago").items():
        # Eight in the morning stays eight in the morning: UTC is what changes, on the 8th.
        assert found == {(0, -6.0 if day < "2026-03-08" else -5.0)}, day
    first = [slot["start"] for day in days for slot in day["slots"] if day["date"] == "2026-03-07"]
    later = [slot["start"] for day in days for slot in day["slots"] if day["date"] == "2026-03-08"]
    assert min(first)[11:13] >= "13" and min(later)[11:13] >= "12"


def test_and_back_again_in_autumn(world: World) -> None:
    days = at_home(world, ADDRESS, start_date="2026-10-29")["slots"]
    for day, found in offsets(days, "America/Chicago").items():
        assert found == {(0, -5.0 if day < "2026-11-01" else -6.0)}, day
    center = centers(world, zip_code="60601", radius="25", start_date="2026-10-29")
    hours = {
        datetime.fromisoformat(slot["start"]).astimezone(ZoneInfo("America/Chicago")).hour
        for day in center
        for slot in day["slots"]
    }
    assert hours == {7, 8, 9, 10, 11}


def test_where_clocks_do_not_change_neither_does_utc(world: World) -> None:
    answer = at_home(world, PHOENIX, start_date="2026-03-05")
    assert answer["timezone"] == "America/Phoenix"
    for found in offsets(answer["slots"], "America/Phoenix").values():
        assert found == {(0, -7.0)}


def test_slots_are_the_same_in_every_answer(world: World) -> None:
    first, second = (at_home(world, ADDRESS, start_date="2026-03-06") for _ in range(2))
    bare = [
        [{**slot, "booking_key": "", "expires_at": ""} for day in each["slots"] for slot in
         day["slots"]]
        for each in (first, second)
    ]  # fmt: skip
    assert bare[0] == bare[1]
    slots = [slot for day in first["slots"] for slot in day["slots"]]
    assert {slot["num_appointments_available"] for slot in slots} == {1, 2, 3}
    assert {slot["is_priority"] for slot in slots} == {True, False}
    assert all(slot["price"] > 0 for slot in slots)
    # The later of two windows shows the days they share alike.
    week_on = at_home(world, ADDRESS, start_date="2026-03-13")
    shared = {day["date"]: [slot["start"] for slot in day["slots"]] for day in first["slots"]}
    for day in week_on["slots"][:7]:
        assert [slot["start"] for slot in day["slots"]] == shared[day["date"]]


def test_today_begins_with_the_next_full_hour(world: World) -> None:
    now = datetime.fromisoformat(world.sandbox.control("status")["now"])
    starts = [
        datetime.fromisoformat(slot["start"])
        for day in at_home(world, ADDRESS)["slots"]
        for slot in day["slots"]
    ]
    assert min(starts) > now
    assert at_home(world, ADDRESS)["slots"][0]["date"] == "2026-03-03"


def test_keys_expire_after_five_minutes(world: World) -> None:
    order = world.order("at_home_phlebotomy", zips=("60601", "85004", "75201", "90012", "78701"))
    slot = world.free(order)[0]
    now = datetime.fromisoformat(world.sandbox.control("status")["now"])
    wait = datetime.fromisoformat(slot["expires_at"]) - now
    assert timedelta(minutes=4) < wait <= timedelta(minutes=5)
    world.sandbox.control("clock", {"advance_seconds": 301})
    body = {"booking_key": slot["booking_key"]}
    answer = world.act(order, "phlebotomy", "book", body)
    assert (answer.status_code, "expired" in answer.text) == (400, True)
    fresh = next(each for each in world.free(order) if each["start"] == slot["start"])
    assert fresh["booking_key"] != slot["booking_key"]
    answer = world.act(order, "phlebotomy", "book", {"booking_key": fresh["booking_key"]})
    assert answer.status_code == 200, answer.text


def test_a_slot_taken_by_others_is_gone_until_it_is_given_back(world: World) -> None:
    order = world.order("at_home_phlebotomy", zips=("60601", "85004", "75201", "90012", "78701",
                                                    "30303", "33602", "80202"))  # fmt: skip
    slot = world.free(order)[1]
    world.sandbox.control("slots", {"booking_keys": [slot["booking_key"]]})
    assert slot["start"] not in {each["start"] for each in world.free(order)}
    answer = world.act(order, "phlebotomy", "book", {"booking_key": slot["booking_key"]})
    assert (answer.status_code, "no longer available" in answer.text) == (400, True)
    world.sandbox.control("slots", method="DELETE")
    assert slot["start"] in {each["start"] for each in world.free(order)}


def test_no_slots_in_areas_without_provider(world: World) -> None:
    for zip_code, zone in (("54650", "America/Chicago"), ("10001", "America/New_York"),
                           ("00501", None)):  # fmt: skip
        answer = at_home(world, {**ADDRESS, "zip_code": zip_code})
        assert answer["timezone"] == zone
        assert [day["slots"] for day in answer["slots"]] == [[]] * 14


@pytest.mark.parametrize(
    ("change", "loc"),
    [
        ({"zip_code": "6060"}, ["body", "zip_code"]),
        ({"state": "Illinois"}, ["body", "state"]),
        ({"city": None}, ["body", "city"]),
        ({"access_notes": "x" * 1001}, ["body", "access_notes"]),
    ],
)
def test_invalid_address_is_reported_by_field(
    world: World, change: dict[str, Any], loc: list[str]
) -> None:
    answer = world.http.post(HOME, json={**ADDRESS, **change})
    assert answer.status_code == 422
    assert [item["loc"] for item in answer.json()["detail"]] == [loc]


def test_an_address_needs_a_number_and_a_day_to_come(world: World) -> None:
    answer = world.http.post(HOME, json={**ADDRESS, "first_line": "Sample Street"})
    assert (answer.status_code, "number" in answer.text) == (400, True)
    answer = world.http.post(HOME, json=ADDRESS, params={"start_date": "2026-03-01"})
    assert (answer.status_code, "past" in answer.text) == (400, True)
    answer = world.http.post(HOME, json=ADDRESS, params={"start_date": "soon"})
    assert answer.json()["detail"][0]["loc"] == ["query", "start_date"]


def centers(world: World, **params: Any) -> list[dict[str, Any]]:
    answer = world.http.post(PSC, params={"lab": "lab-north", **params})
    assert answer.status_code == 200, answer.text[:500]
    assert answer.json()["timezone"] is None
    found: list[dict[str, Any]] = answer.json()["slots"]
    return found


def test_centers_show_their_days_with_their_zone(world: World) -> None:
    days = centers(world, zip_code="60601", radius="25", start_date="2026-03-05")
    assert {day["location"]["iana_timezone"] for day in days} == {"America/Chicago"}
    sites = world.get("/v3/order/psc/info", zip_code="60601", lab_id=11, radius="25")
    bookable = {
        site["site_code"]
        for site in sites["patient_service_centers"]
        if "appointment_scheduling_via_service" in site["capabilities"]
    }
    assert {day["location"]["code"] for day in days} == bookable != set()
    assert all(day["location"]["distance"] is not None for day in days)
    for code in bookable:
        shown = [day for day in days if day["location"]["code"] == code]
        first = date(2026, 3, 5)
        assert [day["date"] for day in shown] == [
            (first + timedelta(days=number)).isoformat() for number in range(14)
        ]
        sundays = [day for day in shown if date.fromisoformat(day["date"]).weekday() == 6]
        assert [day["slots"] for day in sundays] == [[], []]
    for day in days:
        for slot in day["slots"]:
            start = datetime.fromisoformat(slot["start"]).astimezone(ZoneInfo("America/Chicago"))
            assert start.date().isoformat() == day["date"] and start.minute in (0, 20, 40)
            assert 7 <= start.hour < 12 and slot["price"] == 0
            length = datetime.fromisoformat(slot["end"]) - start
            assert length == timedelta(minutes=20)


def test_centers_by_their_codes(world: World) -> None:
    days = centers(world, zip_code="60601", radius="25")
    code = days[0]["location"]["code"]
    found = centers(world, site_codes=[code])
    assert {day["location"]["code"] for day in found} == {code}
    assert {day["location"]["distance"] for day in found} == {None}


@pytest.mark.parametrize(
    ("params", "status", "word"),
    [
        ({"zip_code": "60601", "radius": "25", "start_date": "2026-03-01"}, 400, "past"),
        ({}, 400, "required"),
        ({"zip_code": "60601"}, 400, "radius"),
        ({"site_codes": ["a", "b", "c", "d"]}, 400, "At most 3"),
        ({"site_codes": ["N99999"]}, 400, "N99999"),
        ({"zip_code": "59715", "radius": "10"}, 404, "No appointment slots"),
        ({"lab": "lab-south", "zip_code": "60601", "radius": "25"}, 503, "not enabled"),
        ({"lab": "lab-east", "zip_code": "60601", "radius": "25"}, 422, "lab"),
        ({"zip_code": "60601", "radius": "30"}, 422, "radius"),
    ],
)
def test_searches_for_centers_that_are_refused(
    world: World, params: dict[str, Any], status: int, word: str
) -> None:
    answer = world.http.post(PSC, params={"lab": "lab-north", **params})
    assert (answer.status_code, word in answer.text) == (status, True), answer.text


def test_a_site_that_no_longer_works_or_is_not_bookable_here(world: World) -> None:
    rows = world.sandbox.query(
        "SELECT site_code, is_active FROM sandbox_pscsite WHERE lab_id = 11 AND (NOT is_active"
        " OR NOT 'appointment_scheduling_via_service' = ANY(capabilities)) ORDER BY is_active"
    )
    closed = next(code for code, active in rows if not active)
    unbookable = next(code for code, active in rows if active)
    for code, status in ((closed, 400), (unbookable, 404)):
        answer = world.http.post(PSC, params={"lab": "lab-north", "site_codes": [code]})
        assert answer.status_code == status, code
