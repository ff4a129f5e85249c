"""Counts of orders are exact: after every kind of statement, beside writers that commit, roll back
and are killed, and during fold and repair."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from contextlib import suppress
from uuid import uuid4

import psycopg
import pytest
from django.db import connection, transaction

from backoffice.mirror.models import Drift
from orders.models import Order, OrderActivity, OrderCount
from orders.today import counts
from tests.api.rows import order

pytestmark = pytest.mark.django_db(transaction=True)

STATES = [
    ("preparing", "ordered", "testkit"),
    ("needs-action", "lost", "testkit"),
    ("at-lab", "delivered_to_lab", "walk_in_test"),
    ("result-in", "completed", "at_home_phlebotomy"),
    ("unknown", "teleported", ""),
]


def counted_orders() -> Counter[tuple[str, str, str]]:
    return Counter(Order.objects.values_list("bucket", "low_level_status", "method"))


def counts_are_exact() -> bool:
    return counts.order_counts().by_state == dict(counted_orders())


def make_orders(numbers: range, state: int = 0) -> None:
    bucket, status, method = STATES[state]
    Order.objects.bulk_create(
        order(n, bucket=bucket, low_level_status=status, method=method) for n in numbers
    )


def run_random_statements() -> int:
    """Write enough rows to be worth folding: some of each state with each statement."""
    with connection.cursor() as cursor:
        for _ in range(50):
            cursor.executemany(_INSERT, [[uuid4(), uuid4(), *state] for state in STATES])
    return OrderCount.objects.count()


def test_counts_follow_every_kind_of_statement() -> None:
    make_orders(range(20))
    make_orders(range(20, 25), 1)
    assert counts.order_counts().by_bucket() == {"preparing": 20, "needs-action": 5}
    Order.objects.filter(bucket="needs-action").update(
        bucket="closed", low_level_status="cancelled"
    )
    assert counts.order_counts().count(statuses=["cancelled"]) == 5 and counts_are_exact()
    Order.objects.update(method="walk_in_test")
    assert (
        counts.order_counts().count(bucket="preparing", methods=["walk_in_test"]) == 20
        and counts_are_exact()
    )
    Order.objects.filter(bucket="closed").delete()
    assert counts.order_counts().count(bucket="closed") == 0 and counts_are_exact()
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE orders_order CASCADE")
    assert counts.order_counts().by_state == {}


def test_counts_are_not_written_without_a_change() -> None:
    make_orders(range(5))
    before = OrderCount.objects.count(), OrderActivity.objects.count()
    Order.objects.update(lab_test_name="Another made-up panel")
    Order.objects.filter(bucket="closed").update(bucket="at-lab")
    assert (OrderCount.objects.count(), OrderActivity.objects.count()) == before


def test_rollback_removes_its_counts() -> None:
    make_orders(range(3))
    with suppress(RuntimeError), transaction.atomic():
        make_orders(range(3, 9), 1)
        Order.objects.update(bucket="closed")
        assert counts_are_exact(), "one's own changes are counted at once"
        raise RuntimeError
    assert counts.order_counts().by_bucket() == {"preparing": 3} and counts_are_exact()


def test_fold_keeps_the_sums_and_one_row_per_state() -> None:
    rows = run_random_statements()
    before = counts.order_counts().by_state
    assert counts.compact_counts() == rows == 250
    assert counts.order_counts().by_state == before and counts_are_exact()
    assert OrderCount.objects.count() == len(STATES)
    assert counts.compact_counts() == 0, "nothing to add up is left alone"


def test_repair_corrects_a_wrong_count_and_records_drift() -> None:
    make_orders(range(7))
    assert counts.repair() == 0 and not Drift.objects.exists()
    OrderCount.objects.create(
        bucket="preparing", low_level_status="ordered", method="testkit", change=3
    )
    OrderCount.objects.create(bucket="closed", low_level_status="cancelled", method="", change=-2)
    assert counts.repair() == 2 and counts_are_exact()
    notes = {note.key: note.detail for note in Drift.objects.all()}
    assert notes == {
        "preparing · ordered · testkit": "Counted 10, there are 7. Corrected.",
        "closed · cancelled": "Counted -2, there are 0. Corrected.",
    }


ENDS = ("commit", "rollback", "kill")


class Writers:
    """Connections that write orders in short transactions, some of which fail."""

    def __init__(self, address: str, numbers: int) -> None:
        self.address, self.stopped = address, threading.Event()
        self.done: Counter[str] = Counter()
        self.failures: list[Exception] = []
        self.threads = [threading.Thread(target=self._write, args=(n,)) for n in range(numbers)]

    def __enter__(self) -> Writers:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        for thread in self.threads:
            thread.join(30)

    def _write(self, number: int) -> None:
        chance = random.Random(number)
        while not self.stopped.is_set():
            try:
                self._connected(chance)
            except psycopg.OperationalError as error:
                if "terminating connection" not in str(error):
                    self.failures.append(error)
            except psycopg.Error as error:
                self.failures.append(error)
                return

    def _connected(self, chance: random.Random) -> None:
        with psycopg.connect(self.address, autocommit=True) as own:
            while not self.stopped.is_set():
                end = chance.choice(("commit", "commit", "rollback", "kill"))
                try:
                    with own.transaction():
                        for _ in range(chance.randint(1, 4)):
                            self._statement(own, chance)
                        if end == "rollback":
                            raise psycopg.Rollback
                        if end == "kill":
                            own.execute("SELECT pg_terminate_backend(pg_backend_pid())")
                except psycopg.errors.DeadlockDetected:
                    end = "rollback"
                finally:
                    self.done[end] += 1

    def _statement(self, own: psycopg.Connection[object], chance: random.Random) -> None:
        state = chance.choice(STATES)
        kind = chance.choice(("insert", "upsert", "update", "update", "delete"))
        if kind == "insert":
            own.execute(_INSERT, [uuid4(), uuid4(), *state])
        elif kind == "upsert":
            own.execute(_UPSERT, [*state])
        elif kind == "update":
            own.execute(_UPDATE, [*state, chance.randint(1, 20)])
        else:
            own.execute(_DELETE, [chance.randint(1, 3)])


_COLUMNS = """(id, team_id, user_id, bucket, low_level_status, method, created_at, updated_at,
 last_event_id, last_status, status, priority, lab_test_name, patient_first_name,
 patient_last_name, patient_name, patient_gender, recipient_name, record, content_hash, as_of)"""
_REST = """now(), now(), 0, '', '', false, '', '', '', '', '', '', '{}', '', now()"""
_INSERT = f"INSERT INTO orders_order {_COLUMNS} VALUES (%s, %s, NULL, %s, %s, %s, {_REST})"
_PICKED = "SELECT id FROM orders_order ORDER BY random() LIMIT"
_UPSERT = f"""INSERT INTO orders_order {_COLUMNS}
 SELECT id, id, NULL, state.*, {_REST} FROM (
  (SELECT id FROM orders_order ORDER BY random() LIMIT 5) UNION SELECT gen_random_uuid()
 ) AS picked, (SELECT %s::text, %s::text, %s::text) AS state
 ON CONFLICT (id) DO UPDATE SET bucket = excluded.bucket,
  low_level_status = excluded.low_level_status, method = excluded.method"""
_UPDATE = f"""UPDATE orders_order SET bucket = %s, low_level_status = %s, method = %s
 WHERE id IN ({_PICKED} %s)"""
_DELETE = f"DELETE FROM orders_order WHERE id IN ({_PICKED} %s)"


@pytest.fixture
def address() -> str:
    make_orders(range(60))
    settings = connection.settings_dict
    return psycopg.conninfo.make_conninfo(
        host=settings["HOST"], port=settings["PORT"], user=settings["USER"],
        password=settings["PASSWORD"], dbname=settings["NAME"],
    )  # fmt: skip


def test_counts_are_exact_beside_writers_rollbacks_and_kills(address: str) -> None:
    """Each check counts the orders in its own snapshot, while fold and repair are running."""
    looks = 0
    with Writers(address, 5) as writers:
        ends = time.monotonic() + 4
        while looks <= 5 or time.monotonic() < ends or min(writers.done[e] for e in ENDS) < 5:
            with transaction.atomic():
                with connection.cursor() as cursor:
                    cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                assert counts_are_exact()
            looks += 1
            counts.compact_counts()
            assert counts.repair() == 0, "a check beside writers finds nothing to mend"
            assert time.monotonic() < ends + 120, writers.done
    assert not writers.failures
    assert counts_are_exact() and not Drift.objects.filter(kind=Drift.Kind.STALE).exists()


def test_two_folds_at_once_lose_nothing(address: str) -> None:
    run_random_statements()
    before = counts.order_counts().by_state
    with psycopg.connect(address) as other:
        other.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", ["orders_ordercount"])
        assert counts.compact_counts() == 0
        other.rollback()
    threads = [threading.Thread(target=_folding) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert counts.order_counts().by_state == before and counts_are_exact()
    assert OrderCount.objects.count() == len(STATES)


def _folding() -> None:
    try:
        counts.compact_counts()
    finally:
        connection.close()
