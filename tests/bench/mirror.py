"""Goals 1 to 4: what mirroring costs beside its limits and its peers, side by side in one run.

`BENCH_ORDERS` (100,000) orders are read from a sandbox once and kept on disk. Batches then go, in
turns, through the mirror and by raw COPY into a twin of its tables; a sample goes through
`update_or_create`. They go in again unchanged, and again with one of a hundred changed. A tenth of
them did all of that first, to show how cost grows. The whole sync runs as its own process, in turns
with a walk that throws the pages away.
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
from orders.sync.orders import ORDERS, SWEEP, store_orders  # noqa: E402
from patients.sync import USERS, store_users  # noqa: E402
from tests.bench.common import (  # noqa: E402
    SCALE,
    Goal,
    Growth,
    Spent,
    at_least,
    at_most,
    beside,
    execute,
    explain,
    peak_of,
    report,
    size_of,
)
from tests.sandboxes import Sandbox, running  # noqa: E402

COUNT = int(os.environ.get("BENCH_ORDERS", "100000"))
SMALL = max(100, COUNT // SCALE)
SAMPLE = 500
CHANGED = 100
"""One of so many orders has changed."""
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "1"))
AWAY_MS = 100
SEED_SECONDS = 1800
"""A million orders are made up first."""
TABLES = (
    "orders_order",
    "orders_orderevent",
    "orders_transaction",
    "orders_ordername",
    "orders_ordernameword",
    "sync_lookup",
)
"""What storing orders writes: their rows, their history, their groups, the names they carry, and
reasons to look up."""
IDENTIFIED = ("patients_patient", "patients_patientnameword")
"""Nobody here has demographics: the first order of each patient also writes who they are."""
FORGET_IDENTITIES = """
UPDATE patients_patient SET first_name = '', last_name = '', name_key = '', email = '',
  phone_number = '', phone_digits = '', gender = '', dob = NULL, fields_from_order = '{}',
  source_order_id = NULL, source_order_created_at = NULL
"""


@dataclass
class Side:
    """What the database side of a sync of so many orders took."""

    count: int
    first: Spent = field(default_factory=Spent)
    copied: Spent = field(default_factory=Spent)
    again: Spent = field(default_factory=Spent)
    changed: Spent = field(default_factory=Spent)
    wal: int = 0
    rewritten: bool = False
    bytes_each: int = 0


def main() -> int:
    call_command("migrate", verbosity=0)
    print(f"{COUNT:,} orders: filling a sandbox")
    with (
        running(users=max(20, COUNT // 5), orders=COUNT, seconds=SEED_SECONDS) as sandbox,
        tempfile.TemporaryDirectory() as folder,
    ):
        stages = {name: Spent() for name in ("service", "decode")}
        spool = _fetch(sandbox.url, Path(folder), stages)
        few = _database_side(spool[: -(-SMALL // 1000)], {"decode": Spent()})
        whole = _database_side(spool, stages)
        goals, figures = _judged(spool, whole, stages)
        more, rest = _whole_sync(sandbox)
    growth = [
        Growth(work, "µs an order", few.count, whole.count,
               1e6 * getattr(few, name).wall / few.count,
               1e6 * getattr(whole, name).wall / whole.count)
        for work, name in (
            ("first sync, database side", "first"),
            ("unchanged sync", "again"),
            (f"sync with 1 of {CHANGED} changed", "changed"),
        )
    ]  # fmt: skip
    return report("mirror", goals + more, {"orders": COUNT, **figures, **rest}, growth)


def _client(url: str) -> Service:
    return Service(url, "sk_us_local_sandbox")


def _fetch(url: str, folder: Path, stages: dict[str, Spent]) -> list[Path]:
    """Mirror the users, as a sync does first; read every order once, batches on disk."""
    files: list[Path] = []
    seen: set[UUID] = set()
    with _client(url) as service:
        for users in USERS.batches(service, SyncRun(resource="users", full=True)):
            with transaction.atomic():
                store_users(users.records)
        run = SyncRun(resource="orders", full=True)
        batches = iter(SWEEP.batches(service, run))
        while True:
            with stages["service"].timed():
                batch = next(batches, None)
            if batch is None:
                return files
            files.append(folder / f"{len(files):06}")
            # The walk repeats the last record of a window as the first of the next.
            fresh = [(r.raw, r.asked_at) for r in batch.records if r.data.id not in seen]
            seen.update(r.data.id for r in batch.records)
            files[-1].write_bytes(pickle.dumps(fresh))


def _records(file: Path, decode: Spent | None = None) -> list[Record[OrderPayload]]:
    pairs = pickle.loads(file.read_bytes())  # noqa: S301 - our own file of a minute ago
    with (decode or Spent()).timed():
        return [r for raw, at in pairs if isinstance(r := ORDER.read(raw, at), Record)]


def _database_side(spool: list[Path], stages: dict[str, Spent]) -> Side:
    _empty()
    _twins()
    side = Side(0)
    grouped: set[UUID] = set()
    for file in spool:
        records = _records(file, stages["decode"])
        side.count += len(records)
        _store(records, side.first)
        _raw_copy(_blocks_of(records, grouped), side.copied)
    _settle()
    _store(_records(spool[0]), Spent())  # Catalogue pages are touched once after a vacuum.
    before, wal = _row_versions(), _wal()
    for file in spool:
        _store(_records(file), side.again)
    side.wal, side.rewritten = _wal() - wal, _row_versions() != before
    for file in spool:
        _store(_changed(_records(file)), side.changed)
    side.bytes_each = size_of(*TABLES) // side.count
    return side


def _changed(records: list[Record[OrderPayload]]) -> list[Record[OrderPayload]]:
    """These, one of a hundred of them a step further."""
    return [
        record if n % CHANGED else _moved(record) for n, record in enumerate(records, CHANGED // 2)
    ]


def _moved(record: Record[OrderPayload]) -> Record[OrderPayload]:
    told = orjson.loads(record.raw)
    later = datetime.fromisoformat(told["updated_at"]) + timedelta(hours=1)
    event = {**told["events"][-1], "id": told["events"][-1]["id"] + 1}
    told |= {"updated_at": later.isoformat(), "notes": "moved", "last_event": event}
    told["events"] = [*told["events"], event]
    read = ORDER.read(orjson.dumps(told), record.asked_at)
    assert isinstance(read, Record), read
    return read


def _judged(
    spool: list[Path], side: Side, stages: dict[str, Spent]
) -> tuple[list[Goal], dict[str, Any]]:
    peer = Spent()
    sample = [r for file in spool[: -(-SAMPLE // 1000)] for r in _records(file)][:SAMPLE]
    _twins()
    _peer(sample, peer)
    execute("DROP SCHEMA twin CASCADE")
    by_peer = peer.wall / len(sample) * side.count
    rewritten = "some" if side.rewritten else "none"
    goals = [
        at_least("1 first sync, speed of raw COPY", side.copied.wall / side.first.wall, 0.75),
        at_least("2 against update_or_create", by_peer / side.first.wall, 40, "{:.0f} times"),
        at_least("3 unchanged against first", side.first.wall / side.again.wall, 5, "{:.1f} times"),
        Goal("3 rows rewritten when unchanged", rewritten, "none", not side.rewritten),
        at_most("3 WAL per 1,000 unchanged rows", side.wal / side.count * 1000, 100, "{:.0f} B"),
    ]
    records = _records(spool[0])
    _empty()
    explain(goals, "1 2", f"storing {len(records):,} new orders", partial(_store, records, Spent()))
    return goals, {
        "first_seconds": round(side.first.wall, 2),
        "raw_copy_seconds": round(side.copied.wall, 2),
        "unchanged_seconds": round(side.again.wall, 2),
        "changed_seconds": round(side.changed.wall, 2),
        "update_or_create_seconds_extrapolated": round(by_peer, 1),
        "bytes_an_order": side.bytes_each,
        "split": _split(stages, side.first, side.count),
    }


def _store(records: list[Record[OrderPayload]], spent: Spent) -> None:
    with spent.timed(), transaction.atomic():
        store_orders(records)


def _twins() -> None:
    """Empty tables with the same columns, indexes and storage, in a schema of their own."""
    with connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA IF EXISTS twin CASCADE")
        cursor.execute("CREATE SCHEMA twin")
        for table in (*TABLES, *IDENTIFIED):
            cursor.execute(f'CREATE TABLE twin."{table}" (LIKE public."{table}" INCLUDING ALL)')
        cursor.execute('ALTER TABLE twin."orders_order" SET (toast_tuple_target = 256)')


def _blocks_of(records: list[Record[OrderPayload]], grouped: set[UUID]) -> dict[str, bytes]:
    """The batch's rows as COPY text; transactions and names come with the first of their orders."""
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


def _raw_copy(blocks: dict[str, bytes], spent: Spent) -> None:
    with connection.cursor() as cursor, spent.timed(), transaction.atomic():
        for table, block in blocks.items():
            columns = _written_columns(cursor, table)
            with cursor.copy(f'COPY twin."{table}" ({columns}) FROM STDIN') as copy:
                copy.write(block)


def _peer(records: list[Record[OrderPayload]], spent: Spent) -> None:
    """The usual way: `update_or_create` for every order and every event."""
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
            with spent.timed():
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


def _settle() -> None:
    """Leave nothing of the first load to be written later: hint bits, dirty pages."""
    for statement in ("DROP SCHEMA twin CASCADE", "VACUUM (ANALYZE)", "CHECKPOINT"):
        execute(statement)


def _wal() -> int:
    """Bytes of WAL this session wrote; the server's own count holds the sandbox's, too."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT wal_bytes FROM pg_stat_get_backend_wal(pg_backend_pid())")
        return int(cursor.fetchone()[0])


def _row_versions() -> list[Any]:
    with connection.cursor() as cursor:
        found = []
        for table in (*TABLES, *IDENTIFIED):
            cursor.execute(
                f'SELECT count(*), sum(hashtext(ctid::text || xmin::text)::bigint) FROM "{table}"'
            )
            found.append(cursor.fetchone())
        return found


def _split(stages: dict[str, Spent], mirror: Spent, count: int) -> dict[str, float]:
    """Where the seconds of a sync of this size go when nothing overlaps."""
    # The threads that fetch decode too: what is left is waiting for the service and for HTTP.
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


def _whole_sync(sandbox: Sandbox) -> tuple[list[Goal], dict[str, Any]]:
    """The sync as a process of its own, in turns with one that only fetches, from a service that is
    as far away as a real one: next door, sandbox, sync and PostgreSQL share the same processors."""
    away = {"rate": 1, "kinds": ["slow"], "latency_ms": AWAY_MS}
    sandbox.control("faults", away)
    turns = [_in_turns(sandbox.url, COUNT) for _ in range(ROUNDS)]
    with running(users=max(20, SMALL // 5), orders=SMALL) as small:
        small.control("faults", away)
        _, of_few, least = _in_turns(small.url, SMALL)
    fetched, synced, peaks = zip(*turns, strict=True)
    ratio, peak = beside(fetched, synced), max(peaks)
    return [
        at_least(f"4 whole sync, {AWAY_MS} ms away, speed of fetching", ratio, 0.8),
        at_most("4 peak memory of the sync", peak, 250, "{:.0f} MB"),
        at_most(f"4 peak beside that of {SMALL:,} orders", peak / least, 1.25, "{:.2f} times"),
    ], {
        "whole_seconds": [round(seconds, 1) for seconds in synced],
        "whole_seconds_of_few": round(of_few, 1),
        "peak_mb": peak,
        "peak_mb_of_few": least,
    }


def _in_turns(url: str, count: int) -> tuple[float, float, int]:
    """Seconds of fetching, seconds of syncing, peak memory of the sync in MB."""
    environment = {**os.environ, "SERVICE_BASE_URL": url, "LOG_LEVEL": "ERROR"}
    _empty()
    fetched, _ = peak_of([sys.executable, "-m", "tests.bench.mirror", "fetch"], environment)
    synced, peak = peak_of([sys.executable, "manage.py", "sync", "--full", "orders"], environment)
    if OrderRow.objects.count() != count:
        raise SystemExit("the sync left orders out")
    print(f"  {count:,}: fetching alone {fetched:.1f} s, whole sync {synced:.1f} s, {peak} MB")
    return fetched, synced, peak


def _empty() -> None:
    execute(f"TRUNCATE {', '.join(TABLES)}, sync_syncrun, mirror_drift")
    execute(FORGET_IDENTITIES)
    execute("VACUUM patients_patient, patients_patientnameword")
    execute("CHECKPOINT")


def _fetch_only() -> None:
    """Every page, with the threads the sync has, thrown away."""
    with _client(os.environ["SERVICE_BASE_URL"]) as service:
        for _ in in_background(SWEEP.batches(service, SyncRun(resource="orders", full=True))):
            pass


if __name__ == "__main__":
    if sys.argv[1:] == ["fetch"]:
        _fetch_only()
    else:
        sys.exit(main())
