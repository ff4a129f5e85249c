"""Visits, from the page of an order through the list of times to the sandbox's database."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from html import unescape
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from backoffice.models import CommandRecord, User
from backoffice.service.appointments import Availability
from orders.models import Appointment, Order
from orders.scheduling.slots import Time, Wishes, offer
from tests.outbox.desk import FORM_ID, Desk
from tests.outbox.draws import waiting

State = CommandRecord.State
SLOT = re.compile(r'name="slot" value="([^"]+)"')


def opened(client: Client, address: str) -> tuple[dict[str, Any], list[Time], Any]:
    """A form as a browser would send it, the times to choose from, and the page."""
    shown = client.get(address)
    assert shown.status_code == 200, shown.status_code
    page = shown.content.decode()
    found = FORM_ID.search(page)
    assert found, "no form"
    form = shown.context["form"]
    values: dict[str, Any] = {
        field.name: field.value() if field.value() is not None else "" for field in form
    }
    values |= {"form_id": found[1], "slot": "", "same": ""}
    visit = shown.context.get("visit")
    if visit is not None:
        values |= {"seen_id": str(visit.pk), "seen_start": visit.start_at.isoformat()}
    times = [Time.read(unescape(value)) for value in SLOT.findall(page)]
    values = {name: value for name, value in values.items() if value not in ("", None, False)}
    return values, times, shown


def booked(desk: Desk, client: Client, order: Order) -> Appointment:
    """The order's visit, booked through the pages."""
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = opened(client, address)
    answer = client.post(address, {**values, "slot": times[-1].written()})
    assert answer.status_code == 302, answer.content.decode()[-3000:]
    desk.deliver()
    assert desk.newest().state == State.DONE, desk.newest().refusal
    return Appointment.objects.get(order_id=order.pk, superseded_at=None)


def visits(desk: Desk, order: Order) -> list[tuple[Any, ...]]:
    """The order's visits in the sandbox: when, and whether they stand."""
    return desk.sandbox.query(
        "SELECT v.start_at, v.is_current FROM sandbox_appointment v"
        " JOIN sandbox_order o ON o.number = v.order_id WHERE o.id = %s ORDER BY v.start_at",
        [str(order.pk)],
    )


def test_a_visit_is_booked_and_moved(desk: Desk) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    page = client.get(reverse("orders:detail", args=[order.pk])).content.decode()
    assert reverse("orders:book", args=[order.pk]) in page
    first = booked(desk, client, order)
    asked = desk.newest()
    assert (asked.kind, asked.attempts, asked.confirmed_by) == ("appointment.book", 1, "answer")
    assert visits(desk, order) == [(first.start_at, True)]

    page = client.get(reverse("orders:detail", args=[order.pk])).content.decode()
    address = reverse("orders:move", args=[order.pk])
    assert address in page
    values, times, _ = opened(client, address)
    other = next(time for time in times if time.start != first.start_at)
    answer = client.post(address, {**values, "slot": other.written(), "notes": "ring twice"})
    assert answer.status_code == 302
    assert visits(desk, order) == [(first.start_at, True)], "the old one stands until then"
    desk.deliver()
    assert desk.newest().state == State.DONE
    assert visits(desk, order) == [(other.start, True)]
    moved = Appointment.objects.get(order_id=order.pk, superseded_at=None)
    assert (moved.pk, moved.start_at, moved.appointment_notes) == (
        first.pk,
        other.start,
        "ring twice",
    )
    page = client.get(reverse("orders:detail", args=[order.pk])).content.decode()
    assert 'class="struck"' in page, "the old time is struck through"


def calls(desk: Desk, ends: str) -> int:
    """How many calls with this end reached the sandbox so far."""
    writes = desk.sandbox.control("writes")["writes"]
    return sum(write["path"].endswith(ends) for write in writes)


def refused(desk: Desk, client: Client) -> tuple[CommandRecord, str, Any]:
    """The refused command, and the form that it leads back to."""
    row = desk.newest()
    assert row.state == State.REFUSED, (row.state, row.refusal, row.hindrance)
    shown: Any = client.get(f"{row.form_url}?again={row.pk}")
    assert shown.status_code == 200
    return row, shown.content.decode(), shown


def chips(shown: Any) -> list[Any]:
    return [c for d in shown.context["picker"].offer.days for g in d.groups for c in g.chips]


@pytest.mark.parametrize("keyed", [True, False])
def test_an_appointment_at_a_center_is_booked_moved_and_cancelled(
    desk: Desk, settings: Settings, keyed: bool
) -> None:
    settings.PSC_IDEMPOTENCY = keyed
    order = waiting(desk, "walk_in_test")
    client = desk.client("front desk")
    first = booked(desk, client, order)
    assert desk.newest().kind == "appointment.book_center"
    written = desk.sandbox.control("writes")["writes"][-1]
    assert written["path"].endswith("/psc/appointment/book")
    assert (written["key"] == str(desk.newest().idempotency_key)) == keyed
    assert first.type == "patient_service_center" and first.external_id

    address = reverse("orders:move", args=[order.pk])
    values, times, shown = opened(client, address)
    assert {time.site for time in times} == {first.provider_id}, "the same center first"
    assert first.external_id[:8] in shown.content.decode()
    other = next(time for time in times if time.start != first.start_at)
    client.post(address, {**values, "slot": other.written()})
    desk.deliver()
    assert visits(desk, order) == [(other.start, True)]

    address = reverse("orders:cancel-visit", args=[order.pk])
    values, _, shown = opened(client, address)
    reasons = shown.context["form"].fields["reason"].choices
    client.post(address, {**values, "reason": reasons[0][0], "notes": "made up"})
    desk.deliver()
    assert desk.newest().state == State.DONE
    assert visits(desk, order) == [(other.start, False)]
    assert Appointment.objects.get(pk=first.pk).event_status == "cancelled"
    desk.look_up()
    order.refresh_from_db()
    assert order.low_level_status == "appointment_cancelled"


def test_to_cancel_and_rebook_leads_to_the_times(desk: Desk) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    first = booked(desk, client, order)
    desk.sandbox.control("appointments", {"order_id": str(order.pk), "do": "fix"})
    desk.look_up()
    Appointment.objects.filter(pk=first.pk).update(can_reschedule=False)
    page = client.get(reverse("orders:detail", args=[order.pk])).content.decode()
    address = reverse("orders:cancel-visit", args=[order.pk]) + "?rebook=1"
    assert address in page and "Cancel and rebook" in page
    assert reverse("orders:move", args=[order.pk]) not in page
    moving = client.get(reverse("orders:move", args=[order.pk])).content.decode()
    assert "Cancel it and book anew" in moving and 'name="slot"' not in moving

    values, _, shown = opened(client, address)
    assert "the patient has no visit" in shown.content.decode()
    reason = shown.context["form"].fields["reason"].choices[1][0]
    client.post(address, {**values, "reason": reason})
    desk.deliver()
    asked = desk.newest()
    assert (asked.state, asked.done_url) == (
        State.DONE,
        reverse("orders:book", args=[order.pk]),
    )
    desk.look_up()
    again = booked(desk, client, order)
    assert again.pk != first.pk


def test_a_phlebotomist_is_asked_to_call_where_there_are_no_times(desk: Desk) -> None:
    order = waiting(desk, zip_code="54650")
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, shown = opened(client, address)
    page = shown.content.decode()
    assert not times and "the phlebotomist will call the patient" in page
    provider = shown.context["picker"].requests[0]
    ask = {**values, "ask": "request", "provider": provider, "notes": "mornings"}
    assert client.post(address, ask).status_code == 302
    desk.deliver()
    assert (desk.newest().kind, desk.newest().state) == ("appointment.request", State.DONE)
    visit = Appointment.objects.get(order_id=order.pk)
    assert (visit.event_status, visit.start_at, visit.provider) == ("pending", None, provider)
    page = client.get(reverse("orders:detail", args=[order.pk])).content.decode()
    assert "Requested" in page and "No time agreed yet" in page


def test_where_nobody_comes_there_are_alternatives(desk: Desk) -> None:
    order = waiting(desk, zip_code="10001")
    client = desk.client("clinician")
    address = reverse("orders:book", args=[order.pk])
    values, times, shown = opened(client, address)
    page = shown.content.decode()
    assert not times and "Nobody draws blood at home in 10001" in page
    assert re.search(r"\d+ centres? within 25 miles", page)
    # Another address, looked up in the same form: nothing is asked by that.
    there = {**values, "look": "", "zip_code": "85004", "city": "Phoenix", "state": "AZ"}
    looked = client.post(address, there)
    assert looked.status_code == 200 and 'name="slot"' in looked.content.decode()
    assert "85004" not in looked.request["QUERY_STRING"]
    assert not CommandRecord.objects.exists()


def test_nobody_under_18_is_drawn_at_home(desk: Desk) -> None:
    order = waiting(desk, born=date(timezone.now().year - 15, 1, 1))
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    page = client.get(address).content.decode()
    assert "nobody under 18" in page and '<form method="post" class="picking' not in page
    assert address not in client.get(reverse("orders:detail", args=[order.pk])).content.decode()
    assert client.post(address, {"form_id": str(uuid.uuid4())}).status_code == 422
    assert not CommandRecord.objects.exists()


def test_the_requisition_comes_first(desk: Desk) -> None:
    order = waiting(desk, low="ordered")
    client = desk.client("front desk")
    page = client.get(reverse("orders:book", args=[order.pk])).content.decode()
    assert "requisition is not there yet" in page and 'name="slot"' not in page


def test_a_patient_has_one_visit_with_a_provider(desk: Desk) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    booked(desk, client, order)
    other = waiting(desk, user=order.user_id)
    _, times, shown = opened(client, reverse("orders:book", args=[other.pk]))
    page = shown.content.decode()
    assert not times and "A patient has one at a time" in page
    assert reverse("orders:detail", args=[order.pk]) in page
    page = client.get(reverse("orders:book", args=[order.pk])).content.decode()
    assert "has a visit already" in page


def test_one_form_books_once(desk: Desk) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = opened(client, address)
    before = calls(desk, "/book")
    for slot in (times[-1], times[-1], times[-2]):
        assert client.post(address, {**values, "slot": slot.written()}).status_code == 302
        desk.deliver()
    assert CommandRecord.objects.count() == 1 and calls(desk, "/book") == before + 1
    assert visits(desk, order) == [(times[-1].start, True)]


@pytest.mark.parametrize(
    ("method", "status"),
    [("at_home_phlebotomy", 400), ("walk_in_test", 400), ("walk_in_test", 404)],
)
def test_a_time_that_is_gone_leads_back_to_the_nearest(
    desk: Desk, method: str, status: int
) -> None:
    desk.sandbox.control("desk", {"conflict_status": status})
    order = waiting(desk, method)
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = opened(client, address)
    wanted = times[len(times) // 2]
    try:
        desk.sandbox.control("slots", {"booking_keys": [wanted.key]})
        client.post(address, {**values, "slot": wanted.written(), "notes": "the blue door"})
        desk.deliver()
        row, page, shown = refused(desk, client)
        assert row.status == status and "no longer available" in row.refusal
        assert "the blue door" in page and "is gone. The nearest times are marked" in page
        near = [chip for chip in chips(shown) if chip.near]
        assert len(near) == 3
        far = max(abs(chip.time.start - wanted.start) for chip in near)
        others = [c for c in chips(shown) if not c.near]
        assert all(abs(chip.time.start - wanted.start) >= far for chip in others)
        assert visits(desk, order) == []
    finally:
        desk.sandbox.control("slots", method="DELETE")
        desk.sandbox.control("desk", {"conflict_status": 400})


def test_a_key_that_ran_out_is_looked_up_anew_for_the_same_time(desk: Desk) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = opened(client, address)
    old = msgspec.structs.replace(
        times[-1], key="ran-out", expires_at=timezone.now() - timedelta(minutes=1)
    )
    client.post(address, {**values, "slot": old.written()})
    desk.deliver()
    assert desk.newest().state == State.DONE, desk.newest().refusal
    assert visits(desk, order) == [(times[-1].start, True)]


def test_a_key_the_service_does_not_know_keeps_the_choice(desk: Desk) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = opened(client, address)
    wrong = msgspec.structs.replace(times[-1], key="made-up")
    client.post(address, {**values, "slot": wrong.written(), "notes": "kept"})
    desk.deliver()
    row, page, shown = refused(desk, client)
    assert row.status == 400 and "kept" in page
    assert [chip.time.start for chip in chips(shown) if chip.chosen] == [times[-1].start]
    assert next(chip for chip in chips(shown) if chip.chosen).time.key != "made-up"


def test_a_lab_that_is_not_switched_on_is_told_as_configuration(desk: Desk) -> None:
    order = waiting(desk, "walk_in_test")
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = opened(client, address)
    switch = "UPDATE sandbox_lab SET supports_psc_booking = %s WHERE slug = %s RETURNING 1"
    desk.sandbox.query(switch, [False, order.lab_slug])
    try:
        client.post(address, {**values, "slot": times[0].written()})
        desk.deliver()
        row, page, _ = refused(desk, client)
        assert (row.status, row.attempts) == (503, 1), "it is not sent again"
        assert "not switched on" in page and 'name="slot"' not in page
    finally:
        desk.sandbox.query(switch, [True, order.lab_slug])


def test_a_lost_answer_of_a_booking_is_found(desk: Desk) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = opened(client, address)
    client.post(address, {**values, "slot": times[-1].written()})
    desk.fault("drop_after", "/book$")
    desk.deliver()
    assert desk.newest().state == State.UNCERTAIN
    desk.later()
    asked = desk.newest()
    assert (asked.state, asked.confirmed_by, asked.attempts) == (State.DONE, "look-up", 1)
    assert visits(desk, order) == [(times[-1].start, True)]


def test_a_booking_without_a_trace_waits_for_a_person(desk: Desk) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = opened(client, address)
    client.post(address, {**values, "slot": times[-1].written()})
    before = calls(desk, "/book")
    desk.fault("drop_before", "/book$")
    desk.deliver()
    desk.later()
    assert desk.newest().state == State.UNDECIDED
    assert calls(desk, "/book") == before + 1 and visits(desk, order) == []


def test_a_keyed_booking_is_sent_again(desk: Desk, settings: Settings) -> None:
    settings.PSC_IDEMPOTENCY = True
    order = waiting(desk, "walk_in_test")
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = opened(client, address)
    client.post(address, {**values, "slot": times[-1].written()})
    desk.fault("drop_before", "/book$")
    desk.deliver()
    desk.later()
    asked = desk.newest()
    assert (asked.state, asked.attempts) == (State.DONE, 2)
    assert visits(desk, order) == [(times[-1].start, True)]


def test_a_lost_answer_of_a_move_is_found(desk: Desk) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    first = booked(desk, client, order)
    address = reverse("orders:move", args=[order.pk])
    values, times, _ = opened(client, address)
    other = next(time for time in times if time.start != first.start_at)
    client.post(address, {**values, "slot": other.written()})
    desk.fault("drop_after", "/reschedule$")
    desk.deliver()
    desk.later()
    asked = desk.newest()
    assert (asked.state, asked.confirmed_by, asked.attempts) == (State.DONE, "look-up", 1)
    assert visits(desk, order) == [(other.start, True)]


def test_the_second_of_two_who_move_it_hears_of_the_first(desk: Desk) -> None:
    order = waiting(desk)
    one, two = desk.client("front desk"), desk.client("clinician")
    first = booked(desk, one, order)
    address = reverse("orders:move", args=[order.pk])
    others = {}
    for client in (one, two):
        values, times, _ = opened(client, address)
        others[client] = (values, [time for time in times if time.start != first.start_at])
    before = calls(desk, "/reschedule")
    values, times = others[one]
    assert one.post(address, {**values, "slot": times[0].written()}).status_code == 302
    values, mine = others[two]
    ask = {**values, "slot": mine[1].written(), "notes": "the blue door"}
    answer = two.post(address, ask)
    assert answer.status_code == 422
    page = answer.content.decode()
    assert "front-desk asked for something about this already" in page
    assert "Move the visit" in page and "the blue door" in page
    desk.deliver()
    page = two.post(address, ask).content.decode()
    assert "changed meanwhile" in page and "front-desk asked for that" in page
    desk.deliver()
    assert calls(desk, "/reschedule") == before + 1
    assert visits(desk, order) == [(times[0].start, True)]


def test_what_the_patient_changed_is_not_overwritten(desk: Desk) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    first = booked(desk, client, order)
    address = reverse("orders:move", args=[order.pk])
    values, times, _ = opened(client, address)
    other = next(time for time in times if time.start != first.start_at)
    assert client.post(address, {**values, "slot": other.written()}).status_code == 302
    theirs = desk.sandbox.control(
        "appointments", {"order_id": str(order.pk), "do": "reschedule", "days": 2}
    )
    before = calls(desk, "/reschedule")
    desk.deliver()
    row, _, _ = refused(desk, client)
    assert "changed meanwhile: it is now" in row.refusal and row.attempts == 0
    assert calls(desk, "/reschedule") == before
    assert visits(desk, order) == [(datetime.fromisoformat(theirs["start_at"]), True)]


def test_what_was_cancelled_meanwhile_is_cancelled(desk: Desk) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    booked(desk, client, order)
    address = reverse("orders:cancel-visit", args=[order.pk])
    values, _, shown = opened(client, address)
    reason = shown.context["form"].fields["reason"].choices[1][0]
    client.post(address, {**values, "reason": reason})
    desk.sandbox.control("appointments", {"order_id": str(order.pk), "do": "cancel"})
    desk.deliver()
    assert (desk.newest().state, desk.newest().confirmed_by) == (State.DONE, "look-up")


def test_bookings_that_only_the_patient_changes_have_words_instead_of_buttons(
    desk: Desk,
) -> None:
    order = waiting(desk, "walk_in_test", "10001", test="Coast Check")
    client = desk.client("front desk")
    visit = booked(desk, client, order)
    assert visit.event_status == "reserved"
    page = client.get(reverse("orders:detail", args=[order.pk])).content.decode()
    for name in ("orders:move", "orders:cancel-visit"):
        address = reverse(name, args=[order.pk])
        assert address not in page
        told = client.get(address).content.decode()
        assert "The lab has sent you an e-mail" in told
        assert client.post(address, {"form_id": str(uuid.uuid4())}).status_code == 422
    assert "The lab has sent you an e-mail" in page
    assert CommandRecord.objects.count() == 1


def test_phoenix_from_new_york_across_a_change_of_clocks(desk: Desk) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    User.objects.filter(username="front-desk").update(time_zone="America/New_York")
    address = reverse("orders:book", args=[order.pk])
    values, _, _ = opened(client, address)
    change = next_change("America/New_York", timezone.now())
    start = change.date() - timedelta(days=6)
    shown: Any = client.post(address, {**values, "look": start.isoformat()})
    assert shown.status_code == 200
    before, after = timedelta(hours=2), timedelta(hours=3)
    if change.month > 6:
        before, after = after, before
    seen = set()
    for chip in chips(shown):
        ahead = before if chip.time.start < change else after
        phoenix = chip.time.start - timedelta(hours=7)
        assert chip.clock == f"{phoenix:%H:%M}"
        assert chip.clock_here == f"{phoenix + ahead:%H:%M}"
        seen.add(ahead)
    assert seen == {before, after}
    page = shown.content.decode()
    assert "MST (America/Phoenix)" in page and "America/New York" in page
    chip = next(chip for chip in chips(shown) if chip.time.start > change)
    face = re.search(rf"<strong>{chip.clock}</strong>.{{0,120}}?{chip.clock_here}", page, re.DOTALL)
    assert face, "both clocks stand on the chip"


def next_change(zone: str, now: datetime) -> datetime:
    """When the zone's clocks change next."""
    place = ZoneInfo(zone)
    hour = now.replace(minute=0, second=0, microsecond=0)
    while hour.astimezone(place).utcoffset() == now.astimezone(place).utcoffset():
        hour += timedelta(hours=1)
    return hour


def test_a_late_visit_is_on_another_day_for_the_staff() -> None:
    start = datetime(2027, 3, 14, 5, 30, tzinfo=UTC)  # Saturday 22:30 in Phoenix
    key = {"booking_key": "k", "price": 0, "is_priority": False, "num_appointments_available": 2}
    body = {
        "timezone": "America/Phoenix",
        "slots": [
            {
                "date": "2027-03-13",
                "slots": [
                    {**key, "start": at.isoformat(), "end": (at + timedelta(hours=1)).isoformat()}
                    for at in (start, start + timedelta(hours=2))
                ],
            }
        ],
    }
    found = msgspec.convert(body, Availability)
    with timezone.override("America/New_York"):
        days = offer(found, Wishes()).days
    assert [day.date for day in days] == [date(2027, 3, 13), date(2027, 3, 14)]
    late, later = days[0].groups[0].chips[0], days[1].groups[0].chips[0]
    assert (late.clock, late.clock_here, late.shift) == ("22:30", "00:30", "+1 d")
    # Clocks go forward at two in New York, not in Phoenix.
    assert (later.clock, later.clock_here, later.shift) == ("00:30", "03:30", "")


def test_filters_and_the_usual_time(desk: Desk) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    visit = booked(desk, client, order)
    address = reverse("orders:move", args=[order.pk])
    values, times, _ = opened(client, address)
    shown: Any = client.post(reverse("orders:times", args=[order.pk]), {**values, "same": "on"})
    assert shown.status_code == 200 and b"<html" not in shown.content
    assert visit.start_at is not None
    assert {chip.time.start.time() for chip in chips(shown)} == {visit.start_at.time()}
    shown = client.post(address, {**values, "look": "", "part": "morning"})
    assert chips(shown) and all(chip.local.hour < 11 for chip in chips(shown))
    shown = client.post(address, {**values, "look": "", "week": "2"})
    first = shown.context["picker"].offer.first
    assert chips(shown) and all((c.local.date() - first).days >= 7 for c in chips(shown))
    later = shown.context["picker"].offer.later.isoformat()
    shown = client.post(address, {**values, "look": later})
    starts = {chip.time.start for chip in chips(shown)}
    assert starts and not starts & {time.start for time in times}
    assert CommandRecord.objects.count() == 1


def test_a_choice_is_kept_while_one_looks(desk: Desk) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = opened(client, address)
    chosen = {**values, "slot": times[3].written(), "notes": "the blue door"}
    shown: Any = client.post(reverse("orders:times", args=[order.pk]), chosen)
    assert [chip.time.start for chip in chips(shown) if chip.chosen] == [times[3].start]


def test_a_service_that_does_not_answer_is_told_and_nothing_is_written(desk: Desk) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    desk.fault("slow", "/availability$", times=9, latency_ms=8000)
    began = time.monotonic()
    shown = client.get(reverse("orders:book", args=[order.pk]))
    assert time.monotonic() - began < 7
    page = shown.content.decode()
    assert shown.status_code == 200 and "does not answer just now" in page
    assert "Try again" in page and not CommandRecord.objects.exists()


@pytest.mark.parametrize(
    ("field", "text", "words"),
    [
        ("notes", "x" * 1001, "1001"),
        ("zip_code", "8500", "Five digits"),
        ("state", "Arizona", "Ensure this value has at most 2"),
        ("first_line", "Lincoln Street", "street with its number"),
        ("slot", "", "Choose a time first"),
        ("slot", "nonsense", "Choose one of the times"),
        ("start_date", "2020-01-01", "today or a later day"),
    ],
)
def test_what_does_not_fit_is_said_at_its_field_and_nothing_is_lost(
    desk: Desk, field: str, text: str, words: str
) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = opened(client, address)
    typed = {**values, "slot": times[0].written(), "second_line": "Floor 3", field: text}
    shown: Any = client.post(address, typed)
    page = shown.content.decode()
    assert shown.status_code == 422 and words in page and "Floor 3" in page
    assert field in shown.context["form"].errors
    assert not text or text in page or field in ("slot", "start_date")
    assert not CommandRecord.objects.exists()


def test_a_thousand_letters_of_any_kind_are_taken(desk: Desk) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = opened(client, address)
    notes = "🙂" * 1000
    client.post(address, {**values, "slot": times[0].written(), "notes": notes})
    desk.deliver()
    assert desk.newest().state == State.DONE, desk.newest().refusal
    assert Appointment.objects.get(order_id=order.pk).appointment_notes == notes


def test_who_may_not_does_not_see_the_buttons(desk: Desk) -> None:
    order = waiting(desk)
    viewer = desk.client("viewer")
    page = viewer.get(reverse("orders:detail", args=[order.pk])).content.decode()
    assert "/visit/" not in page
    for name in ("book", "move", "cancel-visit"):
        assert viewer.get(reverse(f"orders:{name}", args=[order.pk])).status_code == 403
    assert viewer.post(reverse("orders:times", args=[order.pk])).status_code == 403


def drawn_meanwhile(desk: Desk, order: Order) -> None:
    with desk.sandbox.service() as service:
        service.orders.simulate(order.pk, f"completed.{order.method}.completed")


def gone_meanwhile(desk: Desk, order: Order) -> None:
    desk.fault("status", f"/v3/order/{order.pk}$", statuses=[404], times=9)


def closed_meanwhile(desk: Desk, order: Order) -> None:
    desk.sandbox.query(
        "UPDATE sandbox_pscsite SET is_active = false FROM sandbox_lab l"
        " WHERE l.id = lab_id AND l.slug = %s RETURNING 1",
        [order.lab_slug],
    )


@pytest.mark.parametrize(
    ("meanwhile", "words", "attempts"),
    [
        (drawn_meanwhile, "past its draw", 0),
        (gone_meanwhile, "no longer has this order", 0),
        (closed_meanwhile, "no longer active", 1),
    ],
)
def test_what_became_impossible_meanwhile_is_refused_in_words(
    desk: Desk, meanwhile: Callable[[Desk, Order], None], words: str, attempts: int
) -> None:
    order = waiting(desk, "walk_in_test")
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = opened(client, address)
    client.post(address, {**values, "slot": times[-1].written()})
    try:
        meanwhile(desk, order)
        desk.deliver()
        desk.sandbox.control("faults", method="DELETE")
        row = desk.newest()
        assert (row.state, row.attempts) == (State.REFUSED, attempts) and words in row.refusal
        assert visits(desk, order) == []
    finally:
        desk.sandbox.query("UPDATE sandbox_pscsite SET is_active = true RETURNING 1")


@pytest.mark.parametrize("status", [401, 403])
def test_a_team_that_may_not_is_told_and_keeps_what_it_typed(desk: Desk, status: int) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = opened(client, address)
    client.post(address, {**values, "slot": times[-1].written(), "notes": "the blue door"})
    desk.fault("status", "/book$", statuses=[status])
    desk.deliver()
    row, page, _ = refused(desk, client)
    assert row.status == status and "the blue door" in page and 'role="alert"' in page


@pytest.mark.parametrize(
    ("do", "words"), [("cancel", "no visit any more"), ("fix", "Cancel it and book anew")]
)
def test_a_visit_that_cannot_be_moved_any_more_is_left_alone(
    desk: Desk, do: str, words: str
) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    first = booked(desk, client, order)
    address = reverse("orders:move", args=[order.pk])
    values, times, _ = opened(client, address)
    other = next(slot for slot in times if slot.start != first.start_at)
    client.post(address, {**values, "slot": other.written()})
    desk.sandbox.control("appointments", {"order_id": str(order.pk), "do": do})
    before = calls(desk, "/reschedule")
    desk.deliver()
    row = desk.newest()
    assert row.state == State.REFUSED and words in row.refusal
    assert calls(desk, "/reschedule") == before
    page = client.get(f"{row.form_url}?again={row.pk}").content.decode()
    assert 'name="slot"' not in page, "the page says what is possible instead"


@pytest.mark.parametrize("made", [True, False])
def test_a_center_that_does_not_confirm_in_time_is_asked_what_is_true(
    desk: Desk, settings: Settings, made: bool
) -> None:
    settings.PSC_IDEMPOTENCY = False
    order = waiting(desk, "walk_in_test")
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = opened(client, address)
    client.post(address, {**values, "slot": times[-1].written()})
    desk.sandbox.control("desk", {"unanswered": 1, "made": made})
    desk.deliver()
    assert desk.newest().state == State.UNCERTAIN
    desk.later()
    asked = desk.newest()
    assert asked.state == (State.DONE if made else State.UNDECIDED) and asked.attempts == 1
    assert visits(desk, order) == ([(times[-1].start, True)] if made else [])


def test_no_times_at_all_say_what_else_there_is(desk: Desk) -> None:
    order = waiting(desk, "walk_in_test")
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, _, _ = opened(client, address)
    desk.fault("status", "/psc/appointment/availability$", statuses=[404])
    page = client.post(address, {**values, "look": ""}).content.decode()
    assert "There are no free times in these days" in page and "other centres" in page
    page = client.post(address, {**values, "look": "", "zip_code": "59715"}).content.decode()
    assert "No centre within 25 miles of 59715" in page and "farther away" in page


def test_centers_say_what_can_be_done_there(desk: Desk) -> None:
    order = waiting(desk, "walk_in_test")
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, _, _ = opened(client, address)
    shown: Any = client.post(address, {**values, "look": "", "zip_code": "10001", "radius": "100"})
    page = shown.content.decode()
    near = shown.context["picker"].sites
    assert len(near) > 3 and [one.site.distance for one in near] == sorted(
        one.site.distance for one in near
    )
    for words in ("Bookable here", "Book with the lab", "Walk in", "Hours unknown", " mi, "):
        assert words in page, words
    assert sum(one.chosen for one in near) == 3, "the nearest that can be booked"
    wanted = [one.code for one in near if one.site.bookable][3]
    shown = client.post(
        address,
        {**values, "look": "", "zip_code": "10001", "radius": "100", "sites": [wanted]},
    )
    assert {chip.time.site for chip in chips(shown)} == {wanted}
