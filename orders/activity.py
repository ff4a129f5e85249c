"""What happened around a patient, or to one order, in one stream: the service, its sources, and
people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from itertools import groupby
from typing import Final

from django.db.models import Q
from django.urls import reverse
from django.utils import timezone

from backoffice.core import vocabulary
from backoffice.team.changes import Change, changes_of
from backoffice.team.queries import said_about
from backoffice.team.subjects import Subject
from orders.models import AppointmentEvent, Order, OrderEvent, OrderMove
from patients.models import Connection, Insurance, Patient

MOST: Final = 300
"""Of each kind; so many are shown altogether."""
MILESTONES: Final = "milestones"
EVERYTHING: Final = "everything"
PEOPLE: Final = "people"
TABS: Final = {MILESTONES: "Milestones", EVERYTHING: "Everything", PEOPLE: "People"}
SCANS: Final = frozenset({"transit_customer", "out_for_delivery", "transit_lab"})


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
    event_id: int | None = None
    folded: list[Happening] = field(default_factory=list)
    """Steps between milestones, of which this is the newest and counts them."""

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
            found += _moves(patient)
            found += _visits(patient)
    return _in_order(found, show)


def happened_to(
    order: Order,
    events: Sequence[OrderEvent],
    show: str,
    *,
    notes: bool,
    by_people: bool,
    results: bool,
) -> list[Happening]:
    """The same of one order, whose events are given, oldest first. Among milestones people have
    notes and calls; everything they did is asked for. `notes`, `by_people` and `results` say
    whether the reader may see those."""
    about = Subject("order", str(order.pk), order.user_id)
    found: list[Happening] = []
    if notes and show == MILESTONES:
        for one in said_about(about, sees_results=results):
            change = Change(one.at, one.by, one.outcome or "Note", text=one.text)
            found.append(Happening(one.at, change=change))
    elif by_people:
        changes = changes_of(about, MOST, sees_results=results)
        found += [Happening(one.at, change=one) for one in changes]
    if show != PEOPLE:
        found += _newest_shown(_steps(order, events))
        if order.moved_at is not None:
            found.append(Happening(order.moved_at, words="Moved from another patient"))
    return _in_order(found, show)


def _in_order(found: list[Happening], show: str) -> list[Happening]:
    newest_first = sorted(found, key=lambda one: one.at, reverse=True)
    return (_folded(newest_first) if show == MILESTONES else newest_first)[:MOST]


def _folded(happenings: Iterable[Happening]) -> list[Happening]:
    """Steps of a day between milestones as one entry that counts them; one alone stays itself."""
    found: list[Happening] = []
    for _, group in groupby(happenings, key=lambda one: (one.milestone, one.day, one.on, one.url)):
        some = list(group)
        if some[0].milestone or len(some) == 1:
            found += some
            continue
        scans = all(one.term and one.term.value in SCANS for one in some)
        words = f"{len(some)} {'delivery scans' if scans else 'steps between'}"
        first = some[0]
        found.append(Happening(first.at, words=words, on=first.on, url=first.url, folded=some))
    return found


def _steps(order: Order, events: Iterable[OrderEvent]) -> list[Happening]:
    """Events of one order, given oldest first, each with its words as of then; newest first, as
    those of one moment stay."""
    found: list[Happening] = []
    history: list[str] = []
    family = ""
    for event in events:
        history.append(event.low_level_status)
        term = vocabulary.order_term(event.low_level_status, order.method, history)
        urgent = term.family in (vocabulary.NEEDS_ACTION, vocabulary.UNKNOWN)
        found.append(
            Happening(
                event.created_at,
                term=term,
                raw=event.status,
                detail=event.status_detail or "",
                milestone=urgent or term.family != family,
                event_id=event.event_id,
            )
        )
        family = term.family
    return found[::-1]


def _newest_shown(steps: list[Happening]) -> list[Happening]:
    """The newest step is how the order stands: it is not folded away, whatever came before it."""
    return [replace(step, milestone=True) for step in steps[:1]] + steps[1:]


def _orders(patient: Patient) -> Iterable[Happening]:
    rows = OrderEvent.objects.filter(order__user=patient.pk).select_related("order")
    rows = rows.only(
        "event_id", "created_at", "status", "low_level_status", "status_detail",
        "order__method", "order__lab_test_name",
    )  # fmt: skip
    events: dict[Order, list[OrderEvent]] = {}
    newest = rows.order_by("-created_at", "-event_id")[:MOST]
    for event in sorted(newest, key=lambda event: (event.created_at, event.event_id)):
        events.setdefault(event.order, []).append(event)
    for order, some in events.items():
        url = reverse("orders:detail", args=[order.pk])
        for step in _steps(order, some):
            # Its page is where the step can be found.
            yield replace(step, url=url, on=order.lab_test_name or "Order", event_id=None)


def _moves(patient: Patient) -> Iterable[Happening]:
    about = Q(before=patient.pk) | Q(after=patient.pk)
    for move in OrderMove.objects.filter(about).order_by("-at")[:MOST]:
        words = "Order moved to another patient"
        if move.after == patient.pk:
            words = "Order moved here from another patient"
        yield Happening(move.at, words=words, url=reverse("orders:detail", args=[move.order_id]))


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
