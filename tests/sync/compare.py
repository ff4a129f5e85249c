"""The mirror against the sandbox, field by field, without a line of the back office's code.

Promoted columns are compared by SQL on both sides (`expected.py`). What the sandbox computes
anew at each reading (results) or joins together (records as received) is read over plain HTTP.
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
from tests.sync.expected import EVERYTHING, TEAM, Check, Row
from tests.sync.house import House

KEYS = {"x-service-api-key": "sk_us_local_sandbox", "x-management-key": "mg_local_sandbox"}


def differences(sandbox: Sandbox, house: House, checks: Iterable[Check] = EVERYTHING) -> list[str]:
    """One line for each row or field that differs, in promoted columns."""
    found: list[str] = []
    with (
        psycopg.connect(sandbox.database_url) as theirs,
        psycopg.connect(house.database_url) as ours,
    ):
        for check in checks:
            expected = _keyed(check, map(check.derive, _read(theirs, check.sandbox)))
            held = _keyed(check, map(check.opened, _read(ours, check.mirror)))
            found += _compared(check.name, expected, held)
    return found


def _read(connection: psycopg.Connection[Row], statement: str) -> list[Row]:
    return connection.execute(statement.encode()).fetchall()


def _keyed(check: Check, rows: Iterable[Row]) -> dict[Row, Row]:
    found: dict[Row, Row] = {}
    for row in rows:
        key = row[: check.key]
        assert key not in found, f"{check.name}: {key} twice"
        found[key] = row[check.key :]
    assert found, f"{check.name}: nothing to compare"
    return found


def _compared(name: str, expected: dict[Row, Row], held: dict[Row, Row]) -> list[str]:
    found = [f"{name}: {key} is not in the mirror" for key in expected.keys() - held.keys()]
    found += [f"{name}: {key} is not at the service" for key in held.keys() - expected.keys()]
    for key in expected.keys() & held.keys():
        pairs = zip(expected[key], held[key], strict=True)
        for place, (theirs, ours) in enumerate(pairs):
            if theirs != ours:
                found.append(f"{name}: {key} column {place}: {ours!r}, not {theirs!r}")
    return found


# Over HTTP


def served(sandbox: Sandbox, path: str) -> bytes | None:
    """The body of an answer, None for 404."""
    request = Request(sandbox.url + path, headers=KEYS)  # noqa: S310
    try:
        with urlopen(request, timeout=60) as answer:  # noqa: S310
            return bytes(answer.read())
    except HTTPError as error:
        if error.code == 404:
            return None
        raise


def list_differences(sandbox: Sandbox, house: House) -> list[str]:
    """Every record that comes in a list, as received, against the list as it is served now."""
    found: list[str] = []
    for name, table, key, items in (
        ("users", "patients_patient", "user_id", _pages(sandbox, "/v2/user/", "users", True)),
        ("providers", "patients_provider", "slug", _all(sandbox, "/v2/providers")),
        ("labs", "labs_lab", "id", _all(sandbox, "/v3/lab_tests/labs")),
        ("markers", "labs_marker", "id", _pages(sandbox, "/v3/lab_tests/markers", "markers")),
        ("lab tests", "labs_labtest", "id", _lab_tests(sandbox)),
        ("lab accounts", "labs_labaccount", "id", _lab_accounts(sandbox)),
        ("physicians", "labs_physician", "npi", _all(sandbox, f"/v2/team/{TEAM}/physicians")),
    ):
        own = key if key in ("slug", "npi") else "id"
        statement = f"SELECT {own}::text, record FROM {table} WHERE missing_since IS NULL"
        held = {row[0]: json.loads(row[1]) for row in house.query(statement)}
        count = 0
        for item in items:
            count += 1
            if held.get(str(item[key])) != item:
                found.append(f"{name}: the record of {item[key]} is not as served")
        # Reflex markers are in the lists of their lab tests only.
        assert count <= len(held) if name == "markers" else count == len(held), (name, count)
    found += _pull_differences(sandbox, house)
    return found


def _all(sandbox: Sandbox, path: str, key: str = "") -> Iterator[dict[str, Any]]:
    answer = json.loads(served(sandbox, path) or b"null")
    yield from answer[key] if key else answer


def _pages(
    sandbox: Sandbox, path: str, key: str, by_offset: bool = False
) -> Iterator[dict[str, Any]]:
    page, size = 1, 500 if by_offset else 100
    while True:
        query = (
            f"offset={(page - 1) * size}&limit={size}" if by_offset else f"page={page}&size={size}"
        )
        items = list(_all(sandbox, f"{path}?{query}", key))
        yield from items
        if len(items) < size:
            return
        page += 1


def _lab_tests(sandbox: Sandbox) -> Iterator[dict[str, Any]]:
    return _all(sandbox, "/v3/lab_test?lab_test_limit=500&generation_method=all", "data")


def _lab_accounts(sandbox: Sandbox) -> Iterator[dict[str, Any]]:
    org = "0d4f7c1e-0000-4000-8000-00000000c11c"
    own = {item["id"]: item for item in _all(sandbox, "/v3/lab_test/lab_account", "data")}
    managed = _all(sandbox, f"/v1/org/{org}/lab_account/sandbox/us", "data")
    yield from (own | {item["id"]: item for item in managed}).values()


def _pull_differences(sandbox: Sandbox, house: House) -> Iterator[str]:
    held = {
        row[:3]: json.loads(row[3])
        for row in house.query(
            "SELECT user_id::text, provider, resource, record FROM wearables_historicalpull"
            " WHERE missing_since IS NULL"
        )
    }
    cursor = ""
    while True:
        path = f"/v2/introspect/historical_pull?user_limit=500{cursor}"
        answer = json.loads(served(sandbox, path) or b"null")
        for report in answer["data"]:
            for provider, pulls in report["provider"].items():
                entries = {**pulls["pulled"], **{name: name for name in pulls["not_pulled"]}}
                for resource, entry in entries.items():
                    if held.pop((report["user_id"], provider, resource), None) != entry:
                        yield f"pulls: {report['user_id']} {provider} {resource} is not as served"
        if answer["next_cursor"] is None:
            break
        cursor = f"&next_cursor={answer['next_cursor']}"
    yield from (f"pulls: {key} is not at the service" for key in held)


_LIVE = (
    "NOT EXISTS (SELECT FROM patients_patient p"
    " WHERE p.id = user_id AND p.missing_since IS NOT NULL)"
)
_INSURANCE = (
    "SELECT user_id, record FROM (SELECT user_id, is_primary, as_of, id || ' ' || record AS record"
    f" FROM patients_insurance WHERE superseded_at IS NULL) AS sealed WHERE {_LIVE}"
)
_VISIT = "SELECT order_id, record FROM orders_appointment WHERE superseded_at IS NULL AND type ="
_SINGLE = (
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
    ("appointments", f"{_VISIT} 'phlebotomy'", "/v3/order/{}/phlebotomy/appointment"),
    ("appointments", f"{_VISIT} 'patient_service_center'", "/v3/order/{}/psc/appointment"),
    ("results", "SELECT order_id, record FROM orders_result", "/v3/order/{}/result"),
)


def single_differences(
    sandbox: Sandbox, house: House, sample: int | None, result_sample: int | None = None
) -> list[str]:
    """Records that have a call of their own, byte for byte, and every marker of a result.

    `sample`: how many of each kind, newest first and the rest by chance of their ids; None is all.
    """
    found: list[str] = []
    with ThreadPoolExecutor(4) as threads:
        for name, statement, path in _SINGLE:
            limit = (result_sample or sample) if name == "results" else sample
            rows = house.query(_sampled(statement, limit))
            bodies = threads.map(lambda row, path=path: served(sandbox, path.format(row[0])), rows)
            for (key, kept), body in zip(rows, bodies, strict=True):
                record = _insurance_opened(kept) if name == "insurance" else kept
                if body is None or record.encode() != body:
                    found.append(f"{name}: the record of {key} is not as served")
                elif name == "results":
                    found += _result_differences(house, key, json.loads(body))
    return found


def _insurance_opened(kept: str) -> str:
    key, _, record = kept.partition(" ")
    return decrypt(record, f"patients_insurance.record:{key}")


def _sampled(statement: str, limit: int | None) -> str:
    """Half of the sample are the records read last."""
    if limit is None:
        return statement
    latest = statement.replace(", record FROM", ", record, as_of FROM")
    chance = f"SELECT * FROM ({statement}) a ORDER BY md5({_first(statement)}::text) LIMIT {limit}"
    newest = (
        f"SELECT {_first(statement)}, record FROM ({latest}) b ORDER BY as_of DESC LIMIT {limit}"
    )
    return f"({chance}) UNION ({newest})"


def _first(statement: str) -> str:
    return statement.split()[1].rstrip(",")


_LINE = (
    "name", "slug", "result", "value", "type", "unit", "timestamp", "reference_range",
    "min_range_value", "max_range_value", "is_above_max_range", "is_below_min_range",
    "interpretation", "loinc", "loinc_slug", "provider_id", "notes",
)  # fmt: skip


def _result_differences(house: House, order_id: uuid.UUID, served: dict[str, Any]) -> list[str]:
    lines, missing = served["results"], served["missing_results"]
    expected: list[Row] = [
        (place, False, *(_moment(name, line[name]) for name in _LINE), None)
        for place, line in enumerate(lines)
    ]
    for place, gap in enumerate(missing, len(lines)):
        line = {
            "name": gap["name"], "slug": gap["slug"], "result": "", "type": "",
            "interpretation": "", "loinc": gap["loinc"], "loinc_slug": gap["loinc_slug"],
            "provider_id": gap["provider_id"], "notes": gap["note"],
        }  # fmt: skip
        expected.append((place, True, *map(line.get, _LINE), gap["inferred_failure_type"]))
    columns = ", ".join("text" if name == "result" else name for name in _LINE)
    held = house.query(
        f"SELECT position, is_missing, {columns}, failure_type FROM orders_resultmarker"
        " WHERE result_id = %s ORDER BY position",
        [order_id],
    )
    counts = house.query(
        "SELECT returned, missing FROM orders_result WHERE order_id = %s", [order_id]
    )
    if held != expected:
        return [f"results: the markers of {order_id} differ"]
    if counts != [(len(lines), len(missing))]:
        return [f"results: the counts of {order_id} differ"]
    return []


def _moment(name: str, value: Any) -> Any:
    return datetime.fromisoformat(value) if name == "timestamp" and value else value
