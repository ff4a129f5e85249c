"""The tabs of the two appointment lists: visits by time, and orders that need a visit."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import QueryDict
from django.utils.translation import gettext

from backoffice.accounts.access import may
from backoffice.core.urls import page_url
from backoffice.pages.lists.filters import ListFilterSet
from backoffice.pages.lists.forms import filters_in
from backoffice.pages.paging.counts import capped_counts
from backoffice.pages.tabs import Tab
from orders.appointment_list.filters import AppointmentListFilterSet, UnbookedOrderFilterSet
from orders.appointment_list.queries import TABS, UNBOOKED_TABS
from orders.models import Appointment, Order

ALL_TABS: Final = {
    name: (TABS | UNBOOKED_TABS)[name]
    for name in ("today", "upcoming", "requested", "book", "rebook", "past")
}


def appointment_tabs(filters: ListFilterSet) -> list[Tab]:
    """Return the tabs of both lists. Each keeps the filters that its list has, too.

    With valid filters, the tabs other than the current one have their counts, all by one query.
    """
    other = _filters_of_other_list(filters)
    visits, orders = (
        (filters, other) if isinstance(filters, AppointmentListFilterSet) else (other, filters)
    )
    names = [name for name in ALL_TABS if name in TABS or may(filters.user, "orders.view")]
    filters_by_tab = {name: visits if name in TABS else orders for name in names}
    current = filters.form.tab
    counted = [name for name in names if name != current] if filters.is_valid() else []
    numbers = capped_counts(*(_rows_of_tab(filters_by_tab[name], name) for name in counted))
    counts = dict(zip(counted, numbers, strict=True))
    return [
        Tab(gettext(ALL_TABS[name]), _tab_url(name, each), name == current, counts.get(name))
        for name, each in filters_by_tab.items()
    ]


def _filters_of_other_list(filters: ListFilterSet) -> ListFilterSet:
    """Return the filters of the other list, with the values of those that both lists have."""
    other: type[ListFilterSet] = AppointmentListFilterSet
    rows: QuerySet[Any] = Appointment.objects.filter(superseded_at=None)
    if isinstance(filters, AppointmentListFilterSet):
        other, rows = UnbookedOrderFilterSet, Order.objects.all()
    query = {
        name: values
        for name, values in _filter_query(filters).items()
        if name in other.base_filters
    }
    return other(QueryDict(urlencode(query, doseq=True)), rows, user=filters.user)


def _rows_of_tab(filters: ListFilterSet, tab: str) -> QuerySet[Any]:
    """Return the rows of a tab that match the other filters."""
    rows: QuerySet[Any] = filters.filters["show"].filter(filters.rows_of_all_tabs(), tab)
    return rows


def _filter_query(filters: ListFilterSet) -> dict[str, list[str]]:
    """Return the parameters of the filters, without tab, sort and position."""
    names, query = filters.form.filter_names(), filters_in(filters.data, filters.form)
    return {name: values for name, values in query.items() if name in names}


def _tab_url(name: str, filters: ListFilterSet) -> str:
    """Return the URL of a tab with the filters of its list."""
    path = page_url("appointments:list" if name in TABS else "unbooked:list")
    return f"{path}?{urlencode({'show': name, **_filter_query(filters)}, doseq=True)}"
