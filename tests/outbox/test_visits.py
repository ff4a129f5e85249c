"""Visits, from the page of an order and the list of times to the sandbox's database."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.urls import reverse
from pytest_django import Settings

from backoffice.outbox.models import CommandRecord
from orders.models import Appointment
from orders.rules.slots import OfferedTime
from tests.outbox.draw_orders import order_awaiting_draw
from tests.outbox.harness import OutboxHarness
from tests.outbox.visit_forms import book_visit, count_calls, open_form, sandbox_visits, site_code

State = CommandRecord.State


def test_visit_is_booked_and_moved(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness)
    client = harness.client("front desk")
    page = client.get(reverse("orders:detail", args=[order.pk])).content.decode()
    assert reverse("orders:book", args=[order.pk]) in page
    first = book_visit(harness, client, order)
    command = harness.newest_command()
    assert (command.kind, command.attempts, command.confirmed_by) == (
        "appointment.book",
        1,
        "answer",
    )
    assert sandbox_visits(harness, order) == [(first.start_at, True)]

    page = client.get(reverse("orders:detail", args=[order.pk])).content.decode()
    address = reverse("orders:move", args=[order.pk])
    assert address in page
    values, times, response = open_form(client, address)
    assert "Price: $49.00" in response.content.decode()
    other_time = next(time for time in times if time.start != first.start_at)
    response = client.post(address, {**values, "slot": other_time.written(), "notes": "ring twice"})
    assert response.status_code == 302
    assert sandbox_visits(harness, order) == [(first.start_at, True)], (
        "the old time is kept until then"
    )
    harness.deliver()
    assert harness.newest_command().state == State.DONE
    assert sandbox_visits(harness, order) == [(other_time.start, True)]
    moved_visit = Appointment.objects.get(order_id=order.pk, superseded_at=None)
    assert (moved_visit.pk, moved_visit.start_at, moved_visit.appointment_notes) == (
        first.pk,
        other_time.start,
        "ring twice",
    )
    page = client.get(reverse("orders:detail", args=[order.pk])).content.decode()
    assert 'class="struck"' in page, "the old time is struck through"


@pytest.mark.parametrize("has_key", [True, False])
def test_center_appointment_is_booked_moved_and_canceled(
    harness: OutboxHarness, settings: Settings, has_key: bool
) -> None:
    settings.PSC_IDEMPOTENCY = has_key
    order = order_awaiting_draw(harness, "walk_in_test")
    client = harness.client("front desk")
    first = book_visit(harness, client, order)
    assert harness.newest_command().kind == "appointment.book_center"
    last_write = harness.sandbox.control("writes")["writes"][-1]
    assert last_write["path"].endswith("/psc/appointment/book")
    assert (last_write["key"] == str(harness.newest_command().idempotency_key)) == has_key
    assert first.type == "patient_service_center" and first.external_id

    address = reverse("orders:move", args=[order.pk])
    values, times, response = open_form(client, address)
    assert {time.site for time in times} == {site_code(harness, first)}, (
        "only the center of the visit at first"
    )
    assert first.external_id[:8] in response.content.decode()
    other_time = next(time for time in times if time.start != first.start_at)
    client.post(address, {**values, "slot": other_time.written()})
    harness.deliver()
    assert sandbox_visits(harness, order) == [(other_time.start, True)]

    address = reverse("orders:cancel-visit", args=[order.pk])
    values, _, response = open_form(client, address)
    reasons = response.context["form"].fields["reason"].choices
    client.post(address, {**values, "reason": reasons[0][0], "notes": "made up"})
    harness.deliver()
    assert harness.newest_command().state == State.DONE
    assert sandbox_visits(harness, order) == [(other_time.start, False)]
    assert Appointment.objects.get(pk=first.pk).event_status == "cancelled"
    harness.run_lookups()
    order.refresh_from_db()
    assert order.low_level_status == "appointment_cancelled"


def test_cancel_and_rebook_leads_to_the_times(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness)
    client = harness.client("front desk")
    first = book_visit(harness, client, order)
    harness.sandbox.control("appointments", {"order_id": str(order.pk), "do": "fix"})
    harness.run_lookups()
    Appointment.objects.filter(pk=first.pk).update(can_reschedule=False)
    page = client.get(reverse("orders:detail", args=[order.pk])).content.decode()
    address = reverse("orders:cancel-visit", args=[order.pk]) + "?rebook=1"
    assert address in page and "Cancel and rebook" in page
    assert reverse("orders:move", args=[order.pk]) not in page
    move_page = client.get(reverse("orders:move", args=[order.pk])).content.decode()
    assert "Cancel it and book again" in move_page and 'name="slot"' not in move_page

    values, _, response = open_form(client, address)
    assert "the patient has no visit" in response.content.decode()
    reason = response.context["form"].fields["reason"].choices[1][0]
    client.post(address, {**values, "reason": reason})
    harness.deliver()
    command = harness.newest_command()
    assert (command.state, command.done_url) == (
        State.DONE,
        reverse("orders:book", args=[order.pk]),
    )
    harness.run_lookups()
    second_visit = book_visit(harness, client, order)
    assert second_visit.pk != first.pk


def test_visit_is_requested_where_there_are_no_times(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness, zip_code="54650")
    client = harness.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, response = open_form(client, address)
    page = response.content.decode()
    assert not times and "the phlebotomist will call the patient" in page
    provider = response.context["picker"].requests[0]
    values = {**values, "ask": provider, "notes": "mornings"}
    assert client.post(address, values).status_code == 302
    harness.deliver()
    assert (harness.newest_command().kind, harness.newest_command().state) == (
        "appointment.request",
        State.DONE,
    )
    visit = Appointment.objects.get(order_id=order.pk)
    assert (visit.event_status, visit.start_at, visit.provider) == ("pending", None, provider)
    page = client.get(reverse("orders:detail", args=[order.pk])).content.decode()
    assert "Requested" in page and "No time set yet" in page


def test_form_sent_twice_books_once(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness)
    client = harness.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = open_form(client, address)
    calls_before = count_calls(harness, "/book")
    for _ in range(2):
        response = client.post(address, {**values, "slot": times[-1].written()})
        assert response.status_code == 302
        harness.deliver()
    other_time = client.post(address, {**values, "slot": times[-2].written()})
    assert other_time.status_code == 422 and "already has a visit" in other_time.content.decode()
    harness.deliver()
    assert CommandRecord.objects.count() == 1 and count_calls(harness, "/book") == calls_before + 1
    assert sandbox_visits(harness, order) == [(times[-1].start, True)]


def test_lost_booking_answer_is_found(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness)
    client = harness.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = open_form(client, address)
    client.post(address, {**values, "slot": times[-1].written()})
    harness.add_fault("drop_after", "/book$")
    harness.deliver()
    assert harness.newest_command().state == State.UNCERTAIN
    harness.pass_time()
    command = harness.newest_command()
    assert (command.state, command.confirmed_by, command.attempts) == (State.DONE, "look-up", 1)
    assert sandbox_visits(harness, order) == [(times[-1].start, True)]


def test_booking_without_trace_is_undecided(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness)
    client = harness.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = open_form(client, address)
    client.post(address, {**values, "slot": times[-1].written()})
    calls_before = count_calls(harness, "/book")
    harness.add_fault("drop_before", "/book$")
    harness.deliver()
    harness.pass_time()
    assert harness.newest_command().state == State.UNDECIDED
    assert (
        count_calls(harness, "/book") == calls_before + 1 and sandbox_visits(harness, order) == []
    )


def test_booking_with_idempotency_key_is_sent_again(
    harness: OutboxHarness, settings: Settings
) -> None:
    settings.PSC_IDEMPOTENCY = True
    order = order_awaiting_draw(harness, "walk_in_test")
    client = harness.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = open_form(client, address)
    client.post(address, {**values, "slot": times[-1].written()})
    harness.add_fault("drop_before", "/book$")
    harness.deliver()
    harness.pass_time()
    command = harness.newest_command()
    assert (command.state, command.attempts) == (State.DONE, 2)
    assert sandbox_visits(harness, order) == [(times[-1].start, True)]


def test_lost_move_answer_is_found(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness)
    client = harness.client("front desk")
    first = book_visit(harness, client, order)
    address = reverse("orders:move", args=[order.pk])
    values, times, _ = open_form(client, address)
    other_time = next(time for time in times if time.start != first.start_at)
    client.post(address, {**values, "slot": other_time.written()})
    harness.add_fault("drop_after", "/reschedule$")
    harness.deliver()
    harness.pass_time()
    command = harness.newest_command()
    assert (command.state, command.confirmed_by, command.attempts) == (State.DONE, "look-up", 1)
    assert sandbox_visits(harness, order) == [(other_time.start, True)]


def test_second_move_names_the_first_user(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness)
    first_client, second_client = harness.client("front desk"), harness.client("clinician")
    first = book_visit(harness, first_client, order)
    address = reverse("orders:move", args=[order.pk])
    form_by_client = {}
    for client in (first_client, second_client):
        values, times, _ = open_form(client, address)
        form_by_client[client] = (values, [time for time in times if time.start != first.start_at])
    calls_before = count_calls(harness, "/reschedule")
    values, times = form_by_client[first_client]
    assert first_client.post(address, {**values, "slot": times[0].written()}).status_code == 302
    values, second_times = form_by_client[second_client]
    values = {**values, "slot": second_times[1].written(), "notes": "the blue door"}
    response = second_client.post(address, values)
    assert response.status_code == 422
    page = response.content.decode()
    assert "front-desk already sent a request about this" in page
    assert "Reschedule home visit" in page and "the blue door" in page
    harness.deliver()
    # Like the command of a later step, which waits without a lock.
    CommandRecord.objects.update(lock="")
    page = second_client.post(address, values).content.decode()
    assert "has changed" in page and "Changed by front-desk" in page
    harness.deliver()
    assert count_calls(harness, "/reschedule") == calls_before + 1
    assert sandbox_visits(harness, order) == [(times[0].start, True)]


def test_visit_canceled_meanwhile_is_done(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness)
    client = harness.client("front desk")
    book_visit(harness, client, order)
    address = reverse("orders:cancel-visit", args=[order.pk])
    values, _, response = open_form(client, address)
    reason = response.context["form"].fields["reason"].choices[1][0]
    client.post(address, {**values, "reason": reason})
    harness.sandbox.control("appointments", {"order_id": str(order.pk), "do": "cancel"})
    harness.deliver()
    assert (harness.newest_command().state, harness.newest_command().confirmed_by) == (
        State.DONE,
        "look-up",
    )


def test_notes_of_1000_characters_are_accepted(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness)
    client = harness.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = open_form(client, address)
    notes = "🙂" * 1000
    client.post(address, {**values, "slot": times[0].written(), "notes": notes})
    harness.deliver()
    assert harness.newest_command().state == State.DONE, harness.newest_command().refusal
    assert Appointment.objects.get(order_id=order.pk).appointment_notes == notes


@pytest.mark.parametrize("is_booked", [True, False])
def test_unconfirmed_center_booking_is_looked_up(
    harness: OutboxHarness, settings: Settings, is_booked: bool
) -> None:
    settings.PSC_IDEMPOTENCY = False
    order = order_awaiting_draw(harness, "walk_in_test")
    client = harness.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = open_form(client, address)
    client.post(address, {**values, "slot": times[-1].written()})
    harness.sandbox.control("desk", {"unanswered": 1, "made": is_booked})
    harness.deliver()
    assert harness.newest_command().state == State.UNCERTAIN
    harness.pass_time()
    command = harness.newest_command()
    assert command.state == (State.DONE if is_booked else State.UNDECIDED) and command.attempts == 1
    assert sandbox_visits(harness, order) == ([(times[-1].start, True)] if is_booked else [])


def test_same_time_at_another_center_is_another_visit(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness, "walk_in_test")
    client = harness.client("front desk")
    book_address = reverse("orders:book", args=[order.pk])
    values, times, _ = open_form(client, book_address)
    first_time, other_time = next(
        (one, two)
        for one in times
        for two in times
        if one.start != two.start and one.site != two.site
    )
    client.post(book_address, {**values, "slot": first_time.written()})
    harness.deliver()
    address = reverse("orders:move", args=[order.pk])
    values, times, _ = open_form(client, address)
    response = client.post(
        address, {**values, "look": "", "sites": [first_time.site, other_time.site]}
    )
    inputs = re.findall(r'<input[^>]+value="(\{[^"]+)"([^>]*)>', response.content.decode())
    offered = [(OfferedTime.read(unescape(value)), attributes) for value, attributes in inputs]
    (attributes,) = [
        attributes
        for time, attributes in offered
        if (time.start, time.site) == (other_time.start, other_time.site)
    ]
    assert "disabled" not in attributes
    values["sites"] = [other_time.site]
    assert client.post(address, {**values, "slot": other_time.written()}).status_code == 302
    harness.add_fault("drop_before", "/reschedule$")
    harness.deliver()
    assert harness.newest_command().state == State.UNCERTAIN
    harness.pass_time()
    command = harness.newest_command()
    assert (command.state, command.attempts) == (State.DONE, 2), "the first sending did not arrive"
    assert site_code(harness, Appointment.objects.get(order_id=order.pk)) == other_time.site


def test_booking_at_another_time_is_not_taken_for_ours(
    harness: OutboxHarness, settings: Settings
) -> None:
    settings.PSC_IDEMPOTENCY = False
    order = order_awaiting_draw(harness, "walk_in_test")
    client = harness.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = open_form(client, address)
    own_time, other_time = next(
        (one, two)
        for one in times
        for two in times
        if one.start != two.start and one.site != two.site
    )
    client.post(address, {**values, "slot": own_time.written()})
    harness.add_fault("drop_before", "/book$")
    harness.deliver()
    with harness.sandbox.service() as service:
        service.appointments.book_psc(order.pk, other_time.key)
    harness.pass_time()
    assert harness.newest_command().state == State.UNDECIDED
