"""Whoever is shown stands on record before the first byte leaves; and without it nobody is shown.

Every route is opened in one world, in which each patient has a name that nothing else has. Whose
name or id is in an answer must be among the patients of the entries that were there before it.
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
from tests.bench.world.building import Size, build
from tests.browser.pages import EXCLUDED_ROUTES, PARAMETER, ROUTE_SAMPLES, SAMPLES, routes

pytestmark = pytest.mark.django_db

ORDERS: Final = 150
SHOWN_BY: Final = {
    "api:orders", "api:patients", "api:results", "appointments:list", "appointments:sheet",
    "audit:list", "audit:mine", "exceptions:card", "exceptions:queue", "finding:results",
    "of-patient:orders", "orders:cancel", "orders:detail", "orders:export", "orders:list",
    "orders:new", "patients:detail", "wearables:devices", "patients:export", "patients:insurance",
    "patients:list", "patients:viewers", "patients:viewers-sheet", "reviewing:queue",
    "reviewing:report", "today:hand-over", "today:page",
}  # fmt: skip
"""Some that must be among those that show patients, or this test looks at nothing."""
OURS: Final = {
    ("reviewing:report", "order_id"): "SELECT order_id FROM orders_review ORDER BY 1 LIMIT 1",
}


def canaries() -> dict[str, str]:
    """Each patient has a name that nothing else has; patient id by that name, and by itself."""
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
        named = dict(cursor.fetchall())
    return {**named, **{key: key for key in named.values()}}


def addresses() -> Iterator[tuple[str, str, dict[str, str]]]:
    """Name, path and posted form of everything that may show a patient."""
    for name, address, _ in routes():
        if name not in EXCLUDED_ROUTES and (path := filled(name, f"/{address}")):
            yield name, path, {}
    words = sql("SELECT max(id::text) FROM orders_order")
    yield "finding:results", "/find/", {"q": words}
    for listing in ("orders", "patients"):
        yield f"{listing}:export", f"/{listing}/export/", {"everything": "1"}
    for name in ("patients", "orders", "appointments", "results", "transactions", "connections"):
        yield f"api:{name}", f"/api/{name}/?limit=30", {}


def filled(name: str, path: str) -> str | None:
    for parameter in PARAMETER.finditer(path):
        key = (name, parameter[1])
        statement = OURS.get(key) or ROUTE_SAMPLES.get(key) or SAMPLES.get(parameter[1])
        sample = sql(statement) if statement else None
        if sample is None:
            return None
        path = path.replace(parameter[0], str(sample), 1)
    return path


def asked(client: Client, path: str, posted: dict[str, str]) -> Any:
    """The answer; of a search, which is posted, the page it leads to."""
    answer: Any = client.post(path, posted) if posted else client.get(path)
    found = posted and answer.status_code == 302
    return client.get(answer["Location"]) if found else answer


def opened(client: Client, path: str, posted: dict[str, str]) -> tuple[int, bytes, set[str]]:
    """Status and bytes of an answer, and the patients that were on record before they came."""
    last = AuditEntry.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    answer = asked(client, path, posted)
    whose: set[str] = set()
    body = b""
    for part in answer.streaming_content if answer.streaming else [answer.content]:
        entries = AuditEntry.objects.filter(pk__gt=last).values_list("patient_ids", flat=True)
        whose = {str(key) for key in itertools.chain.from_iterable(entries)}
        body += part
    return answer.status_code, body, whose


def shown_in(body: bytes, known: dict[str, str]) -> set[str]:
    said = set(re.findall(r"Canary[a-z]{10}|[0-9a-f-]{36}", body.decode(errors="replace")))
    return {known[one] for one in said & known.keys()}


@pytest.fixture
def client() -> Client:
    """Of an administrator who has work of their own."""
    user: User = staff(ADMINISTRATOR)
    client = Client(raise_request_exception=False)
    client.force_login(user)
    return client


@pytest.fixture
def known(client: Client) -> dict[str, str]:
    build(Size(ORDERS))
    user = User.objects.get(username=ADMINISTRATOR)
    order_id = sql(SAMPLES["order_id"])
    patient_id = sql("SELECT user_id FROM orders_order WHERE id = %s", order_id)
    about = {"subject_type": "order", "subject_id": str(order_id), "patient_id": patient_id}
    Assignment.objects.create(**about, user=user, by=user)
    return canaries()


def test_nobody_is_shown_who_is_not_on_record(client: Client, known: dict[str, str]) -> None:
    showing: set[str] = set()
    wrong: dict[str, int] = {}
    for name, path, posted in addresses():
        status, body, whose = opened(client, path, posted)
        shown = shown_in(body, known) if status == 200 else set()
        if shown:
            showing.add(name)
        if shown - whose:
            wrong[f"{name} {path}"] = len(shown - whose)
    assert wrong == {}
    assert SHOWN_BY - showing == set()


def test_without_the_log_nobody_is_shown(client: Client, known: dict[str, str]) -> None:
    everything = list(addresses())
    sql(f"ALTER TABLE {ENTRIES} RENAME TO audit_away")
    shown, refused = [], 0
    for name, path, posted in everything:
        place = transaction.savepoint()
        answer = asked(client, path, posted)
        body = b"".join(answer.streaming_content) if answer.streaming else answer.content
        transaction.savepoint_rollback(place)
        refused += answer.status_code == 503
        if shown_in(body.replace(path.encode(), b""), known):
            shown.append((name, answer.status_code))
    assert shown == []
    assert refused > len(SHOWN_BY)
