"""Settling after a lost answer finds the effect in any spelling of the service.

A refused second sending is never shown as "refused". Cases of all commands share one sandbox and
one mirror.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from backoffice.core.service_client import service
from backoffice.operations import status
from backoffice.outbox.enqueueing import resolve
from backoffice.outbox.models import CommandRecord
from backoffice.team.models import Notification
from backoffice.team.notifications import notify_request_outcomes
from orders.commands import BookCenter, CancelOrder, RescheduleAppointment
from orders.rules.appointment_rules import CENTER
from orders.rules.slots import AppointmentPlace, OfferedTime, fetch_times
from orders.sync.orders import store_orders
from tests.outbox.cases import CASES
from tests.outbox.cases_visits import LAB, VISIT_LOOKUPS, choose_time, create_order
from tests.outbox.records import CommandCase
from tests.outbox.worker_setup import WorkerSetup, attempt_history

State = CommandRecord.State
CASE_BY_KIND = {case.command_type.kind: case for case in CASES}
WRITES = ["POST", "PATCH", "PUT", "DELETE"]


@pytest.fixture(scope="module")
def transactional_db(module_database: None) -> None:
    """Override the fixture of pytest-django, which empties all tables after each test."""


@pytest.fixture(autouse=True)
def remove_faults(worker_setup: WorkerSetup) -> Iterator[None]:
    yield
    worker_setup.records.sandbox.control("faults", method="DELETE")
    worker_setup.records.sandbox.control("answers", method="DELETE")


def send_with_lost_answer(worker_setup: WorkerSetup, command: Any, path: str) -> CommandRecord:
    """Send a command that is carried out and whose answer is lost."""
    row = worker_setup.enqueue(command)
    worker_setup.harness.add_fault("drop_after", path, methods=WRITES)
    worker_setup.harness.deliver()
    row.refresh_from_db()
    assert row.state == State.UNCERTAIN, (row.state, row.refusal, row.hindrance)
    return row


def send_without_arrival(worker_setup: WorkerSetup, command: Any, path: str) -> CommandRecord:
    """Send a command that does not arrive. Its state is uncertain."""
    row = worker_setup.enqueue(command)
    worker_setup.harness.add_fault("drop_before", path, methods=WRITES)
    worker_setup.harness.deliver()
    row.refresh_from_db()
    assert row.state == State.UNCERTAIN, (row.state, row.refusal, row.hindrance)
    return row


def give_up(worker_setup: WorkerSetup, row: CommandRecord) -> None:
    CommandRecord.objects.filter(pk=row.pk).update(state=State.UNDECIDED)
    row.refresh_from_db()
    assert resolve(worker_setup.request(), row.pk, row.attempts, "give-up", "", "nobody knows")


@pytest.mark.parametrize("case", CASES, ids=[case.command_type.kind for case in CASES])
def test_refused_second_sending_is_undecided(worker_setup: WorkerSetup, case: CommandCase) -> None:
    command = case.create_command(worker_setup.records)
    row = send_without_arrival(worker_setup, command, case.path)
    before = case.count_effects(worker_setup.records, command, row.pk)
    worker_setup.harness.add_fault("status", case.path, methods=WRITES, statuses=[400], times=9)
    # It is sent again, as by a person or by the resend policy.
    CommandRecord.objects.filter(pk=row.pk).update(state=State.WAITING, due_at=timezone.now())
    worker_setup.harness.deliver()
    row.refresh_from_db()
    assert row.attempts == 2 and row.state != State.REFUSED, attempt_history(row)
    worker_setup.harness.pass_time()
    worker_setup.harness.pass_time()
    row.refresh_from_db()
    assert row.state == State.UNDECIDED and row.refusal, (row.state, attempt_history(row))
    assert case.count_effects(worker_setup.records, command, row.pk) == before
    worker_setup.resolve(row, happened=True)


def create_center_booking(worker_setup: WorkerSetup) -> tuple[BookCenter, AppointmentPlace]:
    order = create_order(worker_setup.records, "walk_in_test", "85004")
    centers = service().appointments.order_psc_info(order.pk, "50").data.patient_service_centers
    sites = [site.site_code for site in centers if site.bookable][:3]
    place = AppointmentPlace(lab=LAB, sites=tuple(sites))
    return (
        BookCenter(
            order_id=order.pk,
            user_id=order.user_id,
            lab=LAB,
            site="Made up",
            time=choose_time(place),
        ),
        place,
    )


def create_center_move(worker_setup: WorkerSetup, *, same_time: bool) -> RescheduleAppointment:
    """Book a visit at a center. Return a move of it to another center.

    The new time is the same or another one.
    """
    booking, place = create_center_booking(worker_setup)
    offered = fetch_times(service(), place, None)
    assert offered is not None
    times = [
        OfferedTime(start=slot.start, site=day.location.code, key=slot.booking_key)
        for day in offered.slots
        for slot in day.slots
        if slot.booking_key and day.location
    ]
    first, second = next(
        (one, two)
        for one in reversed(times)
        for two in times
        if one.site != two.site and (one.start == two.start) == same_time
    )
    booking.time = first
    row = worker_setup.enqueue(booking)
    worker_setup.harness.deliver()
    row.refresh_from_db()
    assert row.state == State.DONE, row.refusal
    return RescheduleAppointment(
        order_id=booking.order_id,
        user_id=booking.user_id,
        visit_type=CENTER,
        appointment_id=UUID(row.remote_id),
        seen=first.start,
        time=second,
        where=place,
    )


@pytest.mark.parametrize("same_time", [False, True])
def test_move_at_center_with_lost_answer_is_done(
    worker_setup: WorkerSetup, same_time: bool
) -> None:
    command = create_center_move(worker_setup, same_time=same_time)
    row = send_with_lost_answer(worker_setup, command, "/psc/appointment/reschedule$")
    worker_setup.harness.pass_time()
    row.refresh_from_db()
    assert (row.state, row.confirmed_by, row.attempts) == (State.DONE, "look-up", 1), (
        attempt_history(row)
    )


@pytest.mark.parametrize("same_time", [False, True])
def test_move_at_center_that_never_arrived_is_sent_again(
    worker_setup: WorkerSetup, same_time: bool
) -> None:
    command = create_center_move(worker_setup, same_time=same_time)
    row = send_without_arrival(worker_setup, command, "/psc/appointment/reschedule$")
    worker_setup.harness.pass_time()
    row.refresh_from_db()
    assert (row.state, row.attempts) == (State.DONE, 2), attempt_history(row)


def test_booking_at_center_with_lost_answer_is_done(worker_setup: WorkerSetup) -> None:
    command, _ = create_center_booking(worker_setup)
    row = send_with_lost_answer(worker_setup, command, "/psc/appointment/book$")
    visit = VISIT_LOOKUPS["appointment-psc"].fetch(service(), str(command.order_id)).data
    assert visit.provider_id != command.time.site, "the sandbox returns the provider's own string"
    worker_setup.harness.pass_time()
    row.refresh_from_db()
    assert (row.state, row.confirmed_by, row.attempts) == (State.DONE, "look-up", 1), (
        attempt_history(row)
    )


OTHER_SPELLINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "appointment.book": (
        "/phlebotomy/appointment$",
        {"address": {"first_line": "  OTHER  SPELLING ", "zip_code": "85004-0001"}, "events": []},
    ),
    "appointment.book_center": (
        "/psc/appointment$",
        {"provider_id": "of the provider", "events": [], "iana_timezone": None},
    ),
    "appointment.request": (
        "/phlebotomy/appointment$",
        {"address": {"first_line": "OTHER SPELLING"}, "provider_id": "x", "events": []},
    ),
    "appointment.move": (
        "/phlebotomy/appointment$",
        {"provider_id": "of the provider", "address": {"first_line": "OTHER SPELLING"}},
    ),
    "patient.info": (
        "/info/latest$",
        {
            "gender": "Female",
            "email": "NORA@EXAMPLE.INVALID",
            "phone_number": "+1 555 010 0001",
            "address": {
                "first_line": "12  SAMPLE STREET ",
                "second_line": "",
                "zip": "85004-0001",
                "country": "United States",
            },
        },
    ),
    "patient.create": ("/v2/user/resolve/", {"created_on": "2031-01-01T00:00:00+05:30"}),
    "result.resolve": ("/v3/unmatched_result/[0-9a-f-]+$", {"resolution_action": None}),
    "result.accept": ("/v3/unmatched_result/[0-9a-f-]+$", {"resolution_action": None}),
    "order.cancel": (
        "/v3/order/[0-9a-f-]+$",
        {"last_event": {"status": "collecting_sample.on_site_collection.appointment_cancelled"}},
    ),
}


@pytest.mark.parametrize("kind", OTHER_SPELLINGS)
def test_lost_answer_is_found_in_any_spelling(worker_setup: WorkerSetup, kind: str) -> None:
    case = CASE_BY_KIND[kind]
    path, merge = OTHER_SPELLINGS[kind]
    command = case.create_command(worker_setup.records)
    row = send_with_lost_answer(worker_setup, command, case.path)
    worker_setup.records.sandbox.prepare_answer(path, merge=merge, times=None)
    worker_setup.harness.pass_time()
    row.refresh_from_db()
    assert (row.state, row.confirmed_by, row.attempts) == (State.DONE, "look-up", 1), (
        attempt_history(row)
    )


def test_visit_booked_before_is_not_taken_for_ours(worker_setup: WorkerSetup) -> None:
    """The service still shows a canceled visit at the time that is booked again."""
    case = CASE_BY_KIND["appointment.book"]
    command = case.create_command(worker_setup.records)
    first = worker_setup.enqueue(command)
    worker_setup.harness.deliver()
    first.refresh_from_db()
    assert first.state == State.DONE, first.refusal
    appointments = service().appointments
    reason = appointments.phlebotomy_cancellation_reasons().records[0].data.id
    canceled = appointments.cancel_phlebotomy(command.order_id, reason)
    VISIT_LOOKUPS["appointment-phlebotomy"].store({str(command.order_id): canceled})
    store_orders([service().orders.get(command.order_id)])
    row = send_without_arrival(worker_setup, command, case.path)
    worker_setup.records.sandbox.prepare_answer(
        f"{command.order_id}/phlebotomy/appointment$", body=canceled.raw.decode(), times=None
    )
    worker_setup.harness.pass_time()
    row.refresh_from_db()
    assert row.state == State.UNDECIDED and row.found, attempt_history(row)
    worker_setup.resolve(row, happened=True)


def test_late_success_of_given_up_command_is_done(worker_setup: WorkerSetup) -> None:
    case = CASE_BY_KIND["order.create"]
    command = case.create_command(worker_setup.records)
    row = send_with_lost_answer(worker_setup, command, case.path)
    give_up(worker_setup, row)
    worker_setup.harness.pass_time()
    CommandRecord.objects.filter(pk=row.pk).update(due_at=timezone.now())
    worker_setup.harness.deliver()
    row.refresh_from_db()
    assert (row.state, row.late_after) == (State.DONE, State.GIVEN_UP), attempt_history(row)
    assert row.remote_id and row.finished_at
    notify_request_outcomes()
    notify_request_outcomes()
    notifications = Notification.objects.filter(kind="happened-late", subject_id=str(row.pk))
    assert [one.user_id for one in notifications] == [row.requested_by_id]


def test_late_success_is_looked_up_when_the_mirror_changes(worker_setup: WorkerSetup) -> None:
    """A webhook or a sync stores the order. The lookup runs then and not at its next turn."""
    case = CASE_BY_KIND["order.create"]
    command = case.create_command(worker_setup.records)
    row = send_with_lost_answer(worker_setup, command, case.path)
    give_up(worker_setup, row)
    worker_setup.records.sandbox.prepare_answer(
        "/v3/orders$", body={"orders": [], "total": 0}, times=None
    )
    CommandRecord.objects.filter(pk=row.pk).update(due_at=timezone.now())
    worker_setup.harness.deliver()
    worker_setup.records.sandbox.control("answers", method="DELETE")
    row.refresh_from_db()
    assert row.state == State.GIVEN_UP and row.due_at > timezone.now()
    worker_setup.harness.deliver()
    row.refresh_from_db()
    assert row.state == State.GIVEN_UP, "nothing changed, and the next lookup is not due"
    orders = service().orders.list(user_id=command.body.user_id, page=1, size=10).records
    store_orders(orders)
    worker_setup.harness.deliver()
    row.refresh_from_db()
    assert (row.state, row.late_after) == (State.DONE, State.GIVEN_UP)


def test_late_success_warns_the_user_who_repeated_it(worker_setup: WorkerSetup) -> None:
    case = CASE_BY_KIND["order.create"]
    command = case.create_command(worker_setup.records)
    row = send_with_lost_answer(worker_setup, command, case.path)
    give_up(worker_setup, row)
    repeat = worker_setup.enqueue(type(command)(words=command.words, body=command.body))
    worker_setup.harness.deliver()
    repeat.refresh_from_db()
    assert repeat.state == State.DONE, repeat.refusal
    CommandRecord.objects.filter(pk=row.pk).update(due_at=timezone.now())
    worker_setup.harness.deliver()
    row.refresh_from_db()
    assert row.state == State.DONE and row.remote_id != repeat.remote_id
    notify_request_outcomes()
    notifications = Notification.objects.get(kind="repeats", subject_id=str(repeat.pk))
    assert notifications.user_id == repeat.requested_by_id
    page = worker_setup.harness.client("clinician").get(f"/commands/{repeat.pk}/").content.decode()
    assert "An earlier request for the same was carried out" in page


def test_late_success_holds_a_repeat_that_was_not_sent(worker_setup: WorkerSetup) -> None:
    case = CASE_BY_KIND["order.create"]
    command = case.create_command(worker_setup.records)
    row = send_with_lost_answer(worker_setup, command, case.path)
    give_up(worker_setup, row)
    repeat = worker_setup.enqueue(type(command)(words=command.words, body=command.body))
    later = timezone.now() + timedelta(hours=1)
    CommandRecord.objects.filter(pk=repeat.pk).update(due_at=later)
    CommandRecord.objects.filter(pk=row.pk).update(due_at=timezone.now())
    worker_setup.harness.deliver()
    row.refresh_from_db()
    repeat.refresh_from_db()
    assert row.state == State.DONE
    assert (repeat.state, repeat.attempts) == (State.UNDECIDED, 0)
    assert [one["id"] for one in repeat.found] == [row.remote_id]
    page = worker_setup.harness.client("lab admin").get(f"/commands/{repeat.pk}/").content.decode()
    assert "It was not sent." in page
    worker_setup.resolve(repeat, happened=True)


def test_effect_of_a_second_request_is_no_late_success(worker_setup: WorkerSetup) -> None:
    case = CASE_BY_KIND["order.cancel"]
    command = case.create_command(worker_setup.records)
    row = send_without_arrival(worker_setup, command, case.path)
    give_up(worker_setup, row)
    repeat = worker_setup.enqueue(CancelOrder(order_id=command.order_id, user_id=command.user_id))
    worker_setup.harness.deliver()
    repeat.refresh_from_db()
    assert repeat.state == State.DONE, repeat.refusal
    CommandRecord.objects.filter(pk=row.pk).update(due_at=timezone.now())
    worker_setup.harness.deliver()
    row.refresh_from_db()
    assert (row.state, row.late_after) == (State.GIVEN_UP, "")


def test_worker_with_other_field_keys_postpones_command(
    worker_setup: WorkerSetup, settings: Any
) -> None:
    case = CASE_BY_KIND["order.cancel"]
    command = case.create_command(worker_setup.records)
    row = worker_setup.enqueue(command)
    keys = dict(settings.FIELD_KEYS)
    settings.FIELD_KEYS = {9: b"k" * 32}
    for _ in range(7):
        CommandRecord.objects.filter(pk=row.pk).update(due_at=timezone.now())
        worker_setup.harness.deliver()
    row.refresh_from_db()
    assert (row.state, row.attempts) == (State.WAITING, 0) and "FIELD_KEYS" in row.hindrance
    assert row.due_at > timezone.now() and not row.history.exists()
    settings.FIELD_KEYS = keys
    CommandRecord.objects.filter(pk=row.pk).update(due_at=timezone.now())
    worker_setup.harness.deliver()
    row.refresh_from_db()
    assert (row.state, row.hindrance) == (State.DONE, "")
    assert case.count_effects(worker_setup.records, command, row.pk) == 1


def test_undecryptable_command_is_reported_in_status(
    worker_setup: WorkerSetup, settings: Any
) -> None:
    row = worker_setup.enqueue(CASE_BY_KIND["order.cancel"].create_command(worker_setup.records))
    keys = dict(settings.FIELD_KEYS)
    settings.FIELD_KEYS = {9: b"k" * 32}
    worker_setup.harness.deliver()
    reasons = [reason.words for reason in status.read().reasons]
    assert "1 request cannot be decrypted with FIELD_KEYS." in reasons
    settings.FIELD_KEYS = keys
    CommandRecord.objects.filter(pk=row.pk).update(due_at=timezone.now())
    worker_setup.harness.deliver()
    reasons = [reason.words for reason in status.read().reasons]
    assert not any("FIELD_KEYS" in words for words in reasons)
