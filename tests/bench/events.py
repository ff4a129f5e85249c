"""A backlog of order events, made once and put back by one statement for every turn."""

from __future__ import annotations

import random
from typing import Final

from django.db import connection

from backoffice.sealing import Blob
from tests.bench.common import execute
from tests.webhooks.records import order
from tests.webhooks.rows import event
from webhooks.models import Event

NOTES: Final = "n" * 900
"""Makes an order event 2.2 KB, as they are."""
EMPTY: Final = (
    "TRUNCATE webhooks_event, orders_order, orders_ordername, orders_orderevent,"
    " orders_transaction, backoffice_lookup"
)


def make(count: int) -> None:
    """Four versions of each order, shuffled, kept aside under their count."""
    execute(EMPTY)
    pairs = [(number, steps) for number in range(count // 4) for steps in (2, 3, 5, 6)]
    random.Random(count).shuffle(pairs)
    for start in range(0, len(pairs), 4_000):
        events = [
            event("labtest.order.updated", order(number, steps, notes=NOTES))
            for number, steps in pairs[start : start + 4_000]
        ]
        for one in events:
            # As it is received: bodies are sealed some minutes later. The column takes it as it is.
            one.body = Blob(one.body or b"")
        Event.objects.bulk_create(events)
    execute(f"DROP TABLE IF EXISTS bench_events_{count}")
    execute(f"CREATE TABLE bench_events_{count} AS TABLE webhooks_event")
    execute(EMPTY)


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
