"""A view is recorded before the first byte of a page is sent; without the log nobody is shown.

The test opens every route in one data set in which each patient has a unique name. A patient whose
name or ID is in a response must be among the patients of the entries that existed before.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
from django.db import connection, transaction
from django.test import Client

from backoffice.accounts.access import ADMINISTRATOR
from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.team.models import Assignment
from tests.api.rows import staff
from tests.audit.trail import ENTRIES, sql
from tests.bench.data_set.building import Size, build
from tests.browser.pages import EXCLUDED_ROUTES, PARAMETER, ROUTE_SAMPLES, SAMPLES, routes

pytestmark = pytest.mark.django_db

ORDER_COUNT: Final = 150
SHOWING_ROUTES: Final = {
    "api:orders", "api:patients", "api:results", "appointments:list", "appointments:sheet",
    "audit:list", "audit:mine", "exceptions:card", "exceptions:list", "finding:results",
    "of-patient:orders", "orders:cancel", "orders:detail", "orders:export", "orders:list",
    "orders:new", "patients:detail", "wearables:devices", "patients:export", "patients:insurance",
    "patients:list", "patients:viewers", "patients:viewers-sheet", "reviewing:queue",
    "reviewing:report", "today:hand-over", "today:page",
}  # fmt: skip
"""Some routes that must show patients. Otherwise this test checks nothing."""
SAMPLE_STATEMENTS: Final = {
    ("reviewing:report", "order_id"): "SELECT order_id FROM orders_review ORDER BY 1 LIMIT 1",
}


def set_unique_names() -> dict[str, str]:
    """Give each patient a unique name. Return the patient ID by that name, and by the ID itself."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE patients_demographics AS p SET first_name = name, name_key = lower(name)"
            " FROM (SELECT user_id, 'Canary' || translate(substr(md5(user_id::text), 1, 10),"
            " '0123456789', 'ghijklmnop') AS name FROM patients_demographics) AS new"
            " WHERE new.user_id = p.user_id"
        )
        cursor.execute(
            "UPDATE orders_order AS o SET patient_first_name = p.first_name"
            " FROM patients_demographics AS p WHERE p.user_id = o.user_id"
        )
        cursor.execute("SELECT first_name, user_id::text FROM patients_demographics")
        ids_by_name = dict(cursor.fetchall())
    return {**ids_by_name, **{key: key for key in ids_by_name.values()}}


def addresses() -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield name, path and posted form of every URL that may show a patient."""
    for name, address, _ in routes():
        if name not in EXCLUDED_ROUTES and (path := fill_parameters(name, f"/{address}")):
            yield name, path, {}
    search_text = sql("SELECT max(id::text) FROM orders_order")
    yield "finding:results", "/find/", {"q": search_text}
    for list_name in ("orders", "patients"):
        yield f"{list_name}:export", f"/{list_name}/export/", {"everything": "1"}
    for name in ("patients", "orders", "appointments", "results", "transactions", "connections"):
        yield f"api:{name}", f"/api/{name}/?limit=30", {}


def fill_parameters(name: str, path: str) -> str | None:
    for parameter in PARAMETER.finditer(path):
        key = (name, parameter[1])
        statement = (
            SAMPLE_STATEMENTS.get(key) or ROUTE_SAMPLES.get(key) or SAMPLES.get(parameter[1])
        )
        sample = sql(statement) if statement else None
        if sample is None:
            return None
        path = path.replace(parameter[0], str(sample), 1)
    return path


def get_response(client: Client, path: str, posted: dict[str, str]) -> Any:
    """Return the response. A search is posted; return the page to which it redirects."""
    answer: Any = client.post(path, posted) if posted else client.get(path)
    is_redirected = posted and answer.status_code == 302
    return client.get(answer["Location"]) if is_redirected else answer


def open_and_read_audit(
    client: Client, path: str, posted: dict[str, str]
) -> tuple[int, bytes, set[str]]:
    """Return status and bytes of a response, and the patients recorded before these were sent."""
    last = AuditEntry.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    answer = get_response(client, path, posted)
    recorded: set[str] = set()
    body = b""
    for part in answer.streaming_content if answer.streaming else [answer.content]:
        create_entries = AuditEntry.objects.filter(pk__gt=last).values_list(
            "patient_ids", flat=True
        )
        recorded = {str(key) for key in itertools.chain.from_iterable(create_entries)}
        body += part
    return answer.status_code, body, recorded


def patients_in(body: bytes, patient_ids: dict[str, str]) -> set[str]:
    found = set(re.findall(r"Canary[a-z]{10}|[0-9a-f-]{36}", body.decode(errors="replace")))
    return {patient_ids[one] for one in found & patient_ids.keys()}


@pytest.fixture
def client() -> Client:
    """A client of an administrator with assigned work."""
    user: User = staff(ADMINISTRATOR)
    client = Client(raise_request_exception=False)
    client.force_login(user)
    return client


@pytest.fixture
def patient_ids(client: Client) -> dict[str, str]:
    build(Size(ORDER_COUNT))
    user = User.objects.get(username=ADMINISTRATOR)
    order_id = sql(SAMPLES["order_id"])
    patient_id = sql("SELECT user_id FROM orders_order WHERE id = %s", order_id)
    about = {"subject_type": "order", "subject_id": str(order_id), "patient_id": patient_id}
    Assignment.objects.create(**about, user=user, by=user)
    return set_unique_names()


def test_every_shown_patient_is_recorded_before(
    client: Client, patient_ids: dict[str, str]
) -> None:
    showing_routes: set[str] = set()
    wrong: dict[str, int] = {}
    for name, path, posted in addresses():
        status, body, recorded = open_and_read_audit(client, path, posted)
        shown = patients_in(body, patient_ids) if status == 200 else set()
        if shown:
            showing_routes.add(name)
        if shown - recorded:
            wrong[f"{name} {path}"] = len(shown - recorded)
    assert wrong == {}
    assert SHOWING_ROUTES - showing_routes == set()


def test_no_patient_is_shown_without_audit_log(client: Client, patient_ids: dict[str, str]) -> None:
    all_addresses = list(addresses())
    sql(f"ALTER TABLE {ENTRIES} RENAME TO audit_away")
    shown, refused = [], 0
    for name, path, posted in all_addresses:
        place = transaction.savepoint()
        answer = get_response(client, path, posted)
        body = b"".join(answer.streaming_content) if answer.streaming else answer.content
        transaction.savepoint_rollback(place)
        refused += answer.status_code == 503
        if patients_in(body.replace(path.encode(), b""), patient_ids):
            shown.append((name, answer.status_code))
    assert shown == []
    assert refused > len(SHOWING_ROUTES)
