"""Consequences of canceling an order (orders.md 4.2, appointments.md 6)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from django.utils import timezone
from django.utils.translation import gettext

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
        preview.warn(gettext("The sample has already been drawn. It will not be tested."))
    if order.origin in ("redraw", "recreation"):
        preview.will(
            gettext("Only this order is canceled. The other orders in its transaction continue.")
        )
    _message(preview, order)
    preview.will_not(gettext("A canceled order cannot be reopened. Place a new order instead."))
    return preview


def _impossible(preview: CancellationPreview, order: Order, steps: Collection[str]) -> None:
    low = order.low_level_status
    if low in CANCELED_STATUSES:
        preview.will_not(gettext("The order is already closed."))
    elif low == "redraw_available":
        redraws = Order.objects.filter(parent_id=order.pk, missing_since=None)
        preview.instead = list(
            redraws.exclude(low_level_status__in=CANCELED_STATUSES).with_list_columns()
        )
        preview.warn(
            gettext(
                "This order needs a new draw, so it cannot be canceled. Cancel the redraw instead."
            )
            if preview.instead
            else gettext(
                "This order needs a new draw, so it cannot be canceled. There is no redraw yet."
            )
        )
    elif low in _RESULT or not _RESULT.isdisjoint(steps):
        preview.warn(gettext("A result is on file, so the order cannot be canceled."))
    elif low in SHIPPED:
        preview.warn(
            gettext(
                "The kit has shipped, so the order cannot be canceled. Ask the patient to throw "
                "the kit away unopened or send it back unused."
            )
        )
    elif low in _RETURNING:
        preview.warn(
            gettext("The sample is on its way to the lab, so the order cannot be canceled.")
        )
    elif low in _AT_LAB:
        preview.warn(gettext("The order is too far along to be canceled."))
    else:
        preview.warn(gettext("The lab service does not allow canceling an order in this status."))


def _kit(preview: CancellationPreview, steps: Collection[str]) -> None:
    if SHIPPED.isdisjoint(steps):
        preview.will(
            gettext(
                "The kit hasn’t shipped and won’t be sent. If it ships first, the cancellation is "
                "refused: kits ordered before 1:00 PM Eastern usually ship the same day."
            )
        )
    else:
        preview.warn(
            gettext(
                "The kit has already shipped, so the cancellation may be refused. Ask the patient "
                "to throw the kit away."
            )
        )


def _visit(preview: CancellationPreview, order: Order) -> None:
    visit = appointment_rules.active_appointment(order.pk)
    if visit is None:
        if order.method == "walk_in_test":
            preview.will(
                gettext(
                    "No appointment is booked. If the patient walks in, they will be turned away."
                )
            )
        elif order.method == "at_home_phlebotomy" and order.low_level_status != "draw_completed":
            preview.will(gettext("No visit is booked, so no phlebotomist will come."))
        return
    when = {"time": format_appointment_time(visit.start_at, visit.visit_zone)}
    if visit.type == appointment_rules.HOME:
        preview.will(gettext("The home visit is canceled too: %(time)s.") % when)
        if (
            visit.start_at is not None
            and visit.start_at - timezone.now() < appointment_rules.REFUND_PERIOD
        ):
            preview.warn(gettext("The visit starts in under 24 hours. It is no longer refundable."))
        elif visit.start_at is not None:
            preview.will(gettext("The visit starts in more than 24 hours, so it will be refunded."))
        return
    preview.warn(
        gettext("The service center appointment is not canceled with the order: %(time)s.") % when
    )
    if appointment_rules.is_self_service(visit):
        preview.warn(gettext(appointment_rules.SELF_SERVICE_SCRIPT))
    elif not appointment_rules.why_not_cancel(visit):
        preview.visit = visit


def _message(preview: CancellationPreview, order: Order) -> None:
    """Add whether the service notifies the patient.

    This depends on the team's settings and the contact data on the order (orders.md 2).
    """
    details = order.record_at("patient_details")
    by_text = bool(details.get("phone_number"))
    by_email = bool(details.get("email")) and order.method != "testkit"
    if by_text and by_email:
        preview.will(
            gettext(
                "If messages are on for this clinic, the lab service notifies the patient by text "
                "message and email."
            )
        )
    elif by_text:
        preview.will(
            gettext(
                "If messages are on for this clinic, the lab service notifies the patient by text "
                "message."
            )
        )
    elif by_email:
        preview.will(
            gettext(
                "If messages are on for this clinic, the lab service notifies the patient by email."
            )
        )
    elif order.method == "testkit" and order.patient_dob is None:
        preview.will(gettext("The kit is not registered, so there is no patient to notify."))
    else:
        preview.warn(gettext("The lab service cannot notify the patient. Call the patient."))
