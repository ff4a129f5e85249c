"""The filters that the JSON API shares with the list of orders."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest
from django.http import QueryDict
from django.test import Client

from orders.models import Order
from orders.order_list.order_list import ORDER_LIST
from tests.api.rows import NOW, order, staff, token_for

pytestmark = pytest.mark.django_db

QUERIES = (
    "order_type=testkit",
    "order_type=testkit&order_type=at_home_phlebotomy",
    "interpretation=critical",
    "is_critical=true",
    "is_critical=false",
    "order_activation_types=scheduled",
    f"start_date={(NOW - timedelta(days=1)).date()}",
    f"start_date={(NOW - timedelta(hours=20)).isoformat().replace('+', '%2B')}",
    f"end_date={(NOW - timedelta(hours=20)).isoformat().replace('+', '%2B')}",
    f"updated_start_date={(NOW - timedelta(days=1)).date()}",
    "lab=lab-of-the-west",
)


@pytest.fixture
def orders() -> None:
    Order.objects.bulk_create(
        order(
            n,
            method=("testkit", "at_home_phlebotomy", "walk_in_test")[n % 3],
            interpretation=(None, "normal", "critical")[n % 3],
            activate_by=(None, date(2099, 1, 1))[n % 2],
            updated_at=NOW - timedelta(days=n),
            lab_slug=("lab-of-the-west", "lab-of-the-east")[n % 2],
        )
        for n in range(40)
    )


def ids(client: Client, user: Any, query: str) -> list[str]:
    answer = client.get(f"/api/orders/?limit=1000&{query}", headers=token_for(user))
    assert answer.status_code == 200, answer.content
    return sorted(item["id"] for item in answer.json()["results"])


@pytest.mark.parametrize("query", QUERIES)
def test_api_and_page_find_same_orders(client: Client, orders: None, query: str) -> None:
    user = staff("administrator")
    filters = ORDER_LIST.filters(QueryDict(query), user)
    assert filters.is_valid(), filters.errors
    found = sorted(str(key) for key in filters.qs.values_list("pk", flat=True))
    assert len(found) < 40
    assert ids(client, user, query) == found


@pytest.mark.parametrize(
    "query",
    [
        "start_date=",
        "start_date=soon",
        "is_critical=maybe",
        "order_type=",
        "order_type=&order_type=testkit",
        "low_level_status=with_customer&low_level_status=transit_customer",
        "limit=1&limit=2",
    ],
)
def test_unreadable_value_is_refused(client: Client, orders: None, query: str) -> None:
    answer = client.get(f"/api/orders/?{query}", headers=token_for(staff("administrator")))
    assert answer.status_code == 400, answer.content
    assert query.partition("=")[0] in answer.json()["message"]


def test_filter_by_hidden_value_is_refused(client: Client, orders: None) -> None:
    headers = token_for(staff("front desk"))
    answer = client.get("/api/orders/?interpretation=critical", headers=headers)
    assert answer.status_code == 400, answer.content


def test_names_and_other_personal_text_are_no_parameters(client: Client) -> None:
    headers = token_for(staff("administrator"))
    for name in ORDER_LIST.words.names:
        assert client.get(f"/api/orders/?{name}=ada", headers=headers).status_code == 400


def test_openapi_document_names_shared_filters(client: Client) -> None:
    document = client.get("/api/schema/", headers=token_for(staff("administrator"))).json()
    listed = document["paths"]["/api/orders/"]["get"]["parameters"]
    parameters = {one["name"]: one for one in listed}
    assert {"start_date", "order_type", "lab", "is_critical", "status"} <= parameters.keys()
    assert parameters.keys().isdisjoint(ORDER_LIST.words.names)
    assert parameters["order_type"]["schema"]["type"] == "array"
    assert parameters["status"]["schema"]["type"] == "string"
