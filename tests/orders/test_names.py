"""Searches for orders by name give the same result whichever query is used."""

from __future__ import annotations

from typing import Any

import pytest
from django.db.models import F

from orders.models import Order, OrderName
from patients.search_keys import name_key
from patients.search_text import parse_search_text
from tests.api.rows import order
from tests.orders.filters import order_filters

pytestmark = pytest.mark.django_db

NAMES = (
    ("ada sample", "ada sample"),
    ("maria o sample", "ada sample"),
    ("sampson adams", ""),
    ("", "front desk"),
    ("bada masample", "bada masample"),
)
SEARCH_TEXTS = ("ada", "sam ada", "o'sam", "ada sample", "desk", "masample", "nobody", "-", "a_d")


def find_names(**given: Any) -> set[str]:
    return {f"{one.patient_name}/{one.recipient_name}" for one in order_filters(given).qs}


@pytest.mark.parametrize("field", ["search_input", "patient_name", "shipping_recipient_name"])
@pytest.mark.parametrize("words", SEARCH_TEXTS)
def test_name_search_is_same_with_other_filters(field: str, words: str) -> None:
    Order.objects.bulk_create(
        order(n, patient_name=one, recipient_name=other) for n, (one, other) in enumerate(NAMES)
    )
    found_alone = find_names(**{field: words})
    assert found_alone == find_names(**{field: words}, start_date="2000-01-01")
    if words == "ada":
        found = {
            "search_input": {0, 1, 2},
            "patient_name": {0, 2},
            "shipping_recipient_name": {0, 1},
        }
        assert found_alone == {"/".join(NAMES[n]) for n in found[field]}


def test_changed_name_is_found() -> None:
    order(1, patient_name="ada sample", recipient_name="").save()
    Order.objects.update(patient_name="grace testperson")
    assert [
        one.patient_name for one in Order.objects.with_person(parse_search_text("testp gra"))
    ] == ["grace testperson"]
    assert not Order.objects.with_person(parse_search_text("ada"))


@pytest.mark.parametrize(
    "typed",
    ["j.r. ewing", "ewing r", "ann", "mary/ann lee", "o'bri", "brien pat", "o’brien", "st-"],
)
def test_words_are_found_with_any_punctuation(typed: str) -> None:
    names = ("J.R. Ewing", "Mary/Ann Lee", "Pat O’Brien", "Jo St-Sample")
    Order.objects.bulk_create(
        order(n, patient_name=name_key(name), recipient_name="") for n, name in enumerate(names)
    )
    assert len(Order.objects.with_person(parse_search_text(typed))) == 1


def test_name_is_stored_once() -> None:
    Order.objects.bulk_create(order(n, patient_name="ada sample") for n in range(3))
    order(7, patient_name="ada sample").save()
    Order.objects.update(patient_name="ada sample", bucket="closed")
    assert OrderName.objects.filter(patient_name="ada sample").count() == 1
    orders = Order.objects.filter(
        names__patient_name=F("patient_name"), names__recipient_name=F("recipient_name")
    )
    assert orders.count() == Order.objects.count() == 4


def test_names_of_an_order_cannot_be_written() -> None:
    order(1, patient_name="ada sample").save()
    names_id = Order.objects.get().names_id
    Order.objects.update(names=7, bucket="closed")
    assert Order.objects.get().names_id == names_id


def test_long_words_are_matched_by_their_beginning() -> None:
    order(1, patient_name="a" * 600 + " sample", recipient_name="b" * 600).save()
    for typed in ("a" * 600, "a" * 700, "sam aaa", "b" * 65):
        assert Order.objects.with_person(parse_search_text(typed)).count() == 1
    assert not Order.objects.with_person(parse_search_text("a" * 60 + "b"))


def test_two_name_filters_are_combined() -> None:
    Order.objects.bulk_create(
        order(n, patient_name=one, recipient_name=other) for n, (one, other) in enumerate(NAMES)
    )
    assert find_names(patient_name="ada", shipping_recipient_name="ada") == {
        "ada sample/ada sample"
    }
    assert find_names(patient_name="maria", search_input="ada") == {"maria o sample/ada sample"}


@pytest.mark.parametrize(
    ("field", "typed", "found"),
    [
        ("search_input", "maria desk", {0}),
        ("search_input", "desk front maria", {0}),
        ("search_input", "sample bea", {1, 2, 3}),
        ("search_input", "ple bea", set()),
        ("search_input", "b sam", {1, 2, 3}),
        ("patient_name", "bea sam", {1, 2}),
        ("patient_name", "maria desk", set()),
        ("shipping_recipient_name", "front desk", {0}),
        ("shipping_recipient_name", "bea sam", {3}),
    ],
)
def test_words_of_one_field_may_match_either_name(field: str, typed: str, found: set[int]) -> None:
    names = (
        ("maria adams", "front desk"),
        ("bea o sample", ""),
        ("jo st sample bea", "front office"),
        ("front resample", "bea sample"),
    )
    Order.objects.bulk_create(
        order(n, patient_name=one, recipient_name=other) for n, (one, other) in enumerate(names)
    )
    assert find_names(**{field: typed}) == {"/".join(names[n]) for n in found}
