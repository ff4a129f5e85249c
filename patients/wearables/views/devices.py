"""The page of a patient's device data: one measure over a day, a week, a month or a year."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, timedelta
from typing import Final
from urllib.parse import urlencode
from uuid import UUID
from zoneinfo import ZoneInfo

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.http import require_safe

from backoffice.accounts.access import may, requires
from backoffice.audit.recording import record_view
from backoffice.pages.charts import Chart
from patients.models import Patient
from patients.patient_page import patient_page_context
from patients.sources import sources_of
from patients.wearables import charts
from patients.wearables.charts import Newest, NewestDay
from patients.wearables.measures import DAILY, TEXT_RESOURCES, Measure, sample_measure
from patients.wearables.recency import newest_data_by_provider
from patients.wearables.spans import DAY, FIRST, LABELS, LAST, LENGTHS, MONTH, WEEK, Span

MAX_CHARTS: Final = 4
"""Most sources of one measure that have a chart, those with the newest data first."""
_EARLIEST: Final = date(FIRST.year + 1, 1, 1)
_AHEAD: Final = timedelta(days=2)
_DATE_RANGE_ERROR: Final = gettext_noop("Choose a date from 1971 to 2098.")


class ChartForm(forms.Form):
    """The measure and the days to show. All fields are optional."""

    measure = forms.CharField(required=False, max_length=100)
    range = forms.ChoiceField(required=False, choices=[(name, name) for name in LENGTHS])
    last = forms.DateField(required=False)

    def clean_last(self) -> date | None:
        last: date | None = self.cleaned_data["last"]
        if last and not FIRST.year < last.year < LAST.year:
            raise forms.ValidationError(gettext(_DATE_RANGE_ERROR))
        return last


@requires("patients.view")
@require_safe
def device_data(request: HttpRequest, patient_id: UUID) -> HttpResponse:
    """Show the charts of one measure, one per source, and the other data of the patient."""
    page = patient_page_context(request, patient_id)
    patient = page["patient"]
    form = ChartForm(request.GET)
    valid = form.is_valid()
    data = form.cleaned_data
    zone = patient_time_zone(patient)
    newest = charts.newest_samples(patient_id)
    days = charts.newest_days(patient_id, zone)
    measure = _measure(data.get("measure", ""), newest, days)
    record_view(request, "device data", [patient_id], [patient_id])
    sources = sources_of(patient, newest_data_by_provider(patient_id))
    context: dict[str, object] = {
        **page,
        "sources": [(source, source.for_support(patient_id)) for source in sources],
        "may_change": may(request.user, "patients.change") and not patient.missing_since,
        "span_form": form,
        "newest": newest,
        "days": days,
        "choices": _choices(newest, days),
        "measure": measure,
        "words": measure is not None and measure.name in TEXT_RESOURCES,
    }
    if measure is not None:
        name = data.get("range") or (MONTH if measure.column else WEEK)
        if measure.column and name == DAY:
            name = WEEK  # A summary is for a whole day.
        last = data.get("last") or _newest_day(measure, newest, days, zone)
        span = Span(name, last, zone)
        shown_charts, left_out = _charts(measure, newest, patient_id, span)
        context |= {
            "span": span,
            "charts": shown_charts,
            "left_out": left_out,
            "ranges": [
                (gettext(LABELS[name]), _query(measure, Span(name, last, zone)), name == span.name)
                for name in LENGTHS
                if not (measure.column and name == DAY)
            ],
            "earlier": _query(measure, span.earlier()) if span.first.year > FIRST.year + 1 else "",
            "later": _query(measure, span.later()) if span.last < _today(zone) else "",
        }
    return render(request, "patients/wearables/devices.html", context, status=200 if valid else 400)


def _measure(name: str, newest: list[Newest], days: list[NewestDay]) -> Measure | None:
    """Return the requested measure, or the most common one that the patient has."""
    if name in DAILY:
        return DAILY[name]
    if name:
        return sample_measure(name)
    available = {sample.measure.name: sample.measure for sample in reversed(newest)}
    for common in ("heartrate", "glucose", "steps"):
        if common in available:
            return available[common]
    if newest:
        return newest[0].measure
    return days[0].measure if days else None


def _charts(
    measure: Measure, newest: list[Newest], patient_id: UUID, span: Span
) -> tuple[Sequence[Chart], int]:
    """Return the charts, and the number of further sources."""
    if measure.column:
        all_charts = charts.daily_charts(measure, patient_id, span)
        return all_charts[:MAX_CHARTS], max(0, len(all_charts) - MAX_CHARTS)
    if measure.name in TEXT_RESOURCES:
        return [], 0
    samples = [sample for sample in newest if sample.measure.name == measure.name]
    series = [sample.series for sample in samples]
    newest_at = {sample.series.pk: sample.at for sample in samples}
    all_charts = charts.sample_charts(measure, series[:MAX_CHARTS], span, newest_at)
    return all_charts, max(0, len(series) - MAX_CHARTS)


def _choices(
    newest: list[Newest], days: list[NewestDay]
) -> list[tuple[str, list[tuple[str, str]]]]:
    sampled = {sample.measure.name: gettext(sample.measure.label) for sample in newest}
    groups = [
        (gettext("Measured throughout the day"), sorted(sampled.items(), key=lambda pair: pair[1])),
        (
            gettext("Daily summaries"),
            [(day.measure.name, gettext(day.measure.label)) for day in days],
        ),
    ]
    return [(label, options) for label, options in groups if options]


def _newest_day(
    measure: Measure, newest: list[Newest], days: list[NewestDay], zone: ZoneInfo
) -> date:
    today = _today(zone)
    days_of_data = [
        sample.at.astimezone(UTC if sample.floating else zone).date()
        for sample in newest
        if sample.measure.name == measure.name
    ]
    if measure.column:
        days_of_data = [newest_day.day for newest_day in days if newest_day.measure is measure]
    # A summary may have any date, even an impossible one.
    return min(max(days_of_data[0], _EARLIEST), today + _AHEAD) if days_of_data else today


def _today(zone: ZoneInfo) -> date:
    return timezone.now().astimezone(zone).date()


def _query(measure: Measure, span: Span) -> str:
    return "?" + urlencode(
        {"measure": measure.name, "range": span.name, "last": span.last.isoformat()}
    )


def patient_time_zone(patient: Patient) -> ZoneInfo:
    """Return the time zone of the patient if it is known, else the current one."""
    for name in (patient.fallback_time_zone, timezone.get_current_timezone_name()):
        try:
            return ZoneInfo(name or "")
        except (LookupError, ValueError, OSError):
            continue
    return ZoneInfo("UTC")
