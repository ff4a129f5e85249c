"""Lookups of records that the service no longer has, and of records that return."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from backoffice.mirror.models import Drift
from backoffice.service import Record
from backoffice.service.events import ReceivedEvent
from backoffice.service.insurance import InsurancePayload as InsuranceRecord
from backoffice.service.payload import Reader
from backoffice.sync.lookups import run_due_lookups, schedule_lookups
from backoffice.sync.models import Lookup
from orders.handlers import handle_appointments
from orders.models import Appointment, AppointmentEvent, Result
from orders.sync import LOOKUP_TYPES as ORDER_LOOKUP_TYPES
from patients.models import Insurance
from patients.sync import LOOKUP_TYPES as PATIENT_LOOKUP_TYPES
from patients.sync import store_insurance
from tests.api.rows import order, uid
from tests.sync.conftest import StubService
from tests.sync.stub_server import IncomingRequest, Reply

pytestmark = pytest.mark.django_db(transaction=True)

BY_KIND = {
    lookup_type.kind: lookup_type for lookup_type in (*ORDER_LOOKUP_TYPES, *PATIENT_LOOKUP_TYPES)
}
KEY = UUID(int=5)
APPOINTMENT_TYPES = (
    ("appointment-psc", "patient_service_center", "phlebotomy"),
    ("appointment-phlebotomy", "phlebotomy", "patient_service_center"),
)
NOT_FOUND = Reply({"detail": "Not found"}, 404)


class StubAnswers:
    """A service that answers every call with the latest reply."""

    def __init__(self, stub_service: StubService, kind: str) -> None:
        self.kind, self.reply = kind, NOT_FOUND
        stub_service(self)

    def __call__(self, request: IncomingRequest) -> Reply:
        return self.reply

    def look_up(self, reply: Reply) -> datetime:
        """Look up the record once, answered by `reply`. Return the time before the call."""
        self.reply, before = reply, datetime.now(UTC)
        schedule_lookups(self.kind, [KEY])
        assert run_due_lookups([BY_KIND[self.kind]]) == 1
        assert Lookup.objects.get(kind=self.kind).error == ""
        return before


def appointment(number: int, **changes: Any) -> Reply:
    event = {"created_at": "2026-03-01T08:00:00+00:00", "status": "scheduled"}
    return Reply({
        "id": str(UUID(int=number)),
        "user_id": str(UUID(int=1)),
        "order_id": str(KEY),
        "type": "patient_service_center",
        "provider": "lab-north",
        "status": "confirmed",
        "event_status": "scheduled",
        "events": [event],
        **changes,
    })  # fmt: skip


def active_appointments() -> list[int]:
    rows = Appointment.objects.filter(superseded_at=None, missing_since=None)
    return [key.int for key in rows.values_list("pk", flat=True)]


@pytest.mark.parametrize(("kind", "own", "other"), APPOINTMENT_TYPES)
def test_appointment_is_inactive_while_service_answers_404(
    stub_service: StubService, kind: str, own: str, other: str
) -> None:
    """After a 404 the order has no active appointment. The same bytes make it active again."""
    service = StubAnswers(stub_service, kind)
    service.look_up(appointment(1, type=own))
    assert active_appointments() == [1]
    before = service.look_up(NOT_FOUND)
    ended_at = Appointment.objects.get().superseded_at
    assert active_appointments() == []
    assert ended_at is not None and before <= ended_at <= datetime.now(UTC)
    service.look_up(NOT_FOUND)
    assert Appointment.objects.get().superseded_at == ended_at  # unchanged since the first 404
    service.look_up(appointment(1, type=own))
    assert active_appointments() == [1] and AppointmentEvent.objects.count() == 1
    assert not Drift.objects.exists()


def test_only_latest_appointment_is_active_after_replacement(stub_service: StubService) -> None:
    """A, then B, then A unchanged: one is active, the other stays stored."""
    service = StubAnswers(stub_service, "appointment-psc")
    service.look_up(appointment(1))
    service.look_up(appointment(2, status="pending"))
    assert active_appointments() == [2]
    service.look_up(appointment(1))
    assert active_appointments() == [1]
    service.look_up(appointment(2, status="confirmed"))
    assert active_appointments() == [2] and Appointment.objects.count() == 2
    service.look_up(NOT_FOUND)
    assert active_appointments() == []
    service.look_up(appointment(1))
    assert active_appointments() == [1]


def test_appointment_of_another_order_stays_active(stub_service: StubService) -> None:
    service = StubAnswers(stub_service, "appointment-psc")
    service.look_up(appointment(8, order_id=str(UUID(int=6))))
    service.look_up(appointment(1))
    service.look_up(NOT_FOUND)
    assert active_appointments() == [8]


def insurance(member: str) -> Reply:
    company = {"name": "Sample Cover"}
    return Reply({"payor_code": "P1", "member_id": member, "relationship": "Self",
                  "company": company})  # fmt: skip


def current_insurance() -> list[tuple[str, bool]]:
    return sorted(
        (row.member_id, row.is_primary) for row in _all_insurance() if not row.superseded_at
    )


def _all_insurance() -> list[Insurance]:
    return list(Insurance.objects.all())


def test_insurance_ends_with_404_and_returns_when_read_again(stub_service: StubService) -> None:
    primary = StubAnswers(stub_service, "insurance-primary")
    primary.look_up(insurance("A"))
    secondary = StubAnswers(stub_service, "insurance-secondary")
    secondary.look_up(insurance("S"))
    assert current_insurance() == [("A", True), ("S", False)]
    primary = StubAnswers(stub_service, "insurance-primary")
    primary.look_up(insurance("B"))
    assert current_insurance() == [("B", True), ("S", False)]
    primary.look_up(insurance("A"))
    assert current_insurance() == [("A", True), ("S", False)] and Insurance.objects.count() == 3
    before = primary.look_up(NOT_FOUND)
    assert current_insurance() == [("S", False)]
    (ended,) = (row.superseded_at for row in _all_insurance() if row.member_id == "A")
    assert ended is not None and ended >= before
    primary.look_up(insurance("A"))
    assert current_insurance() == [("A", True), ("S", False)] and Insurance.objects.count() == 3


def test_result_is_missing_while_service_answers_404(stub_service: StubService) -> None:
    service = StubAnswers(stub_service, "results")
    result = Reply({"metadata": {"patient": "Testperson", "status": "final"}, "results": []})
    service.look_up(result)
    assert Result.objects.get().missing_since is None
    before = service.look_up(NOT_FOUND)
    since = Result.objects.get().missing_since
    assert since is not None and since >= before
    found = Drift.objects.get()
    assert (found.resource, found.key, found.kind) == ("orders_result", str(KEY), "missing_remote")
    due_at = Lookup.objects.get(kind="results").due_at
    assert due_at is not None and due_at > datetime.now(UTC)  # scheduled again automatically
    service.look_up(result)
    assert Result.objects.get().missing_since is None


def test_older_insurance_answer_does_not_end_newer_insurance() -> None:
    """A lookup is in flight while somebody adds another insurance. Its answer is stored last."""
    user, now = str(UUID(int=1)), datetime.now(UTC)

    def store(member: str, minutes: int) -> None:
        body = json.dumps(insurance(member).body).encode()
        record = Reader(InsuranceRecord).read(body, now + timedelta(minutes=minutes))
        assert isinstance(record, Record)
        store_insurance({user: record}, True)

    store("A", 0)
    store("B", 2)
    store("A", 1)
    assert current_insurance() == [("B", True)]
    # An insurance that returns is current from that moment on.
    store("A", 4)
    store("B", 3)
    assert current_insurance() == [("A", True)]
    (ended,) = (row.superseded_at for row in _all_insurance() if row.member_id == "B")
    assert ended == now + timedelta(minutes=4)


@pytest.mark.parametrize(("kind", "own", "other"), APPOINTMENT_TYPES)
def test_404_for_one_appointment_type_keeps_the_other_type(
    stub_service: StubService, kind: str, own: str, other: str
) -> None:
    service = StubAnswers(stub_service, kind)
    service.look_up(appointment(1, type=other))
    service.look_up(NOT_FOUND)
    assert active_appointments() == [1]
    service.look_up(appointment(2, type=own))
    service.look_up(NOT_FOUND)
    assert active_appointments() == []


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("at_home_phlebotomy", {"appointment-phlebotomy"}),
        ("walk_in_test", {"appointment-psc"}),
        ("testkit", {"appointment-psc", "appointment-phlebotomy"}),
    ],
)
def test_unknown_appointment_type_is_looked_up_by_order_method(
    method: str, expected: set[str]
) -> None:
    order(1, method=method).save()
    body = {"order_id": str(uid("order", 1)), "type": "home_visit_plus"}
    event = ReceivedEvent(
        number=1,
        message_id="msg_1",
        received_at=datetime.now(UTC),
        event_type="labtest.appointment.updated",
        data=json.dumps({"id": str(KEY), "user_id": str(KEY), **body}).encode(),
        user_id=None,
        team_id=None,
        client_user_id=None,
    )
    handle_appointments([event])
    scheduled = Lookup.objects.filter(kind__startswith="appointment").values_list("kind", flat=True)
    assert set(scheduled) == expected
