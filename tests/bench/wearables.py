"""Goals 7 to 9: what keeping and charting samples costs beside its limits, side by side in one run.

`BENCH_SAMPLES` (600,000) samples go, batch by batch and in turns, through the handler of the inbox
(from the body's bytes to the commit) and by COPY, ready made, into a table without a key. Series
are minute data of a few people, told in events of 300, 24 and 1 samples that reach the drain in
turns; a tenth of them did so before, to show how cost grows. What autovacuum does once a minute is
done once for each hour that the data tells of, and counted apart. A year of minutes is then charted
through the whole page and read, alone and among ten.
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
    Spent,
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
PEOPLE = 20
START = datetime(2026, 3, 1, tzinfo=UTC)
SIZES = ((300, 0.6), (24, 0.5), (1, 0.15))
"""Samples an event, and the part of COPY's speed that is asked for."""
YEAR_END = date(2026, 2, 28)
WEEK = date(2026, 1, 5), date(2026, 1, 11)
ROUNDS = 5
MOST_BYTES = 16
SUMMARIES = 2_000
MOST_SENT = 50_000
_SPACE = UUID("7ea00000-0000-4000-8000-0000000000be")
_TABLES = "wearables_chunk, wearables_series, wearables_source, wearables_summary"

Row = tuple[int, datetime, float, int]


@dataclass
class Turn:
    """What one size of events came to."""

    samples: int
    applied: Spent
    copied: Spent
    tidied: Spent
    stored: int

    def each(self) -> float:
        """Microseconds a sample."""
        return self.applied.wall / self.samples * 1e6

    def line(self, size: int) -> str:
        def million(seconds: float) -> str:
            return f"{seconds / self.samples * 1e6:5.2f} s"

        return (
            f"  {size:3} an event, a million samples: applied {million(self.applied.wall)}"
            f" (Python {million(self.applied.cpu)}), COPY {million(self.copied.wall)},"
            f" vacuum {million(self.tidied.wall)}; {self.stored / self.samples:.1f} bytes a sample"
        )


def main() -> int:
    call_command("migrate", verbosity=0)
    goals: list[Goal] = []
    growth: list[Growth] = []
    figures: dict[str, object] = {"samples": COUNT}
    for size, least in SIZES:
        count = COUNT if size > 1 else COUNT // 2
        few, turn = _in_turns(size, count // SCALE), _in_turns(size, count)
        print(turn.line(size), flush=True)
        found = [
            at_least(f"7 apply, {size} an event, speed of COPY",
                     turn.copied.wall / turn.applied.wall, least),
            at_most(f"8 stored, {size} an event, bytes a sample", turn.stored / turn.samples,
                    MOST_BYTES, "{:.1f}"),
        ]  # fmt: skip
        explain(found, "7", f"a tenth of the samples, {size} an event",
                partial(_in_turns, size, count // SCALE))  # fmt: skip
        goals += found
        growth.append(
            Growth(f"apply samples, {size} an event", "µs a sample", few.samples, turn.samples,
                   few.each(), turn.each())
        )  # fmt: skip
        figures[f"a_million_samples_by_{size}"] = {
            "apply_seconds": round(turn.applied.wall / turn.samples * 1e6, 2),
            "copy_seconds": round(turn.copied.wall / turn.samples * 1e6, 2),
            "bytes_a_sample": round(turn.stored / turn.samples, 1),
        }
    more, of_charts, chart = _chart()
    figures["bytes_a_summary"] = _summary_bytes()
    _empty()
    return report("wearables", goals + more, {**figures, **chart}, growth + of_charts)


def _in_turns(size: int, count: int) -> Turn:
    _empty()
    turn = Turn(0, Spent(), Spent(), Spent(), 0)
    events = _events(size, count)
    hour = START
    while batch := list(islice(events, BATCH)):
        rows = [row for _, told in batch for row in told]
        turn.samples += len(rows)
        if rows[0][1] - hour >= timedelta(hours=1):
            hour = rows[0][1]
            with turn.tidied.timed(), connection.cursor() as cursor:
                cursor.execute("VACUUM wearables_chunk")
        with turn.applied.timed(), transaction.atomic():
            handle_samples([event for event, _ in batch])
        with turn.copied.timed(), transaction.atomic():
            _copy(rows)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM wearables_chunk")
        cursor.execute(
            "SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits"
            " WHERE inhparent = 'wearables_chunk'::regclass"
        )
        turn.stored = int(cursor.fetchone()[0])
        cursor.execute(
            "SELECT sum(cardinality(seconds) + coalesce(cardinality(tail_seconds), 0))"
            " FROM wearables_chunk"
        )
        if cursor.fetchone()[0] != turn.samples:
            raise SystemExit("samples were lost")
    return turn


def _copy(rows: list[Row]) -> None:
    with (
        connection.cursor() as cursor,
        cursor.copy("COPY bench_plain (series, at, value, zone) FROM STDIN") as copy,
    ):
        for row in rows:
            copy.write_row(row)


def _empty() -> None:
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
    """Minute data of some people, in turns, as the service tells it; with the same as rows."""
    chance = Random(7)
    minutes = [0] * PEOPLE
    pulse = [70] * PEOPLE
    for n in range(count // size):
        who = n % PEOPLE
        rows: list[Row] = []
        for _ in range(size):
            pulse[who] = max(45, min(160, pulse[who] + chance.randint(-3, 3)))
            at = START + timedelta(minutes=minutes[who])
            rows.append((who, at, float(pulse[who]), -25200))
            minutes[who] += 1
        yield _heard(n + 1, uuid5(_SPACE, str(who)), rows), rows


def _heard(number: int, user: UUID, rows: list[Row]) -> ReceivedEvent:
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


def _chart() -> tuple[list[Goal], list[Growth], dict[str, Any]]:
    """The page of a year of minutes against its own SQL, alone in the table and among ten."""
    _empty()
    client = _reader()
    _fill_year()
    alone = _charted(client)
    for n in range(1, SCALE):
        execute(
            f"INSERT INTO wearables_chunk ({_COLUMNS}) SELECT"
            f" {_COLUMNS.replace('series_id', f'series_id + {n}', 1)} FROM wearables_chunk"
            f" WHERE series_id = {Series.objects.get().pk}"
        )
    among = _charted(client)
    print(f"  a year of minutes: the page takes {among.page:.0f} ms, {among.sent:,} bytes")
    goals = [
        at_most("9 a year of minutes as a page, beside its SQL", among.page / among.sql, 2,
                "{:.2f} times"),
        at_most("9 sent to the browser", among.sent, MOST_SENT, "{:,.0f} bytes"),
    ]  # fmt: skip
    explain(goals, "9", "the page of a year", lambda: client.get(_ADDRESS, _WANTED))
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
class Charted:
    """Milliseconds (medians) of the chart's statement, of the page, of reading a week; bytes."""

    sql: float
    page: float
    week: float
    sent: int


_ADDRESS = f"/patients/{uid('patient', 1)}/devices/"
_WANTED = {"measure": "heartrate", "range": YEAR, "last": YEAR_END.isoformat()}
_COLUMNS = ", ".join(str(field.column) for field in Chunk._meta.concrete_fields if field.column)
YEAR_SAMPLES = 367 * 1440


def _fill_year() -> None:
    chance = Random(9)
    begin = datetime(2025, 2, 28, tzinfo=UTC)
    for day in range(367):
        midnight = begin + timedelta(days=day)
        rows = [
            (1, midnight + timedelta(minutes=n), float(chance.randint(50, 120)), 0)
            for n in range(1440)
        ]
        with transaction.atomic():
            handle_samples([_heard(day + 1, uid("patient", 1), rows)])


def _charted(client: Client) -> Charted:
    execute("VACUUM (ANALYZE) wearables_chunk")
    span = Span(YEAR, YEAR_END, ZoneInfo("UTC"))
    series = Series.objects.get()
    query = point_parameters(series, span.edges("line"))
    week = Chunk.objects.filter(series_id=series.pk, day__range=(WEEK[0], WEEK[1]))
    spent: dict[str, list[float]] = {"sql": [], "page": [], "week": []}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        begun = time.perf_counter()
        found = work()
        spent[name].append(1000 * (time.perf_counter() - begun))
        return found

    sent = 0
    for _ in range(ROUNDS + 1):
        if len(timed("sql", partial(_points, query))) != 365:
            raise SystemExit("the chart has not a point for each day")
        answer = timed("page", partial(client.get, _ADDRESS, _WANTED))
        sent = len(answer.content)
        if answer.status_code != 200 or b"1,440" not in answer.content:
            raise SystemExit("the page does not show the year")
        if sum(1 for row in timed("week", partial(_read, week, series)) for _ in row) != 7 * 1440:
            raise SystemExit("a week has not all its minutes")
    # The first one warms caches on all sides.
    return Charted(**{name: statistics.median(each[1:]) for name, each in spent.items()}, sent=sent)


def _points(query: dict[str, Any]) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(POINTS, query)
        return list(cursor.fetchall())


def _read(rows: Any, series: Series) -> list[list[Any]]:
    return [list(decode_samples(series, row)) for row in rows.values(*COLUMNS)]


def _summary_bytes() -> int:
    """On disk, of a summary of a day's activity."""
    _empty()
    told = {"steps": 8412, "calories_total": 2104.5, "distance": 6120.2, "time_zone": "UTC",
            "heart_rate": {"avg_bpm": 71.5, "min_bpm": 48, "max_bpm": 154}}  # fmt: skip
    handle_summaries([activity(number, number, **told) for number in range(1, SUMMARIES + 1)])
    return size_of("wearables_summary") // SUMMARIES


def _reader() -> Client:
    """Somebody who may see the patient of the chart, logged in."""

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
