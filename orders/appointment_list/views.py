"""Pages of the visits of all patients besides the list: week, one day by site, print sheet."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, Final

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from backoffice.accounts.access import requires, staff_user
from backoffice.audit.recording import record_entry, record_list
from backoffice.pages.lists.fields import response_status
from backoffice.pages.paging.counts import capped_counts
from backoffice.pages.query_strings import address_with
from orders.appointment_list.filters import AppointmentFilterSet, DayField
from orders.appointment_list.rows import (
    DEFERRED_ON_DAY_PAGES,
    AppointmentRow,
    appointment_rows,
    group_by_site,
    row_actions,
    week_appointments,
    week_days,
)
from orders.models import Appointment

MAX_PER_DAY: Final = 40
"""Most visits that the week page shows of each day. The list page shows all."""
MAX_BY_SITE: Final = 500
"""Most visits on the page of one day by site. Staff filter longer days by provider."""
MAX_ON_SHEET: Final = 1_000


@requires("appointments.view")
@require_safe
def week(request: HttpRequest) -> HttpResponse:
    """Show seven days of all patients. Days are calendar days in the zone of the draw."""
    filters = _filters(request)
    days = week_days(_day_parameter(request, "from") or timezone.localdate())
    counts = capped_counts(*(filters.qs.filter(draw_day=day) for day in days))
    week_rows = week_appointments(filters.qs, days, MAX_PER_DAY)
    _record_list(request, week_rows)
    columns: dict[date | None, list[AppointmentRow]] = {day: [] for day in days}
    for visit in appointment_rows(week_rows, by_name=filters.form.by_name):
        columns[visit.day].append(visit)
    context = {
        "columns": [
            {"day": day, "visits": columns[day], "count": count, "rest": count.value > MAX_PER_DAY}
            for day, count in zip(days, counts, strict=True)
        ],
        "days": days,
        "before": days[0] - timedelta(days=7),
        "after": days[0] + timedelta(days=7),
        "shown": [("from", days[0].isoformat())],
    }
    return _render(request, "week", filters, context)


@requires("appointments.view")
@require_safe
def sites(request: HttpRequest) -> HttpResponse:
    """Show one day by site and area."""
    filters = _filters(request)
    context = _day_context(request, filters, MAX_BY_SITE)
    _record_list(request, context["appointments"])
    user = staff_user(request)
    context["groups"] = [
        (site, [(visit, row_actions(visit, user)) for visit in site.visits])
        for site in context["sites"]
    ]
    return _render(request, "sites", filters, context)


@requires("appointments.view", "patients.view")
@require_safe
def sheet(request: HttpRequest) -> HttpResponse:
    """Show one day by site for printing; recorded as a print."""
    filters = _filters(request)
    context = _day_context(request, filters, MAX_ON_SHEET)
    rows = context["appointments"]
    record_entry(
        request,
        "print",
        "appointment",
        ids=[row.pk for row in rows],
        patients=[row.user_id for row in rows],
        row_count=len(rows),
    )
    return _render(request, "sheet", filters, context)


def _filters(request: HttpRequest) -> AppointmentFilterSet:
    visits = Appointment.objects.filter(superseded_at=None).defer(*DEFERRED_ON_DAY_PAGES)
    return AppointmentFilterSet(request.GET, visits, user=request.user)


def _day_context(request: HttpRequest, filters: AppointmentFilterSet, most: int) -> dict[str, Any]:
    """Return the visits of a day, at most `most`."""
    day = _day_parameter(request, "day") or timezone.localdate()
    visits = list(filters.qs.filter(draw_day=day).order_by("start_at", "id")[: most + 1])
    shown_visits = visits[:most]
    return {
        "day": day,
        "before": day - timedelta(days=1),
        "after": day + timedelta(days=1),
        "appointments": shown_visits,
        "sites": group_by_site(appointment_rows(shown_visits, by_name=filters.form.by_name)),
        "shown": [("day", day.isoformat())],
        "most": most if len(visits) > most else 0,
    }


def _day_parameter(request: HttpRequest, name: str) -> date | None:
    """Return a day given in the URL; None if it is missing or not a date."""
    try:
        return DayField(required=False).clean(request.GET.get(name, ""))
    except ValidationError:
        return None


def _record_list(request: HttpRequest, rows: Sequence[Appointment]) -> None:
    record_list(request, "appointment", (row.pk for row in rows), (row.user_id for row in rows))


def _render(
    request: HttpRequest, page: str, filters: AppointmentFilterSet, context: dict[str, Any]
) -> HttpResponse:
    form = filters.form
    shared = {
        "form": form,
        "sees_names": form.by_name,
        "today": timezone.localdate(),
        "zone": timezone.get_current_timezone_name().replace("_", " "),
        "view": page,
        "is_filtered": form.is_filtered(),
        "active_filters": form.active_filters(request.GET),
        "clear_url": address_with(request.GET, **dict.fromkeys(form.filter_names())),
    }
    return render(
        request, f"appointments/{page}.html", {**shared, **context}, status=response_status(form)
    )
