"""Provenance of the values of an order: the event, lookup or sync run that each came from.

`as_of` of a mirrored row is when its version was known: the time when an event was received, or
when the request that read it was sent. So an event is found by its subject and time of receipt, a
lookup by its key, and a run by its period. Past states of an order are in `record_history`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Q
from django.utils.translation import gettext

from backoffice.core import vocabulary
from backoffice.mirror.models import MirrorModel
from backoffice.sync.models import Lookup, SyncRun
from orders.models import Appointment, CriticalAnnouncement, Order, OrderEvent, Result
from webhooks import payloads
from webhooks.event_list_rows import EventRow
from webhooks.models import Event
from webhooks.record_history import (
    RecordHistory,
    appointment_histories,
    order_history,
    result_history,
    warning_history,
)

MAX_EVENTS: Final = 100
"""Most events about an order that are searched, latest first."""
MAX_VISITS: Final = 50
LOOKUP_DURATION: Final = timedelta(seconds=90)
"""Longest time between a request and the storage of its answer."""
RUN, LOOKUP, EVENT, READ = "run", "look-up", "event", "read"


@dataclass(frozen=True, slots=True)
class ValueSource:
    """The source of a version of a record.

    `kind` is event, look-up, run, or read. A read is a request to the service that is no longer on
    record.
    """

    kind: str
    at: datetime
    row: EventRow | None = None
    run: SyncRun | None = None
    confirmed_at: datetime | None = None
    """When a later read found the same version."""


@dataclass(frozen=True, slots=True)
class SourcedValue:
    """A value on the page of an order, with its source."""

    label: str
    term: vocabulary.Term
    source: ValueSource


@dataclass(frozen=True, slots=True)
class SourcedStep:
    """A step of the order's history, with the first event that had it."""

    at: datetime
    term: vocabulary.Term
    row: EventRow | None


def record_histories(
    order: Order,
    visits: Sequence[Appointment],
    result: Result | None,
    event_rows: Sequence[EventRow],
    granted: frozenset[str],
) -> list[RecordHistory]:
    """Return the histories of the records of an order that the user may see: at most one query."""
    histories = [order_history(order, event_rows, granted)]
    if "results.view" in granted:
        of_result = result_history(order.pk, result)
        warning = warning_history(event_rows, granted)
        histories += [history for history in (of_result, warning) if history.versions]
    if "appointments.view" in granted:
        histories += appointment_histories(visits, event_rows, granted)
    return histories


def appointments_of_order(order: Order) -> Iterable[Appointment]:
    """Return the appointments of an order, by start."""
    rows = Appointment.objects.filter(order_id=order.pk).defer("content_hash")
    return rows.order_by("start_at", "as_of")[:MAX_VISITS]


def stored_events(order: Order, until: datetime | None) -> list[Event]:
    """Return the latest events about an order.

    If there are more, also return some before `until`.
    """
    about = Event.objects.filter(subject_id=str(order.pk)).defer("body_digest").order_by("-pk")
    events = list(about[:MAX_EVENTS])
    if until is not None and len(events) == MAX_EVENTS and events[-1].received_at > until:
        events += about.filter(pk__lt=events[-1].pk, received_at__lte=until)[:MAX_EVENTS]
    return events


class SourceFinder:
    """Finds the sources of versions. The data is read once for the whole page."""

    def __init__(self, order: Order, event_rows: Sequence[EventRow]) -> None:
        self.event_rows = {row.event.received_at: row for row in event_rows}
        names = ("orders", "results", "appointment-phlebotomy", "appointment-psc")
        lookups = Lookup.objects.filter(kind__in=names, key=str(order.pk), looked_at__isnull=False)
        self.lookups = dict(lookups.values_list("kind", "looked_at"))
        was_running = Q(started_at__lte=order.as_of) & (
            Q(finished_at__gte=order.as_of) | Q(finished_at=None)
        )
        confirmed = Q(full=True, state=SyncRun.State.DONE, started_at__gt=order.as_of)
        runs = SyncRun.objects.filter(was_running | confirmed, resource="orders")
        self.runs = list(runs.order_by("-created_at")[:20])

    def find(self, record: MirrorModel, *kinds: str, listed: bool = False) -> ValueSource:
        """Return the source of this version of a record.

        It is an event, else a lookup of `kinds`, else, if `listed`, a run.
        """
        at = record.as_of
        if at in self.event_rows:
            return ValueSource(
                EVENT, at, row=self.event_rows[at], confirmed_at=self._later(at, kinds, listed)
            )
        for kind in kinds:
            looked_at = self.lookups.get(kind)
            if looked_at is not None and (not listed or at <= looked_at <= at + LOOKUP_DURATION):
                later = (
                    looked_at if looked_at > at + LOOKUP_DURATION else self._later(at, (), listed)
                )
                return ValueSource(LOOKUP, at, confirmed_at=later)
        for run in self.runs if listed else ():
            if (
                run.started_at
                and run.started_at <= at
                and (run.finished_at is None or run.finished_at >= at)
            ):
                return ValueSource(RUN, at, run=run, confirmed_at=self._later(at, kinds, listed))
        return ValueSource(READ, at, confirmed_at=self._later(at, kinds, listed))

    def _later(self, at: datetime, kinds: Sequence[str], listed: bool) -> datetime | None:
        moments = [self.lookups.get(kind) for kind in kinds]
        if listed:
            moments += [
                run.started_at
                for run in self.runs
                if run.full and run.state == SyncRun.State.DONE and run.started_at
            ]
        return max(
            (moment for moment in moments if moment and moment > at + LOOKUP_DURATION), default=None
        )


def sourced_values(
    order: Order,
    history: Sequence[OrderEvent],
    sources: SourceFinder,
    result: Result | None,
    visits: Iterable[Appointment],
    *,
    sees_results: bool,
) -> list[SourcedValue]:
    steps = [step.low_level_status for step in history]
    values = [
        SourcedValue(
            gettext("Order status"),
            vocabulary.order_term(order.low_level_status, order.method, steps),
            sources.find(order, "orders", listed=True),
        )
    ]
    if result is not None:
        term = vocabulary.term("result.status", result.status)
        values.append(SourcedValue(gettext("Result"), term, sources.find(result, "results")))
    if sees_results and (critical := _critical_warning(order, sources)) is not None:
        values.append(critical)
    for visit in visits:
        term = vocabulary.term("appointment.status", visit.status)
        source = sources.find(visit, "appointment-phlebotomy", "appointment-psc")
        values.append(SourcedValue(gettext("Visit"), term, source))
    return values


def _critical_warning(order: Order, sources: SourceFinder) -> SourcedValue | None:
    """Return the lab's warning that a result is critical. Only events have it."""
    warning = CriticalAnnouncement.objects.filter(pk=order.pk).first()
    row = sources.event_rows.get(warning.heard_at) if warning is not None else None
    if warning is None or row is None:
        return None
    term = vocabulary.term("order.interpretation", warning.interpretation)
    return SourcedValue(
        gettext("Critical result alert from the lab"),
        term,
        ValueSource(EVENT, warning.heard_at, row=row),
    )


WITHOUT_EFFECT: Final = (Event.State.DEAD, Event.State.QUARANTINED)
"""States of events that changed nothing."""


def sourced_steps(
    order: Order, history: Sequence[OrderEvent], event_rows: Sequence[EventRow]
) -> list[SourcedStep]:
    """Return the steps, newest first, each with the earliest event that had it."""
    first: dict[int, EventRow] = {}
    for row in event_rows:  # Rows are newest first, so the earliest event is written last.
        if row.event.state not in WITHOUT_EFFECT:
            first.update(dict.fromkeys(payloads.steps_in(row.event), row))
    past: list[str] = []
    steps: list[SourcedStep] = []
    for step in history:
        past.append(step.low_level_status)
        term = vocabulary.order_term(step.low_level_status, order.method, past)
        steps.append(SourcedStep(step.created_at, term, first.get(step.event_id)))
    return steps[::-1]
