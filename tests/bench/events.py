"""A backlog of order events, created once and restored by one statement for each round."""

from __future__ import annotations

import random
from typing import Final

from django.db import connection

from backoffice.core.encryption.encrypted_fields import EncryptedBlob
from tests.bench.common import execute
from tests.webhooks.records import TEAM, order
from tests.webhooks.rows import event
from webhooks.models import Event

NOTES: Final = "n" * 900
"""Makes an order event 2.2 KB, the size of real ones."""
CLEAR_TABLES: Final = (
    "TRUNCATE webhooks_event, orders_order, orders_ordername, orders_ordernameword,"
    " orders_orderevent, orders_transaction, sync_lookup"
)
PATIENTS: Final = 1_000
INSERT_PATIENTS: Final = f"""
INSERT INTO patients_patient (id, team_id, client_user_id, created_on, record, content_hash, as_of)
SELECT ('0a5e0000-0000-4000-8000-' || lpad(number::text, 12, '0'))::uuid, '{TEAM}',
 'made-up-' || number, now(), '{{}}', 'x', now()
FROM generate_series(0, {PATIENTS - 1}) AS number ON CONFLICT DO NOTHING
"""
"""The patients of these orders, stored before, because nearly all orders are for such patients."""


def create_backlog(count: int) -> None:
    """Create four versions of each order, shuffled, in a table named after their count.

    The patients are created, too.
    """
    execute(CLEAR_TABLES)
    execute(INSERT_PATIENTS)
    pairs = [(number, steps) for number in range(count // 4) for steps in (2, 3, 5, 6)]
    random.Random(count).shuffle(pairs)
    for start in range(0, len(pairs), 4_000):
        Event.objects.bulk_create(
            _received_event(number, steps) for number, steps in pairs[start : start + 4_000]
        )
    execute(f"DROP TABLE IF EXISTS bench_events_{count}")
    execute(f"CREATE TABLE bench_events_{count} AS TABLE webhooks_event")
    execute(CLEAR_TABLES)


def _received_event(number: int, steps: int) -> Event:
    """Return an event as it is stored when it is received."""
    patient = f"0a5e0000-0000-4000-8000-{number % PATIENTS:012d}"
    record = order(number, steps, notes=NOTES, user_id=patient)
    ids = {"subject_id": record["id"], "user_id": patient}
    row = event("labtest.order.updated", record, **ids)
    # Bodies are encrypted some minutes later, and the column stores an encrypted blob as it is.
    row.body = EncryptedBlob(row.body or b"")
    return row


def restore_backlog(count: int, first: int | None = None) -> None:
    """Restore all or the `first` of these events in an otherwise empty database."""
    execute(CLEAR_TABLES)
    limit = "" if first is None else f" ORDER BY id LIMIT {first}"
    execute(f"INSERT INTO webhooks_event SELECT * FROM bench_events_{count}{limit}")
    execute("ANALYZE webhooks_event")
    execute("CHECKPOINT")


def count_of(table: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f'SELECT count(*) FROM "{table}"')
        return int(cursor.fetchone()[0])


def applied_count() -> int:
    return Event.objects.filter(state="done").count()
