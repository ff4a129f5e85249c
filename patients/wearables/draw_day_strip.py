"""The draw-day strip: what the patient's devices saw around a draw. Context, not interpretation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from uuid import UUID
from zoneinfo import ZoneInfo

from django import forms
from django.core.exceptions import BadRequest
from django.db import connection
from django.db.models import Max, Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from backoffice import audit
from backoffice.core.access import requires
from patients.models import Patient
from patients.wearables.charts import POINTS, asked, floats, is_before_end
from patients.wearables.models import HistoricalPull, Series, Summary
from patients.wearables.recency import last_data
from patients.wearables.views.devices import zone_of_patient
from patients.wearables.views.pulls import TROUBLE

BEFORE: Final = 3
AFTER: Final = 1
HOUR: Final = timedelta(hours=1)
SERIES: Final = 4
"""Glucose meters that are looked at."""
OLD: Final = timedelta(days=2)
"""Data older than this, counted from the last day of the strip that is over, is a dead connection
rather than a device that has not sent yet."""


class Asked(forms.Form):
    day = forms.DateField(required=False, input_formats=["%Y-%m-%d"])


@dataclass(slots=True)
class Day:
    """One day on the patient's clock. None: no device said anything."""

    day: date
    draw: bool
    to_come: bool
    sleep: int | None = None
    """Seconds."""
    steps: int | None = None
    is_filling: bool = False
    """The steps were read before the day was over."""
    glucose: list[bool] = field(default_factory=list)
    """Of each hour, whether there is a value."""

    @property
    def covered(self) -> int:
        return sum(self.glucose)

    @property
    def hours(self) -> list[tuple[int, bool]]:
        return list(enumerate(self.glucose))


@requires("patients.view")
@require_safe
def strip(request: HttpRequest, patient_id: UUID) -> HttpResponse:
    """From three days before a draw to one after: a part of an order's page. Nothing at all where
    the patient has no device."""
    patient = Patient.objects.filter(pk=patient_id).defer("record", "content_hash").first()
    if patient is None:
        raise Http404
    form = Asked(request.GET)
    if not form.is_valid():
        raise BadRequest("The day must be written like 2026-11-21.")
    zone = zone_of_patient(patient)
    draw = form.cleaned_data["day"] or timezone.now().astimezone(zone).date()
    if not 1971 <= draw.year <= 2098:
        raise BadRequest("The day must be between 1971 and 2098.")
    last = last_data(patient_id)
    trouble = HistoricalPull.objects.filter(
        user=patient_id, status__in=TROUBLE, missing_since=None
    ).count()
    audit.record_view(request, "device data", [patient_id], [patient_id])
    if not last and not trouble:
        return HttpResponse()
    days = strip_days(patient_id, draw, zone)
    newest = max(last.values(), default=None)
    context = {
        "patient_id": patient_id,
        "days": days,
        "zone": zone.key,
        "sleep": any(one.sleep is not None for one in days),
        "steps": any(one.steps is not None for one in days),
        "glucose": any(one.covered for one in days),
        "newest": newest,
        "stale": newest is None or newest < _expected(draw, zone) - OLD,
        "trouble": trouble,
    }
    return render(request, "patients/wearables/_strip.html", context)


def strip_days(patient_id: UUID, draw: date, zone: ZoneInfo) -> list[Day]:
    today = timezone.now().astimezone(zone).date()
    first = draw - timedelta(days=BEFORE)
    days = {
        one: Day(one, draw=one == draw, to_come=one > today)
        for one in (first + timedelta(days=n) for n in range(BEFORE + AFTER + 1))
    }
    rows = (
        Summary.objects.filter(
            user_id=patient_id,
            resource__in=("sleep", "activity"),
            calendar_date__in=list(days),
            missing_since=None,
        )
        .order_by()
        .values_list("calendar_date")
        # Of several devices the one that saw most: they saw the same night and the same steps.
        .annotate(
            read_at=Max("as_of", filter=Q(steps__isnull=False)),
            sleep=Max("total"),
            steps=Max("steps"),
        )
    )
    for on, read_at, sleep, steps in rows:
        days[on].sleep, days[on].steps = sleep, steps
        days[on].is_filling = read_at is not None and is_before_end(read_at, on, zone)
    _cover(days, patient_id, zone)
    return list(days.values())


def _cover(days: dict[date, Day], patient_id: UUID, zone: ZoneInfo) -> None:
    """Hours with a glucose value, by the patient's clock; a day of a change of the clock has one
    hour less or more."""
    found = Series.objects.filter(user_id=patient_id, resource="glucose").order_by("pk")
    for series in found[:SERIES]:
        clock = ZoneInfo("UTC") if floats(series.provider) else zone
        edges = _hours(days, clock)
        with connection.cursor() as cursor:
            cursor.execute(POINTS, asked(series, edges))
            seen = {bucket for bucket, count, *_ in cursor.fetchall() if count}
        for number, edge in enumerate(edges[:-1], 1):
            day = days[edge.astimezone(clock).date()]
            position = int((edge - _midnight(day.day, clock)) / HOUR)
            while len(day.glucose) <= position:
                day.glucose.append(False)
            day.glucose[position] |= number in seen


def _hours(days: Sequence[date] | dict[date, Day], zone: ZoneInfo) -> list[datetime]:
    begin = _midnight(min(days), zone)
    end = _midnight(max(days) + timedelta(days=1), zone)
    return [begin + HOUR * n for n in range(int((end - begin) / HOUR) + 1)]


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, time(), zone).astimezone(UTC)


def _expected(draw: date, zone: ZoneInfo) -> datetime:
    """The end of the strip, as far as it is over: until then there should be data."""
    return min(timezone.now(), _midnight(draw + timedelta(days=AFTER + 1), zone))
