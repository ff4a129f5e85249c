"""Everything that happened around a patient in one stream: the service, its sources, and people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final

from django.urls import reverse
from django.utils import timezone

from backoffice import vocabulary
from backoffice.team.changes import Change, changes_of
from backoffice.team.subjects import Subject
from orders.models import AppointmentEvent, OrderEvent
from patients.models import Connection, Insurance, Patient

MOST: Final = 300
"""Of each kind; so many are shown altogether."""
MILESTONES: Final = "milestones"
EVERYTHING: Final = "everything"
PEOPLE: Final = "people"


@dataclass(frozen=True, slots=True)
class Happening:
    """One entry. Of people it is a change; of the service a status, or words by themselves."""

    at: datetime
    term: vocabulary.Term | None = None
    words: str = ""
    raw: str = ""
    detail: str = ""
    """A `order.status_detail`."""
    url: str = ""
    on: str = ""
    milestone: bool = True
    change: Change | None = None

    @property
    def day(self) -> date:
        return timezone.localtime(self.at).date()


def happened(
    patient: Patient, show: str, *, by_people: bool, orders: bool, results: bool
) -> list[Happening]:
    """Newest first. `by_people`, `orders` and `results` say whether the reader may see those."""
    found: list[Happening] = []
    if by_people:
        about = Subject("patient", str(patient.pk), patient.pk)
        changes = changes_of(about, MOST, sees_results=results)
        found += [Happening(one.at, change=one) for one in changes]
    if show != PEOPLE:
        found += _record(patient)
        if orders:
            found += _orders(patient)
            found += _visits(patient)
    if show == MILESTONES:
        found = [one for one in found if one.milestone]
    return sorted(found, key=lambda one: one.at, reverse=True)[:MOST]


def _orders(patient: Patient) -> Iterable[Happening]:
    rows = OrderEvent.objects.filter(order__user=patient.pk).select_related("order")
    rows = rows.only(
        "event_id", "created_at", "status", "low_level_status", "status_detail",
        "order__method", "order__lab_test_name",
    )  # fmt: skip
    events = sorted(
        rows.order_by("-created_at", "-event_id")[:MOST],
        key=lambda event: (event.created_at, event.event_id),
    )
    history: dict[object, list[str]] = {}
    family: dict[object, str] = {}
    for event in events:
        order = event.order
        been = history.setdefault(order.pk, [])
        been.append(event.low_level_status)
        term = vocabulary.order_term(event.low_level_status, order.method, been)
        urgent = term.family == vocabulary.NEEDS_ACTION
        yield Happening(
            event.created_at,
            term=term,
            raw=event.status,
            detail=event.status_detail or "",
            url=reverse("orders:detail", args=[order.pk]),
            on=order.lab_test_name or "Order",
            milestone=urgent or family.get(order.pk) != term.family,
        )
        family[order.pk] = term.family


def _visits(patient: Patient) -> Iterable[Happening]:
    rows = AppointmentEvent.objects.filter(appointment__user=patient.pk)
    for event in rows.select_related("appointment").order_by("-created_at")[:MOST]:
        order_id = event.appointment.order_id
        yield Happening(
            event.created_at,
            term=vocabulary.term("appointment.event_status", event.status),
            raw=event.status,
            url=reverse("orders:detail", args=[order_id]) if order_id else "",
            on="Visit",
        )


def _record(patient: Patient) -> Iterable[Happening]:
    yield Happening(patient.created_on, words="Registered at the service")
    for one in Connection.objects.filter(user=patient.pk).defer("record", "content_hash"):
        url = reverse("patients:devices", args=[patient.pk])
        yield Happening(one.created_on, words=f"{one.name} connected", url=url)
        if one.errored_at:
            yield Happening(one.errored_at, words=f"{one.name} stopped working", url=url)
        if one.missing_since:
            yield Happening(one.missing_since, words=f"{one.name} no longer connected", url=url)
    for card in Insurance.objects.filter(user=patient.pk).defer("record", "content_hash"):
        url = reverse("patients:insurance", args=[patient.pk])
        name = card.company_name or card.payor_code
        words = f"{'Primary' if card.is_primary else 'Secondary'} insurance: {name}"
        yield Happening(card.as_of, words=words, url=url)
