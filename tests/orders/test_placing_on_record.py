"""The order form accepts values on record, even those that are not among its choices."""

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
from tests.orders.placing import (
    PERSON,
    TEST,
    create_recent_order,
    open_review,
    order_form_url,
)


def set_record(**values: str) -> None:
    Demographics.objects.update(**values)


def place_order(client: Client, **more: Any) -> dict[str, Any]:
    """Place an order with what the page shows by itself and return the body."""
    page = Page(client.get(order_form_url(client)).content.decode(), "data-kept")
    page.set("tests", str(TEST))
    answer: Any = client.post(order_form_url(client), {**page.values(), **more, "do": "review"})
    assert answer.status_code == 302, (answer.context["findings"], answer.context["form"].errors)
    address, sent = open_review(client)
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
def test_order_for_place_on_record_is_accepted(
    clinician_client: Client,
    values: dict[str, str],
) -> None:
    set_record(**values)
    billing = json.dumps({"allowed_billing": {"client_bill": [values["state"].upper()]}})
    LabAccount.objects.update(**envelope(billing))
    address = place_order(clinician_client)["patient_address"]
    assert {name: address[name] for name in values} == values


@pytest.mark.parametrize("gender", ["nonbinary", "X", "not_specified", "Female"])
def test_sex_on_record_is_shown_and_sent(clinician_client: Client, gender: str) -> None:
    set_record(gender=gender)
    page = Page(
        clinician_client.get(order_form_url(clinician_client)).content.decode(), "data-kept"
    )
    assert page.values()["gender"] == [gender.lower()]
    assert place_order(clinician_client)["patient_details"]["gender"] == gender.lower()


def test_unknown_sex_is_refused_and_shown(
    clinician_client: Client,
) -> None:
    given = {**PERSON, "gender": "made up", "tests": [str(TEST)], "do": "review"}
    answer: Any = clinician_client.post(order_form_url(clinician_client), given)
    assert answer.status_code == 422 and answer.context["form"].errors["gender"]
    page = Page(answer.content.decode(), "data-kept")
    assert page.values()["gender"] == ["made up"]


@pytest.mark.parametrize("name", ["method", "billing_type"])
def test_values_of_an_order_on_record_are_repeated(
    clinician_client: Client,
    name: str,
) -> None:
    field = {"method": "collection_method", "billing_type": "billing_type"}[name]
    create_recent_order()
    Order.objects.update(**{name: "made_up_way"}, lab_test_id=uid("test", 9))
    LabAccount.objects.update(**envelope(json.dumps({"allowed_billing": {"made_up_way": ["AZ"]}})))
    body = place_order(clinician_client, **{"billing_type": "made_up_way", field: "made_up_way"})
    assert body[field] == "made_up_way"


def test_method_known_only_to_lab_is_offered(clinician_client: Client) -> None:
    Lab.objects.update(collection_methods=["walk_in_test", "made_up_way"])
    page = Page(
        clinician_client.get(order_form_url(clinician_client)).content.decode(), "data-kept"
    )
    page.set("tests", str(TEST))
    page.refresh(clinician_client, order_form_url(clinician_client), "summary")
    page.set("collection_method", "made_up_way")
    assert (
        place_order(clinician_client, collection_method="made_up_way")["collection_method"]
        == "made_up_way"
    )


def test_unknown_method_of_test_is_ordered(
    clinician_client: Client,
) -> None:
    LabTest.objects.update(method="made_up_way")
    assert place_order(clinician_client)["order_set"]["lab_test_ids"] == [str(TEST)]


def test_unlisted_physician_on_record_is_repeated(
    clinician_client: Client,
) -> None:
    create_recent_order()
    sent = {"first_name": "Ida", "last_name": "Madeup", "npi": "1234567893"}
    Order.objects.update(record=json.dumps({"physician": sent}))
    address = f"{order_form_url(clinician_client)}?repeat={uid('order', 1)}"
    page = Page(clinician_client.get(address).content.decode(), "data-kept")
    values = page.values()
    assert values["physician"] == ["typed"] and values["physician_npi"] == ["1234567893"]
    page.refresh(clinician_client, order_form_url(clinician_client), "summary")
    assert OrderDraft.objects.get().typed["physician_last_name"] == ["Madeup"]
