"""Goals 7 to 9: what keeping and charting samples costs beside its limits, side by side in one run.

`BENCH_SAMPLES` (600,000) samples go, batch by batch and in turns, through the handler of the inbox
(from the body's bytes to the commit) and by COPY, ready made, into a table without a key. Series
are minute data of a few people, told in events of 300, 24 and 1 samples that reach the drain in
turns. What autovacuum does once a minute is done once for each hour that the data tells of, and
counted apart. A year of minutes is then charted through the whole page.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
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

from backoffice.models import User  # noqa: E402
from backoffice.service.events import Heard  # noqa: E402
from patients.models import Demographics, Patient  # noqa: E402
from patients.wearables.charts import POINTS, asked  # noqa: E402
from patients.wearables.hearing import hear_samples  # noqa: E402
from patients.wearables.models import Series  # noqa: E402
from patients.wearables.spans import YEAR, Span  # noqa: E402
from tests.api.rows import demographics, patient, staff, uid  # noqa: E402
from tests.bench.common import Goal, Spent, report  # noqa: E402

BATCH = 200
"""Events a drain takes at once."""
PEOPLE = 20
START = datetime(2026, 3, 1, tzinfo=UTC)
SIZES = ((300, 0.6), (24, 0.5), (1, 0.15))
"""Samples an event, and the part of COPY's speed that is asked for."""
YEAR_END = date(2026, 2, 28)
ROUNDS = 7
MOST_BYTES = 16
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

    def line(self, size: int) -> str:
        def million(seconds: float) -> str:
            return f"{seconds / self.samples * 1e6:5.2f} s"

        return (
            f"  {size:3} an event, a million samples: applied {million(self.applied.wall)}"
            f" (Python {million(self.applied.cpu)}), COPY {million(self.copied.wall)},"
            f" vacuum {million(self.tidied.wall)}; {self.stored / self.samples:.1f} bytes a sample"
        )


def main() -> int:
    count = int(os.environ.get("BENCH_SAMPLES", "600000"))
    call_command("migrate", verbosity=0)
    goals: list[Goal] = []
    figures: dict[str, object] = {"samples": count}
    for size, least in SIZES:
        turn = _in_turns(size, count if size > 1 else count // 2)
        print(turn.line(size))
        ratio = turn.copied.wall / turn.applied.wall
        bytes_each = turn.stored / turn.samples
        goals += [
            Goal(f"7 apply, {size} an event, speed of COPY", f"{ratio:.2f} of it", f">= {least}",
                 ratio >= least),
            Goal(f"8 stored, {size} an event", f"{bytes_each:.1f} bytes a sample",
                 f"<= {MOST_BYTES}", bytes_each <= MOST_BYTES),
        ]  # fmt: skip
        figures[f"a_million_samples_by_{size}"] = {
            "apply_seconds": round(turn.applied.wall / turn.samples * 1e6, 2),
            "copy_seconds": round(turn.copied.wall / turn.samples * 1e6, 2),
        }
    more, chart = _chart()
    _empty()
    return report("wearables", goals + more, {**figures, **chart})


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
            hear_samples([event for event, _ in batch])
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


def _events(size: int, count: int) -> Iterator[tuple[Heard, list[Row]]]:
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


def _heard(number: int, user: UUID, rows: list[Row]) -> Heard:
    samples = [
        {"id": None, "timestamp": at.isoformat(), "timezone_offset": zone, "type": None,
         "unit": "bpm", "value": round(value)}
        for _, at, value, zone in rows
    ]  # fmt: skip
    source = {"provider": "band", "type": "watch", "app_id": None, "device_id": None,
              "name": "Band", "slug": "band", "logo": ""}  # fmt: skip
    body = orjson.dumps({"source": source, "data": samples, "user_id": str(user)})
    kind = "daily.data.heartrate.created"
    return Heard(number, f"msg_{number}", kind, rows[0][1], None, user, None, body)


# Goal 9


def _chart() -> tuple[list[Goal], dict[str, Any]]:
    """The page of a year of minutes against its own SQL."""
    _empty()
    client = _reader()
    chance = Random(9)
    begin = datetime(2025, 2, 28, tzinfo=UTC)
    for day in range(367):
        midnight = begin + timedelta(days=day)
        rows = [
            (1, midnight + timedelta(minutes=n), float(chance.randint(50, 120)), 0)
            for n in range(1440)
        ]
        with transaction.atomic():
            hear_samples([_heard(day + 1, uid("patient", 1), rows)])
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE) wearables_chunk")
    span = Span(YEAR, YEAR_END, ZoneInfo("UTC"))
    query = asked(Series.objects.get(), span.edges("line"))
    address = f"/patients/{uid('patient', 1)}/devices/"
    wanted = {"measure": "heartrate", "range": YEAR, "last": YEAR_END.isoformat()}
    ratios, pages, sent = [], [], 0
    for _ in range(ROUNDS + 1):
        started = time.perf_counter()
        with connection.cursor() as cursor:
            cursor.execute(POINTS, query)
            if len(cursor.fetchall()) != 365:
                raise SystemExit("the chart has not a point for each day")
        alone = time.perf_counter() - started
        started = time.perf_counter()
        answer = client.get(address, wanted)
        pages.append(time.perf_counter() - started)
        ratios.append(pages[-1] / alone)
        sent = len(answer.content)
        if answer.status_code != 200 or b"1,440" not in answer.content:
            raise SystemExit("the page does not show the year")
    ratio = statistics.median(ratios[1:])  # The first one warms caches on both sides.
    page = statistics.median(pages[1:])
    print(f"  a year of minutes: the page takes {page * 1000:.0f} ms, {sent:,} bytes")
    return [
        Goal("9 a year of minutes as a page, beside its SQL", f"{ratio:.2f} times", "<= 2 times",
             ratio <= 2),
        Goal("9 sent to the browser", f"{sent:,} bytes", f"< {MOST_SENT:,}", sent < MOST_SENT),
    ], {"year_page_ms": round(page * 1000), "year_page_bytes": sent}  # fmt: skip


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
