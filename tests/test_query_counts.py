"""Every list, search, Today, patient and order page has a fixed number of queries.

The number is the same for a hundred orders and for thousands, and equals the baseline below. A page
with more queries must change this file. `QUERY_COUNT_ORDERS=100000` tests with more orders.
"""

from __future__ import annotations

import os
from typing import Any, Final

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from backoffice.accounts.access import ADMINISTRATOR
from orders.models import Order
from tests.api.rows import staff
from tests.bench.data_set.building import Size, build
from tests.bench.pages_cases import Samples, cases

pytestmark = pytest.mark.django_db

FEW = 100
MANY = int(os.environ.get("QUERY_COUNT_ORDERS", "3000"))

BASELINE: Final[dict[str, int]] = {
    "orders: unfiltered": 14,
    "orders, deep: created_at desc, middle": 14,
    "orders, deep: patient_name asc, last page": 15,
    "orders, sorted: last_status asc": 14,
    "orders, one filter: bucket needs-action": 15,
    "orders, one filter: status lost": 15,
    "orders, one filter: interpretation critical": 14,
    "orders, one filter: a week, long ago": 14,
    "orders, one filter: over usual time": 14,
    "orders, one filter: nobody's": 15,
    "orders, one filter: name begun": 15,
    "orders, one filter: search name": 15,
    "orders, one filter: search id": 16,
    "patients: unfiltered": 11,
    "patients: by name": 11,
    "patients, deep: middle": 11,
    "patients, search: beginnings": 13,
    "patients, search: beginnings, by name": 13,
    "patients, search: phone": 12,
    "search: beginnings": 12,
    "search: phone": 14,
    "search: nobody": 8,
    "search: sample id": 10,
    "search: order id": 10,
    "appointments: today": 14,
    "appointments: upcoming": 14,
    "appointments: requested": 14,
    "appointments: past": 14,
    "appointments: city": 14,
    "exceptions: lost": 15,
    "exceptions: quiet": 15,
    "today: today:page": 20,
    "today: today:hand-over": 13,
    "results queue: reviewing:queue": 32,
    "exceptions: exceptions:list": 17,
    "appointments, otherwise: appointments:week": 11,
    "appointments, otherwise: appointments:sites": 11,
    "appointments, otherwise: appointments:sheet": 10,
    "labs: labs:list": 5,
    "order page: with a result": 23,
    "report page: with a result": 34,
    "patient page: with a result": 19,
}

FOUND_BY_KEY: Final = ("orders", "patients", "search")
"""Pages whose rows are found by key where they are few. It takes one query more."""

# The content of these pages depends on the day, and fifty patients of one name fill a page: fewer
# queries are allowed.
AT_MOST: Final = {
    "orders, one filter: nobody's",
    "search: beginnings",
    "appointments: today",
    "today: today:page",
    "appointments, otherwise: appointments:week",
    "appointments, otherwise: appointments:sites",
    "appointments, otherwise: appointments:sheet",
}


def count_queries(client: Client) -> dict[str, int]:
    """Return the number of queries of each page when it is opened the second time."""
    found: dict[str, int] = {}
    for name, path, posted in _pages():
        send: Any = client.post if posted else client.get
        given = [posted] if posted else []
        answer = send(path, *given)
        if answer.status_code == 302:
            path = answer.headers["location"]
        with CaptureQueriesContext(connection) as captured:
            answer = send(path, *given)
        assert answer.status_code == 200, (name, answer.status_code)
        found[name] = len(captured)
    return found


def _pages() -> list[tuple[str, str, dict[str, str]]]:
    found = [
        (f"{case.group}: {case.name}", case.path, case.posted)
        for case in cases(Samples.from_database())
        if not case.is_combination and f"{case.group}: {case.name}" in BASELINE
    ]
    kits = Order.objects.filter(review__isnull=False, method="testkit", parent_id=None)
    reported = kits.order_by("-created_at")[0]
    found += [
        ("order page: with a result", reverse("orders:detail", args=[reported.pk]), {}),
        ("report page: with a result", reverse("reviewing:report", args=[reported.pk]), {}),
        ("patient page: with a result", reverse("patients:detail", args=[reported.user_id]), {}),
    ]
    return found


@pytest.mark.parametrize("orders", [FEW, MANY])
def test_query_counts_do_not_grow_with_orders(orders: int) -> None:
    client = Client()
    client.force_login(staff(ADMINISTRATOR))
    build(Size(orders))
    found = count_queries(client)
    # With few orders a page may be empty and then omits queries for details.
    less_allowed = BASELINE.keys() if orders == FEW else AT_MOST
    most = {
        name: count + (orders == FEW and name.startswith(FOUND_BY_KEY))
        for name, count in BASELINE.items()
    }
    wrong = {
        name: count
        for name, count in found.items()
        if count > most[name] or (count < BASELINE[name] and name not in less_allowed)
    }
    assert wrong == {}
    assert found.keys() == BASELINE.keys()
    assert found["orders: unfiltered"] == most["orders: unfiltered"]
