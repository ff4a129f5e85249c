"""Goals 7 to 9: what keeping and charting samples costs beside its limits, in one run."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID, uuid5

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backoffice.settings")
os.environ.setdefault("LOCAL", "1")
os.environ.setdefault("LOG_LEVEL", "WARNING")
django.setup()

import orjson  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection, transaction  # noqa: E402

from backoffice.service.events import Heard  # noqa: E402
from patients.wearables.hearing import hear_samples  # noqa: E402
from tests.bench.common import Goal, Spent, report  # noqa: E402

BATCH = 200
"""Events a drain takes at once."""
START = datetime(2026, 3, 1, tzinfo=UTC)
PEOPLE = 20
_SPACE = UUID("7ea00000-0000-4000-8000-0000000000be")


def main() -> int:
    call_command("migrate", verbosity=0)
    count = int(os.environ.get("BENCH_SAMPLES", "300000"))
    goals: list[Goal] = []
    for size, least in ((300, 0.6), (24, 0.5), (1, 0.15)):
        applied, copied, stored = _apply(size, count if size > 1 else count // 2)
        goals.append(
            Goal(
                f"7 apply, {size} a event, speed of COPY",
                f"{copied / applied:.2f} of it",
                f">= {least}",
                copied / applied >= least,
            )
        )
        goals.append(
            Goal(f"8 bytes a sample, {size} an event", f"{stored:.1f} B", "<= 16 B", stored <= 16)
        )
    return report("wearables", goals, {})


def _apply(size: int, count: int) -> tuple[float, float, float]:
    _empty()
    applied, copied = Spent(), Spent()
    events = _events(size, count)
    tidied = Spent()
    day = START
    for begin in range(0, len(events), BATCH):
        batch = events[begin : begin + BATCH]
        heard = [event for event, _ in batch]
        rows = [row for _, rows in batch for row in rows]
        if rows[0][1].replace(minute=0) != day:
            day = rows[0][1].replace(minute=0)
            with tidied.timed(), connection.cursor() as cursor:
                cursor.execute("VACUUM wearables_chunk")
        with applied.timed(), transaction.atomic():
            hear_samples(heard)
        with copied.timed(), transaction.atomic(), connection.cursor() as cursor:
            with cursor.copy("COPY bench_plain FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
    print(
        f"{size}: {applied.wall / count * 1e6:.2f} s/M (cpu {applied.cpu / count * 1e6:.2f}) copy {copied.wall / count * 1e6:.2f} vacuum {tidied.wall / count * 1e6:.2f}"
    )
    with connection.cursor() as cursor:
        cursor.execute("VACUUM wearables_chunk")
        cursor.execute(
            "SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits"
            " WHERE inhparent = 'wearables_chunk'::regclass"
        )
        bytes_ = cursor.fetchone()[0]
        cursor.execute(
            "select sum(cardinality(seconds)+coalesce(cardinality(tail_seconds),0)) from wearables_chunk"
        )
        n = cursor.fetchone()[0]
        assert n == count, (n, count)
    return applied.wall, copied.wall, float(bytes_) / count


def _empty() -> None:
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS bench_plain")
        cursor.execute(
            "CREATE TABLE bench_plain (series int, at timestamptz, value float8, zone int)"
        )
        cursor.execute("TRUNCATE wearables_chunk, wearables_series, wearables_source")
        cursor.execute("CHECKPOINT")


def _events(size: int, count: int) -> list[tuple[Heard, list[Any]]]:
    """Minute data of some people, one series each, as a service would send it: in turns."""
    chance = Random(7)
    minutes = [0] * PEOPLE
    pulse = [70] * PEOPLE
    made = []
    for n in range(count // size):
        who = n % PEOPLE
        user = uuid5(_SPACE, str(who))
        samples, rows = [], []
        for _ in range(size):
            at = START + timedelta(minutes=minutes[who])
            minutes[who] += 1
            pulse[who] = max(45, min(160, pulse[who] + chance.randint(-3, 3)))
            samples.append(
                {
                    "id": None, "timestamp": at.isoformat(), "timezone_offset": -25200,
                    "type": None, "unit": "bpm", "value": pulse[who],
                }
            )  # fmt: skip
            rows.append((who, at, float(pulse[who]), -25200))
        data = {"source": {"provider": "band", "type": "watch", "app_id": None}, "data": samples}
        made.append(
            (
                Heard(
                    n + 1, f"msg_{n}", "daily.data.heartrate.created", at, None, user, None,
                    orjson.dumps(data),
                ),
                rows,
            )
        )  # fmt: skip
    return made


if __name__ == "__main__":
    sys.exit(main())
