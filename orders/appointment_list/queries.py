"""The visits and orders of each tab of the appointment lists. Today shows some of them, too."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone
from django.utils.translation import gettext_noop

from orders.models import Appointment, Order
from orders.models.appointment import ENDED_STATUSES
from orders.models.order import BOOKABLE_STATUSES

TABS: Final = {
    "today": gettext_noop("Today"),
    "upcoming": gettext_noop("Upcoming"),
    "requested": gettext_noop("Requested, not scheduled"),
    "past": gettext_noop("Past"),
}
"""The tabs of visits."""
UNBOOKED_TABS: Final = {"book": gettext_noop("To book"), "rebook": gettext_noop("To rebook")}
"""The tabs of orders without a visit."""
CANCELED: Final = "cancelled"
CALLED_OFF: Final = "appointment_cancelled"
"""The status of an order whose visit was canceled."""


def current_appointments() -> QuerySet[Appointment]:
    """Return the visits that are neither replaced by another one nor canceled."""
    return Appointment.objects.filter(superseded_at=None).exclude(status=CANCELED)


def appointments_of_tab(
    rows: QuerySet[Appointment], tab: str, now: datetime, statuses: Collection[str] = ()
) -> QuerySet[Appointment]:
    """Return the visits of a tab. `statuses`: the filter by status, without which ended requests
    are left out.
    """
    if tab == "requested":
        rows = rows.filter(start_at=None)
        return rows if statuses else rows.exclude(status__in=ENDED_STATUSES)
    today = timezone.localdate(now)
    if tab == "today":
        return rows.filter(draw_day=today)
    # With the condition on the day, the scan of the index by day begins near today.
    if tab == "upcoming":
        return rows.filter(start_at__gte=now, draw_day__gte=today - timedelta(days=2))
    return rows.filter(start_at__lt=now, draw_day__lte=today + timedelta(days=2))


def unbooked_orders_of_tab(
    rows: QuerySet[Order], tab: str, types: Collection[str] = ()
) -> QuerySet[Order]:
    """Return the orders of a tab. `types`: the filter by the type of visit.

    To book: orders with complete paperwork and no visit. Without a filter by type, these are orders
    of the methods that the clinic books (`BOOKED_METHODS`): most patients may walk in without a
    booking. To rebook: orders whose visit was canceled and which have no other visit.
    """
    active = Appointment.objects.filter(order_id=OuterRef("pk"), superseded_at=None)
    active = active.exclude(status__in=ENDED_STATUSES).exclude(event_status__in=ENDED_STATUSES)
    rows = rows.filter(~Exists(active), missing_since=None)
    if tab == "rebook":
        return rows.filter(low_level_status=CALLED_OFF)
    if not types:
        rows = rows.filter(method__in=settings.BOOKED_METHODS)
    return rows.filter(low_level_status__in=BOOKABLE_STATUSES)
