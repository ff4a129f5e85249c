"""After a lost answer: what happened is found however the service writes it, and a refused second
sending is never shown as "refused". A case of each command, over one sandbox and one mirror."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from backoffice.core.service_client import service
from backoffice.models import CommandRecord
from backoffice.operations import status
from backoffice.outbox import resolve
from backoffice.team.models import Notification
from backoffice.team.notifications import notify_request_outcomes
from orders.commands import BookCenter, CancelOrder, MoveVisit
from orders.scheduling.rules import CENTER
from orders.scheduling.slots import OfferedTime, VisitPlace, fetch_times
from orders.sync.orders import store_orders
from tests.outbox.cases import CASES
from tests.outbox.cases_visits import LAB, READ, _order, _time
from tests.outbox.proving import Proof, history
from tests.outbox.scene import Case

State = CommandRecord.State
CASE = {case.kind.kind: case for case in CASES}
WRITES = ["POST", "PATCH", "PUT", "DELETE"]


@pytest.fixture(scope="module")
def transactional_db(kept_db: None) -> None:
    """In the place of pytest-django's, which empties all tables after each test."""


@pytest.fixture(autouse=True)
def no_faults_left(proof: Proof) -> Iterator[None]:
    yield
    proof.scene.sandbox.control("faults", method="DELETE")
    proof.scene.sandbox.control("answers", method="DELETE")


def lost(proof: Proof, command: Any, path: str) -> CommandRecord:
    """The command was carried out and its answer was lost."""
    row = proof.asked(command)
    proof.desk.fault("drop_after", path, methods=WRITES)
    proof.desk.deliver()
    row.refresh_from_db()
    assert row.state == State.UNCERTAIN, (row.state, row.refusal, row.hindrance)
    return row


def never_arrived(proof: Proof, command: Any, path: str) -> CommandRecord:
    """The command was not carried out, and nobody here knows."""
    row = proof.asked(command)
    proof.desk.fault("drop_before", path, methods=WRITES)
    proof.desk.deliver()
    row.refresh_from_db()
    assert row.state == State.UNCERTAIN, (row.state, row.refusal, row.hindrance)
    return row


def given_up(proof: Proof, row: CommandRecord) -> None:
    CommandRecord.objects.filter(pk=row.pk).update(state=State.UNDECIDED)
    row.refresh_from_db()
    assert resolve(proof.request(), row.pk, row.attempts, "give-up", "", "nobody knows")


@pytest.mark.parametrize("case", CASES, ids=[case.kind.kind for case in CASES])
def test_refused_second_sending_is_never_shown_as_refused(proof: Proof, case: Case) -> None:
    command = case.make(proof.scene)
    row = never_arrived(proof, command, case.path)
    before = case.effects(proof.scene, command, row.pk)
    proof.desk.fault("status", case.path, methods=WRITES, statuses=[400], times=9)
    # A person, or a machine where it may, sends it once more.
    CommandRecord.objects.filter(pk=row.pk).update(state=State.WAITING, due_at=timezone.now())
    proof.desk.deliver()
    row.refresh_from_db()
    assert row.attempts == 2 and row.state != State.REFUSED, history(row)
    proof.desk.later()
    proof.desk.later()
    row.refresh_from_db()
    assert row.state == State.UNDECIDED and row.refusal, (row.state, history(row))
    assert case.effects(proof.scene, command, row.pk) == before
    proof.resolve(row, happened=True)


def center_visit(proof: Proof) -> tuple[BookCenter, VisitPlace]:
    order = _order(proof.scene, "walk_in_test", "85004")
    near = service().appointments.order_psc_info(order.pk, "50").data.patient_service_centers
    sites = [site.site_code for site in near if site.bookable][:3]
    where = VisitPlace(lab=LAB, sites=tuple(sites))
    return (
        BookCenter(
            order_id=order.pk, user_id=order.user_id, lab=LAB, site="Made up", time=_time(where)
        ),
        where,
    )


def moving(proof: Proof, *, same_time: bool) -> MoveVisit:
    """A move of a booked visit at a center, to another center at the same time or to another
    time."""
    booking, where = center_visit(proof)
    offered = fetch_times(service(), where, None)
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
    row = proof.asked(booking)
    proof.desk.deliver()
    row.refresh_from_db()
    assert row.state == State.DONE, row.refusal
    return MoveVisit(
        order_id=booking.order_id,
        user_id=booking.user_id,
        visit_type=CENTER,
        appointment_id=UUID(row.remote_id),
        seen=first.start,
        time=second,
        where=where,
    )


@pytest.mark.parametrize("same_time", [False, True])
def test_move_at_center_with_lost_answer_is_done(proof: Proof, same_time: bool) -> None:
    command = moving(proof, same_time=same_time)
    row = lost(proof, command, "/psc/appointment/reschedule$")
    proof.desk.later()
    row.refresh_from_db()
    assert (row.state, row.confirmed_by, row.attempts) == (State.DONE, "look-up", 1), history(row)


@pytest.mark.parametrize("same_time", [False, True])
def test_move_at_center_that_never_arrived_is_sent_again(proof: Proof, same_time: bool) -> None:
    command = moving(proof, same_time=same_time)
    row = never_arrived(proof, command, "/psc/appointment/reschedule$")
    proof.desk.later()
    row.refresh_from_db()
    assert (row.state, row.attempts) == (State.DONE, 2), history(row)


def test_booking_at_center_with_lost_answer_is_done(proof: Proof) -> None:
    command, _ = center_visit(proof)
    row = lost(proof, command, "/psc/appointment/book$")
    visit = READ["appointment-psc"].fetch(service(), str(command.order_id)).data
    assert visit.provider_id != command.time.site, "the sandbox gives the provider's own string"
    proof.desk.later()
    row.refresh_from_db()
    assert (row.state, row.confirmed_by, row.attempts) == (State.DONE, "look-up", 1), history(row)


OTHERWISE: dict[str, tuple[str, dict[str, Any]]] = {
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


@pytest.mark.parametrize("kind", OTHERWISE)
def test_lost_answer_is_found_however_it_is_written(proof: Proof, kind: str) -> None:
    case = CASE[kind]
    path, merge = OTHERWISE[kind]
    command = case.make(proof.scene)
    row = lost(proof, command, case.path)
    proof.scene.sandbox.prepare_answer(path, merge=merge, times=None)
    proof.desk.later()
    row.refresh_from_db()
    assert (row.state, row.confirmed_by, row.attempts) == (State.DONE, "look-up", 1), history(row)


def test_visit_that_was_there_before_is_not_taken_for_ours(proof: Proof) -> None:
    """A cancelled visit at the very time that is booked anew is shown by the service still."""
    case = CASE["appointment.book"]
    command = case.make(proof.scene)
    first = proof.asked(command)
    proof.desk.deliver()
    first.refresh_from_db()
    assert first.state == State.DONE, first.refusal
    calls = service().appointments
    reason = calls.phlebotomy_cancellation_reasons().records[0].data.id
    gone = calls.cancel_phlebotomy(command.order_id, reason)
    READ["appointment-phlebotomy"].store({str(command.order_id): gone})
    store_orders([service().orders.get(command.order_id)])
    row = never_arrived(proof, command, case.path)
    proof.scene.sandbox.prepare_answer(
        f"{command.order_id}/phlebotomy/appointment$", body=gone.raw.decode(), times=None
    )
    proof.desk.later()
    row.refresh_from_db()
    assert row.state == State.UNDECIDED and row.found, history(row)
    proof.resolve(row, happened=True)


def test_late_success_of_given_up_command_is_done(proof: Proof) -> None:
    case = CASE["order.create"]
    command = case.make(proof.scene)
    row = lost(proof, command, case.path)
    given_up(proof, row)
    proof.desk.later()
    CommandRecord.objects.filter(pk=row.pk).update(due_at=timezone.now())
    proof.desk.deliver()
    row.refresh_from_db()
    assert (row.state, row.late_after) == (State.DONE, State.GIVEN_UP), history(row)
    assert row.remote_id and row.finished_at
    notify_request_outcomes()
    notify_request_outcomes()
    told = Notification.objects.filter(kind="happened-late", subject_id=str(row.pk))
    assert [one.user_id for one in told] == [row.requested_by_id]


def test_late_success_is_looked_up_when_the_mirror_changes(proof: Proof) -> None:
    """A webhook or a sync brings the order: nobody waits for the next look-up."""
    case = CASE["order.create"]
    command = case.make(proof.scene)
    row = lost(proof, command, case.path)
    given_up(proof, row)
    proof.scene.sandbox.prepare_answer("/v3/orders$", body={"orders": [], "total": 0}, times=None)
    CommandRecord.objects.filter(pk=row.pk).update(due_at=timezone.now())
    proof.desk.deliver()
    proof.scene.sandbox.control("answers", method="DELETE")
    row.refresh_from_db()
    assert row.state == State.GIVEN_UP and row.due_at > timezone.now()
    proof.desk.deliver()
    row.refresh_from_db()
    assert row.state == State.GIVEN_UP, "nothing changed, and its next look-up is not due"
    made = service().orders.list(user_id=command.body.user_id, page=1, size=10).records
    store_orders(made)
    proof.desk.deliver()
    row.refresh_from_db()
    assert (row.state, row.late_after) == (State.DONE, State.GIVEN_UP)


def test_late_success_warns_whoever_asked_again(proof: Proof) -> None:
    case = CASE["order.create"]
    command = case.make(proof.scene)
    row = lost(proof, command, case.path)
    given_up(proof, row)
    again = proof.asked(type(command)(words=command.words, body=command.body))
    proof.desk.deliver()
    again.refresh_from_db()
    assert again.state == State.DONE, again.refusal
    CommandRecord.objects.filter(pk=row.pk).update(due_at=timezone.now())
    proof.desk.deliver()
    row.refresh_from_db()
    assert row.state == State.DONE and row.remote_id != again.remote_id
    notify_request_outcomes()
    told = Notification.objects.get(kind="repeats", subject_id=str(again.pk))
    assert told.user_id == again.requested_by_id
    page = proof.desk.client("clinician").get(f"/commands/{again.pk}/").content.decode()
    assert "An earlier request for the same was carried out" in page


def test_late_success_holds_a_repeat_that_was_not_sent(proof: Proof) -> None:
    case = CASE["order.create"]
    command = case.make(proof.scene)
    row = lost(proof, command, case.path)
    given_up(proof, row)
    again = proof.asked(type(command)(words=command.words, body=command.body))
    later = timezone.now() + timedelta(hours=1)
    CommandRecord.objects.filter(pk=again.pk).update(due_at=later)
    CommandRecord.objects.filter(pk=row.pk).update(due_at=timezone.now())
    proof.desk.deliver()
    row.refresh_from_db()
    again.refresh_from_db()
    assert row.state == State.DONE
    assert (again.state, again.attempts) == (State.UNDECIDED, 0)
    assert [one["id"] for one in again.found] == [row.remote_id]
    page = proof.desk.client("lab admin").get(f"/commands/{again.pk}/").content.decode()
    assert "It was not sent." in page
    proof.resolve(again, happened=True)


def test_late_success_is_not_what_a_second_request_did(proof: Proof) -> None:
    case = CASE["order.cancel"]
    command = case.make(proof.scene)
    row = never_arrived(proof, command, case.path)
    given_up(proof, row)
    again = proof.asked(CancelOrder(order_id=command.order_id, user_id=command.user_id))
    proof.desk.deliver()
    again.refresh_from_db()
    assert again.state == State.DONE, again.refusal
    CommandRecord.objects.filter(pk=row.pk).update(due_at=timezone.now())
    proof.desk.deliver()
    row.refresh_from_db()
    assert (row.state, row.late_after) == (State.GIVEN_UP, "")


def test_worker_with_other_keys_puts_a_command_back(proof: Proof, settings: Any) -> None:
    case = CASE["order.cancel"]
    command = case.make(proof.scene)
    row = proof.asked(command)
    keys = dict(settings.FIELD_KEYS)
    settings.FIELD_KEYS = {9: b"k" * 32}
    for _ in range(7):
        CommandRecord.objects.filter(pk=row.pk).update(due_at=timezone.now())
        proof.desk.deliver()
    row.refresh_from_db()
    assert (row.state, row.attempts) == (State.WAITING, 0) and "FIELD_KEYS" in row.hindrance
    assert row.due_at > timezone.now() and not row.history.exists()
    settings.FIELD_KEYS = keys
    CommandRecord.objects.filter(pk=row.pk).update(due_at=timezone.now())
    proof.desk.deliver()
    row.refresh_from_db()
    assert (row.state, row.hindrance) == (State.DONE, "")
    assert case.effects(proof.scene, command, row.pk) == 1


def test_sealed_command_is_a_reason_in_the_status(proof: Proof, settings: Any) -> None:
    row = proof.asked(CASE["order.cancel"].make(proof.scene))
    keys = dict(settings.FIELD_KEYS)
    settings.FIELD_KEYS = {9: b"k" * 32}
    proof.desk.deliver()
    reasons = [reason.words for reason in status.read().reasons]
    assert "Requests whose contents cannot be opened with FIELD_KEYS: 1." in reasons
    settings.FIELD_KEYS = keys
    CommandRecord.objects.filter(pk=row.pk).update(due_at=timezone.now())
    proof.desk.deliver()
    reasons = [reason.words for reason in status.read().reasons]
    assert not any("FIELD_KEYS" in words for words in reasons)
