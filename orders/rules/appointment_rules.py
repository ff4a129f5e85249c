"""Rules of appointments: what is possible, and what to warn about (appointments.md 3, 4, 6, 7)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop

from backoffice.core.time_formats import spoken, years
from orders.appointment_zones import AppointmentZone
from orders.models import Appointment, Order
from orders.models.appointment import ENDED_STATUSES
from orders.models.order import CANCELED_STATUSES

HOME: Final = "phlebotomy"
CENTER: Final = "patient_service_center"
VISIT_TYPE_BY_METHOD: Final = {"at_home_phlebotomy": HOME, "walk_in_test": CENTER}
ADULT: Final = 18
REFUND_PERIOD: Final = timedelta(hours=24)
"""Shortest time before the start at which a canceled appointment at home is still refunded."""
SOON: Final = timedelta(hours=48)
"""A provider without the requisition may move visits that start earlier than this."""

_NO_REQUISITION: Final = frozenset({"ordered", "awaiting_registration", "registered"})
BOOKABLE: Final = frozenset(
    {"requisition_created", "requisition_bypassed", "appointment_cancelled"}
)
STATUSES_WITH_VISIT: Final = frozenset({"appointment_pending", "appointment_scheduled"})
DRAWN_STATUSES: Final = frozenset(
    {"draw_completed", "partial_results", "completed", "corrected", "sample_error"}
    | {"delivered_to_lab", "redraw_available"}
)
"""Statuses of an order whose sample was taken."""


@dataclass(frozen=True, slots=True)
class Caution:
    """A warning to show before an appointment is changed."""

    words: str
    family: str = "needs-action"
    glyph: str = "warning"


def active_appointment(order_id: UUID) -> Appointment | None:
    """Return the appointment of the order that has neither ended nor been replaced."""
    rows = Appointment.objects.filter(order_id=order_id, superseded_at=None)
    return rows.exclude(event_status__in=ENDED_STATUSES).exclude(status__in=ENDED_STATUSES).first()


def format_appointment_time(moment: datetime | None, zone: AppointmentZone) -> str:
    """Return a time in the zone of its place, with the zone: `Tue 3 Nov, 09:30 MST`.

    A note is added if the service did not send the zone.
    """
    if moment is None:
        return gettext("no time yet")
    words = spoken(moment.astimezone(zone.zone), timezone.now().astimezone(zone.zone))
    return f"{words} ({zone.note})" if zone.note else words


def no_time_text(visit: Appointment) -> str:
    """Return the text to show instead of a time."""
    return gettext("No time was set") if visit.has_ended else gettext("No time set yet")


def age_on_day(born: date | None, day: date) -> int | None:
    return years(born, day) if born else None


def why_not_book(order: Order) -> str:
    """Return why no appointment can be booked for the order now, or an empty text."""
    low = order.low_level_status
    if order.method not in VISIT_TYPE_BY_METHOD:
        return gettext("This type of order has no visits.")
    if order.method == "at_home_phlebotomy":
        age = age_on_day(order.patient_dob, timezone.localdate())
        if age is not None and age < ADULT:
            return gettext(
                "The patient is %(age)s. Home draws are only for patients %(adult)s or older. "
                "Order a test that is drawn at a service center instead."
            ) % {"age": age, "adult": ADULT}
    visit = active_appointment(order.pk)
    if visit is not None and not _cancelled_since_read(order, visit):
        start = format_appointment_time(visit.start_at, visit.visit_zone)
        return gettext("The order already has a visit: %(time)s.") % {"time": start}
    if low in _NO_REQUISITION:
        return gettext(
            "The requisition is not ready, and no sample can be drawn without it. Book when the "
            "order shows that its paperwork is ready."
        )
    if low not in BOOKABLE | STATUSES_WITH_VISIT:
        return _too_late_to_book(low)
    # There is no active appointment. The order and its appointment are read one after the other, so
    # the order may still have the status of an active one. It is read again before anything is
    # sent.
    last = _latest_appointment(order)
    if last is not None and "completed" in (last.event_status, last.status):
        return gettext("The visit took place, so no other visit can be booked.")
    if last is None and low in STATUSES_WITH_VISIT:
        return gettext("The order has a visit that is still loading. Check again in a minute.")
    return ""


def _too_late_to_book(low_level_status: str) -> str:
    if low_level_status in DRAWN_STATUSES:
        return gettext("The sample has been collected, so no visit can be booked.")
    return gettext("No visit can be booked for an order in this status.")


def _cancelled_since_read(order: Order, visit: Appointment) -> bool:
    """Whether the order shows that its appointment was canceled after the appointment was read.

    Both records arrive separately, in either order.
    """
    return order.low_level_status == "appointment_cancelled" and visit.as_of < order.as_of


def _latest_appointment(order: Order) -> Appointment | None:
    """Return the appointment that was not replaced, else the one that was replaced last."""
    rows = Appointment.objects.filter(order_id=order.pk)
    return rows.order_by(F("superseded_at").desc(nulls_first=True), "-as_of").first()


def conflicting_appointment(order: Order, providers: Iterable[str]) -> Appointment | None:
    """Return the patient's active appointment with one of these providers for another order.

    A patient can have one appointment at a time with each provider.
    """
    if order.user_id is None:
        return None
    rows = Appointment.objects.filter(
        user_id=order.user_id, type=HOME, provider__in=list(providers), superseded_at=None
    )
    rows = rows.exclude(order_id=order.pk).exclude(event_status__in=ENDED_STATUSES)
    return rows.exclude(status__in=ENDED_STATUSES).first()


def is_self_service(visit: Appointment) -> bool:
    """Whether only the patient can change it, by the lab's email (appointments.md 7)."""
    return visit.type == CENTER and visit.provider in settings.SELF_SERVICE_LABS


SELF_SERVICE_SCRIPT: Final = gettext_noop(
    "Only the patient can change a booking at this lab. Say: “The lab has sent you an email about "
    "your appointment. Please open it and use its link to reschedule or cancel the appointment. If "
    "you cannot find it, check your spam folder or call the lab.”"
)


def why_not_move(order: Order, visit: Appointment) -> str:
    """Return why the appointment cannot be rescheduled, or an empty text."""
    if is_self_service(visit):
        return gettext(SELF_SERVICE_SCRIPT)
    if order.low_level_status in CANCELED_STATUSES:
        return gettext("The order is closed, so its visit can only be canceled.")
    if visit.event_status == "in_progress" or visit.status == "in_progress":
        return gettext("The visit is in progress.")
    if visit.event_status in ("pending", "reserved") and not visit.can_reschedule:
        return gettext("The visit has no time yet, so it cannot be rescheduled.")
    if not visit.can_reschedule:
        return gettext("This visit cannot be rescheduled. Cancel it and book again.")
    return ""


def why_not_cancel(visit: Appointment) -> str:
    if is_self_service(visit):
        return gettext(SELF_SERVICE_SCRIPT)
    if visit.event_status == "in_progress" or visit.status == "in_progress":
        return gettext("The visit is in progress.")
    return ""


def warnings(order: Order, visit: Appointment | None, now: datetime) -> list[Caution]:
    """Return the warnings that apply to this order and its appointment now."""
    texts = []
    start = visit.start_at if visit is not None and visit.type == HOME else None
    if start is not None and start - now < REFUND_PERIOD:
        words = gettext("Starts in under 24 hours. No longer refundable.")
        texts.append(Caution(words))
    if order.low_level_status == "requisition_bypassed":
        words = gettext(
            "This imported order has no requisition here. A provider that needs one moves the "
            "visit 24 hours before its start, so choose a time at least 48 hours ahead."
        )
        texts.append(Caution(words))
    return texts
