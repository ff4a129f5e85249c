"""The list of all results: states, filters, names and its download."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from orders.models import Review
from orders.results import sign_off
from orders.results.result_list import RESULT_LIST, ResultRow
from patients.identity_comparison import Agreement
from tests.api.rows import staff, uid
from tests.reviewing.rows import make_order, receive_result

pytestmark = pytest.mark.django_db

LIST = "/results/list/"
NORMAL = ("Sodium", "4.1", "normal")
HIGH = ("Sodium", "5.6", "abnormal")
CRITICAL = ("Potassium", "6.9", "critical")


@pytest.fixture
def anna(client: Client) -> User:
    user = staff("clinician", "anna")
    client.force_login(user)
    return user


@pytest.fixture
def results(anna: User) -> None:
    """One result of each state: waiting, waiting and critical, acknowledged partial, signed."""
    receive_result(make_order(1).pk, NORMAL)
    receive_result(make_order(2, lab_slug="other-lab").pk, CRITICAL)
    receive_result(make_order(3).pk, NORMAL, status="partial")
    receive_result(make_order(4).pk, HIGH)
    for n in (3, 4):
        sign_off.sign(uid("order", n), 1, anna)
    Review.objects.update(since=timezone.now())


def rows(client: Client, **query: str) -> list[ResultRow]:
    answer = client.get(LIST, query)
    assert answer.status_code == 200, answer.content.decode()[-2000:]
    found: list[ResultRow] = answer.context["rows"]
    return found


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, {1, 2, 3, 4}),
        ({"state": "unsigned"}, {1, 2}),
        ({"state": "seen"}, {3}),
        ({"state": "critical"}, {2}),
        ({"state": "signed"}, {4}),
        ({"place": "critical"}, {2}),
        ({"place": "abnormal", "state": "signed"}, {4}),
        ({"lab": "other-lab"}, {2}),
        ({"signer": "me"}, {4}),
        ({"signer": "nobody"}, {1, 2, 3}),
        ({"mine": "on"}, {4}),
        ({"received": "today"}, {1, 2, 3, 4}),
        ({"received": "yesterday"}, set()),
        ({"patient": str(uid("patient", 2))}, {2}),
    ],
)
def test_filters_find_results_of_any_state(
    client: Client, results: None, query: dict[str, str], found: set[int]
) -> None:
    assert {row.pk for row in rows(client, **query)} == {uid("order", n) for n in found}


def test_tabs_count_what_waits(client: Client, results: None) -> None:
    tabs = {tab.label: tab.count for tab in client.get(LIST).context["tabs"]}
    counts = {state: count and count.value for state, count in tabs.items()}
    waiting = {"unsigned": "Awaiting sign-off", "seen": "Partial, acknowledged"}
    waiting["critical"] = "Open critical results"
    numbers = dict(zip(waiting.values(), (2, 1, 1), strict=True))
    assert counts == {"All": None, **numbers, "Signed": None}
    for state, label in waiting.items():
        answer = client.get(LIST, {"state": state})
        assert answer.context["total"].value == counts[label] == len(answer.context["rows"])


def test_row_names_state_signer_and_version(client: Client, results: None, anna: User) -> None:
    by_order = {row.pk: row for row in rows(client)}
    states = [by_order[uid("order", n)].state for n in range(1, 5)]
    assert states == ["unsigned", "unsigned", "seen", "signed"]
    signature = by_order[uid("order", 4)].signature
    assert signature is not None and signature.by == anna
    receive_result(uid("order", 4), NORMAL)
    (row,) = rows(client, signer="me")
    assert (row.state, row.review.version) == ("unsigned", 2)
    page = client.get(LIST, {"signer": "me"}).content.decode()
    assert "Version 1 signed: anna" in page and "Version 2" in page


@pytest.mark.parametrize(
    ("interpretation", "has_uninterpreted", "shown"),
    [
        ("normal", False, "normal"),
        ("normal", True, "unknown"),
        ("", True, "unknown"),
        ("abnormal", True, "abnormal"),
        ("unknown", False, "unknown"),
        ("", False, ""),
    ],
)
def test_unknown_is_never_shown_as_normal(
    client: Client, anna: User, interpretation: str, has_uninterpreted: bool, shown: str
) -> None:
    receive_result(make_order(1).pk, NORMAL)
    Review.objects.update(interpretation=interpretation, has_uninterpreted=has_uninterpreted)
    (row,) = rows(client)
    assert row.interpretation == shown


def test_result_that_names_somebody_else_is_marked(client: Client, results: None) -> None:
    Review.objects.filter(pk=uid("order", 1)).update(identity=Agreement.DIFFERENT)
    columns = [column.key for column in RESULT_LIST.columns]
    client.post(f"{LIST}columns/", {"column": columns, "keep": "1", "here": ""})
    assert client.get(LIST).content.decode().count("Names somebody else") >= 2


def test_names_are_shown_by_permission_and_recorded(client: Client, results: None) -> None:
    page = client.get(LIST).content.decode()
    assert "Maria Testperson" in page
    entry = AuditEntry.objects.latest("pk")
    assert (entry.action, entry.object_type) == ("list", "result")
    assert {uid("patient", n) for n in range(1, 5)} <= set(entry.patient_ids)


def download(client: Client, **query: str) -> str:
    posted = {"query": urlencode(query), "everything": "1"}
    answer: Any = client.post(f"{LIST}export/", posted)
    return b"".join(answer.streaming_content).decode()


def test_download_has_no_value_of_an_analyte(client: Client, results: None) -> None:
    client.force_login(staff("administrator"))
    text = download(client, state="signed")
    assert "anna" in text and "Abnormal" in text and str(uid("order", 4)) in text
    assert "5.6" not in text and "Sodium" not in text
    assert len(text.splitlines()) == 2


def test_query_count_is_fixed(client: Client, results: None) -> None:
    client.get(LIST)

    def count_queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            rows(client)
        return len(seen)

    few = count_queries()
    for n in range(5, 20):
        receive_result(make_order(n).pk, HIGH)
    assert count_queries() == few <= 22, few


def test_sorts_are_served_by_indexes(results: None, anna: User) -> None:
    """Large tables need these indexes. Here the plans only have to be possible."""
    with connection.cursor() as cursor:
        for setting in ("enable_seqscan", "enable_bitmapscan", "enable_sort"):
            cursor.execute(f"SET LOCAL {setting} = off")
        for key, name in (("received", "review_newest"), ("urgency", "review_by_urgency")):
            for direction in ("asc", "desc"):
                query = QueryDict(f"order_key={key}&order_direction={direction}")
                filters = RESULT_LIST.filters(query, anna)
                assert filters.is_valid()
                sign = "-" if direction == "desc" else ""
                columns = [f"{sign}{column}" for column in filters.form.keyset().columns]
                plan = filters.qs.order_by(*columns)[:25].explain()
                assert name in plan, plan


def test_days_are_those_of_the_receipt(client: Client, results: None) -> None:
    earlier = timezone.now() - timedelta(days=10)
    Review.objects.filter(pk=uid("order", 1)).update(since=earlier)
    day = timezone.localdate(earlier).isoformat()
    (row,) = rows(client, start_date=day, end_date=day)
    assert row.pk == uid("order", 1)
