"""Visits, from the page of an order through the list of times to the sandbox's database."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.urls import reverse
from pytest_django import Settings

from backoffice.models import CommandRecord
from orders.models import Appointment
from orders.scheduling.slots import OfferedTime
from tests.outbox.desk import Desk
from tests.outbox.draws import waiting
from tests.outbox.picking import booked, calls, opened, site_of, visits

State = CommandRecord.State


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
    values, times, shown = opened(client, address)
    assert "Price $49.00" in shown.content.decode()
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
    assert {time.site for time in times} == {site_of(desk, first)}, "the same center first"
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
    assert "Cancel it and book again" in moving and 'name="slot"' not in moving

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


def test_one_form_books_once(desk: Desk) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = opened(client, address)
    before = calls(desk, "/book")
    for _ in range(2):
        answer = client.post(address, {**values, "slot": times[-1].written()})
        assert answer.status_code == 302
        desk.deliver()
    other = client.post(address, {**values, "slot": times[-2].written()})
    assert other.status_code == 422 and "has a visit already" in other.content.decode()
    desk.deliver()
    assert CommandRecord.objects.count() == 1 and calls(desk, "/book") == before + 1
    assert visits(desk, order) == [(times[-1].start, True)]


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
    # As that of a step, which waits its turn without a lock.
    CommandRecord.objects.update(lock="")
    page = two.post(address, ask).content.decode()
    assert "changed meanwhile" in page and "front-desk asked for that" in page
    desk.deliver()
    assert calls(desk, "/reschedule") == before + 1
    assert visits(desk, order) == [(times[0].start, True)]


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


def test_another_center_at_the_same_time_is_another_visit(desk: Desk) -> None:
    order = waiting(desk, "walk_in_test")
    client = desk.client("front desk")
    book = reverse("orders:book", args=[order.pk])
    values, times, _ = opened(client, book)
    there, other = next(
        (one, two)
        for one in times
        for two in times
        if one.start != two.start and one.site != two.site
    )
    client.post(book, {**values, "slot": there.written()})
    desk.deliver()
    address = reverse("orders:move", args=[order.pk])
    values, times, _ = opened(client, address)
    shown = client.post(address, {**values, "look": "", "sites": [there.site, other.site]})
    inputs = re.findall(r'<input[^>]+value="(\{[^"]+)"([^>]*)>', shown.content.decode())
    offered = [(OfferedTime.read(unescape(value)), rest) for value, rest in inputs]
    (face,) = [r for time, r in offered if (time.start, time.site) == (other.start, other.site)]
    assert "disabled" not in face
    values["sites"] = [other.site]
    assert client.post(address, {**values, "slot": other.written()}).status_code == 302
    desk.fault("drop_before", "/reschedule$")
    desk.deliver()
    assert desk.newest().state == State.UNCERTAIN
    desk.later()
    asked = desk.newest()
    assert (asked.state, asked.attempts) == (State.DONE, 2), "it was not at the other center"
    assert site_of(desk, Appointment.objects.get(order_id=order.pk)) == other.site


def test_booking_at_another_time_is_not_taken_for_ours(desk: Desk, settings: Settings) -> None:
    settings.PSC_IDEMPOTENCY = False
    order = waiting(desk, "walk_in_test")
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = opened(client, address)
    mine, theirs = next(
        (one, two)
        for one in times
        for two in times
        if one.start != two.start and one.site != two.site
    )
    client.post(address, {**values, "slot": mine.written()})
    desk.fault("drop_before", "/book$")
    desk.deliver()
    with desk.sandbox.service() as service:
        service.appointments.book_psc(order.pk, theirs.key)
    desk.later()
    assert desk.newest().state == State.UNDECIDED
