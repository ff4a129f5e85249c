"""Why do we believe this? From what an order shows to the delivery, or the read, that said so; and
what was known at a past moment (`record_history`).

Every mirrored row knows the moment its version was told: the receipt of an event, or the sending
of the request that read it. So the event is found by subject and receipt, a look-up by its key,
a run by the time it ran.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from backoffice import audit
from backoffice.core import vocabulary
from backoffice.core.access import PERMISSIONS, may, requires
from backoffice.models import Lookup, Mirrored, SyncRun
from backoffice.pages.lists.fields import status_of
from orders.models import Appointment, CriticalResult, Order, OrderEvent, OrderMove, Result
from webhooks import payloads
from webhooks.models import Event
from webhooks.record_history import (
    ADDRESS,
    RecordHistory,
    order_history,
    patient_then,
    result_history,
    stops_of,
    visit_histories,
    warning_history,
)
from webhooks.record_history_forms import MomentForm
from webhooks.views.events import Row, rows_of

HEARD: Final = 100
"""Latest events about an order that are looked into."""
VISITS: Final = 50
LOOKED: Final = timedelta(seconds=90)
"""An answer is stored at most this long after it was asked for."""
RUN, LOOK_UP, EVENT, READ = "run", "look-up", "event", "read"


@dataclass(frozen=True, slots=True)
class Source:
    """What told us a version of a record. `kind` is event, look-up, run, or read: a read of the
    service whose record is gone."""

    kind: str
    at: datetime
    row: Row | None = None
    run: SyncRun | None = None
    confirmed_at: datetime | None = None
    """When a later read found it unchanged."""


@dataclass(frozen=True, slots=True)
class Belief:
    """One thing the page of an order shows, and what told us so."""

    what: str
    term: vocabulary.Term
    source: Source


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the order's history, and the first delivery that told it."""

    at: datetime
    term: vocabulary.Term
    row: Row | None


@requires("orders.view")
@require_safe
def order_why(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """What told us the state of an order, its result and its visits, and each of its steps; and
    the record as it was known at the moment `at`, beside what it is now."""
    order = Order.objects.defer("content_hash").filter(pk=order_id).first()
    if order is None:
        raise Http404
    history = list(OrderEvent.objects.filter(order_id=order.pk).order_by("created_at", "event_id"))
    visits = list(_visits(order))
    result = Result.objects.filter(pk=order.pk).only("as_of", "status", "missing_since").first()
    form = MomentForm(request.GET)
    valid = form.is_valid()
    typed = form.cleaned_data.get("at")
    heard = rows_of(_about(order, typed), by_name=False)
    granted = frozenset(name for name in PERMISSIONS if may(request.user, name))
    histories = _histories(order, visits, result, heard, granted)
    stops = stops_of(histories)
    moment = form.moment(stops) if valid else None
    if moment is not None and not form.shareable():
        address = reverse("events:why-order", args=[order.pk])
        return redirect(f"{address}?at={moment.strftime(ADDRESS)}")
    moves = list(OrderMove.objects.filter(order_id=order.pk)[:HEARD]) if moment else []
    move = patient_then(order, moves, moment) if moment else None
    sources = _Sources(order, heard)
    patients = [order.user_id, *(one for move in moves for one in (move.before, move.after))]
    audit.viewed(request, "order", [order.pk], patients)
    heard = heard[:HEARD]
    now = timezone.now()
    context = {
        "order": order,
        "by_name": may(request.user, "patients.view"),
        "sees_events": may(request.user, "events.view"),
        "beliefs": _beliefs(
            order,
            history,
            sources,
            result,
            [visit for visit in visits if visit.superseded_at is None],
            sees_results=may(request.user, "results.view"),
        ),
        "steps": _steps(order, history, heard),
        "heard": heard,
        "more": len(heard) == HEARD,
        "moment_form": MomentForm.showing(moment) if valid else form,
        "stops": stops,
        "moment": moment,
        "last": len(stops) - 1,
        "stop": max(sum(one.at <= (moment or now) for one in stops) - 1, 0),
        "now": now,
        "records": [one.then(moment) for one in histories] if moment else [],
        "move": move,
        "body_days": settings.EVENT_BODY_DAYS,
    }
    return render(request, "orders/why.html", context, status=status_of(form))


def _histories(
    order: Order,
    visits: Sequence[Appointment],
    result: Result | None,
    heard: Sequence[Row],
    granted: frozenset[str],
) -> list[RecordHistory]:
    """Of all that the reader may see of an order, what is stored of the past. A query at most."""
    found = [order_history(order, heard, granted)]
    if "results.view" in granted:
        of_result = result_history(order.pk, result)
        warning = warning_history(heard, granted)
        found += [one for one in (of_result, warning) if one.versions]
    if "appointments.view" in granted:
        found += visit_histories(visits, heard, granted)
    return found


def _visits(order: Order) -> Iterable[Appointment]:
    rows = Appointment.objects.filter(order_id=order.pk).defer("content_hash")
    return rows.order_by("start_at", "as_of")[:VISITS]


def _about(order: Order, until: datetime | None) -> list[Event]:
    """The latest events about an order; where there are more, also those before a moment."""
    about = Event.objects.filter(subject_id=str(order.pk)).defer("body_digest").order_by("-pk")
    found = list(about[:HEARD])
    if until is not None and len(found) == HEARD and found[-1].received_at > until:
        found += about.filter(pk__lt=found[-1].pk, received_at__lte=until)[:HEARD]
    return found


class _Sources:
    """Finds what told a version, in what was read once for the whole page."""

    def __init__(self, order: Order, heard: Sequence[Row]) -> None:
        self.heard = {row.event.received_at: row for row in heard}
        names = ("orders", "results", "appointment-phlebotomy", "appointment-psc")
        asked = Lookup.objects.filter(kind__in=names, key=str(order.pk), looked_at__isnull=False)
        self.lookups = dict(asked.values_list("kind", "looked_at"))
        ran = Q(started_at__lte=order.as_of) & (
            Q(finished_at__gte=order.as_of) | Q(finished_at=None)
        )
        confirmed = Q(full=True, state=SyncRun.State.DONE, started_at__gt=order.as_of)
        runs = SyncRun.objects.filter(ran | confirmed, resource="orders").order_by("-created_at")
        self.runs = list(runs[:20])

    def of(self, record: Mirrored, *kinds: str, listed: bool = False) -> Source:
        """What told this version: an event, else a look-up of `kinds`, else, if `listed`, a run."""
        at = record.as_of
        if at in self.heard:
            return Source(
                EVENT, at, row=self.heard[at], confirmed_at=self._later(at, kinds, listed)
            )
        for kind in kinds:
            looked_at = self.lookups.get(kind)
            if looked_at is not None and (not listed or at <= looked_at <= at + LOOKED):
                later = looked_at if looked_at > at + LOOKED else self._later(at, (), listed)
                return Source(LOOK_UP, at, confirmed_at=later)
        for run in self.runs if listed else ():
            if (
                run.started_at
                and run.started_at <= at
                and (run.finished_at is None or run.finished_at >= at)
            ):
                return Source(RUN, at, run=run, confirmed_at=self._later(at, kinds, listed))
        return Source(READ, at, confirmed_at=self._later(at, kinds, listed))

    def _later(self, at: datetime, kinds: Sequence[str], listed: bool) -> datetime | None:
        moments = [self.lookups.get(kind) for kind in kinds]
        if listed:
            moments += [
                run.started_at
                for run in self.runs
                if run.full and run.state == SyncRun.State.DONE and run.started_at
            ]
        return max((moment for moment in moments if moment and moment > at + LOOKED), default=None)


def _beliefs(
    order: Order,
    history: Sequence[OrderEvent],
    sources: _Sources,
    result: Result | None,
    visits: Iterable[Appointment],
    *,
    sees_results: bool,
) -> list[Belief]:
    steps = [step.low_level_status for step in history]
    found = [
        Belief(
            "Status of the order",
            vocabulary.order_term(order.low_level_status, order.method, steps),
            sources.of(order, "orders", listed=True),
        )
    ]
    if result is not None:
        term = vocabulary.term("result.status", result.status)
        found.append(Belief("Result", term, sources.of(result, "results")))
    if sees_results and (critical := _critical(order, sources)) is not None:
        found.append(critical)
    for visit in visits:
        term = vocabulary.term("appointment.status", visit.status)
        source = sources.of(visit, "appointment-phlebotomy", "appointment-psc")
        found.append(Belief("Visit", term, source))
    return found


def _critical(order: Order, sources: _Sources) -> Belief | None:
    """The word that a result wants eyes at once; it comes by event alone."""
    told = CriticalResult.objects.filter(pk=order.pk).first()
    row = sources.heard.get(told.heard_at) if told is not None else None
    if told is None or row is None:
        return None
    term = vocabulary.term("order.interpretation", told.interpretation)
    return Belief("Warning of the lab", term, Source(EVENT, told.heard_at, row=row))


NOT_HEARD: Final = (Event.State.DEAD, Event.State.QUARANTINED)
"""Events that changed nothing, whatever they carry."""


def _steps(order: Order, history: Sequence[OrderEvent], heard: Sequence[Row]) -> list[Step]:
    """Steps newest first, each with the earliest delivery that carried it."""
    first: dict[int, Row] = {}
    for row in heard:  # Newest first: the earliest is written last.
        if row.event.state not in NOT_HEARD:
            first.update(dict.fromkeys(payloads.steps_in(row.event), row))
    past: list[str] = []
    steps: list[Any] = []
    for step in history:
        past.append(step.low_level_status)
        term = vocabulary.order_term(step.low_level_status, order.method, past)
        steps.append(Step(step.created_at, term, first.get(step.event_id)))
    return steps[::-1]
