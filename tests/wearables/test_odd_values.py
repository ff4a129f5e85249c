"""Charts and page of what devices send by mistake: other units, too large numbers, other clocks."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from backoffice.pages.templatetags import chart
from backoffice.pages.templatetags.chart import BARS, LINE, SPAN, Chart, Point
from patients.wearables.charts import daily_charts, newest_days, newest_samples, sample_charts
from patients.wearables.handlers import handle_samples, handle_summaries
from patients.wearables.measures import DAILY, sample_measure
from patients.wearables.models import Series
from patients.wearables.spans import DAY, LENGTHS, WEEK, Span
from tests.api.rows import patient, staff
from tests.wearables.test_charts import ADDRESS, BERLIN, WHO, drawing
from tests.wearables.test_samples import Item, heard, kept, sample
from tests.wearables.test_summaries import WHEN, activity, summary

pytestmark = pytest.mark.django_db
AT = datetime(2026, 3, 29, 9, tzinfo=UTC)
THERE = Span(WEEK, AT.date(), BERLIN)


def drawn(resource: str, span: Span = THERE) -> Chart:
    (one,) = sample_charts(sample_measure(resource), list(Series.objects.all()), span)
    return one


def points(one: Chart) -> list[Point]:
    return [point for point in one.points if point.value is not None]


def pair(at: datetime, systolic: float | None, diastolic: float | None, **more: Any) -> Item:
    unit = {"unit": "mmHg", **more}
    return {**sample(at, None), "systolic": systolic, "diastolic": diastolic, **unit}


@pytest.fixture
def reader(client: Client) -> Client:
    client.force_login(staff("clinician"))
    patient(1, fallback_time_zone="America/Phoenix").save()
    return client


def page(reader: Client, **query: str) -> str:
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
    handle_samples([heard(1, "glucose", sugars)])
    (point,) = points(drawn("glucose"))
    assert (point.value, point.low, point.high, point.count) == (6, 5.5, 6.5, 2)
    words = "3 samples are left out: in another unit, without unit, or without a number to draw."
    assert drawn("glucose").note == words
    assert page(reader, measure="glucose").count(words) == 2  # Below the title, and in the table.


def test_chart_has_no_note_if_nothing_is_left_out(reader: Client) -> None:
    handle_samples([heard(1, "glucose", [sample(AT, 5.5, type="automatic"), sample(AT, 6)])])
    assert drawn("glucose").note == ""
    assert "left out" not in page(reader, measure="glucose")


def test_a_pressure_in_another_unit_is_left_out() -> None:
    other = pair(AT + timedelta(minutes=1), 16, 10.5, unit="kPa")
    handle_samples([heard(1, "blood_pressure", [pair(AT, 120, 80), other])])
    one = drawn("blood_pressure")
    ((point),) = points(one)
    assert (point.low, point.high, point.count) == (80, 120, 1)
    assert one.note.startswith("1 sample is left out")


def test_series_gets_unit_of_first_sample_with_one() -> None:
    bare, later = sample(AT, 60, unit=None), sample(AT + timedelta(minutes=1), 62)
    handle_samples([heard(1, "heartrate", [bare])])
    assert Series.objects.get().unit is None
    handle_samples([heard(2, "heartrate", [later])])
    assert Series.objects.get().unit == "bpm"
    handle_samples([heard(3, "heartrate", [sample(AT + timedelta(minutes=2), 64, unit="Hz")])])
    one = drawn("heartrate")
    assert (one.unit, points(one)[0].count) == ("bpm", 2)
    assert [item["unit"] for item in kept().values()] == ["bpm", "bpm", "Hz"]


def test_unit_of_a_later_sample_counts() -> None:
    handle_samples([heard(1, "heartrate", [sample(AT, 60, unit=None), sample(AT, 61)])])
    assert Series.objects.get().unit == "bpm"


# Rounding


def test_a_mean_lies_within_its_ends() -> None:
    data = [sample(AT + timedelta(seconds=n), 0.1) for n in range(10)]
    handle_samples([heard(1, "body_temperature", data)])
    (point,) = points(drawn("body_temperature"))
    assert (point.value, point.low, point.high) == (0.1, 0.1, 0.1)


@pytest.mark.parametrize("value", [36.6, 0.1, 1e17, 5e-324, 1.7e308, -1.7e308])
def test_rounding_error_is_not_charted_as_change(value: float) -> None:
    bottom, top, _ = chart.scale([value, value * (1 + 4e-16)], from_zero=False)
    assert top - bottom > 1e-4 * min(abs(value), chart.LARGEST)
    assert len(drawing(LINE, [value, value])["levels"]) < 9
    assert len(drawing(BARS, [value, value])["levels"]) < 9


# Blood pressure


def test_pressure_with_microseconds_is_charted() -> None:
    handle_samples(
        [heard(1, "blood_pressure", [pair(AT + timedelta(microseconds=250), 121.5, 80)])]
    )
    (point,) = points(drawn("blood_pressure"))
    assert (point.low, point.high, point.count) == (80, 121.5, 1)


@pytest.mark.parametrize(
    ("upper", "lower", "cells"),
    [(None, 80, "<td>not given<td>80<td>1"), (120, None, "<td>120<td>not given<td>1")],
)
def test_pressure_with_one_value_is_shown(
    reader: Client, upper: float | None, lower: float | None, cells: str
) -> None:
    handle_samples([heard(1, "blood_pressure", [pair(AT, upper, lower)])])
    shown = page(reader, measure="blood_pressure")
    assert cells in shown
    assert ("–/80 mmHg" in shown) == (upper is None)


# Numbers and days that one can store


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
        else pair(AT + timedelta(seconds=n), value, value)
        for n, value in enumerate(values)
    ]
    handle_samples([heard(1, resource, data)])
    assert "<figure" in page(reader, measure=resource, range=length, last="2026-03-29")


def test_too_large_daily_numbers_have_a_page(reader: Client) -> None:
    handle_summaries(
        [activity(n, n=n, calories_active=1.7e308, distance=1e200 * n) for n in (1, 2)]
    )
    for measure in ("activity.calories_active", "activity.distance"):
        assert "<figure" in page(reader, measure=measure)
    (one,) = daily_charts(DAILY["activity.calories_active"], WHO, THERE)
    assert one.note.startswith("2 samples are left out") and not points(one)


@pytest.mark.parametrize("day", ["9999-12-31", "0001-01-01", "1970-01-01"])
def test_a_summary_of_any_day_has_a_page(reader: Client, day: str) -> None:
    handle_summaries([summary(1, "activity", calendar_date=day, date=WHEN, steps=5)])
    for length in LENGTHS:
        page(reader, measure="activity.steps", range=length)
    page(reader)


# The latest day


def test_the_latest_number_comes_from_the_row_that_has_it() -> None:
    def told(number: int, provider: str, **more: Any) -> Any:
        return activity(number, n=number, source={"provider": provider, "type": "watch"}, **more)

    handle_summaries([
        told(1, "ring", steps=100, floors_climbed=3),
        told(2, "band", steps=200, floors_climbed=None),
        told(3, "scale", steps=None, floors_climbed=None),
    ])  # fmt: skip
    found = {one.measure.column: (one.value, one.source) for one in newest_days(WHO, THERE.zone)}
    assert found["steps"] == ("200 steps", "band, watch")
    assert found["floors_climbed"] == ("3 floors", "ring, watch")


# Clocks


def test_floating_local_times_are_shown_as_sent(reader: Client, settings: Settings) -> None:
    late = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)
    handle_samples([heard(1, "glucose", [sample(late, 5)], provider="patch")])
    span = Span(DAY, date(2026, 3, 29), BERLIN)
    (point,) = points(drawn("glucose", span))
    assert (point.label, drawn("glucose", span).times) == ("01:30", "times in Europe/Berlin")
    assert "28 Mar 2026" in page(reader, range=DAY)
    settings.FLOATING_TIME_PROVIDERS = frozenset({"patch"})
    (point,) = points(drawn("glucose", span))
    assert (point.label, drawn("glucose", span).times) == ("00:30", "local time as sent")
    (newest,) = newest_samples(WHO)
    assert newest.floating
    shown = page(reader, range=DAY)
    assert "29 Mar 2026" in shown and shown.count("local time as sent") == 2


def test_spans_of_pressures_without_any_upper_end() -> None:
    context: dict[str, Any] = chart.chart(
        Chart("c", "x", "", SPAN, [Point("p", 80.0, 80.0, None, 1)], [], "day")
    )
    assert context["facts"] == [("Upper", "not given"), ("Lower", "80")]
