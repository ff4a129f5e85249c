"""A backlog of order events, made once and put back by one statement for every turn."""

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
"""Makes an order event 2.2 KB, as they are."""
EMPTY: Final = (
    "TRUNCATE webhooks_event, orders_order, orders_ordername, orders_ordernameword,"
    " orders_orderevent, orders_transaction, sync_lookup"
)
PATIENTS: Final = 1_000
KNOWN: Final = f"""
INSERT INTO patients_patient (id, team_id, client_user_id, created_on, record, content_hash, as_of)
SELECT ('0a5e0000-0000-4000-8000-' || lpad(number::text, 12, '0'))::uuid, '{TEAM}',
 'made-up-' || number, now(), '{{}}', 'x', now()
FROM generate_series(0, {PATIENTS - 1}) AS number ON CONFLICT DO NOTHING
"""
"""Patients of these orders, read before: nearly all orders are of such."""


def make(count: int) -> None:
    """Four versions of each order, shuffled, kept aside under their count; their patients."""
    execute(EMPTY)
    execute(KNOWN)
    pairs = [(number, steps) for number in range(count // 4) for steps in (2, 3, 5, 6)]
    random.Random(count).shuffle(pairs)
    for start in range(0, len(pairs), 4_000):
        Event.objects.bulk_create(
            _received(number, steps) for number, steps in pairs[start : start + 4_000]
        )
    execute(f"DROP TABLE IF EXISTS bench_events_{count}")
    execute(f"CREATE TABLE bench_events_{count} AS TABLE webhooks_event")
    execute(EMPTY)


def _received(number: int, steps: int) -> Event:
    """As receiving leaves it."""
    patient = f"0a5e0000-0000-4000-8000-{number % PATIENTS:012d}"
    record = order(number, steps, notes=NOTES, user_id=patient)
    known = {"subject_id": record["id"], "user_id": patient}
    row = event("labtest.order.updated", record, **known)
    # Bodies are sealed some minutes later. The column takes it as it is.
    row.body = EncryptedBlob(row.body or b"")
    return row


def put(count: int, some: int | None = None) -> None:
    """These events, or the first ones of them, in an otherwise empty database."""
    execute(EMPTY)
    limit = "" if some is None else f" ORDER BY id LIMIT {some}"
    execute(f"INSERT INTO webhooks_event SELECT * FROM bench_events_{count}{limit}")
    execute("ANALYZE webhooks_event")
    execute("CHECKPOINT")


def count_of(table: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f'SELECT count(*) FROM "{table}"')
        return int(cursor.fetchone()[0])


def applied() -> int:
    return Event.objects.filter(state="done").count()
