"""Record the outcome that removes an order from the queue.

Nothing else removes it. If two people record an outcome at once, the first one counts and the
second one is refused.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone

from backoffice.accounts.access import staff_user
from backoffice.core import live_changes
from backoffice.team.actions import AlreadyAssigned, add_note, record_contact, release
from backoffice.team.models import Assignment
from orders.exceptions.cards import HANDLED
from orders.models import Handling, Order, OrderPatientChange


class OrderChanged(Exception):
    """The order has changed since the card was opened."""


class OutcomeRecorded(Exception):
    """Someone else recorded an outcome since the card was opened."""

    def __init__(self, handling: Handling) -> None:
        super().__init__(handling.pk)
        self.handling = handling


def outcome_stamp(handling: Handling | None) -> str:
    """Return a key of an outcome. A form has the key of the outcome that its page showed."""
    return "" if handling is None else str(int(handling.at.timestamp() * 1_000_000))


def record_outcome(
    request: HttpRequest,
    order_id: UUID,
    outcome: str,
    *,
    until: datetime | None,
    note: str,
    seen_event: int,
    seen_move: int | None,
    seen_outcome: str,
) -> Handling:
    """Store an outcome: a contact (for HANDLED a note), and when the order returns to the queue.

    Raises `OrderChanged`, `OutcomeRecorded`, or `team.AlreadyAssigned` if the order is assigned
    to somebody else. Then nothing is stored.
    """
    user = staff_user(request)
    with transaction.atomic():
        # The second of two people waits here until the first has committed.
        order = Order.objects.select_for_update(no_key=True).only("pk", "user_id", "last_event_id")
        order_row = order.get(pk=order_id)
        before = Handling.objects.filter(pk=order_id).select_related("by").first()
        if outcome_stamp(before) != seen_outcome and before is not None:
            raise OutcomeRecorded(before)
        # A move may come without an event. Code that records a move also locks the order.
        moves = OrderPatientChange.objects.filter(order_id=order_id).order_by("-pk")
        last_move = moves.values_list("pk", flat=True).first()
        if (order_row.last_event_id, last_move) != (seen_event, seen_move):
            raise OrderChanged
        other_assignments = Assignment.objects.filter(
            subject_type="order", subject_id=str(order_id)
        )
        holder = other_assignments.exclude(user=user).select_related("user").first()
        if holder is not None:
            raise AlreadyAssigned(holder.user, holder.at)
        if outcome == HANDLED:
            add_note(request, "order", order_id, f"Handled: {note}", order_row.user_id)
            release(request, "order", order_id)
            open_moves = moves.filter(settled_at=None)
            open_moves.update(settled_at=timezone.now(), settled_by=user)
        else:
            record_contact(
                request,
                order_row.user_id,
                "order",
                order_id,
                outcome,
                note,
                next_due_at=until,
            )
        row = Handling(
            order_id=order_id,
            event_id=order_row.last_event_id,
            outcome=outcome,
            reason=note,
            until=until,
            by=user,
            at=timezone.now(),
        )
        row.save(force_insert=before is None, force_update=before is not None)
        live_changes.record_change("exception", [order_id])
    return row


def end_snooze(request: HttpRequest, order_id: UUID) -> bool:
    """Return a snoozed order to the queue now. Return False if it is already there."""
    with transaction.atomic():
        rows = Handling.objects.select_for_update().filter(pk=order_id)
        row = rows.first()
        if row is None or (row.until is not None and row.until <= timezone.now()):
            return False
        rows.update(until=timezone.now())
        add_note(request, "order", order_id, "Back in the queue.", _patient_id(order_id))
        live_changes.record_change("exception", [order_id])
    return True


def _patient_id(order_id: UUID) -> UUID | None:
    return Order.objects.filter(pk=order_id).values_list("user_id", flat=True).first()
