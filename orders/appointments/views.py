"""Pages of the visits of all patients: the list by day, the week, one day by site, its sheet."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, Final, cast

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from backoffice import audit
from backoffice.core.access import may, requires
from backoffice.models import User
from backoffice.pages.lists.fields import status_of
from backoffice.pages.paging.counts import Count, capped_counts
from backoffice.pages.paging.pages import Page, Sort, fetch_page, page_position
from orders.appointments.forms import TABS, AppointmentFilters, DayField
from orders.appointments.rows import (
    NOT_OF_A_DAY,
    Visit,
    Waiting,
    actions,
    by_site,
    of_week,
    to_book,
    to_rebook,
    visits,
    waiting,
    week_of,
)
from orders.models import Appointment
from orders.scheduling.rules import CENTER, HOME

SIZE: Final = 50
OF_A_DAY: Final = 40
"""Visits of each day in the week; the list has all."""
ON_A_PAGE: Final = 500
"""Visits of one day by site: a day with more is looked at by provider."""
ON_PAPER: Final = 1_000

WITHOUT_VISIT: Final = {"book": "To book", "rebook": "To rebook"}
OLDEST: Final = Sort(("created_at", "id"))
ORDER_OF_TABS: Final = ("today", "upcoming", "requested", "book", "rebook", "past")


@requires("appointments.view")
@require_safe
def appointments(request: HttpRequest) -> HttpResponse:
    """Visits by day, in the draw's zone with the staff member's clock beside it; and the orders
    that wait for a visit."""
    now, user = timezone.now(), cast(User, request.user)
    form = _filters(request)
    tab = request.GET.get("show", "upcoming")
    tab = tab if tab in ORDER_OF_TABS else "upcoming"
    rows = form.apply(Appointment.objects.defer("record", "content_hash"))
    types = form.cleaned_data.get("type") or []
    orders = {
        "book": form.apply_to_orders(to_book(types)),
        "rebook": form.apply_to_orders(to_rebook()),
    }
    if form.errors:
        rows, orders = rows.none(), {name: each.none() for name, each in orders.items()}
    if not may(user, "orders.view"):
        orders = {}
    shown = {name: form.shown(rows, name, now) for name in TABS}
    names = [name for name in ORDER_OF_TABS if name in shown or name in orders]
    counts = dict(zip(names, _counts([*map((shown | orders).get, names)]), strict=True))
    page: Page[Any]
    found: list[Visit] = []
    unbooked: list[Waiting] = []
    if tab in orders:
        page = fetch_page(orders[tab], OLDEST, size=SIZE, **page_position(request))
        unbooked = waiting(page.rows)
        audit.listed(
            request, "order", (row.pk for row in page.rows), (row.user_id for row in page.rows)
        )
    else:
        tab = tab if tab in TABS else "upcoming"
        page = fetch_page(shown[tab], TABS[tab][1], size=SIZE, **page_position(request))
        found = visits(page.rows)
        _listed(request, page.rows)
    context = {
        "tab": tab,
        "tabs": [(name, _label(name), counts[name]) for name in names],
        "page": page,
        "total": counts[tab],
        "visits": found,
        "rows": [(visit, actions(visit, user)) for visit in found],
        "waiting": unbooked,
        "may_book": may(user, "appointments.change", "patients.view", "orders.view"),
        "kind": types[0] if len(types) == 1 else "",
        "home": HOME,
        "center": CENTER,
        # Which draws are to book stands above the table, as links.
        "chips": [chip for chip in form.chips() if tab != "book" or chip["name"] == "mine"],
    }
    return _render(request, "list", form, context)


@requires("appointments.view")
@require_safe
def week(request: HttpRequest) -> HttpResponse:
    """Seven days of all patients, each by the calendar of its draws."""
    form = _filters(request)
    today = timezone.localdate()
    days = week_of(_day(request, "from") or today)
    rows = form.apply(Appointment.objects.all())
    if form.errors:
        rows = rows.none()
    counts = _counts([form.of_day(rows, day) for day in days])
    found = [] if form.errors else of_week(rows, form, days, OF_A_DAY)
    _listed(request, found)
    columns: dict[date | None, list[Visit]] = {day: [] for day in days}
    for visit in visits(found):
        columns[visit.day].append(visit)
    context = {
        "columns": [
            {"day": day, "visits": columns[day], "count": count, "rest": count.value > OF_A_DAY}
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
    """One day by site and area."""
    form = _filters(request)
    context = _one_day(request, form, 0 if form.errors else ON_A_PAGE)
    _listed(request, context["appointments"])
    user = cast(User, request.user)
    context["groups"] = [
        (site, [(visit, actions(visit, user)) for visit in site.visits])
        for site in context["sites"]
    ]
    return _render(request, "sites", form, {**context, "chips": form.chips()})


@requires("appointments.view", "patients.view")
@require_safe
def sheet(request: HttpRequest) -> HttpResponse:
    """The same for paper; recorded as a print."""
    form = _filters(request)
    context = _one_day(request, form, 0 if form.errors else ON_PAPER)
    rows = context["appointments"]
    audit.record(
        request,
        "print",
        "appointment",
        ids=[row.pk for row in rows],
        patients=[row.user_id for row in rows],
        row_count=len(rows),
    )
    return _render(request, "sheet", form, context)


def _filters(request: HttpRequest) -> AppointmentFilters:
    """As far as they could be read."""
    form = AppointmentFilters(
        request.GET, by_name=may(request.user, "patients.view"), user=cast(User, request.user)
    )
    form.full_clean()
    return form


def _one_day(request: HttpRequest, form: AppointmentFilters, most: int) -> dict[str, Any]:
    day = _day(request, "day") or timezone.localdate()
    rows = form.of_day(form.apply(Appointment.objects.defer(*NOT_OF_A_DAY)), day)
    found = list(rows.order_by("start_at", "id")[: most + 1]) if most else []
    shown = found[:most]
    by_name = may(request.user, "patients.view")
    return {
        "day": day,
        "before": day - timedelta(days=1),
        "after": day + timedelta(days=1),
        "appointments": shown,
        "sites": by_site(visits(shown), by_name=by_name),
        "most": most if len(found) > most else 0,
    }


def _day(request: HttpRequest, name: str) -> date | None:
    """A day of the address; None for anything that is none."""
    try:
        return DayField(required=False).clean(request.GET.get(name, ""))
    except ValidationError:
        return None


def _counts(sets: Sequence[Any]) -> list[Count]:
    return capped_counts(*sets)


def _label(name: str) -> str:
    return WITHOUT_VISIT[name] if name in WITHOUT_VISIT else TABS[name][0]


def _listed(request: HttpRequest, rows: Sequence[Appointment]) -> None:
    audit.listed(request, "appointment", (row.pk for row in rows), (row.user_id for row in rows))


def _render(
    request: HttpRequest, page: str, form: AppointmentFilters, context: dict[str, Any]
) -> HttpResponse:
    shared = {
        "form": form,
        "sees_names": form.by_name,
        "today": timezone.localdate(),
        "zone": timezone.get_current_timezone_name().replace("_", " "),
        "view": page,
    }
    return render(
        request, f"appointments/{page}.html", {**shared, **context}, status=status_of(form)
    )
