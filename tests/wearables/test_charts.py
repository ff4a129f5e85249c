"""Charts of samples: SQL against a computation in Python, the drawing, and the device page."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.template.loader import render_to_string
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils.html import escape

from backoffice.audit.models import AuditEntry
from backoffice.pages import charts as chart
from backoffice.pages.charts import BARS, LINE, SPAN, Chart, Point, Tick
from patients.models import Provider
from patients.wearables.charts import sample_charts
from patients.wearables.handlers import handle_samples, handle_summaries
from patients.wearables.measures import sample_measure
from patients.wearables.models import Series, Summary
from patients.wearables.spans import DAY, LENGTHS, WEEK, YEAR, Span
from tests.api.rows import demographics, envelope, patient, staff, uid
from tests.wearables.test_samples import sample, samples_event
from tests.wearables.test_summaries import activity

PHOENIX, BERLIN = ZoneInfo("America/Phoenix"), ZoneInfo("Europe/Berlin")
WHO = uid("patient", 1)
ADDRESS = f"/patients/{WHO}/devices/"


# Spans


@pytest.mark.parametrize("name", LENGTHS)
@pytest.mark.parametrize("kind", [LINE, BARS])
@pytest.mark.parametrize("last", [date(2026, 3, 29), date(2026, 10, 25), date(2026, 7, 1)])
def test_points_cover_span_across_dst_changes(name: str, kind: str, last: date) -> None:
    span = Span(name, last, BERLIN)
    edges = span.edges(kind)
    assert edges == sorted(set(edges)) and len(edges) < 400
    first, end = edges[0].astimezone(BERLIN), edges[-1].astimezone(BERLIN)
    assert (first.date(), first.hour, end.date(), end.hour) == (
        last - timedelta(days=LENGTHS[name] - 1), 0, last + timedelta(days=1), 0,
    )  # fmt: skip
    assert all(0 <= tick.place < 1 for tick in span.ticks())
    assert span.earlier().later() == span
    assert span.earlier().last == span.first - timedelta(days=1)


def test_day_of_dst_change_has_23_or_25_hours() -> None:
    assert len(Span(DAY, date(2026, 3, 29), BERLIN).edges(BARS)) - 1 == 23
    assert len(Span(DAY, date(2026, 10, 25), BERLIN).edges(BARS)) - 1 == 25


# SQL against Python


@pytest.mark.django_db
@pytest.mark.parametrize("name", LENGTHS)
@pytest.mark.parametrize(("resource", "kind"), [("heartrate", LINE), ("steps", BARS)])
def test_sql_points_equal_computation_in_python(name: str, resource: str, kind: str) -> None:
    rng = Random(4)
    last = date(2026, 3, 29)
    begin = datetime(2026, 3, 29, tzinfo=UTC) - timedelta(days=LENGTHS[name] + 1)
    values_by_time: dict[datetime, float] = {}
    for n in range(1, 40):
        at = begin + timedelta(seconds=rng.randrange(LENGTHS[name] * 86400 + 3 * 86400))
        data = []
        for i in range(rng.randint(1, 150)):
            moment = at + timedelta(minutes=i)
            value = rng.choice([rng.randint(0, 90), rng.random() * 9, 5.25])
            values_by_time[moment] = value
            data.append(sample(moment, value))
        handle_samples([samples_event(n, resource, data)])
    span = Span(name, last, BERLIN)
    edges = span.edges(kind)
    (plotted,) = sample_charts(sample_measure(resource), list(Series.objects.all()), span)
    assert len(plotted.points) == len(edges) - 1
    compared = 0
    for begin, end, point in zip(edges[:-1], edges[1:], plotted.points, strict=True):
        values = [value for moment, value in values_by_time.items() if begin <= moment < end]
        compared += len(values)
        if not values:
            assert point.value is None and point.count == 0
        elif kind == BARS:
            total: Any = pytest.approx(sum(values))
            assert (point.value, point.count) == (total, len(values))
        else:
            mean: Any = pytest.approx(sum(values) / len(values))
            assert (point.value, point.low, point.high, point.count) == (
                mean, min(values), max(values), len(values),
            )  # fmt: skip
    assert compared > 50


@pytest.mark.django_db
def test_blood_pressure_is_charted_as_span() -> None:
    at = datetime(2026, 3, 29, 9, tzinfo=UTC)
    pair = {**sample(at, None), "systolic": 121.5, "diastolic": 80, "unit": "mmHg"}
    handle_samples([samples_event(1, "blood_pressure", [pair])])
    measure = sample_measure("blood_pressure")
    (plotted,) = sample_charts(measure, [Series.objects.get()], Span(WEEK, at.date(), BERLIN))
    (point,) = [point for point in plotted.points if point.value is not None]
    assert (plotted.kind, point.low, point.high, plotted.unit) == (SPAN, 80, 121.5, "mmHg")


# The drawing


def chart_context(kind: str, values: list[float | None], **more: Any) -> dict[str, Any]:
    points = [Point(f"p{n}", v, v, v, 1) if v is not None else Point(f"p{n}")
              for n, v in enumerate(values)]  # fmt: skip
    context: dict[str, Any] = chart.chart_context(
        Chart("c", "Heart rate", "bpm", kind, points, [Tick(0.5, "noon")], "hour", **more)
    )
    return context


def render(context: dict[str, Any]) -> str:
    return render_to_string("components/chart.html", context)


def test_line_chart_has_gaps() -> None:
    plotted = chart_context(LINE, [60, 61, None, None, 63, None, 64])
    paths = dict(plotted["paths"])
    assert (paths["line"].count("M"), paths["dots"].count("M")) == (1, 2)
    assert plotted["gaps"] == 2
    assert "p2 – p3<td colspan=4 class=gap>no data" in render(plotted)
    assert "<tr><th scope=row>p4<td>63" in render(plotted)


def test_missing_bar_is_no_data_and_not_zero() -> None:
    plotted = chart_context(BARS, [5, None, 0])
    assert dict(plotted["paths"])["bars"].count("M") == 1
    assert "p1<td colspan=2 class=gap>no data" in render(plotted)
    assert "p2<td>0<td>1" in render(plotted)
    assert plotted["facts"] == [("Total", "5"), ("Mean per hour", "2.5")]


def test_chart_without_points_is_empty() -> None:
    assert chart_context(LINE, [None, None])["empty"]


def test_chart_labels_are_escaped() -> None:
    points = [Point("<b>", 1.0, 1.0, 1.0, 1)]
    plotted = chart.chart_context(Chart("c", "x", "", LINE, points, [], "day"))
    assert "&lt;b&gt;" in render(plotted) and "<b>" not in render(plotted)


@pytest.mark.parametrize(
    "values", [[0], [5], [-3], [0.001, 0.002], [1e9, 3e9], [-5, 5], [70, 70.4], [1e-300, 1e300]]
)
@pytest.mark.parametrize("from_zero", [True, False])
def test_axis_contains_values_and_has_few_levels(values: list[float], from_zero: bool) -> None:
    bottom, top, step = chart.scale(values, from_zero=from_zero)
    assert bottom <= min(values) and top >= max(values) and bottom < top
    assert 1 <= round((top - bottom) / step) <= 7
    if from_zero:
        assert bottom <= 0 <= top


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (72, "72"), (71.95, "72"), (5.4, "5.4"), (5.432, "5.43"), (1240.4, "1,240"),
     (-3.5, "−3.5"), (0.00312, "0.00312"), (99.96, "100"), (120.4, "120")],
)  # fmt: skip
def test_chart_numbers_are_short(value: float, text: str) -> None:
    assert chart.number_text(value) == text


# The page


@pytest.fixture
def patient_with_data(client: Client) -> None:
    client.force_login(staff("clinician"))
    patient(1, fallback_time_zone="America/Phoenix").save()
    demographics(1, first_name="Maria", last_name="Testperson").save()
    Provider(slug="band", name="Band <One>", **envelope()).save()
    start = datetime(2026, 3, 28, tzinfo=UTC)
    minutes = [sample(start + timedelta(minutes=n), 60 + n % 30) for n in range(0, 2000, 5)]
    note, sugar = sample(start, "felt fine"), sample(start, 5.4, unit="mmol/L")
    handle_samples([samples_event(1, "heartrate", minutes), samples_event(2, "note", [note]),
                  samples_event(3, "glucose", [sugar], provider="ring")])  # fmt: skip
    handle_summaries([activity(4, steps=4321)])


def get(client: Client, status: int = 200, **query: str) -> str:
    answer = client.get(ADDRESS, query)
    assert answer.status_code == status
    return answer.content.decode()


@pytest.mark.django_db
def test_device_page_works(client: Client, patient_with_data: None) -> None:
    page = get(client)
    for text in ("Maria Testperson", "Heart rate", "bpm", "Band <One>, watch", "America/Phoenix",
                  "Glucose", "5.4", "mmol/L", "ring, watch", "Notes", "felt fine",
                  "Steps per day", "4,321", "Mar 23 – Mar 29, 2026", "no data"):  # fmt: skip
        assert escape(text) in page, text
    assert page.count("<figure") == 1


@pytest.mark.django_db
def test_device_page_has_no_inline_styles_or_scripts(
    client: Client, patient_with_data: None
) -> None:
    page = get(client, range=YEAR)
    assert not re.search(r"\sstyle\s*=|<style|<script(?![^>]*\ssrc=)|\son\w+\s*=", page)


@pytest.mark.django_db
@pytest.mark.parametrize("name", LENGTHS)
@pytest.mark.parametrize("measure", ["heartrate", "activity.steps", "glucose", "never_heard_of"])
def test_device_page_shows_every_range_of_every_measure(
    client: Client, patient_with_data: None, name: str, measure: str
) -> None:
    page = get(client, measure=measure, range=name, last="2026-03-29")
    assert ("<figure" in page) == (measure != "never_heard_of")


@pytest.mark.django_db
def test_text_resources_have_no_chart(client: Client, patient_with_data: None) -> None:
    assert "there is no chart" in get(client, measure="note")


@pytest.mark.django_db
@pytest.mark.parametrize(
    "query",
    [{"range": "century"}, {"last": "x"}, {"last": "0001-01-01"}, {"last": "2099-12-31"},
     {"measure": "x" * 101}, {"measure": "\x00"}],
)  # fmt: skip
def test_invalid_choice_shows_an_error(
    client: Client, patient_with_data: None, query: dict[str, str]
) -> None:
    assert 'role="alert"' in get(client, 400, **query)


@pytest.mark.django_db
def test_device_page_without_data(client: Client) -> None:
    client.force_login(staff("clinician"))
    patient(1).save()
    assert "No device data yet" in get(client)


@pytest.mark.django_db
def test_device_page_needs_a_permission(client: Client) -> None:
    patient(1).save()
    assert client.get(ADDRESS).status_code == 302
    client.force_login(staff("viewer"))
    assert client.get(ADDRESS).status_code == 403
    assert client.get(f"/patients/{uid('patient', 2)}/devices/").status_code == 403
    client.force_login(staff("clinician"))
    assert client.get(f"/patients/{uid('patient', 2)}/devices/").status_code == 404


@pytest.mark.django_db
def test_device_page_records_the_view(client: Client, patient_with_data: None) -> None:
    get(client)
    entry = AuditEntry.objects.latest("at")
    assert (entry.action, entry.object_type, entry.patient_ids) == ("view", "device data", [WHO])


@pytest.mark.django_db
def test_more_sources_add_few_queries(client: Client, patient_with_data: None) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            get(client, measure="heartrate", range=YEAR)
        return len(captured)

    before = queries()
    start = datetime(2026, 3, 28, tzinfo=UTC)
    handle_samples([samples_event(9 + n, "heartrate", [sample(start, 60)], provider=f"p{n}")
                  for n in range(9)])  # fmt: skip
    handle_samples([samples_event(30 + n, resource, [sample(start, 60)])
                  for n, resource in enumerate(["hrv", "weight", "fat", "vo2_max"])])  # fmt: skip
    assert queries() <= before + 3  # one for each of at most four charts
    assert "more sources with older data" in get(client, measure="heartrate")


# Totals of unfinished intervals


def test_filling_bar_is_marked_and_excluded_from_mean() -> None:
    points = [Point("14:00", 300.0, count=2), Point("15:00", 40.0, count=1, is_filling=True)]
    plotted = chart.chart_context(Chart("c", "Steps", "", BARS, points, [], "hour"))
    paths = dict(plotted["paths"])
    assert (paths["bars"].count("M"), paths["bars filling"].count("M")) == (1, 1)
    assert plotted["facts"] == [("Total", "340"), ("Mean per hour", "300")]
    assert "15:00, still filling<td>40" in render(plotted)


def test_last_three_of_many_filling_bars_are_named() -> None:
    points = [Point(f"{n}:00", 1.0, count=1, is_filling=True) for n in range(5)]
    plotted = chart.chart_context(Chart("c", "Steps", "", BARS, points, [], "hour"))
    assert plotted["filling"] == "2:00, 3:00, 4:00, and 2 before"


def test_filling_bar_alone_has_no_mean() -> None:
    points = [Point("15:00", 40.0, count=1, is_filling=True)]
    plotted = chart.chart_context(Chart("c", "Steps", "", BARS, points, [], "hour"))
    assert plotted["facts"] == [("Total", "40")]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("resource", "minutes", "filling"),
    [
        ("steps", [5, 65, 70], ["1:00 AM"]),
        ("steps", [5, 65, 120], ["2:00 AM"]),
        ("steps", [5, 65, 24 * 60 + 1], []),
        ("heartrate", [5, 65, 70], []),
    ],
)
def test_interval_of_newest_sample_is_filling(
    client: Client, resource: str, minutes: list[int], filling: list[str]
) -> None:
    client.force_login(staff("clinician"))
    patient(1, fallback_time_zone="America/Phoenix").save()
    start = datetime(2026, 3, 28, 7, tzinfo=UTC)  # midnight in Phoenix
    data = [sample(start + timedelta(minutes=n), 10) for n in minutes]
    handle_samples([samples_event(1, resource, data)])
    page = get(client, measure=resource, range=DAY, last="2026-03-28")
    assert re.findall(r"<th scope=row>(\d+:\d\d [AP]M), still filling", page) == filling
    assert ("Still filling: " in page) == bool(filling)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("read_at", "is_filling"),
    [
        (datetime(2026, 3, 30, 6, 59, tzinfo=UTC), True),
        (datetime(2026, 3, 30, 7, 0, tzinfo=UTC), False),
    ],
)
def test_day_is_filling_until_it_ends_in_patient_time_zone(
    client: Client, read_at: datetime, is_filling: bool
) -> None:
    client.force_login(staff("clinician"))
    patient(1, fallback_time_zone="America/Phoenix").save()
    handle_summaries([activity(1, steps=4321)])
    Summary.objects.update(as_of=read_at)
    page = get(client, measure="activity.steps", range=WEEK, last="2026-03-29")
    assert ("Sun, Mar 29, still filling" in page) is is_filling
    assert ('<span class="second">still filling</span>' in page) is is_filling
