"""What will and will not happen when an order is cancelled (orders.md 4.2, appointments.md 6)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.utils import timezone

from orders.models import Appointment, Order

REFUND: Final = timedelta(hours=24)
"""A visit cancelled later than this before its start is not refunded."""


@dataclass(frozen=True, slots=True)
class Consequence:
    words: str
    family: str = "preparing"
    glyph: str = "tick"


def visit_of(order: Order) -> Appointment | None:
    """The order's standing visit."""
    rows = Appointment.objects.filter(order_id=order.pk, superseded_at=None)
    rows = rows.exclude(event_status__in=["cancelled", "completed"])
    return rows.defer("record", "content_hash").order_by("-start_at").first()


def of_cancelling(order: Order) -> list[Consequence]:
    """In the order in which a person should read them."""
    low, found = order.low_level_status, []
    if order.method == "testkit":
        found.append(Consequence("The kit has not been shipped, so no kit goes out."))
    visit = visit_of(order)
    if visit is not None and visit.type == "phlebotomy":
        found.append(Consequence("The at-home visit is cancelled too."))
        if visit.start_at and visit.start_at - timezone.now() < REFUND:
            words = "It begins in less than 24 hours, so it is not refunded."
            found.append(Consequence(words, "needs-action", "warning"))
    elif visit is not None:
        words = "The service-center appointment is not cancelled by this: cancel it as well."
        found.append(Consequence(words, "needs-action", "warning"))
    if low == "draw_completed":
        words = "The sample has been drawn already. It will not be tested."
        found.append(Consequence(words, "needs-action", "warning"))
    if order.origin in ("redraw", "recreation"):
        found.append(Consequence("Only this order ends; the others of its transaction stand."))
    found.append(Consequence("A cancelled order cannot be taken up again.", "closed", "dash"))
    return found
