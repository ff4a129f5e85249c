"""The activity of a patient or of one order: entries of the service, its sources, and staff."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from itertools import groupby
from typing import Final

from django.db.models import Q
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop, ngettext

from backoffice.core import vocabulary
from backoffice.team.changes import ChangeLogEntry, change_log
from backoffice.team.queries import notes_and_calls
from backoffice.team.subjects import Subject
from orders.models import AppointmentEvent, Order, OrderEvent, OrderPatientChange
from patients.models import Connection, Insurance, Patient

MAX_ENTRIES: Final = 300
"""Most entries read of each kind, and most entries shown in all."""
MILESTONES: Final = "milestones"
EVERYTHING: Final = "everything"
PEOPLE: Final = "people"
TABS: Final = {
    MILESTONES: gettext_noop("Milestones"),
    EVERYTHING: gettext_noop("Everything"),
    PEOPLE: gettext_noop("Staff"),
}
DELIVERY_SCANS: Final = frozenset({"transit_customer", "out_for_delivery", "transit_lab"})


@dataclass(frozen=True, slots=True)
class ActivityEntry:
    """One entry: a change made by staff, a status sent by the service, or a plain text."""

    at: datetime
    term: vocabulary.Term | None = None
    text: str = ""
    raw: str = ""
    detail: str = ""
    """A value of the vocabulary `order.status_detail`."""
    url: str = ""
    subject_label: str = ""
    is_milestone: bool = True
    change: ChangeLogEntry | None = None
    event_id: int | None = None
    folded_entries: list[ActivityEntry] = field(default_factory=list)
    """The steps between milestones that this entry replaces. This entry is the newest of them."""

    @property
    def day(self) -> date:
        return timezone.localtime(self.at).date()


def patient_activity(
    patient: Patient, show: str, *, sees_changes: bool, orders: bool, results: bool
) -> list[ActivityEntry]:
    """Return the activity of a patient, newest first.

    `sees_changes`, `orders` and `results` say whether the reader may see those.
    """
    entries: list[ActivityEntry] = []
    if sees_changes:
        subject = Subject("patient", str(patient.pk), patient.pk)
        changes = change_log(subject, MAX_ENTRIES, sees_results=results)
        entries += [ActivityEntry(change.at, change=change) for change in changes]
    if show != PEOPLE:
        entries += _record_entries(patient)
        if orders:
            entries += _order_entries(patient)
            entries += _order_move_entries(patient)
            entries += _appointment_entries(patient)
    return _sort_and_fold(entries, show)


def order_activity(
    order: Order,
    events: Sequence[OrderEvent],
    show: str,
    *,
    notes: bool,
    sees_changes: bool,
    results: bool,
) -> list[ActivityEntry]:
    """Return the activity of one order, newest first. `events`: its events, oldest first.

    The milestones include notes and calls of staff; the other tabs include every change they made.
    `notes`, `sees_changes` and `results` say whether the reader may see those.
    """
    subject = Subject("order", str(order.pk), order.user_id)
    entries: list[ActivityEntry] = []
    if notes and show == MILESTONES:
        for activity in notes_and_calls(subject, sees_results=results):
            change = ChangeLogEntry(
                activity.at, activity.by, activity.outcome or gettext("Note"), text=activity.text
            )
            entries.append(ActivityEntry(activity.at, change=change))
    elif sees_changes:
        changes = change_log(subject, MAX_ENTRIES, sees_results=results)
        entries += [ActivityEntry(change.at, change=change) for change in changes]
    if show != PEOPLE:
        entries += _with_newest_shown(_order_steps(order, events))
        if order.moved_at is not None:
            entries.append(
                ActivityEntry(order.moved_at, text=gettext("Moved from another patient"))
            )
    return _sort_and_fold(entries, show)


def _sort_and_fold(entries: list[ActivityEntry], show: str) -> list[ActivityEntry]:
    newest_first = sorted(entries, key=lambda entry: entry.at, reverse=True)
    return (_fold_steps(newest_first) if show == MILESTONES else newest_first)[:MAX_ENTRIES]


def _fold_steps(entries: Iterable[ActivityEntry]) -> list[ActivityEntry]:
    """Replace the steps of one day between milestones by one entry that counts them.

    A single step stays as it is.
    """
    folded: list[ActivityEntry] = []
    for _, group in groupby(
        entries, key=lambda entry: (entry.is_milestone, entry.day, entry.subject_label, entry.url)
    ):
        steps = list(group)
        if steps[0].is_milestone or len(steps) == 1:
            folded += steps
            continue
        scans = all(step.term and step.term.value in DELIVERY_SCANS for step in steps)
        text = _scan_count(len(steps)) if scans else _step_count(len(steps))
        first = steps[0]
        folded.append(
            ActivityEntry(
                first.at,
                text=text,
                subject_label=first.subject_label,
                url=first.url,
                folded_entries=steps,
            )
        )
    return folded


def _scan_count(count: int) -> str:
    return ngettext("%(count)s delivery scan", "%(count)s delivery scans", count) % {"count": count}


def _step_count(count: int) -> str:
    return ngettext("%(count)s more step", "%(count)s more steps", count) % {"count": count}


def _order_steps(order: Order, events: Iterable[OrderEvent]) -> list[ActivityEntry]:
    """Return the events of one order as entries, newest first. `events`: oldest first.

    Each entry uses the status label as of its time. The reversal keeps the order of events that
    have the same time.
    """
    entries: list[ActivityEntry] = []
    history: list[str] = []
    family = ""
    for event in events:
        history.append(event.low_level_status)
        term = vocabulary.order_term(event.low_level_status, order.method, history)
        urgent = term.family in (vocabulary.NEEDS_ACTION, vocabulary.UNKNOWN)
        entries.append(
            ActivityEntry(
                event.created_at,
                term=term,
                raw=event.status,
                detail=event.status_detail or "",
                is_milestone=urgent or term.family != family,
                event_id=event.event_id,
            )
        )
        family = term.family
    return entries[::-1]


def _with_newest_shown(steps: list[ActivityEntry]) -> list[ActivityEntry]:
    """Mark the newest step as a milestone: it is the current status and is never folded."""
    return [replace(step, is_milestone=True) for step in steps[:1]] + steps[1:]


def _order_entries(patient: Patient) -> Iterable[ActivityEntry]:
    rows = OrderEvent.objects.filter(order__user=patient.pk).select_related("order")
    rows = rows.only(
        "event_id", "created_at", "status", "low_level_status", "status_detail",
        "order__method", "order__lab_test_name",
    )  # fmt: skip
    events: dict[Order, list[OrderEvent]] = {}
    newest = rows.order_by("-created_at", "-event_id")[:MAX_ENTRIES]
    for event in sorted(newest, key=lambda event: (event.created_at, event.event_id)):
        events.setdefault(event.order, []).append(event)
    for order, order_events in events.items():
        url = reverse("orders:detail", args=[order.pk])
        for step in _order_steps(order, order_events):
            # There is no event id: the order's page shows the step.
            yield replace(
                step, url=url, subject_label=order.lab_test_name or gettext("Order"), event_id=None
            )


def _order_move_entries(patient: Patient) -> Iterable[ActivityEntry]:
    condition = Q(before=patient.pk) | Q(after=patient.pk)
    for move in OrderPatientChange.objects.filter(condition).order_by("-at")[:MAX_ENTRIES]:
        text = gettext("Order moved to another patient")
        if move.after == patient.pk:
            text = gettext("Order moved here from another patient")
        yield ActivityEntry(move.at, text=text, url=reverse("orders:detail", args=[move.order_id]))


def _appointment_entries(patient: Patient) -> Iterable[ActivityEntry]:
    rows = AppointmentEvent.objects.filter(appointment__user=patient.pk)
    for event in rows.select_related("appointment").order_by("-created_at")[:MAX_ENTRIES]:
        order_id = event.appointment.order_id
        yield ActivityEntry(
            event.created_at,
            term=vocabulary.term("appointment.event_status", event.status),
            raw=event.status,
            url=reverse("orders:detail", args=[order_id]) if order_id else "",
            subject_label=gettext("Visit"),
        )


def _record_entries(patient: Patient) -> Iterable[ActivityEntry]:
    yield ActivityEntry(patient.created_on, text=gettext("Registered with the lab service"))
    for connection in Connection.objects.filter(user=patient.pk).defer("record", "content_hash"):
        url = reverse("wearables:devices", args=[patient.pk])
        names = {"device": connection.name}
        text = gettext("%(device)s connected") % names
        yield ActivityEntry(connection.created_on, text=text, url=url)
        if connection.errored_at:
            text = gettext("%(device)s stopped working") % names
            yield ActivityEntry(connection.errored_at, text=text, url=url)
        if connection.missing_since:
            text = gettext("%(device)s no longer connected") % names
            yield ActivityEntry(connection.missing_since, text=text, url=url)
    for card in Insurance.objects.filter(user=patient.pk).defer("record", "content_hash"):
        url = reverse("patients:insurance", args=[patient.pk])
        text = (
            gettext("Primary insurance: %(payer)s")
            if card.is_primary
            else gettext("Secondary insurance: %(payer)s")
        )
        payer = {"payer": card.company_name or card.payor_code}
        yield ActivityEntry(card.as_of, text=text % payer, url=url)
