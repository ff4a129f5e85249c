"""Runs the statements: tables are filled without their indexes, which are created at the end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import psycopg
from django.db import connection

from backoffice.mirror.tables import MirrorRecord
from backoffice.service import Record
from backoffice.service.labs import LabAccountPayload, LabPayload, LabTestPayload
from backoffice.service.payload import Reader
from backoffice.service.results import RESULT
from labs.sync import LABS, store_lab_accounts, store_lab_tests
from labs.sync import _store as store_in
from orders.models import ResultMarker
from orders.sync.result_versions import store_versions
from orders.sync.results import RESULTS
from orders.turnaround import limits
from patients.search_keys import name_key
from tests.bench.data_set import people, rows
from tests.bench.data_set.order_histories import METHODS, order_histories

Log = Callable[[str], None]
SLOTS: Final = 1000
MIN_UNSIGNED: Final = 200
"""Unsigned results: a clinic of any size has a full page of them."""
TABLES: Final = (
    "orders_order",
    "orders_orderevent",
    "orders_transaction",
    "orders_appointment",
    "orders_appointmentevent",
    "orders_result",
    "orders_resultmarker",
    "patients_patient",
    "patients_demographics",
)
TRIGGER_TABLES: Final = ("orders_ordername", "orders_ordernameword", "patients_patientnameword")


@dataclass(frozen=True)
class Size:
    """The number of orders, which decides all other numbers."""

    orders: int

    @property
    def patients(self) -> int:
        return max(1, self.orders // 5)

    @property
    def visit_factor(self) -> float:
        """How many times more often open orders have a visit than among a million.

        It makes the visits of a day fill a page in a smaller data set, too.
        """
        return min(14.0, max(1.0, 200_000 / self.orders))


def build(size: Size, log: Log = lambda text: None, *, connection_count: int = 1) -> None:
    """Fill the database of Django's connection, whose tables are empty.

    With a `connection_count` above one, statements run side by side on separate connections and are
    committed as they run. Otherwise all of them run on Django's connection.
    """
    started_at = time.perf_counter()
    parameters = _numbers(size)
    with connection.cursor() as cursor:
        cursor.execute(rows.SCHEMA)
        _fill_small(cursor, size.visit_factor)
        cursor.execute(rows.PEOPLE.format(**parameters))
        cursor.execute(rows.ORDERS.format(**parameters))
        cursor.execute(rows.RESULTS.format(**parameters))
        _fill_quiet(cursor)
        cursor.execute("ANALYZE world.person, world.orders, world.quiet, world.results")
        drop_statements, create_statements = _indexes(cursor)
        for statement in drop_statements:
            cursor.execute(statement)
        for table in TABLES:
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
    log(f"  histories drawn after {time.perf_counter() - started_at:.0f} s")
    _run(
        [statement.format(**parameters) for statement in _inserts(connection_count)],
        connection_count,
    )
    log(f"  rows written after {time.perf_counter() - started_at:.0f} s")
    _run(create_statements, connection_count)
    with connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA world CASCADE")
        for table in TABLES:
            cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
        cursor.execute(rows.INSERT_COUNTS)
        cursor.execute(rows.INSERT_NAMES)
        cursor.execute(rows.INSERT_PATIENT_WORDS)
        cursor.execute(rows.INSERT_HAPPENINGS)
        cursor.execute(rows.NEWEST_RESULTS, [max(MIN_UNSIGNED, size.orders // 500)])
        unsigned = [key for (key,) in cursor.fetchall()]
    store_versions(unsigned)
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {', '.join((*TABLES, *TRIGGER_TABLES))}")
    log(f"  indexes made after {time.perf_counter() - started_at:.0f} s")


def _numbers(size: Size) -> dict[str, Any]:
    now = int(datetime.now(UTC).timestamp())
    span = rows.SPAN_DAYS * 86400
    return {
        "orders": size.orders,
        "patients": size.patients,
        "now": now,
        "span": span,
        "spacing": 86400 / rows.ORDERS_PER_DAY,
        "lately": int(min(rows.LAST_DAYS * rows.ORDERS_PER_DAY, 0.45 * size.orders)),
        "start": now - span,
        "firsts": len(people.FIRST_NAMES),
        "lasts": len(people.LAST_NAMES),
        "places": len(people.PLACES),
        "tests": len(people.PANELS),
        "results_share": rows.RESULTS_SHARE,
    }


def _inserts(connection_count: int) -> list[str]:
    """Return the statements, the longest first, so that all connections end at about the same
    time."""
    columns = [str(field.column) for field in ResultMarker._meta.concrete_fields]
    values = ["r.id" if name == "result_id" else f"m.{name}" for name in columns]
    values[columns.index("timestamp")] = (
        "CASE WHEN m.is_missing THEN NULL ELSE to_timestamp(at + lived) END"
    )
    markers = rows.INSERT_MARKERS.replace("{columns}", ", ".join(columns))
    orders, events = (
        [
            statement.replace("{parts}", str(connection_count)).replace("{part}", str(part))
            for part in range(connection_count)
        ]
        for statement in (rows.INSERT_ORDERS, rows.INSERT_EVENTS)
    )
    return [
        *orders,
        *events,
        markers.replace("{values}", ", ".join(values)),
        rows.INSERT_RESULTS,
        rows.INSERT_TRANSACTIONS,
        rows.INSERT_VISITS,
        rows.INSERT_PATIENTS,
        rows.INSERT_DEMOGRAPHICS,
        rows.INSERT_VISIT_EVENTS,
    ]


def _run(statements: Sequence[str], connection_count: int) -> None:
    if connection_count == 1:
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
        return

    def run_separately(statement: str) -> None:
        parameters = connection.get_connection_params()
        parameters.pop("cursor_factory", None)
        parameters.pop("context", None)
        with closing(psycopg.connect(**parameters, autocommit=True)) as separate_connection:
            separate_connection.execute("SET synchronous_commit = off")
            separate_connection.execute("SET maintenance_work_mem = '512MB'")
            separate_connection.execute(statement.encode())

    with ThreadPoolExecutor(connection_count) as pool:
        for future in [pool.submit(run_separately, statement) for statement in statements]:
            future.result()


def _indexes(cursor: Any) -> tuple[list[str], list[str]]:
    """Return the statements that drop indexes and constraints, and those that create them again."""
    cursor.execute(
        "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE conrelid = ANY(%s::regclass[]) AND contype IN ('p', 'u')",
        [list(TABLES)],
    )
    keys = cursor.fetchall()
    cursor.execute(
        "SELECT indexname, indexdef, tablename FROM pg_indexes WHERE tablename = ANY(%s)"
        " AND NOT indexname = ANY(%s)",
        [list(TABLES), [name for _, name, _ in keys]],
    )
    indexes = cursor.fetchall()
    drop_statements = [f'DROP INDEX "{name}"' for name, _, _ in indexes]
    drop_statements += [
        f'ALTER TABLE {table} DROP CONSTRAINT "{name}" CASCADE' for table, name, _ in keys
    ]
    create_statements = [
        f'ALTER TABLE {table} ADD CONSTRAINT "{name}" {definition}'
        for table, name, definition in keys
    ]
    create_statements += [
        definition for _, definition, _ in sorted(indexes, key=lambda item: "gin" not in item[1])
    ]
    return drop_statements, create_statements


def _fill_small(cursor: Any, visit_factor: float) -> None:
    asked_at = datetime.now(UTC)

    def read(kind: type[Any], values: dict[str, Any]) -> Record[Any]:
        record = Reader(kind).read(json.dumps(values).encode(), asked_at)
        assert isinstance(record, Record), record
        return record

    numbered = range(len(people.PANELS))
    store_in(LABS, "id", [read(LabPayload, people.lab(n)) for n in range(len(people.LABS))])
    tests = {(method, n): people.lab_test(method, n) for method in METHODS for n in numbered}
    store_lab_tests([read(LabTestPayload, one) for one in tests.values()])
    store_lab_accounts([read(LabAccountPayload, people.account(n)) for n in range(people.ACCOUNTS)])
    insert = cursor.executemany
    insert(
        "INSERT INTO world.first_name VALUES (%s, %s, %s, %s)",
        [
            (n, name, name_key(name, ""), ("female", "male")[n % 2])
            for n, name in enumerate(people.FIRST_NAMES)
        ],
    )
    insert(
        "INSERT INTO world.last_name VALUES (%s, %s, %s)",
        [(n, name, name_key(name, "")) for n, name in enumerate(people.LAST_NAMES)],
    )
    insert(
        "INSERT INTO world.place VALUES (%s, %s, %s, %s, %s)",
        [(n, *place) for n, place in enumerate(people.PLACES)],
    )
    insert(
        "INSERT INTO world.lab_test VALUES (%s, %s, %s, %s, %s, %s)",
        [
            (method, n, one["id"], one["name"], one["lab"]["slug"], json.dumps(one))
            for (method, n), one in tests.items()
        ],
    )
    _fill_histories(cursor, visit_factor)
    _fill_results(cursor)


def _fill_histories(cursor: Any, visit_factor: float) -> None:
    histories = list(enumerate(order_histories()))
    for number, history in histories:
        values = {
            "i": number,
            "open": history.open,
            "method": history.method,
            "steps": [event["status"] for event in history.record()["events"]],
            "hours": history.hours,
            "detail": history.detail,
            "visit": history.visit,
            "has_sample": history.has_sample,
            "result_status": history.result_status,
            "scheduled": history.scheduled,
            "text": history.text(),
            **history.promoted(),
        }
        places = ", ".join(["%s"] * len(values))
        cursor.execute(
            f"INSERT INTO world.life ({', '.join(values)}) VALUES ({places})", list(values.values())
        )
    for is_open in (True, False):
        weights = [
            (number, history.weight * (visit_factor if is_open and history.visit else 1))
            for number, history in histories
            if history.open == is_open
        ]
        total, reached, slots = sum(weight for _, weight in weights), 0.0, []
        for number, weight in weights:
            before, reached = round(reached), reached + SLOTS * weight / total
            slots += [number] * max(1, round(reached) - before)
        cursor.executemany(
            "INSERT INTO world.slot VALUES (%s, %s, %s)",
            [(is_open, n, slots[n * len(slots) // SLOTS]) for n in range(SLOTS)],
        )


def _fill_quiet(cursor: Any) -> None:
    """Insert when each order is over its usual time, from the function that the sync uses."""
    limits.refresh()
    steps = {step for history in order_histories() for step in history.steps}
    step_methods = [(step, method) for step in steps for method in METHODS]
    limited_steps = {
        step for step, method in step_methods if limits.default_limit(step, method) is not None
    }
    cursor.execute(rows.SELECT_LIMITED_ORDERS, [sorted(limited_steps)])
    times = [(n, limits.quiet_at(*values)) for n, *values in cursor.fetchall()]
    with cursor.copy("COPY world.quiet FROM STDIN") as copy:
        for row in times:
            copy.write_row(row)


def _fill_results(cursor: Any) -> None:
    columns = [str(field.column) for field in ResultMarker._meta.concrete_fields]
    marker_columns = [name for name in columns if name not in ("result_id", "timestamp")]
    cursor.execute(
        "CREATE TABLE world.marker AS SELECT 0 AS panel, 0 AS variant,"
        f" {', '.join(marker_columns)} FROM orders_resultmarker WITH NO DATA"
    )
    for panel in range(len(people.PANELS)):
        for variant, interpretation in enumerate(people.INTERPRETATIONS):
            text = json.dumps(people.result(panel, variant), ensure_ascii=False)
            read = RESULT.read(
                text.replace("%4$s", "2026-01-02T03:04:05+00:00").encode(), datetime.now(UTC)
            )
            assert isinstance(read, Record), read
            record = MirrorRecord.from_service(read, None)
            values = RESULTS.promote(record)
            cursor.execute(
                "INSERT INTO world.result VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
                [
                    *(panel, variant, interpretation, text, values["laboratory"]),
                    *(values["returned"], values["missing"]),
                    *(values["interpretation"], values["interpretation_received"]),
                ],
            )
            cursor.executemany(
                f"INSERT INTO world.marker (panel, variant, {', '.join(marker_columns)})"
                f" VALUES (%s, %s, {', '.join(['%s'] * len(marker_columns))})",
                [
                    (panel, variant, *(line[name] for name in marker_columns))
                    for line in RESULTS.children[0].rows(record)
                ],
            )
