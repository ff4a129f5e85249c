"""Query counts of the lists with a hundred rows: a baseline."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from backoffice.accounts.models import User
from backoffice.pages.models import SavedView
from backoffice.team.models import Assignment
from tests.api.rows import demographics, order, patient, staff, uid

pytestmark = pytest.mark.django_db

BASELINE = {
    "/orders/": 10,
    "/orders/?status=ordered&lab=lab-south&order_type=testkit": 9,
    "/orders/?assigned=me&lab=lab-south&quiet=true&order_key=quiet_at": 9,
    "/orders/?status=lost&ordered=this_week&search_input=ada": 9,
    "/orders/views/": 1,
    "/patients/": 7,
    "/patients/?q=ada&order_key=name": 10,
}
COMMON_QUERIES = (
    "accounts_staffsession", "auth_group", "orders_review", "team_notification",
    "webhooks_event", "SAVEPOINT", 'WHERE "accounts_user"."id" =',
)  # fmt: skip
"""Queries of every page and queries that only tests make. They are not counted."""


@pytest.fixture
def user_with_orders(client: Client) -> User:
    """Create a hundred orders with labs and assignees, and ten saved views."""
    user, other = staff("lab coordinator"), staff("clinician")
    for n in range(100):
        order(n, lab_slug="lab-south", low_level_status="lost" if n % 2 else "ordered").save()
        Assignment.objects.create(
            subject_type="order", subject_id=str(uid("order", n)), user=other, by=user
        )
    for n in range(7):
        patient(n).save()
        demographics(n).save()
    for n in range(10):
        SavedView.objects.create(
            listing="orders", name=f"View {n}", owner=other, shared=True, query={"status": ["lost"]}
        )
    client.force_login(user)
    return user


@pytest.mark.parametrize("address", BASELINE)
def test_list_has_at_most_baseline_queries(
    client: Client, user_with_orders: User, address: str
) -> None:
    client.get(address)
    with CaptureQueriesContext(connection) as seen:
        assert client.get(address).status_code == 200
    statements = [query["sql"] for query in seen.captured_queries]
    statements = [sql for sql in statements if not any(words in sql for words in COMMON_QUERIES)]
    assert len(statements) <= BASELINE[address], "\n".join(sql[:120] for sql in statements)
