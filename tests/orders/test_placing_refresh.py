"""Every answer of the order form survives every partial refresh, whatever triggers it.

Answers and triggers are the form's own fields, so a new field joins the matrix automatically.
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
from tests.orders.placing import (
    ACCOUNT,
    OTHER,
    QUESTION,
    TEST,
    create_account,
    create_recent_order,
    order_form_url,
)

ANSWERS = [{"code": "Y", "value": "Yes"}, {"code": "N", "value": "No"}]
CHOICE = {"id": 8, "value": "Fasting?", "type": "choice", "sequence": 2, "answers": ANSWERS}
SAMPLES = {
    "dob": ("1981-01-02", "1982-03-04"),
    "activate_by": ("2031-01-02", "2032-03-04"),
    "state": ("NY", "PR"),
    "lab_account": (str(ACCOUNT), str(uid("account", 2))),
}
"""Two values for each field that does not accept arbitrary text."""
DEPENDS_ON = {
    "physician": ("lab_account", str(ACCOUNT)),
    **{name: ("physician", "typed") for name in PlaceForm.base_fields if "physician_" in name},
}
"""Fields that are shown only after an answer to another field."""


def address_of(importing: bool) -> str:
    return reverse("orders:import" if importing else "orders:new", args=[uid("patient", 1)])


def create_conditions() -> None:
    """Create a patient with the test ordered recently, two accounts and questions of both kinds."""
    create_account(uid("account", 2))
    LabAccount.objects.filter(pk=ACCOUNT).update(delegated_flow="order_delegated")
    Physician.objects.create(npi="1900000029", first_name="Ray", last_name="Madeup", **envelope())
    asked = json.dumps({"aoe": {"questions": [QUESTION, CHOICE]}})
    Marker.objects.filter(pk=2).update(record=asked, has_questions=True)
    LabTestMarker.objects.create(lab_test_id=TEST, marker_id=2, position=0)
    create_recent_order()


def open_page(client: Client, address: str) -> Page:
    """Return the page with the test chosen."""
    page = Page(client.get(address).content.decode(), "data-kept")
    page.set("tests", str(TEST))
    refresh(page, client, address)
    return page


def refresh(page: Page, client: Client, address: str) -> None:
    page.refresh(client, address, "summary")


def form_of(importing: bool) -> PlaceForm:
    """Return the form as it is when the test is chosen."""
    patient = Patient.objects.get(pk=uid("patient", 1))
    person = Demographics.objects.get(pk=patient.pk)
    return PlaceForm(OrderRequest(patient, person, {"tests": [str(TEST)]}, importing))


def samples(name: str, field: forms.Field) -> tuple[str, str]:
    """Return two answers to a field."""
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


def answer_field(page: Page, client: Client, address: str, name: str, value: str) -> None:
    """Answer a field after answering the field on which it depends."""
    if name in DEPENDS_ON and not page.shows(name):
        answer_field(page, client, address, *DEPENDS_ON[name])
        refresh(page, client, address)
    page.set(name, value)


ONE_FORM_ONLY = {
    "new": ("clinical_notes", "activate_by", "icd_codes", "priority", "another", "question"),
    "import": ("sample_id",),
}
"""Fields that the other form does not have."""
TRIGGERS = [
    pytest.param(form == "import", trigger, id=f"{trigger}-{form}")
    for form, other in (("new", "import"), ("import", "new"))
    for trigger in (*PlaceForm.base_fields, "question", "tests", "markers")
    if trigger not in ONE_FORM_ONLY[other]
]


@pytest.mark.parametrize(("importing", "trigger"), TRIGGERS)
def test_refresh_preserves_every_answer(
    clinician_client: Client,
    importing: bool,
    trigger: str,
) -> None:
    create_conditions()
    address = address_of(importing)
    fields = form_of(importing).fields
    questions = [name for name in fields if name.startswith("q-")]
    assert len(questions) == (0 if importing else 2)
    assert fields.keys().isdisjoint(ONE_FORM_ONLY["new" if importing else "import"])
    trigger_field = questions[0] if trigger == "question" else trigger
    answers = {
        name: samples(name, field)[0] for name, field in fields.items() if name != trigger_field
    }
    page = open_page(clinician_client, address)
    for name, value in answers.items():
        answer_field(page, clinician_client, address, name, value)
    refresh(page, clinician_client, address)
    change_field(page, clinician_client, address, trigger_field, fields)
    refresh(page, clinician_client, address)
    saved = OrderDraft.objects.get().typed
    again = Page(clinician_client.get(address).content.decode(), "data-kept").values()
    for name, value in answers.items():
        assert value in page.values().get(name, []), f"{name} is lost by {trigger}"
        assert value in saved[name], f"{name} is not in the draft after {trigger}"
        assert value in again.get(name, []), f"{name} is lost by leaving the page"


def change_field(
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
        answer_field(page, client, address, name, other if chosen in current else chosen)


def test_answer_returns_when_its_test_is_chosen_again(clinician_client: Client) -> None:
    create_conditions()
    address, name = order_form_url(clinician_client), f"q-2-{CHOICE['id']}"
    page = open_page(clinician_client, address)
    page.set(name, "N")
    page.untick("tests", str(TEST))
    refresh(page, clinician_client, address)
    assert not page.shows(name) and page.values()[name] == ["N"]
    page.set("tests", str(TEST))
    refresh(page, clinician_client, address)
    assert page.shows(name) and page.values()[name] == ["N"]


def test_diagnosis_search_survives_refresh(clinician_client: Client) -> None:
    create_conditions()
    address = order_form_url(clinician_client)
    page = open_page(clinician_client, address)
    page.set("diagnosis", "vitamin")
    page.refresh(clinician_client, address, "summary", markers="1")
    assert page.values()["diagnosis"] == ["vitamin"]
    assert "diagnosis" not in OrderDraft.objects.get().typed


def test_confirmation_survives_change_of_physician(
    clinician_client: Client,
) -> None:
    create_conditions()
    LabAccount.objects.update(delegated_flow="order_delegated")
    address = order_form_url(clinician_client)
    page = open_page(clinician_client, address)
    page.set("lab_account", str(ACCOUNT))
    page.set("another", str(uid("order", 1)))
    refresh(page, clinician_client, address)
    for npi in ("1900000029", "1900000011"):
        page.set("physician", npi)
        refresh(page, clinician_client, address)
        assert page.values()["another"] == [str(uid("order", 1))]
    given = {**page.values(), f"q-2-{QUESTION['id']}": ["7"]}
    answer: Any = clinician_client.post(address, {**given, "do": "review"})
    assert answer.status_code == 302, answer.context["findings"]


def test_confirmation_applies_only_to_its_order(clinician_client: Client) -> None:
    create_conditions()
    address = order_form_url(clinician_client)
    page = open_page(clinician_client, address)
    page.set("another", str(uid("order", 1)))
    refresh(page, clinician_client, address)
    newer = Order.objects.get()
    newer.pk = uid("order", 2)
    newer.save(force_insert=True)
    Order.objects.filter(pk=uid("order", 1)).update(low_level_status="cancelled")
    refresh(page, clinician_client, address)
    ticked = [one for one in page.controls("another") if "checked" in one.given]
    assert page.shows("another") and not ticked
    answer: Any = clinician_client.post(address, {**page.values(), "do": "review"})
    assert answer.status_code == 422
    assert "same test" in {one.kind for one in answer.context["findings"]}


def test_search_text_survives_refresh_and_ends_with_choice(
    clinician_client: Client,
) -> None:
    create_conditions()
    address = order_form_url(clinician_client)
    page = open_page(clinician_client, address)
    page.set("panel", "Panel")
    page.set("billing_type", "patient_bill")
    refresh(page, clinician_client, address)
    assert page.values()["panel"] == ["Panel"]
    page.set("tests", str(OTHER))
    refresh(page, clinician_client, address)
    assert page.values()["panel"] == [""]


def test_test_missing_from_catalog_stays_until_unticked(
    clinician_client: Client,
) -> None:
    address, missing_test = order_form_url(clinician_client), str(uid("test", 99))
    page = open_page(clinician_client, address)
    page.refresh(clinician_client, address, "summary", tests=missing_test)
    refresh(page, clinician_client, address)
    assert page.values()["tests"] == [missing_test]
    page.untick("tests", missing_test)
    refresh(page, clinician_client, address)
    assert "tests" not in page.values()
