"""Records, helpers and threads for tests of the mirror."""

from __future__ import annotations

import json
import random
import string
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
from django.db import connection, transaction

from backoffice.mirror import applying
from backoffice.mirror.tables import ApplyOutcome, MirrorRecord, MirrorTable
from backoffice.service.labs import LAB_ACCOUNT
from backoffice.service.orders import ORDER
from backoffice.service.payload import Record
from tests.waiting import wait_until

T0 = datetime(2026, 6, 1, 12, tzinfo=UTC)


TEAM = str(UUID(int=7))


def minutes(count: float) -> datetime:
    return T0 + timedelta(minutes=count)


def event(number: int, step: str = "ordered", **changes: Any) -> dict[str, Any]:
    return {
        "id": number,
        "created_at": minutes(number % 1_000).isoformat(),
        "status": f"received.testkit.{step}",
        "status_detail": None,
        **changes,
    }


def order(
    number: int = 1,
    *,
    updated: float = 0,
    as_of: float = 0,
    events: Sequence[dict[str, Any]] = (),
    **changes: Any,
) -> MirrorRecord:
    """Return an order record as `orders/sync` makes it.

    `updated` and `as_of` are minutes after `T0`.
    """
    steps = list(events) or [event(1)]
    body = {
        "id": str(UUID(int=number)),
        "user_id": TEAM,
        "team_id": TEAM,
        "created_at": T0.isoformat(),
        "updated_at": minutes(updated).isoformat(),
        "events": steps,
        "last_event": steps[-1],
        "lab_test": {"name": "Panel", "method": "testkit"},
        **changes,
    }
    raw = json.dumps(body).encode()
    record = ORDER.read(raw, minutes(as_of))
    assert isinstance(record, Record)
    data = record.data
    return MirrorRecord.from_service(
        record,
        data.id,
        version=(data.updated_at, data.last_event.id if data.last_event else 0),
    )


def account(
    number: int = 1, *, as_of: float = 0, teams: Sequence[int] = (1,), **changes: Any
) -> MirrorRecord:
    """Return a lab account: it has no version, and its set of teams is replaced."""
    body = {
        "id": str(UUID(int=number)),
        "lab": "lab-north",
        "status": "active",
        "delegated_flow": "order_delegated",
        "provider_account_id": "A1",
        "team_id_allowlist": [str(UUID(int=team)) for team in teams],
        **changes,
    }
    raw = json.dumps(body).encode()
    record = LAB_ACCOUNT.read(raw, minutes(as_of))
    assert isinstance(record, Record)
    return MirrorRecord((record.data.id,), raw, minutes(as_of), record.data)


def unstorable(record: MirrorRecord) -> MirrorRecord:
    """Return the record with a byte that is not UTF-8, which PostgreSQL cannot store."""
    return msgspec.structs.replace(record, raw=record.raw + b"\xff")


def apply(table: MirrorTable, *records: MirrorRecord) -> ApplyOutcome:
    with transaction.atomic():
        return applying.apply_batch(table, records)


def counts(outcome: ApplyOutcome) -> tuple[int, int, int, int, int]:
    """Return the numbers of created, changed, unchanged, older and unreadable records."""
    return (
        len(outcome.created),
        len(outcome.changed),
        outcome.unchanged,
        outcome.older,
        outcome.unreadable,
    )


def row_versions(*tables: str) -> list[tuple[Any, ...]]:
    """Return where each row is stored and which transaction wrote it."""
    with connection.cursor() as cursor:
        found = []
        for table in tables or ("orders_order", "orders_orderevent"):
            cursor.execute(f"SELECT ctid::text, xmin::text FROM {table} ORDER BY 1")
            found += cursor.fetchall()
    return found


def incompressible_text(count: int) -> str:
    """Return text that does not compress."""
    return "".join(random.Random(3).choices(string.ascii_lowercase + string.digits, k=count))


@contextmanager
def run_in_thread(step: Any) -> Iterator[list[BaseException]]:
    """Run `step` in a thread with its own database connection."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            step()
        except BaseException as error:
            raised.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield raised
    finally:
        thread.join(30)
        assert not thread.is_alive()


def lock_wait_count() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return int(cursor.fetchone()[0])


def wait_for_lock_wait() -> None:
    wait_until(lock_wait_count, 60, "a statement that waits for a lock", every=0.01)
