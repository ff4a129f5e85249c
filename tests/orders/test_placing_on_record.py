"""What is on record is accepted by the order form, also where it is none of our choices."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from backoffice.outbox.models import CommandRecord
from labs.models import Lab, LabAccount, LabTest
from orders.models import Order, OrderDraft
from patients.models import Demographics
from tests.api.rows import envelope, uid
from tests.dom import Page
from tests.orders.test_placing_findings import (  # noqa: F401
    PERSON,
    TEST,
    catalogue,
    client_of,
    ordered_lately,
    page_of,
    reviewed,
)


def on_record(**values: str) -> None:
    Demographics.objects.update(**values)


def placed(client: Client, **more: Any) -> dict[str, Any]:
    """The body of the order as the page writes it, with what it shows by itself."""
    page = Page(client.get(page_of(client)).content.decode(), "data-kept")
    page.set("tests", str(TEST))
    answer: Any = client.post(page_of(client), {**page.values(), **more, "do": "review"})
    assert answer.status_code == 302, (answer.context["found"], answer.context["form"].errors)
    address, sent = reviewed(client)
    assert client.post(address, sent).status_code == 302
    body: dict[str, Any] = CommandRecord.objects.get().payload["body"]
    return body


@pytest.mark.parametrize(
    "values",
    [
        {"state": "AE", "zip": "09012", "city": "APO"},
        {"state": "AP", "zip": "96201", "city": "FPO"},
        {"state": "AA", "zip": "34001", "city": "APO"},
        {"state": "PR", "zip": "00901"},
        {"state": "VI", "zip": "00802"},
        {"state": "GU", "zip": "96910-1234"},
        {"state": "FM", "zip": "96941"},
        {"state": "Ontario", "zip": "K1A 0B1"},
        {"state": "Île-de-France", "zip": "75001"},
        {"state": "N/A", "zip": "0000"},
    ],
    ids=lambda values: values["state"],
)
def test_places_on_record_can_be_ordered_for(
    client_of: Client,  # noqa: F811
    values: dict[str, str],
) -> None:
    on_record(**values)
    billing = json.dumps({"allowed_billing": {"client_bill": [values["state"].upper()]}})
    LabAccount.objects.update(**envelope(billing))
    address = placed(client_of)["patient_address"]
    assert {name: address[name] for name in values} == values


@pytest.mark.parametrize("gender", ["nonbinary", "X", "not_specified", "Female"])
def test_sex_on_record_is_shown_and_sent(client_of: Client, gender: str) -> None:  # noqa: F811
    on_record(gender=gender)
    page = Page(client_of.get(page_of(client_of)).content.decode(), "data-kept")
    assert page.values()["gender"] == [gender.lower()]
    assert placed(client_of)["patient_details"]["gender"] == gender.lower()


def test_sex_that_nobody_has_on_record_is_refused_and_shown(
    client_of: Client,  # noqa: F811
) -> None:
    given = {**PERSON, "gender": "made up", "tests": [str(TEST)], "do": "review"}
    answer: Any = client_of.post(page_of(client_of), given)
    assert answer.status_code == 422 and answer.context["form"].errors["gender"]
    page = Page(answer.content.decode(), "data-kept")
    assert page.values()["gender"] == ["made up"]


@pytest.mark.parametrize("name", ["method", "billing_type"])
def test_values_of_an_order_on_record_are_repeated(
    client_of: Client,  # noqa: F811
    name: str,
) -> None:
    field = {"method": "collection_method", "billing_type": "billing_type"}[name]
    ordered_lately()
    Order.objects.update(**{name: "made_up_way"}, lab_test_id=uid("test", 9))
    LabAccount.objects.update(**envelope(json.dumps({"allowed_billing": {"made_up_way": ["AZ"]}})))
    body = placed(client_of, **{"billing_type": "made_up_way", field: "made_up_way"})
    assert body[field] == "made_up_way"


def test_method_that_only_the_lab_knows_is_offered(client_of: Client) -> None:  # noqa: F811
    Lab.objects.update(collection_methods=["walk_in_test", "made_up_way"])
    page = Page(client_of.get(page_of(client_of)).content.decode(), "data-kept")
    page.set("tests", str(TEST))
    page.refresh(client_of, page_of(client_of), "summary")
    page.set("collection_method", "made_up_way")
    assert placed(client_of, collection_method="made_up_way")["collection_method"] == "made_up_way"


def test_method_of_the_test_that_we_have_no_word_for_is_ordered(
    client_of: Client,  # noqa: F811
) -> None:
    LabTest.objects.update(method="made_up_way")
    assert placed(client_of)["order_set"]["lab_test_ids"] == [str(TEST)]


def test_physician_on_record_who_is_not_on_the_list_is_repeated(
    client_of: Client,  # noqa: F811
) -> None:
    ordered_lately()
    sent = {"first_name": "Ida", "last_name": "Madeup", "npi": "1234567893"}
    Order.objects.update(record=json.dumps({"physician": sent}))
    address = f"{page_of(client_of)}?repeat={uid('order', 1)}"
    page = Page(client_of.get(address).content.decode(), "data-kept")
    values = page.values()
    assert values["physician"] == ["typed"] and values["physician_npi"] == ["1234567893"]
    page.refresh(client_of, page_of(client_of), "summary")
    assert OrderDraft.objects.get().typed["physician_last_name"] == ["Madeup"]
