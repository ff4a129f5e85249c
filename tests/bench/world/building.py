"""Runs the statements: tables without their indexes first, indexes at the end."""

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
from patients.names import name_key
from tests.bench.world import people, rows
from tests.bench.world.lives import METHODS, lives

Say = Callable[[str], None]
SLOTS: Final = 1000
LEAST_UNSIGNED: Final = 200
"""Results that nobody has signed yet: a clinic of any size has a full page of them."""
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
TOLD_BY_TRIGGERS: Final = ("orders_ordername", "orders_ordernameword", "patients_patientnameword")


@dataclass(frozen=True)
class Size:
    """How many orders; the rest follows."""

    orders: int

    @property
    def patients(self) -> int:
        return max(1, self.orders // 5)

    @property
    def booked(self) -> float:
        """How many times more often open orders have a visit than among a million: of the visits
        of a day there is a full page in a smaller world, too."""
        return min(14.0, max(1.0, 200_000 / self.orders))


def build(size: Size, say: Say = lambda words: None, *, lanes: int = 1) -> None:
    """Fill the database of Django's connection, whose tables are empty.

    With more lanes than one, statements run side by side on connections of their own and are
    committed as they go; with one, all of it happens on Django's connection.
    """
    begun = time.perf_counter()
    numbers = _numbers(size)
    with connection.cursor() as cursor:
        cursor.execute(rows.SCHEMA)
        _fill_small(cursor, size.booked)
        cursor.execute(rows.PEOPLE.format(**numbers))
        cursor.execute(rows.ORDERS.format(**numbers))
        cursor.execute(rows.RESULTS.format(**numbers))
        _fill_quiet(cursor)
        cursor.execute("ANALYZE world.person, world.orders, world.quiet, world.results")
        left_out, brought_back = _indexes(cursor)
        for statement in left_out:
            cursor.execute(statement)
        for table in TABLES:
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
    say(f"  lives drawn after {time.perf_counter() - begun:.0f} s")
    _run([statement.format(**numbers) for statement in _inserts(lanes)], lanes)
    say(f"  rows written after {time.perf_counter() - begun:.0f} s")
    _run(brought_back, lanes)
    with connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA world CASCADE")
        for table in TABLES:
            cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
        cursor.execute(rows.COUNTED)
        cursor.execute(rows.NAMES)
        cursor.execute(rows.PATIENT_WORDS)
        cursor.execute(rows.HAPPENINGS)
        cursor.execute(rows.NEWEST_RESULTS, [max(LEAST_UNSIGNED, size.orders // 500)])
        unsigned = [key for (key,) in cursor.fetchall()]
    store_versions(unsigned)
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {', '.join((*TABLES, *TOLD_BY_TRIGGERS))}")
    say(f"  indexes made after {time.perf_counter() - begun:.0f} s")


def _numbers(size: Size) -> dict[str, Any]:
    now = int(datetime.now(UTC).timestamp())
    span = rows.SPAN_DAYS * 86400
    return {
        "orders": size.orders,
        "patients": size.patients,
        "now": now,
        "span": span,
        "spacing": 86400 / rows.A_DAY,
        "lately": int(min(rows.LAST_DAYS * rows.A_DAY, 0.45 * size.orders)),
        "start": now - span,
        "firsts": len(people.FIRST_NAMES),
        "lasts": len(people.LAST_NAMES),
        "places": len(people.PLACES),
        "tests": len(people.PANELS),
        "results_share": rows.RESULTS_SHARE,
    }


def _inserts(lanes: int) -> list[str]:
    """The longest first, so that no lane ends long after the others."""
    columns = [str(field.column) for field in ResultMarker._meta.concrete_fields]
    values = ["r.id" if name == "result_id" else f"m.{name}" for name in columns]
    values[columns.index("timestamp")] = (
        "CASE WHEN m.is_missing THEN NULL ELSE to_timestamp(at + lived) END"
    )
    markers = rows.INSERT_MARKERS.replace("{columns}", ", ".join(columns))
    orders, events = (
        [
            statement.replace("{parts}", str(lanes)).replace("{part}", str(part))
            for part in range(lanes)
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


def _run(statements: Sequence[str], lanes: int) -> None:
    if lanes == 1:
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
        return

    def alone(statement: str) -> None:
        given = connection.get_connection_params()
        given.pop("cursor_factory", None)
        given.pop("context", None)
        with closing(psycopg.connect(**given, autocommit=True)) as own:
            own.execute("SET synchronous_commit = off")
            own.execute("SET maintenance_work_mem = '512MB'")
            own.execute(statement.encode())

    with ThreadPoolExecutor(lanes) as pool:
        for done in [pool.submit(alone, statement) for statement in statements]:
            done.result()


def _indexes(cursor: Any) -> tuple[list[str], list[str]]:
    """Statements that drop what slows rows down, and those that make it again."""
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
    left_out = [f'DROP INDEX "{name}"' for name, _, _ in indexes]
    left_out += [f'ALTER TABLE {table} DROP CONSTRAINT "{name}" CASCADE' for table, name, _ in keys]
    made = [f'ALTER TABLE {table} ADD CONSTRAINT "{name}" {said}' for table, name, said in keys]
    made += [
        definition for _, definition, _ in sorted(indexes, key=lambda one: "gin" not in one[1])
    ]
    return left_out, made


def _fill_small(cursor: Any, booked: float) -> None:
    asked_at = datetime.now(UTC)

    def read(kind: type[Any], values: dict[str, Any]) -> Record[Any]:
        found = Reader(kind).read(json.dumps(values).encode(), asked_at)
        assert isinstance(found, Record), found
        return found

    numbered = range(len(people.PANELS))
    store_in(LABS, "id", [read(LabPayload, people.lab(n)) for n in range(len(people.LABS))])
    tests = {(method, n): people.lab_test(method, n) for method in METHODS for n in numbered}
    store_lab_tests([read(LabTestPayload, one) for one in tests.values()])
    store_lab_accounts([read(LabAccountPayload, people.account(n)) for n in range(people.ACCOUNTS)])
    many = cursor.executemany
    many(
        "INSERT INTO world.first_name VALUES (%s, %s, %s, %s)",
        [
            (n, each, name_key(each, ""), ("female", "male")[n % 2])
            for n, each in enumerate(people.FIRST_NAMES)
        ],
    )
    many(
        "INSERT INTO world.last_name VALUES (%s, %s, %s)",
        [(n, each, name_key(each, "")) for n, each in enumerate(people.LAST_NAMES)],
    )
    many(
        "INSERT INTO world.place VALUES (%s, %s, %s, %s, %s)",
        [(n, *place) for n, place in enumerate(people.PLACES)],
    )
    many(
        "INSERT INTO world.lab_test VALUES (%s, %s, %s, %s, %s, %s)",
        [
            (method, n, one["id"], one["name"], one["lab"]["slug"], json.dumps(one))
            for (method, n), one in tests.items()
        ],
    )
    _fill_lives(cursor, booked)
    _fill_results(cursor)


def _fill_lives(cursor: Any, booked: float) -> None:
    everything = list(enumerate(lives()))
    for number, life in everything:
        values = {
            "i": number,
            "open": life.open,
            "method": life.method,
            "steps": [event["status"] for event in life.record()["events"]],
            "hours": life.hours,
            "detail": life.detail,
            "visit": life.visit,
            "has_sample": life.has_sample,
            "result_status": life.result_status,
            "scheduled": life.scheduled,
            "text": life.text(),
            **life.promoted(),
        }
        places = ", ".join(["%s"] * len(values))
        cursor.execute(
            f"INSERT INTO world.life ({', '.join(values)}) VALUES ({places})", list(values.values())
        )
    for is_open in (True, False):
        some = [
            (number, life.weight * (booked if is_open and life.visit else 1))
            for number, life in everything
            if life.open == is_open
        ]
        whole, reached, slots = sum(weight for _, weight in some), 0.0, []
        for number, weight in some:
            before, reached = round(reached), reached + SLOTS * weight / whole
            slots += [number] * max(1, round(reached) - before)
        cursor.executemany(
            "INSERT INTO world.slot VALUES (%s, %s, %s)",
            [(is_open, n, slots[n * len(slots) // SLOTS]) for n in range(SLOTS)],
        )


def _fill_quiet(cursor: Any) -> None:
    """When each order is over its usual time, by the function that the sync asks."""
    limits.refresh()
    steps = {step for life in lives() for step in life.steps}
    kinds = [(step, method) for step in steps for method in METHODS]
    resting = {step for step, method in kinds if limits.default_limit(step, method) is not None}
    cursor.execute(rows.RESTING, [sorted(resting)])
    found = [(n, limits.quiet_at(*about)) for n, *about in cursor.fetchall()]
    with cursor.copy("COPY world.quiet FROM STDIN") as copy:
        for row in found:
            copy.write_row(row)


def _fill_results(cursor: Any) -> None:
    columns = [str(field.column) for field in ResultMarker._meta.concrete_fields]
    kept = [name for name in columns if name not in ("result_id", "timestamp")]
    cursor.execute(
        "CREATE TABLE world.marker AS SELECT 0 AS panel, 0 AS variant,"
        f" {', '.join(kept)} FROM orders_resultmarker WITH NO DATA"
    )
    for panel in range(len(people.PANELS)):
        for variant, look in enumerate(people.LOOKS):
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
                    *(panel, variant, look, text, values["laboratory"]),
                    *(values["returned"], values["missing"]),
                    *(values["interpretation"], values["interpretation_received"]),
                ],
            )
            cursor.executemany(
                f"INSERT INTO world.marker (panel, variant, {', '.join(kept)})"
                f" VALUES (%s, %s, {', '.join(['%s'] * len(kept))})",
                [
                    (panel, variant, *(line[name] for name in kept))
                    for line in RESULTS.children[0].rows(record)
                ],
            )
