"""Consequences of canceling an order (orders.md 4.2, appointments.md 6)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from django.utils import timezone

from orders.commands.order_changes import CANCELABLE_STATUSES
from orders.models import Appointment, Order, OrderEvent
from orders.models.order import CANCELED_STATUSES
from orders.rules import appointment_rules
from orders.rules.appointment_rules import format_appointment_time

SHIPPED: Final = frozenset(
    {
        "transit_customer",
        "out_for_delivery",
        "with_customer",
        "problem_in_transit_customer",
        "failure_to_deliver_to_customer",
    }
)
"""Statuses of a kit that has been shipped."""
_RETURNING: Final = frozenset(
    {"transit_lab", "problem_in_transit_lab", "failure_to_deliver_to_lab", "draw_completed"}
)
_AT_LAB: Final = frozenset({"delivered_to_lab", "lab_processing_blocked", "sample_error", "lost"})
_RESULT: Final = frozenset({"partial_results", "completed", "corrected"})


@dataclass(frozen=True, slots=True)
class Consequence:
    """One line of the preview."""

    words: str
    family: str = "preparing"
    glyph: str = "tick"


@dataclass(slots=True)
class CancellationPreview:
    """What a person reads before they cancel an order."""

    possible: bool
    lines: list[Consequence] = field(default_factory=list)
    visit: Appointment | None = None
    """An appointment that is not canceled with the order, but can be canceled by its own call."""
    instead: Sequence[Order] = ()
    """Orders that can be canceled if this one cannot."""

    def will(self, words: str) -> None:
        self.lines.append(Consequence(words))

    def warn(self, words: str) -> None:
        self.lines.append(Consequence(words, "needs-action", "warning"))

    def will_not(self, words: str) -> None:
        self.lines.append(Consequence(words, "closed", "dash"))


def cancellation_preview(order: Order) -> CancellationPreview:
    """Return the consequences for one order.

    They depend on its method, status, history, appointment, and related orders in the mirror.
    """
    low = order.low_level_status
    events = OrderEvent.objects.filter(order_id=order.pk)
    steps = set(events.values_list("low_level_status", flat=True)) | {low}
    preview = CancellationPreview(low in CANCELABLE_STATUSES.get(order.method, frozenset()))
    if not preview.possible:
        _impossible(preview, order, steps)
        return preview
    if order.method == "testkit":
        _kit(preview, steps)
    _visit(preview, order)
    if low == "draw_completed":
        preview.warn("The sample has been drawn already. It will not be tested.")
    if order.origin in ("redraw", "recreation"):
        preview.will("Only this order ends; the others in its transaction continue.")
    _message(preview, order)
    preview.will_not("A canceled order cannot be reopened: place a new one instead.")
    return preview


def _impossible(preview: CancellationPreview, order: Order, steps: Collection[str]) -> None:
    low = order.low_level_status
    if low in CANCELED_STATUSES:
        preview.will_not("The order has ended already.")
    elif low == "redraw_available":
        redraws = Order.objects.filter(parent_id=order.pk, missing_since=None)
        preview.instead = list(
            redraws.exclude(low_level_status__in=CANCELED_STATUSES).with_list_columns()
        )
        preview.warn(
            "This order needs a new draw and cannot be canceled itself: its redraw carries on. "
            + ("Cancel the redraw instead." if preview.instead else "There is no redraw yet.")
        )
    elif low in _RESULT or not _RESULT.isdisjoint(steps):
        preview.warn("A result exists, so the order cannot be canceled.")
    elif low in SHIPPED:
        preview.warn(
            "The kit has been shipped, so the order cannot be canceled. Ask the patient to leave "
            "it unopened and to throw it away, or to send it back unused."
        )
    elif low in _RETURNING:
        preview.warn("The sample is on its way to the lab, so the order cannot be canceled.")
    elif low in _AT_LAB:
        preview.warn("The sample has left our hands, so the order cannot be canceled.")
    else:
        preview.warn("The service does not let an order be canceled at this point.")


def _kit(preview: CancellationPreview, steps: Collection[str]) -> None:
    if SHIPPED.isdisjoint(steps):
        preview.will(
            "The kit has not been shipped, so no kit goes out. Kits ordered before 13:00 Eastern "
            "usually leave the same day: if this one leaves first, the service refuses."
        )
    else:
        preview.warn(
            "The kit was shipped before: the service may refuse, and the patient keeps the kit. "
            "Ask them to throw it away."
        )


def _visit(preview: CancellationPreview, order: Order) -> None:
    visit = appointment_rules.active_appointment(order.pk)
    if visit is None:
        if order.method == "walk_in_test":
            preview.will("There is no appointment. A patient who walks in is sent away.")
        elif order.method == "at_home_phlebotomy" and order.low_level_status != "draw_completed":
            preview.will("No visit is booked, so nobody comes.")
        return
    when = format_appointment_time(visit.start_at, visit.visit_zone)
    if visit.type == appointment_rules.HOME:
        preview.will(f"The at-home visit is canceled too: {when}.")
        if (
            visit.start_at is not None
            and visit.start_at - timezone.now() < appointment_rules.REFUND_PERIOD
        ):
            preview.warn("It begins in less than 24 hours, so it is not refundable.")
        elif visit.start_at is not None:
            preview.will("It begins in more than 24 hours, so it is refunded.")
        return
    preview.warn(f"The appointment at a service center is not canceled by this: {when}.")
    if appointment_rules.is_self_service(visit):
        preview.warn(appointment_rules.SELF_SERVICE_SCRIPT)
    elif not appointment_rules.why_not_cancel(visit):
        preview.visit = visit


def _message(preview: CancellationPreview, order: Order) -> None:
    """Add whether the service notifies the patient.

    This depends on the team's settings and the contact data on the order (orders.md 2).
    """
    details = order.record_at("patient_details")
    ways = ["SMS"] if details.get("phone_number") else []
    if details.get("email") and order.method != "testkit":
        ways.append("email")
    if ways:
        preview.will(
            f"The service tells the patient by {' and '.join(ways)}, if it sends messages for us."
        )
    elif order.method == "testkit" and order.patient_dob is None:
        preview.will("Nobody has registered the kit, so there is no patient to tell.")
    else:
        preview.warn("The service has no way to tell the patient: call them.")
