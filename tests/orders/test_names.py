"""Orders by name: by the few names there are, through many, by the index of words: the same."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from orders.forms import OrderFilters
from orders.models import Order, OrderName
from patients.names import name_key
from tests.api.rows import order

pytestmark = pytest.mark.django_db

NAMES = (
    ("ada sample", "ada sample"),
    ("maria o'sample", "ada sample"),
    ("sampson adams", ""),
    ("", "front desk"),
    ("bada masample", "bada masample"),
)
WORDS = ("ada", "sam ada", "o'sam", "ada sample", "desk", "masample", "nobody", "-", "a_d")


def asked(**given: Any) -> set[str]:
    form = OrderFilters(given, by_name=True, sees_results=True)
    assert form.is_valid(), form.errors
    return {f"{one.patient_name}/{one.recipient_name}" for one in _rows(form.cleaned_data)}


def _rows(given: dict[str, Any]) -> list[Order]:
    return list(Order.objects.filtered(given, "created_at").worded(given, by_name=True))


@pytest.mark.parametrize("box", ["search_input", "patient_name", "shipping_recipient_name"])
@pytest.mark.parametrize("words", WORDS)
def test_names_alone_and_with_other_filters_find_the_same(box: str, words: str) -> None:
    Order.objects.bulk_create(
        order(n, patient_name=one, recipient_name=other) for n, (one, other) in enumerate(NAMES)
    )
    alone = asked(**{box: words})
    assert alone == asked(**{box: words}, start_date="2000-01-01")
    if words == "ada":
        found = {
            "search_input": {0, 1, 2},
            "patient_name": {0, 2},
            "shipping_recipient_name": {0, 1},
        }
        assert alone == {"/".join(NAMES[n]) for n in found[box]}


def test_a_name_that_an_order_takes_later_is_found() -> None:
    order(1, patient_name="ada sample", recipient_name="").save()
    Order.objects.update(patient_name="grace testperson")
    assert [one.patient_name for one in Order.objects.named("testp gra")] == ["grace testperson"]
    assert not Order.objects.named("ada")


@pytest.mark.parametrize("typed", ["j.r. ewing", "ewing r", "ann", "mary/ann lee", "o'bri", "st-"])
def test_whatever_stands_between_words_they_are_found(typed: str) -> None:
    names = ("J.R. Ewing", "Mary/Ann Lee", "Pat O'Brien", "Jo St-Sample")
    Order.objects.bulk_create(
        order(n, patient_name=name_key(name), recipient_name="") for n, name in enumerate(names)
    )
    assert len(Order.objects.named(typed)) == 1


def test_a_name_is_kept_once() -> None:
    Order.objects.bulk_create(order(n, patient_name="ada sample") for n in range(3))
    order(7, patient_name="ada sample").save()
    Order.objects.update(patient_name="ada sample", bucket="closed")
    assert OrderName.objects.filter(name__startswith="ada sample").count() == 1
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM orders_order WHERE NOT EXISTS (SELECT FROM orders_ordername"
            " WHERE name = patient_name || ' ' || recipient_name)"
        )
        assert cursor.fetchone() == (0,)


@pytest.mark.parametrize("few", [0, 500])
@pytest.mark.parametrize("over", [0, 100_000])
def test_many_names_find_what_few_do(few: int, over: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However orders are looked up, and whatever else is asked."""
    monkeypatch.setattr("orders.models.order.FEW_NAMES", few)
    monkeypatch.setattr("orders.models.order.LAID_OVER", over)
    Order.objects.bulk_create(
        order(n, patient_name=one, recipient_name=other) for n, (one, other) in enumerate(NAMES)
    )
    everybody = {"/".join(NAMES[n]) for n in (0, 1, 2)}
    assert asked(search_input="ada") == everybody
    assert asked(search_input="ada", start_date="2000-01-01") == everybody
    assert asked(search_input="ada", end_date="2000-01-01") == set()


def test_what_cannot_be_is_no_order_among_many_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orders.models.order.FEW_NAMES", 0)
    order(1, patient_name="ada sample", recipient_name="").save()
    assert asked(search_input="ada") and not asked(
        search_input="ada", order_activation_types=["made-up"]
    )
