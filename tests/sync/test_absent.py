"""What the service no longer has, and what it has again (in this process, by look-ups)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from backoffice import sync
from backoffice.models import Drift, Lookup
from orders.models import Appointment, AppointmentEvent, Result
from orders.sync import SUBJECTS as OF_ORDERS
from patients.models import Insurance
from patients.sync import SUBJECTS as OF_PATIENTS
from tests.sync.conftest import Point
from tests.sync.standin import Asked, Reply

pytestmark = pytest.mark.django_db(transaction=True)

BY_KIND = {subject.kind: subject for subject in (*OF_ORDERS, *OF_PATIENTS)}
KEY = UUID(int=5)
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
        sync.mark(self.kind, [KEY])
        assert sync.drain([BY_KIND[self.kind]]) == 1
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


@pytest.mark.parametrize("kind", ["appointment-psc", "appointment-phlebotomy"])
def test_appointment_gone_and_back(point: Point, kind: str) -> None:
    """404: the order has no active one; the same bytes again: that one is active."""
    service = Answers(point, kind)
    service.look(appointment(1))
    assert active() == [1]
    before = service.look(GONE)
    gone_at = Appointment.objects.get().superseded_at
    assert active() == [] and gone_at is not None and before <= gone_at <= datetime.now(UTC)
    service.look(GONE)
    assert Appointment.objects.get().superseded_at == gone_at  # when it was first found
    service.look(appointment(1))
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
