"""Charts of wrong device data: other units, too large numbers and other clocks."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from backoffice.pages import charts as chart
from backoffice.pages.charts import BARS, LINE, SPAN, Chart, Point
from patients.wearables.charts import daily_charts, newest_days, newest_samples, sample_charts
from patients.wearables.handlers import handle_samples, handle_summaries
from patients.wearables.measures import DAILY, sample_measure
from patients.wearables.models import Series
from patients.wearables.spans import DAY, LENGTHS, WEEK, Span
from tests.api.rows import patient, staff
from tests.wearables.test_charts import ADDRESS, BERLIN, WHO, chart_context
from tests.wearables.test_samples import Item, sample, samples_event, stored_samples
from tests.wearables.test_summaries import WHEN, activity, summary

pytestmark = pytest.mark.django_db
AT = datetime(2026, 3, 29, 9, tzinfo=UTC)
BERLIN_WEEK = Span(WEEK, AT.date(), BERLIN)


def sample_chart(resource: str, span: Span = BERLIN_WEEK) -> Chart:
    (one,) = sample_charts(sample_measure(resource), list(Series.objects.all()), span)
    return one


def filled_points(one: Chart) -> list[Point]:
    return [point for point in one.points if point.value is not None]


def pressure_sample(
    at: datetime, systolic: float | None, diastolic: float | None, **more: Any
) -> Item:
    unit = {"unit": "mmHg", **more}
    return {**sample(at, None), "systolic": systolic, "diastolic": diastolic, **unit}


@pytest.fixture
def reader(client: Client) -> Client:
    client.force_login(staff("clinician"))
    patient(1, fallback_time_zone="America/Phoenix").save()
    return client


def device_page(reader: Client, **query: str) -> str:
    answer = reader.get(ADDRESS, query)
    assert answer.status_code == 200
    return answer.content.decode()


# Units


def test_samples_in_another_unit_are_left_out_with_note(reader: Client) -> None:
    sugars = [
        sample(AT, 5.5, unit="mmol/L"),
        sample(AT + timedelta(seconds=1), 110, unit="mg/dL"),
        sample(AT + timedelta(seconds=1, microseconds=5), 6.5, unit="mmol/L"),
        sample(AT + timedelta(seconds=2, microseconds=5), 120, unit="mg/dL"),
        sample(AT + timedelta(seconds=3), 7, unit=None),
    ]
    handle_samples([samples_event(1, "glucose", sugars)])
    (point,) = filled_points(sample_chart("glucose"))
    assert (point.value, point.low, point.high, point.count) == (6, 5.5, 6.5, 2)
    note = "3 samples are not shown: they have a different unit, no unit, or no usable number."
    assert sample_chart("glucose").note == note
    # below the title and in the table
    assert device_page(reader, measure="glucose").count(note) == 2


def test_chart_has_no_note_when_nothing_is_left_out(reader: Client) -> None:
    handle_samples(
        [samples_event(1, "glucose", [sample(AT, 5.5, type="automatic"), sample(AT, 6)])]
    )
    assert sample_chart("glucose").note == ""
    assert "not shown: " not in device_page(reader, measure="glucose")


def test_pressure_in_another_unit_is_left_out() -> None:
    other = pressure_sample(AT + timedelta(minutes=1), 16, 10.5, unit="kPa")
    handle_samples([samples_event(1, "blood_pressure", [pressure_sample(AT, 120, 80), other])])
    one = sample_chart("blood_pressure")
    ((point),) = filled_points(one)
    assert (point.low, point.high, point.count) == (80, 120, 1)
    assert one.note.startswith("1 sample is not shown")


def test_series_gets_unit_of_first_sample_with_one() -> None:
    bare, later = sample(AT, 60, unit=None), sample(AT + timedelta(minutes=1), 62)
    handle_samples([samples_event(1, "heartrate", [bare])])
    assert Series.objects.get().unit is None
    handle_samples([samples_event(2, "heartrate", [later])])
    assert Series.objects.get().unit == "bpm"
    handle_samples(
        [samples_event(3, "heartrate", [sample(AT + timedelta(minutes=2), 64, unit="Hz")])]
    )
    one = sample_chart("heartrate")
    assert (one.unit, filled_points(one)[0].count) == ("bpm", 2)
    assert [item["unit"] for item in stored_samples().values()] == ["bpm", "bpm", "Hz"]


def test_series_takes_unit_from_later_sample_of_event() -> None:
    handle_samples([samples_event(1, "heartrate", [sample(AT, 60, unit=None), sample(AT, 61)])])
    assert Series.objects.get().unit == "bpm"


# Rounding


def test_mean_lies_between_minimum_and_maximum() -> None:
    data = [sample(AT + timedelta(seconds=n), 0.1) for n in range(10)]
    handle_samples([samples_event(1, "body_temperature", data)])
    (point,) = filled_points(sample_chart("body_temperature"))
    assert (point.value, point.low, point.high) == (0.1, 0.1, 0.1)


@pytest.mark.parametrize("value", [36.6, 0.1, 1e17, 5e-324, 1.7e308, -1.7e308])
def test_rounding_error_is_not_charted_as_change(value: float) -> None:
    bottom, top, _ = chart.scale([value, value * (1 + 4e-16)], from_zero=False)
    assert top - bottom > 1e-4 * min(abs(value), chart.LARGEST)
    assert len(chart_context(LINE, [value, value])["levels"]) < 9
    assert len(chart_context(BARS, [value, value])["levels"]) < 9


# Blood pressure


def test_pressure_with_microseconds_is_charted() -> None:
    handle_samples(
        [
            samples_event(
                1, "blood_pressure", [pressure_sample(AT + timedelta(microseconds=250), 121.5, 80)]
            )
        ]
    )
    (point,) = filled_points(sample_chart("blood_pressure"))
    assert (point.low, point.high, point.count) == (80, 121.5, 1)


@pytest.mark.parametrize(
    ("upper", "lower", "cells"),
    [(None, 80, "<td>not given<td>80<td>1"), (120, None, "<td>120<td>not given<td>1")],
)
def test_pressure_with_one_value_is_shown(
    reader: Client, upper: float | None, lower: float | None, cells: str
) -> None:
    handle_samples([samples_event(1, "blood_pressure", [pressure_sample(AT, upper, lower)])])
    html = device_page(reader, measure="blood_pressure")
    assert cells in html
    assert ("–/80 mmHg" in html) == (upper is None)


# Large numbers and distant days


@pytest.mark.parametrize("resource", ["heartrate", "steps", "blood_pressure"])
@pytest.mark.parametrize(
    "values", [(1.7e308, 1.7e308), (1e200, 1), (1e17, 1e17), (-1.7e308, 1.7e308), (10**30, 1)]
)
@pytest.mark.parametrize("length", LENGTHS)
def test_too_large_numbers_have_a_page(
    reader: Client, resource: str, values: tuple[float, float], length: str
) -> None:
    data = [
        sample(AT + timedelta(seconds=n), value)
        if resource != "blood_pressure"
        else pressure_sample(AT + timedelta(seconds=n), value, value)
        for n, value in enumerate(values)
    ]
    handle_samples([samples_event(1, resource, data)])
    assert "<figure" in device_page(reader, measure=resource, range=length, last="2026-03-29")


def test_too_large_daily_numbers_have_a_page(reader: Client) -> None:
    handle_summaries(
        [activity(n, n=n, calories_active=1.7e308, distance=1e200 * n) for n in (1, 2)]
    )
    for measure in ("activity.calories_active", "activity.distance"):
        assert "<figure" in device_page(reader, measure=measure)
    (one,) = daily_charts(DAILY["activity.calories_active"], WHO, BERLIN_WEEK)
    assert one.note.startswith("2 samples are not shown") and not filled_points(one)


@pytest.mark.parametrize("day", ["9999-12-31", "0001-01-01", "1970-01-01"])
def test_summary_of_any_day_has_a_page(reader: Client, day: str) -> None:
    handle_summaries([summary(1, "activity", calendar_date=day, date=WHEN, steps=5)])
    for length in LENGTHS:
        device_page(reader, measure="activity.steps", range=length)
    device_page(reader)


# The latest day


def test_newest_value_comes_from_row_that_has_it() -> None:
    def activity_of(number: int, provider: str, **more: Any) -> Any:
        return activity(number, n=number, source={"provider": provider, "type": "watch"}, **more)

    handle_summaries([
        activity_of(1, "ring", steps=100, floors_climbed=3),
        activity_of(2, "band", steps=200, floors_climbed=None),
        activity_of(3, "scale", steps=None, floors_climbed=None),
    ])  # fmt: skip
    found = {
        one.measure.column: (one.value, one.source) for one in newest_days(WHO, BERLIN_WEEK.zone)
    }
    assert found["steps"] == ("200 steps", "band, watch")
    assert found["floors_climbed"] == ("3 floors", "ring, watch")


# Clocks


def test_floating_local_times_are_shown_as_sent(reader: Client, settings: Settings) -> None:
    late = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)
    handle_samples([samples_event(1, "glucose", [sample(late, 5)], provider="patch")])
    span = Span(DAY, date(2026, 3, 29), BERLIN)
    (point,) = filled_points(sample_chart("glucose", span))
    assert (point.label, sample_chart("glucose", span).times) == (
        "1:30 AM",
        "times in Europe/Berlin",
    )
    assert "Mar 28, 2026" in device_page(reader, range=DAY)
    settings.FLOATING_TIME_PROVIDERS = frozenset({"patch"})
    (point,) = filled_points(sample_chart("glucose", span))
    assert (point.label, sample_chart("glucose", span).times) == ("12:30 AM", "local time as sent")
    (newest,) = newest_samples(WHO)
    assert newest.floating
    html = device_page(reader, range=DAY)
    assert "Mar 29, 2026" in html and html.count("local time as sent") == 2


def test_pressure_chart_without_upper_values_says_so() -> None:
    context: dict[str, Any] = chart.chart_context(
        Chart("c", "x", "", SPAN, [Point("p", 80.0, 80.0, None, 1)], [], "day")
    )
    assert context["facts"] == [("Upper", "not given"), ("Lower", "80")]
