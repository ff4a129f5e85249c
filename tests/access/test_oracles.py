"""A filter or a sort tells nothing of what its reader may not see."""

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
"""A right and a wrong one; of other fields, a name."""


def rows_of(visitor: Visitor, path: str, query: str) -> tuple[int, list[str]]:
    """The status and the ids of orders and patients in the answer."""
    answer = visitor.ask("GET", f"{path}?{query}")
    links = re.findall(r"/(?:orders|patients|appointments)/([0-9a-f-]{36})/", body_of(answer))
    return answer.status_code, links


@pytest.mark.parametrize("path", LISTS)
def test_no_filter_tells_whether_somebody_is_there(small_world: None, path: str) -> None:
    order = Order.objects.exclude(patient_first_name=None).order_by("pk")[0]
    name = (str(order.patient_first_name), "Zzzxfirst1")
    visitor = Visitor("viewer")
    told = []
    for field in HIDDEN:
        right, wrong = (
            rows_of(visitor, path, f"{field}={each}") for each in GUESSES.get(field, name)
        )
        if right != wrong:
            told.append(field)
    assert not told


@pytest.mark.parametrize("sort", ["patient_name", "-patient_name", "interpretation", "patient_dob"])
def test_no_sort_tells_an_order_of_names(small_world: None, sort: str) -> None:
    visitor = Visitor("viewer")
    plain = rows_of(visitor, "/orders/", "")
    for name in ("sort", "order", "order_by", "ordering", "o"):
        assert rows_of(visitor, "/orders/", f"{name}={sort}") == plain


def test_a_name_is_found_by_those_who_may_see_it(small_world: None) -> None:
    """That the above would notice."""
    order = Order.objects.exclude(patient_first_name=None).order_by("pk")[0]
    found = rows_of(
        Visitor("administrator"), "/orders/", f"search_input={order.patient_first_name}"
    )
    nobody = rows_of(Visitor("administrator"), "/orders/", "search_input=Zzzxfirst1")
    assert found != nobody
