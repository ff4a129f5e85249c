"""Import tables as spreadsheets save them: cases B01 to B03 of `tests/cases`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db.models import F
from django.test import Client
from django.urls import reverse

from backoffice.outbox.models import CommandRecord
from labs.models import LabTest
from orders.models import Order
from orders.placing import drafts
from orders.placing.table_reader import ImportRow
from patients.models import Demographics, Patient
from tests.outbox.harness import FORM_ID, OutboxHarness

CASES = Path(__file__).parent.parent / "cases"
IMPORT_URL = "/orders/import/"


@pytest.fixture
def case_records(person: Demographics) -> Patient:
    """Give a patient and a test the names that the cases use, and return the patient."""
    patient = Patient.objects.get(pk=person.pk)
    Patient.objects.filter(client_user_id="clinic-0000063").update(client_user_id=F("id"))
    Patient.objects.filter(pk=patient.pk).update(client_user_id="clinic-0000063")
    tests = LabTest.objects.filter(lab__slug="lab-south", status="active", auto_generated=False)
    LabTest.objects.filter(pk=tests.order_by("name")[0].pk).update(name="Heart Kit")
    LabTest.objects.filter(name="Heart Kit").exclude(lab__slug="lab-south").update(name="Other")
    return patient


def upload(client: Client, raw: bytes, do: str = "check") -> Any:
    match = FORM_ID.search(client.get(IMPORT_URL).content.decode())
    assert match
    file = SimpleUploadedFile("table.csv", raw, "text/csv")
    return client.post(IMPORT_URL, {"form_id": match[1], "file": file, "do": do})


def rows_of(response: Any) -> list[ImportRow]:
    rows: list[ImportRow] = response.context["rows"]
    return rows


def test_case_b01_headers_in_words_set_payer_and_method(
    harness: OutboxHarness, case_records: Patient
) -> None:
    page = upload(harness.client("clinician"), (CASES / "B01.csv").read_bytes())
    (row,) = rows_of(page)
    assert row.order_request is not None
    assert row.order_request.billing_type == "commercial_insurance"
    assert row.order_request.method == "at_home_phlebotomy"
    shown_choices = {choice.label: (choice.text, choice.is_default) for choice in row.choices}
    assert shown_choices["Billing"] == ("Insurance", False)
    assert shown_choices["Collection"][1] is False
    text = page.content.decode()
    for label, (words, _) in shown_choices.items():
        assert f">{label}</th>" in text and words in text
    assert set(shown_choices) == {"Billing", "Collection", "Lab account", "Physician"}


def test_check_table_marks_default_values(harness: OutboxHarness, case_records: Patient) -> None:
    raw = b"patient,test,sample_id\nclinic-0000063,Heart Kit,DEFAULT-1\n"
    page = upload(harness.client("clinician"), raw)
    (row,) = rows_of(page)
    assert row.is_importable, row.faults
    assert all(choice.is_default for choice in row.choices)
    assert row.choices[0].text == "Clinic bill"
    assert page.content.decode().count("(default)") == len(row.choices)


def test_case_b02_spreadsheet_damage_is_never_sent(
    harness: OutboxHarness, case_records: Patient
) -> None:
    client = harness.client("clinician")
    for do in ("check", "import"):
        rows = rows_of(upload(client, (CASES / "B02.csv").read_bytes(), do))
        assert len(rows) == 3 and not any(row.is_importable for row in rows)
        for row, words in zip(rows, ("digits are lost", "digits are lost", "formula"), strict=True):
            assert any(words in fault for fault in row.faults), row.faults
    assert not CommandRecord.objects.exists()


def test_case_b03_one_sample_in_six_spellings_is_one_order(
    harness: OutboxHarness, case_records: Patient
) -> None:
    client = harness.client("clinician")
    page = upload(client, (CASES / "B03.csv").read_bytes(), "import")
    first, *others = rows_of(page)
    assert first.is_importable and not any(row.is_importable for row in others)
    for row in others[:3]:
        assert "Line 2 has the same sample ID." in row.faults
    assert any("Character 7" in one and "line break" in one for one in others[3].faults)
    assert any("Character 7" in one and "U+001B" in one for one in others[4].faults)
    assert first.command == CommandRecord.objects.get()
    assert first.order_request is not None and first.order_request.sample_id == "MADEUP-0003"


@pytest.mark.parametrize("spelling", ["known-7\u200b", "\ufeffKNOWN-7", "ＫＮＯＷＮ\u20117"])
def test_sample_of_an_order_in_another_spelling_is_refused(
    harness: OutboxHarness, case_records: Patient, person: Demographics, spelling: str
) -> None:
    client = harness.client("clinician")
    Order.objects.filter(pk=Order.objects.order_by("pk")[0].pk).update(sample_id="Known-7")
    raw = f"patient,test,sample_id\nclinic-0000063,Heart Kit,{spelling}\n".encode()
    (row,) = rows_of(upload(client, raw))
    words = "Another order already has this sample ID, written “Known-7”."
    assert row.faults == [words]
    person_values = {
        name: values[0] for name, values in drafts.person_values(person.user, person).items()
    }
    test = LabTest.objects.get(name="Heart Kit")
    values = {**person_values, "tests": [str(test.pk)], "sample_id": spelling, "do": "review"}
    response = client.post(reverse("orders:import", args=[person.pk]), values)
    assert response.status_code == 422 and words in response.content.decode()


def test_single_import_sends_the_cleaned_sample_and_npi(
    harness: OutboxHarness, case_records: Patient, person: Demographics
) -> None:
    client = harness.client("clinician")
    person_values = {
        name: values[0] for name, values in drafts.person_values(person.user, person).items()
    }
    test = LabTest.objects.get(name="Heart Kit")
    values = {
        **person_values, "tests": [str(test.pk)], "sample_id": "\ufeffCLEAN\u20117\u200b",
        "physician": "typed", "physician_first_name": "Ann", "physician_last_name": "Madeup",
        "physician_npi": "１２３４５６７８９３", "do": "review",
    }  # fmt: skip
    address = reverse("orders:import", args=[person.pk])
    assert client.post(address, values).status_code == 302
    review = reverse("orders:import-review", args=[person.pk])
    page = client.get(review)
    assert '<dd class="mono">CLEAN-7</dd>' in page.content.decode()
    form = page.context["form"]
    client.post(review, {name: str(form[name].value()) for name in ("form_id", "draft")})
    harness.deliver()
    assert Order.objects.filter(sample_id="CLEAN-7").exists()
    refused = client.post(address, {**values, "sample_id": "BAD\u202e7"})
    assert "Character 4" in refused.content.decode() and refused.status_code == 422
    damaged = client.post(
        address, {**values, "sample_id": "1.23457E+11", "do": ""}, headers={"HX-Request": "true"}
    )
    assert "its digits are lost" in damaged.content.decode()


def test_import_columns_are_found_in_any_spelling(
    harness: OutboxHarness, case_records: Patient
) -> None:
    raw = (
        "Patient;Test;Sample ID;Billing Type;Collection Method\r\n"
        "CLINIC\u20110000063\u200b;heart\u00a0kit;ANY-1;Client Bill;Test-Kit\r\n"
    ).encode("utf-16")
    (row,) = rows_of(upload(harness.client("clinician"), raw))
    assert row.order_request is not None and row.order_request.patient.pk == case_records.pk
    assert (row.order_request.billing_type, row.order_request.method) == ("client_bill", "testkit")


def test_damage_in_other_columns_is_reported(harness: OutboxHarness, case_records: Patient) -> None:
    raw = (
        b"patient,test,sample_id,physician_npi\n"
        b"1.2E+10,Heart Kit,OTHER-1,\n"
        b"clinic-0000063,Heart Kit,OTHER-2,1.23457E+09\n"
    )
    patient, physician = rows_of(upload(harness.client("clinician"), raw))
    assert "digits are lost" in " ".join(patient.faults)
    assert "digits are lost" in " ".join(physician.faults)


def test_long_numbers_ending_in_zeros_get_a_warning(
    harness: OutboxHarness, case_records: Patient
) -> None:
    raw = b"patient,test,sample_id\nclinic-0000063,Heart Kit,123456789012345000\n"
    page = upload(harness.client("clinician"), raw)
    (row,) = rows_of(page)
    assert row.is_importable and row.warnings
    assert "Ready, compare with the paper" in page.content.decode()
