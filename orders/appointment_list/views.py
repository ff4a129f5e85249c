"""Pages of the visits of all patients: list by day, week, one day by site, print sheet, export."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, Final, cast

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from backoffice.accounts.access import may, requires
from backoffice.accounts.models import User
from backoffice.audit.recording import record_entry, record_list
from backoffice.pages.lists.export import download
from backoffice.pages.lists.fields import response_status
from backoffice.pages.lists.filters import ListFilterSet
from backoffice.pages.paging.counts import Count, capped_counts
from backoffice.pages.paging.pages import Page, Sort, fetch_page, page_position
from backoffice.pages.query_strings import address_with
from orders.appointment_list.export import WHAT, WHEN, WHERE, WHO, AppointmentExport
from orders.appointment_list.forms import TABS, AppointmentFilters, DayField
from orders.appointment_list.rows import (
    DEFERRED_ON_DAY_PAGES,
    AppointmentRow,
    UnbookedOrder,
    appointment_rows,
    group_by_site,
    orders_to_book,
    orders_to_rebook,
    row_actions,
    unbooked_orders,
    week_appointments,
    week_days,
)
from orders.models import Appointment
from orders.rules.appointment_rules import CENTER, HOME

PAGE_SIZE: Final = 50
MAX_PER_DAY: Final = 40
"""Most visits that the week page shows of each day. The list page shows all."""
MAX_BY_SITE: Final = 500
"""Most visits on the page of one day by site. Staff filter longer days by provider."""
MAX_ON_SHEET: Final = 1_000

UNBOOKED_TABS: Final = {"book": "To book", "rebook": "To rebook"}
OLDEST_FIRST: Final = Sort(("created_at", "id"))
TAB_ORDER: Final = ("today", "upcoming", "requested", "book", "rebook", "past")


@requires("appointments.view")
@require_safe
def appointments(request: HttpRequest) -> HttpResponse:
    """List visits by day in both zones, and the orders that need a visit."""
    now, user = timezone.now(), cast(User, request.user)
    form = _filters(request)
    tab = request.GET.get("show", "upcoming")
    tab = tab if tab in TAB_ORDER else "upcoming"
    rows = form.filter_appointments(Appointment.objects.defer("record", "content_hash"))
    types = form.cleaned_data.get("type") or []
    orders = {
        "book": form.filter_orders(orders_to_book(types)),
        "rebook": form.filter_orders(orders_to_rebook()),
    }
    if form.errors:
        rows, orders = rows.none(), {name: each.none() for name, each in orders.items()}
    if not may(user, "orders.view"):
        orders = {}
    tab_rows = {name: form.rows_of_tab(rows, name, now) for name in TABS}
    names = [name for name in TAB_ORDER if name in tab_rows or name in orders]
    counts = dict(zip(names, _capped_counts([*map((tab_rows | orders).get, names)]), strict=True))
    page: Page[Any]
    page_rows: list[AppointmentRow] = []
    unbooked: list[UnbookedOrder] = []
    if tab in orders:
        page = fetch_page(orders[tab], OLDEST_FIRST, size=PAGE_SIZE, **page_position(request))
        unbooked = unbooked_orders(page.rows)
        record_list(
            request, "order", (row.pk for row in page.rows), (row.user_id for row in page.rows)
        )
    else:
        tab = tab if tab in TABS else "upcoming"
        page = fetch_page(tab_rows[tab], TABS[tab][1], size=PAGE_SIZE, **page_position(request))
        page_rows = appointment_rows(page.rows)
        _record_list(request, page.rows)
    context = {
        "tab": tab,
        "tabs": [(name, _tab_label(name), counts[name]) for name in names],
        "page": page,
        "total": counts[tab],
        "visits": page_rows,
        "rows": [(visit, row_actions(visit, user)) for visit in page_rows],
        "waiting": unbooked,
        "may_book": may(user, "appointments.change", "patients.view", "orders.view"),
        "kind": types[0] if len(types) == 1 else "",
        "home": HOME,
        "center": CENTER,
        # On the tab "To book", the type is shown as links above the table.
        "chips": [chip for chip in form.chips() if tab != "book" or chip["name"] == "mine"],
    }
    return _render(request, "list", form, context)


@requires("appointments.view")
@require_safe
def week(request: HttpRequest) -> HttpResponse:
    """Show seven days of all patients. Days are calendar days in the zone of the draw."""
    form = _filters(request)
    today = timezone.localdate()
    days = week_days(_day_parameter(request, "from") or today)
    rows = form.filter_appointments(Appointment.objects.all())
    if form.errors:
        rows = rows.none()
    counts = _capped_counts([form.rows_of_day(rows, day) for day in days])
    week_rows = [] if form.errors else week_appointments(rows, form, days, MAX_PER_DAY)
    _record_list(request, week_rows)
    columns: dict[date | None, list[AppointmentRow]] = {day: [] for day in days}
    for visit in appointment_rows(week_rows):
        columns[visit.day].append(visit)
    context = {
        "columns": [
            {"day": day, "visits": columns[day], "count": count, "rest": count.value > MAX_PER_DAY}
            for day, count in zip(days, counts, strict=True)
        ],
        "days": days,
        "before": days[0] - timedelta(days=7),
        "after": days[0] + timedelta(days=7),
        "chips": form.chips(),
    }
    return _render(request, "week", form, context)


@requires("appointments.view")
@require_safe
def sites(request: HttpRequest) -> HttpResponse:
    """Show one day by site and area."""
    form = _filters(request)
    context = _day_context(request, form, 0 if form.errors else MAX_BY_SITE)
    _record_list(request, context["appointments"])
    user = cast(User, request.user)
    context["groups"] = [
        (site, [(visit, row_actions(visit, user)) for visit in site.visits])
        for site in context["sites"]
    ]
    return _render(request, "sites", form, {**context, "chips": form.chips()})


@requires("appointments.view", "patients.view")
@require_safe
def sheet(request: HttpRequest) -> HttpResponse:
    """Show one day by site for printing; recorded as a print."""
    form = _filters(request)
    context = _day_context(request, form, 0 if form.errors else MAX_ON_SHEET)
    rows = context["appointments"]
    record_entry(
        request,
        "print",
        "appointment",
        ids=[row.pk for row in rows],
        patients=[row.user_id for row in rows],
        row_count=len(rows),
    )
    return _render(request, "sheet", form, context)


@requires("appointments.view", "lists.export")
@require_POST
def export(request: HttpRequest) -> HttpResponseBase:
    """Download the visits of a tab with its filters.

    Users who may not see names do not get the place either: a home draw is at the patient's home.
    """
    data = QueryDict(request.POST.get("query", "").lstrip("?").replace("\x00", "")[:4_000])
    by_name = may(request.user, "patients.view")
    form = AppointmentFilters(data, by_name=by_name, user=cast(User, request.user))
    tab = data.get("show", "upcoming")
    if tab not in TABS or not form.is_valid():
        messages.error(request, "This tab, or these filters, cannot be downloaded.")
        return redirect("appointments:list")
    rows = form.filter_appointments(Appointment.objects.defer("record", "content_hash"))
    tab_rows = form.rows_of_tab(rows, tab, timezone.now())
    columns = (WHEN, WHO, WHAT, WHERE) if by_name else (WHEN, WHAT)
    listing = AppointmentExport(TABS[tab][1])
    filters = ListFilterSet({}, tab_rows, user=request.user)
    return download(request, listing, filters, tab_rows, columns, bom="bom" in request.POST)


def _filters(request: HttpRequest) -> AppointmentFilters:
    """Return the filter form, cleaned as far as it is valid."""
    form = AppointmentFilters(
        request.GET, by_name=may(request.user, "patients.view"), user=cast(User, request.user)
    )
    form.full_clean()
    return form


def _day_context(request: HttpRequest, form: AppointmentFilters, most: int) -> dict[str, Any]:
    day = _day_parameter(request, "day") or timezone.localdate()
    rows = form.rows_of_day(
        form.filter_appointments(Appointment.objects.defer(*DEFERRED_ON_DAY_PAGES)), day
    )
    visits = list(rows.order_by("start_at", "id")[: most + 1]) if most else []
    shown_visits = visits[:most]
    by_name = may(request.user, "patients.view")
    return {
        "day": day,
        "before": day - timedelta(days=1),
        "after": day + timedelta(days=1),
        "appointments": shown_visits,
        "sites": group_by_site(appointment_rows(shown_visits), by_name=by_name),
        "most": most if len(visits) > most else 0,
    }


def _day_parameter(request: HttpRequest, name: str) -> date | None:
    """Return a day given in the URL; None if it is missing or not a date."""
    try:
        return DayField(required=False).clean(request.GET.get(name, ""))
    except ValidationError:
        return None


def _capped_counts(sets: Sequence[Any]) -> list[Count]:
    return capped_counts(*sets)


def _tab_label(name: str) -> str:
    return UNBOOKED_TABS[name] if name in UNBOOKED_TABS else TABS[name][0]


def _record_list(request: HttpRequest, rows: Sequence[Appointment]) -> None:
    record_list(request, "appointment", (row.pk for row in rows), (row.user_id for row in rows))


def _render(
    request: HttpRequest, page: str, form: AppointmentFilters, context: dict[str, Any]
) -> HttpResponse:
    shared = {
        "form": form,
        "sees_names": form.by_name,
        "today": timezone.localdate(),
        "zone": timezone.get_current_timezone_name().replace("_", " "),
        "view": page,
        "clear_url": address_with(request.GET, **dict.fromkeys(AppointmentFilters.base_fields)),
    }
    return render(
        request, f"appointments/{page}.html", {**shared, **context}, status=response_status(form)
    )
