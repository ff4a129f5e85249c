"""Goals 7 to 9: the cost of storing and charting samples, compared with its limits, in one run.

`BENCH_SAMPLES` (600,000) samples are stored batch by batch, in turn by the handler of the inbox
(from the bytes of the body to the commit) and by COPY, already parsed, into a table without a key.
Series are minute data of a few people, in events of 300, 24 and 1 samples that reach the drain in
turn. A tenth of them is stored before, to show how cost grows. What autovacuum does once a minute
is done once for each hour of the data, and counted separately. A year of minutes is then charted
through the whole page and read, alone in the table and among ten.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import islice
from random import Random
from typing import Any
from uuid import UUID, uuid5
from zoneinfo import ZoneInfo

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backoffice.settings")
os.environ.setdefault("LOCAL", "1")
os.environ.setdefault("LOG_LEVEL", "WARNING")
django.setup()

import orjson  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection, transaction  # noqa: E402
from django.test import Client  # noqa: E402

from backoffice.accounts.models import User  # noqa: E402
from backoffice.service.events import ReceivedEvent  # noqa: E402
from patients.models import Demographics, Patient  # noqa: E402
from patients.wearables.charts import POINTS, point_parameters  # noqa: E402
from patients.wearables.handlers import handle_samples, handle_summaries  # noqa: E402
from patients.wearables.models import Chunk, Series  # noqa: E402
from patients.wearables.sample_reader import COLUMNS, decode_samples  # noqa: E402
from patients.wearables.spans import YEAR, Span  # noqa: E402
from tests.api.rows import demographics, patient, staff, uid  # noqa: E402
from tests.bench.common import (  # noqa: E402
    SCALE,
    Goal,
    Growth,
    TimeSpent,
    at_least,
    at_most,
    execute,
    explain,
    report,
    size_of,
)
from tests.wearables.test_summaries import activity  # noqa: E402

COUNT = int(os.environ.get("BENCH_SAMPLES", "600000"))
BATCH = 200
"""Events a drain takes at once."""
PERSON_COUNT = 20
START = datetime(2026, 3, 1, tzinfo=UTC)
SIZES = ((300, 0.6), (24, 0.5), (1, 0.15))
"""Samples per event, and the required share of the speed of COPY."""
YEAR_END = date(2026, 2, 28)
WEEK = date(2026, 1, 5), date(2026, 1, 11)
ROUNDS = 5
MAX_BYTES_PER_SAMPLE = 16
SUMMARIES = 2_000
MAX_PAGE_BYTES = 50_000
_USER_NAMESPACE = UUID("7ea00000-0000-4000-8000-0000000000be")
_TABLES = "wearables_chunk, wearables_series, wearables_source, wearables_summary"

Row = tuple[int, datetime, float, int]


@dataclass
class StoreTimes:
    """The results for one event size."""

    samples: int
    applied: TimeSpent
    copied: TimeSpent
    vacuumed: TimeSpent
    stored: int

    def microseconds_per_sample(self) -> float:
        """Return the microseconds per sample."""
        return self.applied.wall / self.samples * 1e6

    def line(self, size: int) -> str:
        def million(seconds: float) -> str:
            return f"{seconds / self.samples * 1e6:5.2f} s"

        return (
            f"  {size:3} an event, a million samples: applied {million(self.applied.wall)}"
            f" (Python {million(self.applied.cpu)}), COPY {million(self.copied.wall)},"
            f" vacuum {million(self.vacuumed.wall)};"
            f" {self.stored / self.samples:.1f} bytes a sample"
        )


def main() -> int:
    call_command("migrate", verbosity=0)
    goals: list[Goal] = []
    growth: list[Growth] = []
    figures: dict[str, object] = {"samples": COUNT}
    for size, share in SIZES:
        count = COUNT if size > 1 else COUNT // 2
        small, full = _measure_size(size, count // SCALE), _measure_size(size, count)
        print(full.line(size), flush=True)
        size_goals = [
            at_least(f"7 apply, {size} an event, speed of COPY",
                     full.copied.wall / full.applied.wall, share),
            at_most(f"8 stored, {size} an event, bytes a sample", full.stored / full.samples,
                    MAX_BYTES_PER_SAMPLE, "{:.1f}"),
        ]  # fmt: skip
        explain(size_goals, "7", f"a tenth of the samples, {size} an event",
                partial(_measure_size, size, count // SCALE))  # fmt: skip
        goals += size_goals
        growth.append(
            Growth(f"apply samples, {size} an event", "µs a sample", small.samples, full.samples,
                   small.microseconds_per_sample(), full.microseconds_per_sample())
        )  # fmt: skip
        figures[f"a_million_samples_by_{size}"] = {
            "apply_seconds": round(full.applied.wall / full.samples * 1e6, 2),
            "copy_seconds": round(full.copied.wall / full.samples * 1e6, 2),
            "bytes_a_sample": round(full.stored / full.samples, 1),
        }
    chart_goals, chart_growth, chart_figures = _measure_chart()
    figures["bytes_a_summary"] = _summary_bytes()
    _clear_tables()
    return report(
        "wearables", goals + chart_goals, {**figures, **chart_figures}, growth + chart_growth
    )


def _measure_size(size: int, count: int) -> StoreTimes:
    _clear_tables()
    times = StoreTimes(0, TimeSpent(), TimeSpent(), TimeSpent(), 0)
    events = _events(size, count)
    hour = START
    while batch := list(islice(events, BATCH)):
        rows = [row for _, event_rows in batch for row in event_rows]
        times.samples += len(rows)
        if rows[0][1] - hour >= timedelta(hours=1):
            hour = rows[0][1]
            with times.vacuumed.measure(), connection.cursor() as cursor:
                cursor.execute("VACUUM wearables_chunk")
        with times.applied.measure(), transaction.atomic():
            handle_samples([event for event, _ in batch])
        with times.copied.measure(), transaction.atomic():
            _copy(rows)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM wearables_chunk")
        cursor.execute(
            "SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits"
            " WHERE inhparent = 'wearables_chunk'::regclass"
        )
        times.stored = int(cursor.fetchone()[0])
        cursor.execute(
            "SELECT sum(cardinality(seconds) + coalesce(cardinality(tail_seconds), 0))"
            " FROM wearables_chunk"
        )
        if cursor.fetchone()[0] != times.samples:
            raise SystemExit("samples were lost")
    return times


def _copy(rows: list[Row]) -> None:
    with (
        connection.cursor() as cursor,
        cursor.copy("COPY bench_plain (series, at, value, zone) FROM STDIN") as copy,
    ):
        for row in rows:
            copy.write_row(row)


def _clear_tables() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT inhrelid::regclass::text FROM pg_inherits"
            " WHERE inhparent = 'wearables_chunk'::regclass"
        )
        for (partition,) in cursor.fetchall():
            cursor.execute(f"DROP TABLE {partition}")
        cursor.execute("DROP TABLE IF EXISTS bench_plain")
        cursor.execute(
            "CREATE TABLE bench_plain"
            " (series integer, at timestamptz, value double precision, zone integer)"
        )
        cursor.execute(f"TRUNCATE {_TABLES}")
        cursor.execute("CHECKPOINT")


def _events(size: int, count: int) -> Iterator[tuple[ReceivedEvent, list[Row]]]:
    """Yield events with minute data of some people in turn, as the service sends them, and the same
    data as rows."""
    random = Random(7)
    minutes = [0] * PERSON_COUNT
    pulse = [70] * PERSON_COUNT
    for n in range(count // size):
        person = n % PERSON_COUNT
        rows: list[Row] = []
        for _ in range(size):
            pulse[person] = max(45, min(160, pulse[person] + random.randint(-3, 3)))
            at = START + timedelta(minutes=minutes[person])
            rows.append((person, at, float(pulse[person]), -25200))
            minutes[person] += 1
        yield _event(n + 1, uuid5(_USER_NAMESPACE, str(person)), rows), rows


def _event(number: int, user: UUID, rows: list[Row]) -> ReceivedEvent:
    samples = [
        {"id": None, "timestamp": at.isoformat(), "timezone_offset": zone, "type": None,
         "unit": "bpm", "value": round(value)}
        for _, at, value, zone in rows
    ]  # fmt: skip
    source = {"provider": "band", "type": "watch", "app_id": None, "device_id": None,
              "name": "Band", "slug": "band", "logo": ""}  # fmt: skip
    body = orjson.dumps({"source": source, "data": samples, "user_id": str(user)})
    kind = "daily.data.heartrate.created"
    return ReceivedEvent(number, f"msg_{number}", kind, rows[0][1], None, user, None, body)


# Goal 9


def _measure_chart() -> tuple[list[Goal], list[Growth], dict[str, Any]]:
    """Compare the page of a year of minutes with its own SQL, alone in the table and among ten."""
    _clear_tables()
    client = _create_clinician_client()
    _fill_year()
    alone = _time_chart(client)
    for n in range(1, SCALE):
        execute(
            f"INSERT INTO wearables_chunk ({_CHUNK_COLUMNS}) SELECT"
            f" {_CHUNK_COLUMNS.replace('series_id', f'series_id + {n}', 1)} FROM wearables_chunk"
            f" WHERE series_id = {Series.objects.get().pk}"
        )
    among = _time_chart(client)
    print(f"  a year of minutes: the page takes {among.page:.0f} ms, {among.sent:,} bytes")
    goals = [
        at_most("9 a year of minutes as a page, beside its SQL", among.page / among.sql, 2,
                "{:.2f} times"),
        at_most("9 sent to the browser", among.sent, MAX_PAGE_BYTES, "{:,.0f} bytes"),
    ]  # fmt: skip
    explain(goals, "9", "the page of a year", lambda: client.get(_CHART_URL, _CHART_QUERY))
    growth = [
        Growth(work, "ms", YEAR_SAMPLES, SCALE * YEAR_SAMPLES, getattr(alone, name),
               getattr(among, name))
        for work, name in (
            ("chart a year of minutes, whole page", "page"),
            ("chart a year of minutes, its SQL", "sql"),
            ("read 7 days of a series", "week"),
        )
    ]  # fmt: skip
    return goals, growth, {"year_page_ms": round(among.page), "year_page_bytes": among.sent}


@dataclass
class ChartTimes:
    """Median milliseconds of the chart's SQL, of the page and of reading a week, and the bytes of
    the page."""

    sql: float
    page: float
    week: float
    sent: int


_CHART_URL = f"/patients/{uid('patient', 1)}/devices/"
_CHART_QUERY = {"measure": "heartrate", "range": YEAR, "last": YEAR_END.isoformat()}
_CHUNK_COLUMNS = ", ".join(
    str(field.column) for field in Chunk._meta.concrete_fields if field.column
)
YEAR_SAMPLES = 367 * 1440


def _fill_year() -> None:
    random = Random(9)
    begin = datetime(2025, 2, 28, tzinfo=UTC)
    for day in range(367):
        midnight = begin + timedelta(days=day)
        rows = [
            (1, midnight + timedelta(minutes=n), float(random.randint(50, 120)), 0)
            for n in range(1440)
        ]
        with transaction.atomic():
            handle_samples([_event(day + 1, uid("patient", 1), rows)])


def _time_chart(client: Client) -> ChartTimes:
    execute("VACUUM (ANALYZE) wearables_chunk")
    span = Span(YEAR, YEAR_END, ZoneInfo("UTC"))
    series = Series.objects.get()
    query = point_parameters(series, span.edges("line"))
    week = Chunk.objects.filter(series_id=series.pk, day__range=(WEEK[0], WEEK[1]))
    times: dict[str, list[float]] = {"sql": [], "page": [], "week": []}

    def measured(name: str, work: Callable[[], Any]) -> Any:
        started_at = time.perf_counter()
        result = work()
        times[name].append(1000 * (time.perf_counter() - started_at))
        return result

    sent = 0
    for _ in range(ROUNDS + 1):
        if len(measured("sql", partial(_points, query))) != 365:
            raise SystemExit("the chart has not a point for each day")
        answer = measured("page", partial(client.get, _CHART_URL, _CHART_QUERY))
        sent = len(answer.content)
        if answer.status_code != 200 or b"1,440" not in answer.content:
            raise SystemExit("the page does not show the year")
        if (
            sum(1 for row in measured("week", partial(_read, week, series)) for _ in row)
            != 7 * 1440
        ):
            raise SystemExit("a week has not all its minutes")
    # The first round warms all caches.
    return ChartTimes(
        **{name: statistics.median(values[1:]) for name, values in times.items()},
        sent=sent,
    )


def _points(query: dict[str, Any]) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(POINTS, query)
        return list(cursor.fetchall())


def _read(rows: Any, series: Series) -> list[list[Any]]:
    return [list(decode_samples(series, row)) for row in rows.values(*COLUMNS)]


def _summary_bytes() -> int:
    """Return the bytes on disk of a daily activity summary."""
    _clear_tables()
    activity_values = {
        "steps": 8412,
        "calories_total": 2104.5,
        "distance": 6120.2,
        "time_zone": "UTC",
        "heart_rate": {"avg_bpm": 71.5, "min_bpm": 48, "max_bpm": 154},
    }
    handle_summaries(
        [activity(number, number, **activity_values) for number in range(1, SUMMARIES + 1)]
    )
    return size_of("wearables_summary") // SUMMARIES


def _create_clinician_client() -> Client:
    """Return a signed-in client that may see the patient of the chart."""

    User.objects.filter(username="clinician").delete()
    Patient.objects.filter(pk=uid("patient", 1)).delete()
    Demographics.objects.filter(pk=uid("patient", 1)).delete()
    patient(1).save()
    demographics(1).save()
    client = Client(headers={"host": "localhost"})
    client.force_login(staff("clinician"))
    return client


if __name__ == "__main__":
    sys.exit(main())
