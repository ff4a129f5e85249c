"""The cost of passes that read outdated results again, when there are none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from orders.results import rereading
from orders.sync.results import RESULTS

pytestmark = pytest.mark.django_db

SIGNED: tuple[str, ...] = (
    "CREATE TEMP TABLE added AS SELECT gen_random_uuid() AS id FROM generate_series(1, 5000)",
    "INSERT INTO orders_result (order_id, record, content_hash, as_of, status, specimen_number,"
    " date_reported, returned, missing)"
    f" SELECT id, '{{}}', set_byte(decode(md5(id::text), 'hex'), 15, {RESULTS.revision}), now(),"
    " 'final', '', '', 1, 0 FROM added",
    "INSERT INTO orders_review (order_id, version, kind, rank, signed, seen, acknowledged, called)"
    " SELECT id, 1, 'final', 4, 1, -1, -1, -1 FROM added ON CONFLICT (order_id) DO UPDATE SET"
    " version = EXCLUDED.version, signed = EXCLUDED.signed",
    "ANALYZE orders_result, orders_review",
)


def plan_of(read_again: Callable[[], int], mark: str) -> str:
    """Return the query plan of a pass that has nothing to read; `mark` identifies its query."""
    with connection.cursor() as cursor:
        for statement in SIGNED:
            cursor.execute(statement)
        with CaptureQueriesContext(connection) as queries:
            assert read_again() == 0
        [search_query] = [one["sql"] for one in queries if mark in one["sql"]]
        cursor.execute(f"EXPLAIN {search_query}")
        return "\n".join(row[0] for row in cursor.fetchall())


def test_signed_results_are_not_read_to_find_open_ones() -> None:
    """The query runs once a minute and must not scan all results."""
    plan = plan_of(rereading.reread_open_results, "get_byte")
    assert "review_queue" in plan and "review_open_critical" in plan, plan
    assert "Seq Scan" not in plan and "orders_review_pkey" not in plan, plan


def test_outdated_closed_results_are_found_by_an_index() -> None:
    plan = plan_of(rereading.reread_closed_results, "substring")
    assert "result_revision" in plan and "Sort" not in plan and "Seq Scan" not in plan, plan
