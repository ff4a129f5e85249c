"""Compare the mirror with the sandbox, field by field, without code of the back office.

Promoted columns are compared by SQL on both sides (`expected.py`). Results, which the sandbox
computes at each request, and records as received, which it joins, are read over plain HTTP.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psycopg

from backoffice.core.encryption.cipher import decrypt
from tests.sandboxes import Sandbox
from tests.sync.back_office import BackOffice
from tests.sync.expected import ALL_CHECKS, TEAM, Check, Row

API_KEYS = {"x-service-api-key": "sk_us_local_sandbox", "x-management-key": "mg_local_sandbox"}


def differences(
    sandbox: Sandbox, back_office: BackOffice, checks: Iterable[Check] = ALL_CHECKS
) -> list[str]:
    """Return one line for each row or promoted column that differs."""
    found: list[str] = []
    with (
        psycopg.connect(sandbox.database_url) as service,
        psycopg.connect(back_office.database_url) as mirror,
    ):
        for check in checks:
            expected = _rows_by_key(check, map(check.derive_row, _read(service, check.sandbox)))
            stored = _rows_by_key(check, map(check.decrypt_row, _read(mirror, check.mirror)))
            found += _compare_rows(check.name, expected, stored)
    return found


def _read(connection: psycopg.Connection[Row], statement: str) -> list[Row]:
    return connection.execute(statement.encode()).fetchall()


def _rows_by_key(check: Check, rows: Iterable[Row]) -> dict[Row, Row]:
    found: dict[Row, Row] = {}
    for row in rows:
        key = row[: check.key]
        assert key not in found, f"{check.name}: {key} twice"
        found[key] = row[check.key :]
    assert found, f"{check.name}: nothing to compare"
    return found


def _compare_rows(name: str, expected: dict[Row, Row], stored: dict[Row, Row]) -> list[str]:
    found = [f"{name}: {key} is not in the mirror" for key in expected.keys() - stored.keys()]
    found += [f"{name}: {key} is not at the service" for key in stored.keys() - expected.keys()]
    for key in expected.keys() & stored.keys():
        pairs = zip(expected[key], stored[key], strict=True)
        for position, (service, mirror) in enumerate(pairs):
            if service != mirror:
                found.append(f"{name}: {key} column {position}: {mirror!r}, not {service!r}")
    return found


# Over HTTP


def fetch_body(sandbox: Sandbox, path: str) -> bytes | None:
    """Return the body of a response, or None for 404."""
    request = Request(sandbox.url + path, headers=API_KEYS)  # noqa: S310
    try:
        with urlopen(request, timeout=60) as answer:  # noqa: S310
            return bytes(answer.read())
    except HTTPError as error:
        if error.code == 404:
            return None
        raise


def list_differences(sandbox: Sandbox, back_office: BackOffice) -> list[str]:
    """Compare every stored record that comes from a list with the list as it is served now."""
    found: list[str] = []
    for name, table, key, items in (
        ("users", "patients_patient", "user_id", _pages(sandbox, "/v2/user/", "users", True)),
        ("providers", "patients_provider", "slug", _items(sandbox, "/v2/providers")),
        ("labs", "labs_lab", "id", _items(sandbox, "/v3/lab_tests/labs")),
        ("markers", "labs_marker", "id", _pages(sandbox, "/v3/lab_tests/markers", "markers")),
        ("lab tests", "labs_labtest", "id", _lab_tests(sandbox)),
        ("lab accounts", "labs_labaccount", "id", _lab_accounts(sandbox)),
        ("physicians", "labs_physician", "npi", _items(sandbox, f"/v2/team/{TEAM}/physicians")),
    ):
        id_column = key if key in ("slug", "npi") else "id"
        statement = f"SELECT {id_column}::text, record FROM {table} WHERE missing_since IS NULL"
        stored = {row[0]: json.loads(row[1]) for row in back_office.query(statement)}
        count = 0
        for item in items:
            count += 1
            if stored.get(str(item[key])) != item:
                found.append(f"{name}: the record of {item[key]} is not as served")
        # Reflex markers are only in the lists of their lab tests.
        assert count <= len(stored) if name == "markers" else count == len(stored), (name, count)
    found += _pull_differences(sandbox, back_office)
    return found


def _items(sandbox: Sandbox, path: str, key: str = "") -> Iterator[dict[str, Any]]:
    answer = json.loads(fetch_body(sandbox, path) or b"null")
    yield from answer[key] if key else answer


def _pages(
    sandbox: Sandbox, path: str, key: str, by_offset: bool = False
) -> Iterator[dict[str, Any]]:
    page, size = 1, 500 if by_offset else 100
    while True:
        query = (
            f"offset={(page - 1) * size}&limit={size}" if by_offset else f"page={page}&size={size}"
        )
        items = list(_items(sandbox, f"{path}?{query}", key))
        yield from items
        if len(items) < size:
            return
        page += 1


def _lab_tests(sandbox: Sandbox) -> Iterator[dict[str, Any]]:
    return _items(sandbox, "/v3/lab_test?lab_test_limit=500&generation_method=all", "data")


def _lab_accounts(sandbox: Sandbox) -> Iterator[dict[str, Any]]:
    org = "0d4f7c1e-0000-4000-8000-00000000c11c"
    own_accounts = {
        item["id"]: item for item in _items(sandbox, "/v3/lab_test/lab_account", "data")
    }
    managed = _items(sandbox, f"/v1/org/{org}/lab_account/sandbox/us", "data")
    yield from (own_accounts | {item["id"]: item for item in managed}).values()


def _pull_differences(sandbox: Sandbox, back_office: BackOffice) -> Iterator[str]:
    stored = {
        row[:3]: json.loads(row[3])
        for row in back_office.query(
            "SELECT user_id::text, provider, resource, record FROM wearables_historicalpull"
            " WHERE missing_since IS NULL"
        )
    }
    cursor = ""
    while True:
        path = f"/v2/introspect/historical_pull?user_limit=500{cursor}"
        answer = json.loads(fetch_body(sandbox, path) or b"null")
        for report in answer["data"]:
            for provider, pulls in report["provider"].items():
                entries = {**pulls["pulled"], **{name: name for name in pulls["not_pulled"]}}
                for resource, entry in entries.items():
                    if stored.pop((report["user_id"], provider, resource), None) != entry:
                        yield f"pulls: {report['user_id']} {provider} {resource} is not as served"
        if answer["next_cursor"] is None:
            break
        cursor = f"&next_cursor={answer['next_cursor']}"
    yield from (f"pulls: {key} is not at the service" for key in stored)


_ACTIVE_PATIENT = (
    "NOT EXISTS (SELECT FROM patients_patient p"
    " WHERE p.id = user_id AND p.missing_since IS NOT NULL)"
)
_INSURANCE = (
    "SELECT user_id, record FROM (SELECT user_id, is_primary, as_of, id || ' ' || record AS record"
    f" FROM patients_insurance WHERE superseded_at IS NULL) AS sealed WHERE {_ACTIVE_PATIENT}"
)
_APPOINTMENTS = (
    "SELECT order_id, record FROM orders_appointment WHERE superseded_at IS NULL AND type ="
)
_SINGLE_RECORDS = (
    (
        "demographics",
        "SELECT user_id, record FROM patients_demographics WHERE missing_since IS NULL",
        "/v2/user/{}/info/latest",
    ),
    (
        "insurance",
        f"{_INSURANCE} AND is_primary",
        "/v2/user/{}/insurance/latest?is_primary=true",
    ),
    (
        "insurance",
        f"{_INSURANCE} AND NOT is_primary",
        "/v2/user/{}/insurance/latest?is_primary=false",
    ),
    ("appointments", f"{_APPOINTMENTS} 'phlebotomy'", "/v3/order/{}/phlebotomy/appointment"),
    ("appointments", f"{_APPOINTMENTS} 'patient_service_center'", "/v3/order/{}/psc/appointment"),
    ("results", "SELECT order_id, record FROM orders_result", "/v3/order/{}/result"),
)


def single_differences(
    sandbox: Sandbox, back_office: BackOffice, sample: int | None, result_sample: int | None = None
) -> list[str]:
    """Compare records that have an endpoint of their own, and markers of results.

    `sample` is the number of records of each kind, or None for all. The sample is the
    records read last and as many pseudo-random ones. Records must be equal byte for byte.
    """
    found: list[str] = []
    with ThreadPoolExecutor(4) as threads:
        for name, statement, path in _SINGLE_RECORDS:
            limit = (result_sample or sample) if name == "results" else sample
            rows = back_office.query(_sample_statement(statement, limit))
            bodies = threads.map(
                lambda row, path=path: fetch_body(sandbox, path.format(row[0])), rows
            )
            for (key, stored_record), body in zip(rows, bodies, strict=True):
                record = _decrypt_insurance(stored_record) if name == "insurance" else stored_record
                if body is None or record.encode() != body:
                    found.append(f"{name}: the record of {key} is not as served")
                elif name == "results":
                    found += _result_differences(back_office, key, json.loads(body))
    return found


def _decrypt_insurance(stored_record: str) -> str:
    key, _, record = stored_record.partition(" ")
    return decrypt(record, f"patients_insurance.record:{key}")


def _sample_statement(statement: str, limit: int | None) -> str:
    """Return a statement for `limit` records read last and `limit` pseudo-random ones."""
    if limit is None:
        return statement
    latest = statement.replace(", record FROM", ", record, as_of FROM")
    column = _first_column(statement)
    random = f"SELECT * FROM ({statement}) a ORDER BY md5({column}::text) LIMIT {limit}"
    newest = f"SELECT {column}, record FROM ({latest}) b ORDER BY as_of DESC LIMIT {limit}"
    return f"({random}) UNION ({newest})"


def _first_column(statement: str) -> str:
    return statement.split()[1].rstrip(",")


_MARKER_FIELDS = (
    "name", "slug", "result", "value", "type", "unit", "timestamp", "reference_range",
    "min_range_value", "max_range_value", "is_above_max_range", "is_below_min_range",
    "interpretation", "loinc", "loinc_slug", "provider_id", "notes",
)  # fmt: skip


def _result_differences(
    back_office: BackOffice, order_id: uuid.UUID, body: dict[str, Any]
) -> list[str]:
    lines, missing = body["results"], body["missing_results"]
    expected: list[Row] = [
        (position, False, *(_parse_timestamp(name, line[name]) for name in _MARKER_FIELDS), None)
        for position, line in enumerate(lines)
    ]
    for position, absent in enumerate(missing, len(lines)):
        line = {
            "name": absent["name"], "slug": absent["slug"], "result": "", "type": "",
            "interpretation": "", "loinc": absent["loinc"], "loinc_slug": absent["loinc_slug"],
            "provider_id": absent["provider_id"], "notes": absent["note"],
        }  # fmt: skip
        expected.append(
            (position, True, *map(line.get, _MARKER_FIELDS), absent["inferred_failure_type"])
        )
    columns = ", ".join("text" if name == "result" else name for name in _MARKER_FIELDS)
    stored = back_office.query(
        f"SELECT position, is_missing, {columns}, failure_type FROM orders_resultmarker"
        " WHERE result_id = %s ORDER BY position",
        [order_id],
    )
    counts = back_office.query(
        "SELECT returned, missing FROM orders_result WHERE order_id = %s", [order_id]
    )
    if stored != expected:
        return [f"results: the markers of {order_id} differ"]
    if counts != [(len(lines), len(missing))]:
        return [f"results: the counts of {order_id} differ"]
    return []


def _parse_timestamp(name: str, value: Any) -> Any:
    return datetime.fromisoformat(value) if name == "timestamp" and value else value
