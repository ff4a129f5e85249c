"""The sandbox accepts every kind of order that the form can send, as intended."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from backoffice.outbox.models import CommandRecord
from labs.models import LabAccount, LabTest, Marker
from orders.models import Order
from orders.placing.order_request import OrderRequest
from orders.placing.patient_rules import is_name
from orders.placing.questions import questions_of
from patients.models import Demographics, Insurance, Patient
from tests.outbox.harness import OutboxHarness
from tests.outbox.test_placing import confirm_review, form_values, send_form

SOUTH_LAB = "lab-south"


def panels_at(lab: str) -> list[LabTest]:
    rows = LabTest.objects.filter(lab__slug=lab, status="active", auto_generated=False)
    return list(rows.order_by("method", "name"))


def place_and_deliver(
    harness: OutboxHarness,
    person: Demographics,
    values: dict[str, Any],
    client: Client | None = None,
) -> Order:
    """Fill, review and place an order, with answers to all required questions."""
    client = client or harness.client("clinician")
    order_request = OrderRequest(Patient.objects.get(pk=person.pk), person, values)
    for question in order_request.questions:
        codes = [code for code, _ in question.answers]
        values.setdefault(question.name, codes[0] if codes else "1")
    response = send_form(client, person, values)
    assert response.status_code == 302, response.context["findings"]
    command = confirm_review(client, person)
    harness.deliver()
    command.refresh_from_db()
    assert command.state == CommandRecord.State.DONE, command.refusal
    return Order.objects.get(pk=command.remote_id)


def ordered_marker_ids(order: Order) -> set[int]:
    return {marker["id"] for marker in order.record_at("lab_test")["markers"]}


def test_order_of_two_panels_of_one_lab_is_placed(
    harness: OutboxHarness, person: Demographics
) -> None:
    by_method: dict[str, list[LabTest]] = {}
    for test in panels_at("lab-north"):
        by_method.setdefault(test.method, []).append(test)
    first, second = next(tests for tests in by_method.values() if len(tests) > 1)[:2]
    order = place_and_deliver(
        harness, person, form_values(person, first, second, physician="1900000011")
    )
    wanted = Marker.objects.filter(in_tests__lab_test__in=[first, second], is_orderable=True)
    ordered = ordered_marker_ids(order)
    assert ordered and ordered <= set(wanted.values_list("pk", flat=True))
    assert order.record_at("physician")["npi"] == "1900000011"


@pytest.mark.parametrize("with_panel", [True, False])
def test_marker_with_or_without_a_panel_is_ordered(
    harness: OutboxHarness, person: Demographics, with_panel: bool
) -> None:
    panel = panels_at(SOUTH_LAB)[0]
    marker = (
        Marker.objects.filter(lab__slug=SOUTH_LAB, a_la_carte_enabled=True, is_orderable=True)
        .exclude(in_tests__lab_test=panel)
        .order_by("name")[0]
    )
    chosen = [panel] if with_panel else []
    more = {"markers": [str(marker.pk)], "collection_method": panel.method}
    order = place_and_deliver(harness, person, form_values(person, *chosen, **more))
    assert marker.pk in ordered_marker_ids(order)
    assert order.method == panel.method


def test_questions_of_every_type_are_answered(harness: OutboxHarness, person: Demographics) -> None:
    all_types = set()
    for marker in Marker.objects.filter(has_questions=True):
        all_types |= {question.type for question in questions_of([marker])}
    tests_with_questions = [
        test
        for test in LabTest.objects.filter(status="active", auto_generated=False)
        if test.test_markers.filter(marker__has_questions=True).exists()
    ]
    assert tests_with_questions and all_types
    answered_types: set[str] = set()
    client = harness.client("clinician")
    for test in tests_with_questions:
        values = form_values(person, test, physician="1900000011", another="on")
        order_request = OrderRequest(Patient.objects.get(pk=person.pk), person, values)
        new_types = {question.type for question in order_request.questions} - answered_types
        if new_types:
            place_and_deliver(harness, person, values, client)
            answered_types |= new_types
    assert answered_types


def test_typed_physician_is_sent(harness: OutboxHarness, person: Demographics) -> None:
    values = form_values(
        person,
        panels_at("lab-north")[0],
        physician="typed",
        physician_first_name="Pat",
        physician_last_name="Madeup",
        physician_npi="1234567893",
    )
    order = place_and_deliver(harness, person, values)
    assert order.record_at("physician")["npi"] == "1234567893"


def test_order_with_later_date_and_priority_is_placed(
    harness: OutboxHarness, person: Demographics
) -> None:
    day = datetime.now(UTC).date() + timedelta(days=5)
    note = "Line one\r\nLine two"
    values = form_values(
        person,
        panels_at(SOUTH_LAB)[0],
        activate_by=day.isoformat(),
        priority="on",
        clinical_notes=note,
    )
    order = place_and_deliver(harness, person, values)
    assert (order.activate_by, order.priority, order.low_level_status) == (day, True, "ordered")
    assert "Line one\nLine two" in order.record_at()["clinical_notes"]


def test_order_billed_to_insurance_is_placed(harness: OutboxHarness) -> None:
    insured = Insurance.objects.filter(is_primary=True, superseded_at=None)
    account = LabAccount.objects.get(lab=SOUTH_LAB, status="active")
    states = account.record_at("allowed_billing")["commercial_insurance"]
    people = Demographics.objects.filter(
        pk__in=insured.values("user_id"), dob__lt=date(2000, 1, 1), state__in=states
    )
    patient = next(one for one in people if is_name(one.first_name) and is_name(one.last_name))
    values = form_values(
        patient,
        panels_at(SOUTH_LAB)[0],
        billing_type="commercial_insurance",
        icd_codes="z00.00",
        another="on",
    )
    order = place_and_deliver(harness, patient, values)
    assert order.billing_type == "commercial_insurance"
    assert order.record_at()["icd_codes"] == ["Z00.00"]


def test_order_of_minor_is_placed_with_proxy(harness: OutboxHarness) -> None:
    born_after = date.today() - timedelta(days=17 * 365)
    minors = [
        one
        for one in Demographics.objects.filter(dob__gt=born_after)
        if one.record_at("medical_proxy")
    ]
    patient = next(one for one in minors if is_name(one.first_name) and is_name(one.last_name))
    panel = next(test for test in panels_at(SOUTH_LAB) if test.method != "at_home_phlebotomy")
    order = place_and_deliver(harness, patient, form_values(patient, panel, another="on"))
    proxy = order.record_at("patient_details", "medical_proxy")
    assert proxy["first_name"] == patient.record_at("medical_proxy")["first_name"]


def test_address_changed_for_one_order_stays_with_it(
    harness: OutboxHarness, person: Demographics
) -> None:
    client = harness.client("clinician")
    order = place_and_deliver(
        harness, person, form_values(person, panels_at(SOUTH_LAB)[0], city="Elsewhere"), client
    )
    assert order.record_at("patient_address")["city"] == "Elsewhere"
    page = client.get(reverse("patients:detail", args=[person.pk]))
    assert person.city in page.content.decode()
    assert Demographics.objects.get(pk=person.pk).city != "Elsewhere"
