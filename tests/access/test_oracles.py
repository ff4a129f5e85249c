"""Filters and sorts reveal no hidden fields."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest

from orders.models import Order
from tests.access.canaries import BORN, EMAIL, MEMBER, PHONE
from tests.access.visits import Visitor, body_of

pytestmark = pytest.mark.django_db

HIDDEN = (
    *("q", "search_input", "patient_name", "shipping_recipient_name", "recipient_name", "name"),
    *("patient_first_name", "patient_last_name", "patient_dob", "dob", "member_id", "email"),
    *("phone_number", "user__demographics__first_name", "interpretation", "flags"),
)
LISTS = ("/orders/", "/appointments/", "/today/", "/exceptions/", "/labs/", "/orders/export/")
GUESSES = {
    "interpretation": ("critical", "nothing"),
    "flags": ("critical", "nothing"),
    "dob": (BORN, "1899-01-01"),
    "patient_dob": (BORN, "1899-01-01"),
    "phone_number": (quote(PHONE), "%2B15550000000"),
    "email": (EMAIL, "zzz@example.invalid"),
    "member_id": (MEMBER, "ZZZMEMBER1"),
}
"""A correct and an incorrect value. Other fields use a name."""


def rows_of(visitor: Visitor, path: str, query: str) -> tuple[int, list[str]]:
    """Return the status and the IDs of orders and patients in the response."""
    answer = visitor.send("GET", f"{path}?{query}")
    links = re.findall(r"/(?:orders|patients|appointments)/([0-9a-f-]{36})/", body_of(answer))
    return answer.status_code, links


@pytest.mark.parametrize("path", LISTS)
def test_filter_does_not_reveal_hidden_patient(small_data_set: None, path: str) -> None:
    order = Order.objects.exclude(patient_first_name=None).order_by("pk")[0]
    name = (str(order.patient_first_name), "Zzzxfirst1")
    visitor = Visitor("viewer")
    revealing = []
    for field in HIDDEN:
        correct, incorrect = (
            rows_of(visitor, path, f"{field}={each}") for each in GUESSES.get(field, name)
        )
        if correct != incorrect:
            revealing.append(field)
    assert not revealing


@pytest.mark.parametrize("sort", ["patient_name", "-patient_name", "interpretation", "patient_dob"])
def test_sort_does_not_reveal_order_of_names(small_data_set: None, sort: str) -> None:
    visitor = Visitor("viewer")
    plain = rows_of(visitor, "/orders/", "")
    for name in ("sort", "order", "order_by", "ordering", "o"):
        assert rows_of(visitor, "/orders/", f"{name}={sort}") == plain


def test_permitted_user_finds_name(small_data_set: None) -> None:
    """This shows that the tests above would find a difference."""
    order = Order.objects.exclude(patient_first_name=None).order_by("pk")[0]
    found = rows_of(
        Visitor("administrator"), "/orders/", f"search_input={order.patient_first_name}"
    )
    no_match = rows_of(Visitor("administrator"), "/orders/", "search_input=Zzzxfirst1")
    assert found != no_match
