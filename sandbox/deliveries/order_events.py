"""Events of changed orders: one per new status, with the record as it is served now.

`collect_entries` runs before a change is stored, while new entries are not marked as stored;
`announce_entries` runs after it, in the same transaction (webhooks.md 3 and 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from sandbox import event_queue, records
from sandbox.api.appointments import appointment_record
from sandbox.event_queue import Event
from sandbox.models import Appointment, Team
from sandbox.states import EventState, OrderState

RESULTS = ("partial_results", "completed", "corrected", "redraw_available")


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A new entry in the history of an order, or of its appointment `visit_id`."""

    at: datetime
    order: OrderState
    status: str
    is_first: bool
    visit_id: str | None = None


def collect_entries(groups: Iterable[Sequence[OrderState]]) -> list[HistoryEntry]:
    """Return the new entries of orders that are about to be saved, in order of time; none if there
    is no endpoint."""
    if not event_queue.has_endpoints():
        return []
    found = []
    for order in (order for group in groups for order in group):
        for place, event in enumerate(order.events):
            if not event.stored:
                found.append(HistoryEntry(event.created_at, order, _low(event), place == 0))
        for visit in (*order.past_appointments, order.appointment):
            for place, entry in enumerate(visit.events if visit else ()):
                if visit and not entry.stored:
                    at = entry.created_at
                    found.append(HistoryEntry(at, order, entry.status, place == 0, visit.id))
    return sorted(found, key=lambda news: news.at)


def announce_entries(found: Sequence[HistoryEntry]) -> None:
    """Announce collected entries, in the transaction that saved them."""
    if not found:
        return
    documents = records.lab_documents()
    silent = _teams_without_partials()
    visits = _appointments({news.visit_id for news in found if news.visit_id})
    events = []
    for news in found:
        order = news.order
        verb = "created" if news.is_first else "updated"
        if news.visit_id:
            record: Any = visits[news.visit_id]
            kind = f"labtest.appointment.{verb}"
            events.append(Event(kind, order.user_id, record, news.at, order.team_id))
            continue
        if news.status != "partial_results" or order.team_id not in silent:
            record = _order(order, documents)
            kind = f"labtest.order.{verb}"
            events.append(Event(kind, order.user_id, record, news.at, order.team_id))
        if news.status in RESULTS and order.interpretation == "critical":
            record = critical(order, news.at)
            kind = "labtest.result.critical"
            events.append(Event(kind, order.user_id, record, news.at, order.team_id))
    event_queue.announce_all(events)


def critical(order: OrderState, at: datetime) -> dict[str, Any]:
    """`data` of a critical result (webhooks.md 4.1)."""
    arrived = [event.created_at for event in order.events if _low(event) in RESULTS]
    return {
        "order_id": order.id,
        "sample_id": order.sample_id or f"N{order.number}",
        "status": order.result_status or "final",
        "interpretation": "critical",
        "team_id": order.team_id,
        "user_id": order.user_id,
        "created_at": min(arrived, default=at),
        "updated_at": at,
    }


def _low(event: EventState) -> str:
    return event.status.rpartition(".")[2]


def _order(order: OrderState, documents: dict[str, str]) -> orjson.Fragment:
    return orjson.Fragment(
        records.served_order(
            order.id,
            order.fixed_part,
            order.moving_part,
            order.has_requisition,
            documents[order.lab_test_id],
        )
    )


def _teams_without_partials() -> set[str]:
    """Return the teams that do not get events about partial results."""
    teams = Team.objects.filter(partial_webhooks_enabled=False).values_list("id", flat=True)
    return {str(key) for key in teams}


def _appointments(keys: set[str]) -> dict[str, dict[str, Any]]:
    found = Appointment.objects.filter(id__in=keys).select_related("order")
    return {str(visit.id): appointment_record(visit) for visit in found}
