"""Every answer of the order form outlives every partial refresh, whatever triggers it.

Answers and triggers are the form's own fields, so a new field is part of the matrix by itself.
"""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from django import forms
from django.test import Client
from django.urls import reverse

from labs.models import LabAccount, LabTestMarker, Marker, Physician
from orders.models import Order, OrderDraft
from orders.placing.forms import PlaceForm
from orders.placing.order_request import OrderRequest
from patients.models import Demographics, Patient
from tests.api.rows import envelope, uid
from tests.dom import Page
from tests.orders.test_placing_findings import (  # noqa: F401
    ACCOUNT,
    OTHER,
    QUESTION,
    TEST,
    account,
    catalogue,
    client_of,
    ordered_lately,
    page_of,
)

ANSWERS = [{"code": "Y", "value": "Yes"}, {"code": "N", "value": "No"}]
CHOICE = {"id": 8, "value": "Fasting?", "type": "choice", "sequence": 2, "answers": ANSWERS}
SAMPLES = {
    "dob": ("1981-01-02", "1982-03-04"),
    "activate_by": ("2031-01-02", "2032-03-04"),
    "state": ("NY", "PR"),
    "lab_account": (str(ACCOUNT), str(uid("account", 2))),
}
"""Two values of the fields that do not take any text."""
NEED_ANOTHER = {
    "physician": ("lab_account", str(ACCOUNT)),
    **{name: ("physician", "typed") for name in PlaceForm.base_fields if "physician_" in name},
}
"""Fields that are shown only with an answer to another one."""


def address_of(importing: bool) -> str:
    return reverse("orders:import" if importing else "orders:new", args=[uid("patient", 1)])


def prepare() -> None:
    """A patient who had the test lately, a lab with two accounts, and questions of both kinds."""
    account(uid("account", 2))
    LabAccount.objects.filter(pk=ACCOUNT).update(delegated_flow="order_delegated")
    Physician.objects.create(npi="1900000029", first_name="Ray", last_name="Madeup", **envelope())
    asked = json.dumps({"aoe": {"questions": [QUESTION, CHOICE]}})
    Marker.objects.filter(pk=2).update(record=asked, has_questions=True)
    LabTestMarker.objects.create(lab_test_id=TEST, marker_id=2, position=0)
    ordered_lately()


def shown(client: Client, address: str) -> Page:
    """The page on which the test is chosen."""
    page = Page(client.get(address).content.decode(), "data-kept")
    page.set("tests", str(TEST))
    refresh(page, client, address)
    return page


def refresh(page: Page, client: Client, address: str) -> None:
    page.refresh(client, address, "summary")


def form_of(importing: bool) -> PlaceForm:
    """The form as it is when the test is chosen."""
    patient = Patient.objects.get(pk=uid("patient", 1))
    person = Demographics.objects.get(pk=patient.pk)
    return PlaceForm(OrderRequest(patient, person, {"tests": [str(TEST)]}, importing))


def samples(name: str, field: forms.Field) -> tuple[str, str]:
    """Two answers to a field."""
    if name in SAMPLES:
        return SAMPLES[name]
    if name == "another":
        return str(Order.objects.get().pk), ""
    if isinstance(field, forms.BooleanField):
        return "on", ""
    if isinstance(field, forms.ChoiceField):
        choices = cast(list[tuple[str, str]], field.choices)
        values = [value for value, _ in choices if value not in ("", field.initial)]
        return values[-1], values[0] if len(values) > 1 else ""
    if isinstance(field, forms.DecimalField):
        return "12", "13"
    return f"sample of {name}", f"other sample of {name}"


def give(page: Page, client: Client, address: str, name: str, value: str) -> None:
    """Answer a field; first whatever else makes it appear."""
    if name in NEED_ANOTHER and not page.shows(name):
        give(page, client, address, *NEED_ANOTHER[name])
        refresh(page, client, address)
    page.set(name, value)


@pytest.mark.parametrize("importing", [False, True], ids=["new", "import"])
@pytest.mark.parametrize("trigger", [*PlaceForm.base_fields, "question", "tests", "markers"])
def test_refresh_preserves_every_answer(
    client_of: Client,  # noqa: F811
    importing: bool,
    trigger: str,
) -> None:
    prepare()
    address = address_of(importing)
    fields = form_of(importing).fields
    questions = [name for name in fields if name.startswith("q-")]
    assert importing or len(questions) == 2
    named = questions[0] if trigger == "question" and questions else trigger
    if named not in fields and named not in ("tests", "markers"):
        assert trigger not in fields, "a field of the other form"
        return
    given = {name: samples(name, field)[0] for name, field in fields.items() if name != named}
    page = shown(client_of, address)
    for name, value in given.items():
        give(page, client_of, address, name, value)
    refresh(page, client_of, address)
    _trigger(page, client_of, address, named, fields)
    refresh(page, client_of, address)
    kept = OrderDraft.objects.get().typed
    again = Page(client_of.get(address).content.decode(), "data-kept").values()
    for name, value in given.items():
        assert value in page.values().get(name, []), f"{name} is lost by {trigger}"
        assert value in kept[name], f"{name} is not in the draft after {trigger}"
        assert value in again.get(name, []), f"{name} is lost by leaving the page"


def _trigger(
    page: Page, client: Client, address: str, name: str, fields: dict[str, forms.Field]
) -> None:
    if name == "tests":
        page.untick("tests", str(TEST))
        page.set("tests", str(OTHER))
    elif name == "markers":
        page.refresh(client, address, "summary", markers="1")
    else:
        chosen, other = samples(name, fields[name])
        current = page.values().get(name, [])
        give(page, client, address, name, other if chosen in current else chosen)


def test_answers_to_a_question_return_with_its_test(client_of: Client) -> None:  # noqa: F811
    prepare()
    address, name = page_of(client_of), f"q-2-{CHOICE['id']}"
    page = shown(client_of, address)
    page.set(name, "N")
    page.untick("tests", str(TEST))
    refresh(page, client_of, address)
    assert not page.shows(name) and page.values()[name] == ["N"]
    page.set("tests", str(TEST))
    refresh(page, client_of, address)
    assert page.shows(name) and page.values()[name] == ["N"]


def test_search_for_a_diagnosis_outlives_a_refresh(client_of: Client) -> None:  # noqa: F811
    prepare()
    address = page_of(client_of)
    page = shown(client_of, address)
    page.set("diagnosis", "vitamin")
    page.refresh(client_of, address, "summary", markers="1")
    assert page.values()["diagnosis"] == ["vitamin"]
    assert "diagnosis" not in OrderDraft.objects.get().typed


def test_tick_to_order_again_outlives_a_change_of_physician(
    client_of: Client,  # noqa: F811
) -> None:
    prepare()
    LabAccount.objects.update(delegated_flow="order_delegated")
    address = page_of(client_of)
    page = shown(client_of, address)
    page.set("lab_account", str(ACCOUNT))
    page.set("another", str(uid("order", 1)))
    refresh(page, client_of, address)
    for npi in ("1900000029", "1900000011"):
        page.set("physician", npi)
        refresh(page, client_of, address)
        assert page.values()["another"] == [str(uid("order", 1))]
    given = {**page.values(), f"q-2-{QUESTION['id']}": ["7"]}
    answer: Any = client_of.post(address, {**given, "do": "review"})
    assert answer.status_code == 302, answer.context["found"]


def test_tick_confirms_only_the_order_that_it_names(client_of: Client) -> None:  # noqa: F811
    prepare()
    address = page_of(client_of)
    page = shown(client_of, address)
    page.set("another", str(uid("order", 1)))
    refresh(page, client_of, address)
    newer = Order.objects.get()
    newer.pk = uid("order", 2)
    newer.save(force_insert=True)
    Order.objects.filter(pk=uid("order", 1)).update(low_level_status="cancelled")
    refresh(page, client_of, address)
    ticked = [one for one in page.controls("another") if "checked" in one.given]
    assert page.shows("another") and not ticked
    answer: Any = client_of.post(address, {**page.values(), "do": "review"})
    assert answer.status_code == 422
    assert "same test" in {one.kind for one in answer.context["found"]}


def test_search_word_outlives_a_refresh_and_ends_with_a_choice(
    client_of: Client,  # noqa: F811
) -> None:
    prepare()
    address = page_of(client_of)
    page = shown(client_of, address)
    page.set("panel", "Panel")
    page.set("billing_type", "patient_bill")
    refresh(page, client_of, address)
    assert page.values()["panel"] == ["Panel"]
    page.set("tests", str(OTHER))
    refresh(page, client_of, address)
    assert page.values()["panel"] == [""]


def test_test_that_left_the_catalog_stays_until_it_is_unticked(
    client_of: Client,  # noqa: F811
) -> None:
    address, gone = page_of(client_of), str(uid("test", 99))
    page = shown(client_of, address)
    page.refresh(client_of, address, "summary", tests=gone)
    refresh(page, client_of, address)
    assert page.values()["tests"] == [gone]
    page.untick("tests", gone)
    refresh(page, client_of, address)
    assert "tests" not in page.values()
