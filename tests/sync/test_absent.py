"""What the service no longer has, and what it has again (in this process, by look-ups)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from backoffice import sync
from backoffice.models import Drift, Lookup
from backoffice.service import Record
from backoffice.service.events import Heard
from backoffice.service.insurance import Insurance as InsuranceRecord
from backoffice.service.payload import Reader
from orders.handlers import handle_appointments
from orders.models import Appointment, AppointmentEvent, Result
from orders.sync import LOOKUP_TYPES as OF_ORDERS
from patients.models import Insurance
from patients.sync import LOOKUP_TYPES as OF_PATIENTS
from patients.sync import store_insurance
from tests.api.rows import order, uid
from tests.sync.conftest import Point
from tests.sync.standin import Asked, Reply

pytestmark = pytest.mark.django_db(transaction=True)

BY_KIND = {lookup_type.kind: lookup_type for lookup_type in (*OF_ORDERS, *OF_PATIENTS)}
KEY = UUID(int=5)
KINDS = (
    ("appointment-psc", "patient_service_center", "phlebotomy"),
    ("appointment-phlebotomy", "phlebotomy", "patient_service_center"),
)
GONE = Reply({"detail": "Not found"}, 404)


class Answers:
    """Answers every call with what was said last."""

    def __init__(self, point: Point, kind: str) -> None:
        self.kind, self.reply = kind, GONE
        point(self)

    def __call__(self, asked: Asked) -> Reply:
        return self.reply

    def look(self, reply: Reply) -> datetime:
        """Looks once more; the moment before."""
        self.reply, before = reply, datetime.now(UTC)
        sync.schedule_lookups(self.kind, [KEY])
        assert sync.run_due_lookups([BY_KIND[self.kind]]) == 1
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


def active() -> list[int]:
    rows = Appointment.objects.filter(superseded_at=None, missing_since=None)
    return [key.int for key in rows.values_list("pk", flat=True)]


@pytest.mark.parametrize(("kind", "own", "other"), KINDS)
def test_appointment_gone_and_back(point: Point, kind: str, own: str, other: str) -> None:
    """404: the order has no active one; the same bytes again: that one is active."""
    service = Answers(point, kind)
    service.look(appointment(1, type=own))
    assert active() == [1]
    before = service.look(GONE)
    gone_at = Appointment.objects.get().superseded_at
    assert active() == [] and gone_at is not None and before <= gone_at <= datetime.now(UTC)
    service.look(GONE)
    assert Appointment.objects.get().superseded_at == gone_at  # when it was first found
    service.look(appointment(1, type=own))
    assert active() == [1] and AppointmentEvent.objects.count() == 1
    assert not Drift.objects.exists()


def test_appointment_replaced_and_reinstated(point: Point) -> None:
    """A, then B, then A as it was before: one is active, the other kept."""
    service = Answers(point, "appointment-psc")
    service.look(appointment(1))
    service.look(appointment(2, status="pending"))
    assert active() == [2]
    service.look(appointment(1))
    assert active() == [1]
    service.look(appointment(2, status="confirmed"))
    assert active() == [2] and Appointment.objects.count() == 2
    service.look(GONE)
    assert active() == []
    service.look(appointment(1))
    assert active() == [1]


def test_appointment_of_another_order_is_left_alone(point: Point) -> None:
    service = Answers(point, "appointment-psc")
    service.look(appointment(8, order_id=str(UUID(int=6))))
    service.look(appointment(1))
    service.look(GONE)
    assert active() == [8]


def insurance(member: str) -> Reply:
    company = {"name": "Sample Cover"}
    return Reply({"payor_code": "P1", "member_id": member, "relationship": "Self",
                  "company": company})  # fmt: skip


def valid() -> list[tuple[str, bool]]:
    return sorted((row.member_id, row.is_primary) for row in _cards() if not row.superseded_at)


def _cards() -> list[Insurance]:
    return list(Insurance.objects.all())


def test_insurance_absent_and_back(point: Point) -> None:
    primary = Answers(point, "insurance-primary")
    primary.look(insurance("A"))
    secondary = Answers(point, "insurance-secondary")
    secondary.look(insurance("S"))
    assert valid() == [("A", True), ("S", False)]
    primary = Answers(point, "insurance-primary")
    primary.look(insurance("B"))
    assert valid() == [("B", True), ("S", False)]
    primary.look(insurance("A"))
    assert valid() == [("A", True), ("S", False)] and Insurance.objects.count() == 3
    before = primary.look(GONE)
    assert valid() == [("S", False)]
    (ended,) = (row.superseded_at for row in _cards() if row.member_id == "A")
    assert ended is not None and ended >= before
    primary.look(insurance("A"))
    assert valid() == [("A", True), ("S", False)] and Insurance.objects.count() == 3


def test_result_absent_and_back(point: Point) -> None:
    service = Answers(point, "results")
    result = Reply({"metadata": {"patient": "Testperson", "status": "final"}, "results": []})
    service.look(result)
    assert Result.objects.get().missing_since is None
    before = service.look(GONE)
    since = Result.objects.get().missing_since
    assert since is not None and since >= before
    found = Drift.objects.get()
    assert (found.resource, found.key, found.kind) == ("orders_result", str(KEY), "missing_remote")
    again = Lookup.objects.get(kind="results").due_at
    assert again is not None and again > datetime.now(UTC)  # asked for again by itself
    service.look(result)
    assert Result.objects.get().missing_since is None


def test_an_insurance_that_was_asked_for_earlier_takes_no_other_out_of_force() -> None:
    """A look-up on its way while somebody adds another: its answer is stored last."""
    user, now = str(UUID(int=1)), datetime.now(UTC)

    def answered(member: str, minutes: int) -> None:
        body = json.dumps(insurance(member).body).encode()
        record = Reader(InsuranceRecord).read(body, now + timedelta(minutes=minutes))
        assert isinstance(record, Record)
        store_insurance({user: record}, True)

    answered("A", 0)
    answered("B", 2)
    answered("A", 1)
    assert valid() == [("B", True)]
    # One that is in force again is so from then on.
    answered("A", 4)
    answered("B", 3)
    assert valid() == [("A", True)]
    (ended,) = (row.superseded_at for row in _cards() if row.member_id == "B")
    assert ended == now + timedelta(minutes=4)


@pytest.mark.parametrize(("kind", "own", "other"), KINDS)
def test_no_visit_of_one_kind_says_nothing_of_the_other(
    point: Point, kind: str, own: str, other: str
) -> None:
    service = Answers(point, kind)
    service.look(appointment(1, type=other))
    service.look(GONE)
    assert active() == [1]
    service.look(appointment(2, type=own))
    service.look(GONE)
    assert active() == []


@pytest.mark.parametrize(
    ("method", "asked"),
    [
        ("at_home_phlebotomy", {"appointment-phlebotomy"}),
        ("walk_in_test", {"appointment-psc"}),
        ("testkit", {"appointment-psc", "appointment-phlebotomy"}),
    ],
)
def test_a_visit_of_a_type_of_tomorrow_is_asked_for_by_its_order(
    method: str, asked: set[str]
) -> None:
    order(1, method=method).save()
    body = {"order_id": str(uid("order", 1)), "type": "home_visit_plus"}
    heard = Heard(
        number=1,
        message_id="msg_1",
        received_at=datetime.now(UTC),
        event_type="labtest.appointment.updated",
        data=json.dumps({"id": str(KEY), "user_id": str(KEY), **body}).encode(),
        user_id=None,
        team_id=None,
        client_user_id=None,
    )
    handle_appointments([heard])
    marked = Lookup.objects.filter(kind__startswith="appointment").values_list("kind", flat=True)
    assert set(marked) == asked
