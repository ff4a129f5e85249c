"""Goals 1 to 4: the cost of mirroring, compared with its limits and the usual way, in one run.

`BENCH_ORDERS` (100,000) orders are read from a sandbox once and stored on disk. Batches are then
stored, in turn, through the mirror and by raw COPY into a copy of its tables. A sample is stored
with `update_or_create`. All are stored again unchanged, and again with one of a hundred changed. A
tenth of them goes through all of that first, to show how cost grows. The whole sync runs as its own
process, in turn with one that reads all pages and discards them.
"""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backoffice.settings")
os.environ.setdefault("LOCAL", "1")
os.environ.setdefault("LOG_LEVEL", "WARNING")
django.setup()

import orjson  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection, transaction  # noqa: E402
from django.db.backends.utils import CursorWrapper  # noqa: E402

from backoffice.mirror.tables import MirrorRecord  # noqa: E402
from backoffice.service import Record, Service  # noqa: E402
from backoffice.service.orders import ORDER, OrderPayload  # noqa: E402
from backoffice.sync.models import SyncRun  # noqa: E402
from backoffice.sync.pagination import in_background  # noqa: E402
from orders.models import Order as OrderRow  # noqa: E402
from orders.models import OrderEvent  # noqa: E402
from orders.sync.orders import ALL_ORDERS, ORDERS, store_orders  # noqa: E402
from patients.sync import USERS, store_users  # noqa: E402
from tests.bench.common import (  # noqa: E402
    SCALE,
    Goal,
    Growth,
    TimeSpent,
    at_least,
    at_most,
    execute,
    explain,
    median_ratio,
    peak_of,
    report,
    size_of,
)
from tests.sandboxes import Sandbox, running  # noqa: E402

COUNT = int(os.environ.get("BENCH_ORDERS", "100000"))
SMALL = max(100, COUNT // SCALE)
SAMPLE = 500
CHANGED = 100
"""One of this many orders has changed."""
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "1"))
LATENCY_MS = 100
SEED_TIMEOUT = 1800
"""A million orders are generated first."""
TABLES = (
    "orders_order",
    "orders_orderevent",
    "orders_transaction",
    "orders_ordername",
    "orders_ordernameword",
    "sync_lookup",
)
"""What storing orders writes: rows, history, groups, names and look-up requests."""
IDENTITY_TABLES = ("patients_patient", "patients_patientnameword")
"""No patient here has demographics, so the first order of each also writes their identity."""
CLEAR_IDENTITIES = """
UPDATE patients_patient SET first_name = '', last_name = '', name_key = '', email = '',
  phone_number = '', phone_digits = '', gender = '', dob = NULL, fields_from_order = '{}',
  source_order_id = NULL, source_order_created_at = NULL
"""


@dataclass
class StoreTimes:
    """The cost of the database side of a sync of `count` orders."""

    count: int
    first: TimeSpent = field(default_factory=TimeSpent)
    copied: TimeSpent = field(default_factory=TimeSpent)
    again: TimeSpent = field(default_factory=TimeSpent)
    changed: TimeSpent = field(default_factory=TimeSpent)
    wal: int = 0
    rewritten: bool = False
    bytes_each: int = 0


def main() -> int:
    call_command("migrate", verbosity=0)
    print(f"{COUNT:,} orders: filling a sandbox")
    with (
        running(users=max(20, COUNT // 5), orders=COUNT, seconds=SEED_TIMEOUT) as sandbox,
        tempfile.TemporaryDirectory() as folder,
    ):
        stages = {name: TimeSpent() for name in ("service", "decode")}
        spool = _spool_orders(sandbox.url, Path(folder), stages)
        small = _database_side(spool[: -(-SMALL // 1000)], {"decode": TimeSpent()})
        full = _database_side(spool, stages)
        goals, figures = _goals(spool, full, stages)
        sync_goals, sync_figures = _measure_sync(sandbox)
    growth = [
        Growth(work, "µs an order", small.count, full.count,
               1e6 * getattr(small, name).wall / small.count,
               1e6 * getattr(full, name).wall / full.count)
        for work, name in (
            ("first sync, database side", "first"),
            ("unchanged sync", "again"),
            (f"sync with 1 of {CHANGED} changed", "changed"),
        )
    ]  # fmt: skip
    return report(
        "mirror", goals + sync_goals, {"orders": COUNT, **figures, **sync_figures}, growth
    )


def _client(url: str) -> Service:
    return Service(url, "sk_us_local_sandbox")


def _spool_orders(url: str, folder: Path, stages: dict[str, TimeSpent]) -> list[Path]:
    """Mirror the users, as a sync does first.

    Then read every order once and write the batches to disk.
    """
    files: list[Path] = []
    seen: set[UUID] = set()
    with _client(url) as service:
        for users in USERS.batches(service, SyncRun(resource="users", full=True)):
            with transaction.atomic():
                store_users(users.records)
        run = SyncRun(resource="orders", full=True)
        batches = iter(ALL_ORDERS.batches(service, run))
        while True:
            with stages["service"].measure():
                batch = next(batches, None)
            if batch is None:
                return files
            files.append(folder / f"{len(files):06}")
            # Pages overlap: the last record of a window is repeated as the first of the next.
            new_records = [(r.raw, r.asked_at) for r in batch.records if r.data.id not in seen]
            seen.update(r.data.id for r in batch.records)
            files[-1].write_bytes(pickle.dumps(new_records))


def _records(file: Path, decode: TimeSpent | None = None) -> list[Record[OrderPayload]]:
    pairs = pickle.loads(file.read_bytes())  # noqa: S301 - our own file of a minute ago
    with (decode or TimeSpent()).measure():
        return [r for raw, at in pairs if isinstance(r := ORDER.read(raw, at), Record)]


def _database_side(spool: list[Path], stages: dict[str, TimeSpent]) -> StoreTimes:
    _clear_tables()
    _create_copy_tables()
    times = StoreTimes(0)
    grouped: set[UUID] = set()
    for file in spool:
        records = _records(file, stages["decode"])
        times.count += len(records)
        _store(records, times.first)
        _raw_copy(_copy_blocks(records, grouped), times.copied)
    _flush_writes()
    _store(_records(spool[0]), TimeSpent())  # Catalog pages are written once after a vacuum.
    before, wal = _row_versions(), _wal()
    for file in spool:
        _store(_records(file), times.again)
    times.wal, times.rewritten = _wal() - wal, _row_versions() != before
    for file in spool:
        _store(_with_changes(_records(file)), times.changed)
    times.bytes_each = size_of(*TABLES) // times.count
    return times


def _with_changes(records: list[Record[OrderPayload]]) -> list[Record[OrderPayload]]:
    """Return the records, with a new event in one of a hundred."""
    return [
        record if n % CHANGED else _with_new_event(record)
        for n, record in enumerate(records, CHANGED // 2)
    ]


def _with_new_event(record: Record[OrderPayload]) -> Record[OrderPayload]:
    order = orjson.loads(record.raw)
    later = datetime.fromisoformat(order["updated_at"]) + timedelta(hours=1)
    event = {**order["events"][-1], "id": order["events"][-1]["id"] + 1}
    order |= {"updated_at": later.isoformat(), "notes": "moved", "last_event": event}
    order["events"] = [*order["events"], event]
    read = ORDER.read(orjson.dumps(order), record.asked_at)
    assert isinstance(read, Record), read
    return read


def _goals(
    spool: list[Path], times: StoreTimes, stages: dict[str, TimeSpent]
) -> tuple[list[Goal], dict[str, Any]]:
    orm_time = TimeSpent()
    sample = [r for file in spool[: -(-SAMPLE // 1000)] for r in _records(file)][:SAMPLE]
    _create_copy_tables()
    _store_with_orm(sample, orm_time)
    execute("DROP SCHEMA twin CASCADE")
    orm_seconds = orm_time.wall / len(sample) * times.count
    rewritten = "some" if times.rewritten else "none"
    goals = [
        at_least("1 first sync, speed of raw COPY", times.copied.wall / times.first.wall, 0.75),
        at_least("2 against update_or_create", orm_seconds / times.first.wall, 40, "{:.0f} times"),
        at_least(
            "3 unchanged against first", times.first.wall / times.again.wall, 5, "{:.1f} times"
        ),
        Goal("3 rows rewritten when unchanged", rewritten, "none", not times.rewritten),
        at_most("3 WAL per 1,000 unchanged rows", times.wal / times.count * 1000, 100, "{:.0f} B"),
    ]
    records = _records(spool[0])
    _clear_tables()
    explain(
        goals, "1 2", f"storing {len(records):,} new orders", partial(_store, records, TimeSpent())
    )
    return goals, {
        "first_seconds": round(times.first.wall, 2),
        "raw_copy_seconds": round(times.copied.wall, 2),
        "unchanged_seconds": round(times.again.wall, 2),
        "changed_seconds": round(times.changed.wall, 2),
        "update_or_create_seconds_extrapolated": round(orm_seconds, 1),
        "bytes_an_order": times.bytes_each,
        "split": _print_split(stages, times.first, times.count),
    }


def _store(records: list[Record[OrderPayload]], spent: TimeSpent) -> None:
    with spent.measure(), transaction.atomic():
        store_orders(records)


def _create_copy_tables() -> None:
    """Create empty tables with the same columns, indexes and storage in another schema."""
    with connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA IF EXISTS twin CASCADE")
        cursor.execute("CREATE SCHEMA twin")
        for table in (*TABLES, *IDENTITY_TABLES):
            cursor.execute(f'CREATE TABLE twin."{table}" (LIKE public."{table}" INCLUDING ALL)')
        cursor.execute('ALTER TABLE twin."orders_order" SET (toast_tuple_target = 256)')


def _copy_blocks(records: list[Record[OrderPayload]], grouped: set[UUID]) -> dict[str, bytes]:
    """Return the rows of the batch as COPY text.

    Transactions and names are returned with the first of their orders.
    """
    orders = [r.data.id for r in records]
    groups = {r.data.order_transaction.id for r in records if r.data.order_transaction} - grouped
    grouped |= groups
    blocks = {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id FROM public.orders_ordername EXCEPT SELECT id FROM twin.orders_ordername"
        )
        names = [key for (key,) in cursor.fetchall()]
        cursor.execute(
            "SELECT id FROM public.patients_patient WHERE source_order_id = ANY(%s)"
            " EXCEPT SELECT id FROM twin.patients_patient",
            [orders],
        )
        patients = [key for (key,) in cursor.fetchall()]
        for table, column, ids in (
            ("orders_order", "id", orders),
            ("orders_orderevent", "order_id", orders),
            ("orders_transaction", "id", list(groups)),
            ("orders_ordername", "id", names),
            ("orders_ordernameword", "names_id", names),
            ("sync_lookup", "key", [str(order) for order in orders]),
            ("patients_patient", "id", patients),
            ("patients_patientnameword", "user_id", patients),
        ):
            columns = _written_columns(cursor, table)
            rows = f'SELECT {columns} FROM public."{table}" WHERE "{column}" = ANY(%s)'
            with cursor.copy(f"COPY ({rows}) TO STDOUT", [ids]) as copy:
                blocks[table] = b"".join(bytes(block) for block in copy)
    return blocks


def _written_columns(cursor: CursorWrapper, table: str) -> str:
    """Return the columns of a table, without those that PostgreSQL computes."""
    cursor.execute(
        "SELECT string_agg(quote_ident(column_name), ', ' ORDER BY ordinal_position)"
        " FROM information_schema.columns WHERE table_schema = 'public' AND table_name = %s"
        " AND is_generated = 'NEVER'",
        [table],
    )
    return str(cursor.fetchone()[0])


def _raw_copy(blocks: dict[str, bytes], spent: TimeSpent) -> None:
    with connection.cursor() as cursor, spent.measure(), transaction.atomic():
        for table, block in blocks.items():
            columns = _written_columns(cursor, table)
            with cursor.copy(f'COPY twin."{table}" ({columns}) FROM STDIN') as copy:
                copy.write(block)


def _store_with_orm(records: list[Record[OrderPayload]], spent: TimeSpent) -> None:
    """Store every order and every event with `update_or_create`, the usual way."""
    with connection.cursor() as cursor:
        cursor.execute('TRUNCATE twin."orders_order", twin."orders_orderevent"')
        cursor.execute("SET search_path = twin, public")
    try:
        for record in records:
            mirror_record = _mirror_record(record)
            values = ORDERS.promote(mirror_record)
            values |= {
                "record": record.raw.decode(),
                "content_hash": b"",
                "as_of": mirror_record.as_of,
            }
            with spent.measure():
                OrderRow.objects.update_or_create(id=record.data.id, defaults=values)
                for row in ORDERS.children[0].rows(mirror_record):
                    OrderEvent.objects.update_or_create(
                        order_id=row.pop("order_id"), event_id=row.pop("event_id"), defaults=row
                    )
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SET search_path = public")


def _mirror_record(record: Record[OrderPayload]) -> MirrorRecord:
    return MirrorRecord((record.data.id,), record.raw, record.asked_at, record.data)


def _flush_writes() -> None:
    """Write everything that the first load left for later: hint bits and dirty pages."""
    for statement in ("DROP SCHEMA twin CASCADE", "VACUUM (ANALYZE)", "CHECKPOINT"):
        execute(statement)


def _wal() -> int:
    """Return the bytes of WAL that this session wrote; the server's count includes the sandbox."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT wal_bytes FROM pg_stat_get_backend_wal(pg_backend_pid())")
        return int(cursor.fetchone()[0])


def _row_versions() -> list[Any]:
    with connection.cursor() as cursor:
        versions = []
        for table in (*TABLES, *IDENTITY_TABLES):
            cursor.execute(
                f'SELECT count(*), sum(hashtext(ctid::text || xmin::text)::bigint) FROM "{table}"'
            )
            versions.append(cursor.fetchone())
        return versions


def _print_split(stages: dict[str, TimeSpent], mirror: TimeSpent, count: int) -> dict[str, float]:
    """Print where the time of a sync of this size goes when nothing overlaps."""
    # The fetching threads also decode. The rest is waiting for the service and for HTTP.
    parts = {
        "service": stages["service"].wall - stages["decode"].wall,
        "decode": stages["decode"].wall,
        "PostgreSQL": mirror.wall - mirror.cpu,
        "Python": mirror.cpu,
    }
    total = sum(parts.values())
    print(f"\nwhere {total:.1f} s of syncing {count:,} orders go, one thing at a time:")
    for name, seconds in parts.items():
        print(f"  {name:12} {seconds:7.2f} s  {100 * seconds / total:4.0f} %")
    return {name: round(seconds, 2) for name, seconds in parts.items()}


def _measure_sync(sandbox: Sandbox) -> tuple[list[Goal], dict[str, Any]]:
    """Run the sync as its own process, in turn with one that only fetches.

    The service has the latency of a real one. Without it, sandbox, sync and PostgreSQL would
    compete for the same processors.
    """
    slow_faults = {"rate": 1, "kinds": ["slow"], "latency_ms": LATENCY_MS}
    sandbox.control("faults", slow_faults)
    rounds = [_fetch_and_sync(sandbox.url, COUNT) for _ in range(ROUNDS)]
    with running(users=max(20, SMALL // 5), orders=SMALL) as small:
        small.control("faults", slow_faults)
        _, small_seconds, small_peak = _fetch_and_sync(small.url, SMALL)
    fetched, synced, peaks = zip(*rounds, strict=True)
    ratio, peak = median_ratio(fetched, synced), max(peaks)
    return [
        at_least(f"4 whole sync, {LATENCY_MS} ms away, speed of fetching", ratio, 0.8),
        at_most("4 peak memory of the sync", peak, 250, "{:.0f} MB"),
        at_most(f"4 peak beside that of {SMALL:,} orders", peak / small_peak, 1.25, "{:.2f} times"),
    ], {
        "whole_seconds": [round(seconds, 1) for seconds in synced],
        "whole_seconds_of_few": round(small_seconds, 1),
        "peak_mb": peak,
        "peak_mb_of_few": small_peak,
    }


def _fetch_and_sync(url: str, count: int) -> tuple[float, float, int]:
    """Return the seconds of fetching and of syncing, and the peak memory of the sync in MB."""
    environment = {**os.environ, "SERVICE_BASE_URL": url, "LOG_LEVEL": "ERROR"}
    _clear_tables()
    fetched, _ = peak_of([sys.executable, "-m", "tests.bench.mirror", "fetch"], environment)
    synced, peak = peak_of([sys.executable, "manage.py", "sync", "--full", "orders"], environment)
    if OrderRow.objects.count() != count:
        raise SystemExit("the sync left orders out")
    print(f"  {count:,}: fetching alone {fetched:.1f} s, whole sync {synced:.1f} s, {peak} MB")
    return fetched, synced, peak


def _clear_tables() -> None:
    execute(f"TRUNCATE {', '.join(TABLES)}, sync_syncrun, mirror_drift")
    execute(CLEAR_IDENTITIES)
    execute("VACUUM patients_patient, patients_patientnameword")
    execute("CHECKPOINT")


def _fetch_only() -> None:
    """Read every page, with the threads of the sync, and discard it."""
    with _client(os.environ["SERVICE_BASE_URL"]) as service:
        for _ in in_background(ALL_ORDERS.batches(service, SyncRun(resource="orders", full=True))):
            pass


if __name__ == "__main__":
    if sys.argv[1:] == ["fetch"]:
        _fetch_only()
    else:
        sys.exit(main())
