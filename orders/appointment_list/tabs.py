"""The tabs of the appointment list: visits by time, and orders that need a visit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import Exists, OuterRef, QuerySet
from django.http import QueryDict
from django.utils import timezone

from backoffice.accounts.access import may
from backoffice.core.urls import page_url
from backoffice.pages.lists.forms import filters_in
from backoffice.pages.paging.counts import Count, capped_counts
from orders.appointment_list.forms import (
    TABS,
    UNBOOKED_TABS,
    AppointmentFilters,
    AppointmentListFilters,
    UnbookedOrderFilters,
    VisitFilters,
    order_methods,
)
from orders.models import Appointment, Order
from orders.models.appointment import ENDED_STATUSES
from orders.models.order import BOOKABLE_STATUSES

CALLED_OFF: Final = "appointment_cancelled"
ALL_TABS: Final = {
    name: (TABS | UNBOOKED_TABS)[name]
    for name in ("today", "upcoming", "requested", "book", "rebook", "past")
}


@dataclass(frozen=True, slots=True)
class AppointmentTab:
    label: str
    url: str
    count: Count | None
    current: bool


def appointment_tabs(form: VisitFilters, user: Any) -> list[AppointmentTab]:
    """Return the tabs. The other tabs of a valid form have their counts, all by one query.

    The tabs of orders are on a page of their own. They keep the filters that it has, too.
    """
    names = [name for name in ALL_TABS if name in TABS or may(user, "orders.view")]
    current = form.cleaned_data.get("show")
    counted = [name for name in names if form.is_valid() and name != current]
    now = timezone.now()
    numbers = capped_counts(*(_rows_of_tab(name, form, now) for name in counted))
    counts = dict(zip(counted, numbers, strict=True))
    return [
        AppointmentTab(ALL_TABS[name], _tab_url(name, form), counts.get(name), name == current)
        for name in names
    ]


def appointments_of_tab(
    rows: QuerySet[Appointment], tab: str, now: datetime, statuses: Iterable[str] = ()
) -> QuerySet[Appointment]:
    """Return the visits of a tab. Canceled visits need a filter by status: `statuses`."""
    if not statuses:
        rows = rows.exclude(status="cancelled")
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


def appointments_of_day(
    rows: QuerySet[Appointment], form: AppointmentFilters, day: date
) -> QuerySet[Appointment]:
    """Return the visits of one day. Canceled visits need the filter by status."""
    if not form.cleaned_data.get("status"):
        rows = rows.exclude(status="cancelled")
    return rows.filter(draw_day=day)


def orders_to_book(types: Iterable[str]) -> QuerySet[Order]:
    """Return orders with complete paperwork and no booked visit.

    Without `types`, these are orders of the methods that the clinic books (`BOOKED_METHODS`). Most
    patients may walk in without a booking.
    """
    methods = order_methods(list(types)) or settings.BOOKED_METHODS
    rows = Order.objects.filter(low_level_status__in=BOOKABLE_STATUSES, method__in=methods)
    return _without_appointment(rows)


def orders_to_rebook() -> QuerySet[Order]:
    """Return orders whose visit was canceled and which have no other visit."""
    return _without_appointment(Order.objects.filter(low_level_status=CALLED_OFF))


def unbooked_orders_of_tab(tab: str, form: VisitFilters) -> QuerySet[Order]:
    """Return the orders of a tab that match a valid form."""
    rows = orders_to_rebook()
    if tab == "book":
        rows = orders_to_book(form.cleaned_data["type"])
    return form.filter_orders(rows)


def _without_appointment(rows: QuerySet[Order]) -> QuerySet[Order]:
    active = Appointment.objects.filter(order_id=OuterRef("pk"), superseded_at=None)
    active = active.exclude(status__in=ENDED_STATUSES).exclude(event_status__in=ENDED_STATUSES)
    return rows.filter(~Exists(active), missing_since=None)


def _rows_of_tab(name: str, form: VisitFilters, now: datetime) -> QuerySet[Any]:
    if name in UNBOOKED_TABS:
        return unbooked_orders_of_tab(name, form)
    rows = form.filter_appointments(Appointment.objects.filter(superseded_at=None))
    return appointments_of_tab(rows, name, now, form.cleaned_data.get("status", ()))


def _tab_url(name: str, form: VisitFilters) -> str:
    """Return the URL of a tab with the filters that its page has."""
    is_unbooked = name in UNBOOKED_TABS
    assert isinstance(form.data, QueryDict)
    known = (UnbookedOrderFilters if is_unbooked else AppointmentListFilters).base_fields
    query = {
        field: values
        for field, values in filters_in(form.data, form).items()
        if field in known and field in form.filter_names()
    }
    path = page_url("unbooked:list" if is_unbooked else "appointments:list")
    return f"{path}?{urlencode({'show': name, **query}, doseq=True)}"
