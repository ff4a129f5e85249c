"""A visit on the page of its order: the possible actions, and its previous time."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.urls import reverse
from jinja2.runtime import Context

from backoffice.accounts.access import may
from backoffice.core.template_functions import renders
from backoffice.outbox.models import CommandRecord
from orders.models import Appointment, Order
from orders.models.order import CANCELED_STATUSES
from orders.rules import appointment_rules


@renders("orders/booking/_actions.html")
def visit_actions(context: Context, order: Order, visit: Appointment) -> dict[str, Any]:
    """Show the buttons of an active visit, or the reason why there are none."""
    if (
        visit.superseded_at
        or visit.has_ended
        or not may(context["request"].user, "appointments.change", "patients.view")
    ):
        return {}
    no_move, no_cancel = (
        appointment_rules.why_not_move(order, visit),
        appointment_rules.why_not_cancel(visit),
    )
    return {
        "move": "" if no_move else reverse("orders:move", args=[order.pk]),
        "cancel": "" if no_cancel else reverse("orders:cancel-visit", args=[order.pk]),
        "rebook": order.low_level_status not in CANCELED_STATUSES,
        "words": no_cancel or no_move,
    }


def previous_time(visit: Appointment) -> datetime | None:
    """Return the start before staff moved the visit; None if staff did not move it."""
    if visit.superseded_at or visit.start_at is None:
        return None
    moves = CommandRecord.objects.about("order", visit.order_id).filter(
        kind="appointment.move", state=CommandRecord.State.DONE
    )
    row = moves.only("payload").select_related(None).first()
    if row is None or row.payload.get("appointment_id") != str(visit.pk):
        return None
    before, after = (row.payload.get("seen"), row.payload.get("time", {}).get("start"))
    if not before or not after or datetime.fromisoformat(after) != visit.start_at:
        return None
    return datetime.fromisoformat(before)
