"""A form that sends a whole record changes only what the user changed."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse

from backoffice.outbox.models import CommandRecord
from backoffice.service.users import NewUser
from patients.models import Demographics, Patient
from patients.sync import store_demographics, store_users
from tests.outbox.harness import OutboxHarness
from tests.outbox.patient_forms import (
    client_of_role,
    new_reference,
    submit_registration,
    unique_name,
)

CASES = Path(__file__).parents[1] / "cases"


def load_case(name: str) -> dict[str, Any]:
    return dict(json.loads((CASES / name).read_text()))


def create_patient(harness: OutboxHarness, record: dict[str, Any]) -> Patient:
    """Create and mirror a patient with the details of `record`."""
    with harness.sandbox.service() as service:
        user = service.users.create(NewUser(client_user_id=new_reference()))
        store_users([user])
        record = {**record, "last_name": unique_name()}
        store_demographics({str(user.data.user_id): service.users.update_info(
            user.data.user_id, record
        )})  # fmt: skip
    return Patient.objects.get(pk=user.data.user_id)


def service_details(harness: OutboxHarness, patient: Patient) -> dict[str, Any]:
    with harness.sandbox.service() as service:
        return dict(json.loads(service.users.info(patient.pk).raw))


def shown_fields(page: Any) -> dict[str, str]:
    """Return the values that a browser would send back of the form as shown."""
    form, fields = page.context["form"], {}
    for bound in form:
        value = bound.value()
        if value is True:
            fields[bound.html_name] = "on"
        elif value not in (None, False):
            fields[bound.html_name] = str(value)
    return fields


def edit(harness: OutboxHarness, patient: Patient, **changes: str) -> Any:
    client, address = client_of_role(), reverse("patients:edit", args=[patient.pk])
    fields = shown_fields(client.get(address))
    return client.post(address, {**fields, **changes})


@pytest.mark.parametrize("name", ["B10.json", "B11.json"])
def test_edit_of_phone_changes_only_the_phone(harness: OutboxHarness, name: str) -> None:
    patient = create_patient(harness, load_case(name))
    before = service_details(harness, patient)
    response = edit(harness, patient, phone_number="+15550100333")
    assert response.status_code == 302, response.context["form"].errors
    harness.deliver()
    assert service_details(harness, patient) == {**before, "phone_number": "+15550100333"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("state", code) for code in ("AE", "AP", "AA", "VI", "GU", "AS", "MP", "FM", "PW")),
        ("country", "CA"),
        ("country", "Testland"),
        ("zip", "K1A 0B1"),
        ("zip", "9"),
        ("state", "Ontario"),
        ("state", "zz"),
    ],
)
def test_edit_keeps_unusual_places_on_record(
    harness: OutboxHarness, field: str, value: str
) -> None:
    record = load_case("B10.json")
    record["address"][field] = record["medical_proxy"]["address"][field] = value
    patient = create_patient(harness, record)
    before = service_details(harness, patient)
    assert edit(harness, patient, email="new@example.invalid").status_code == 302
    harness.deliver()
    assert service_details(harness, patient) == {**before, "email": "new@example.invalid"}


def test_edit_sends_unknown_values_and_fields_back(harness: OutboxHarness) -> None:
    patient = create_patient(harness, load_case("B10.json"))
    unknown_values = {
        "gender": "Nonbinary",
        "race": "a_new_word",
        "phone_number": "+011442079460958",
        "preferred_language": "es",
        "address": {"plus_code": "made-up"},
        "medical_proxy": {"relation": "aunt", "household_income": 52000.5},
    }
    harness.sandbox.prepare_answer("/info/latest$", merge=unknown_values)
    with harness.sandbox.service() as service:
        response = service.users.info(patient.pk)
        store_demographics({str(patient.pk): response})
    received = json.loads(response.raw)
    assert edit(harness, patient, second_line="Apt 2").status_code == 302
    sent = CommandRecord.objects.get(kind="patient.info").payload["info"]
    expected = copy.deepcopy(received)
    expected["address"]["second_line"] = "Apt 2"
    assert sent == expected


def test_edit_moves_proxy_with_the_same_address(harness: OutboxHarness) -> None:
    record = load_case("B11.json")
    record["medical_proxy"]["address"] = {**record["address"], "access_notes": "ring twice"}
    patient = create_patient(harness, record)
    assert edit(harness, patient, first_line="PSC 900 Box 1").status_code == 302
    harness.deliver()
    details = service_details(harness, patient)
    proxy_address = details["medical_proxy"]["address"]
    assert proxy_address["first_line"] == details["address"]["first_line"] == "PSC 900 Box 1"
    assert proxy_address["access_notes"] == "ring twice"


def test_edit_removes_the_proxy(harness: OutboxHarness) -> None:
    patient = create_patient(harness, load_case("B10.json"))
    empty = dict.fromkeys(("proxy_first_name", "proxy_last_name", "proxy_phone_number"), "")
    assert edit(harness, patient, **empty).status_code == 302
    harness.deliver()
    assert service_details(harness, patient)["medical_proxy"] is None


@pytest.mark.parametrize(
    "place",
    [
        {"state": "AE", "zip": "09622-0077", "city": "FPO"},
        {"state": "PR", "zip": "00901", "country": "PR"},
        {"state": "Ontario", "zip": "K1A 0B1", "country": "ca"},
    ],
)
def test_people_at_unusual_places_can_be_registered(
    harness: OutboxHarness, place: dict[str, str]
) -> None:
    home = {"first_line": "Unit 2050 Box 4190", "second_line": "Flat 3", "city": "APO", **place}
    values: dict[str, Any] = {
        "last_name": unique_name(),
        **home,
        "proxy_first_name": "Nora",
        "proxy_last_name": "Proxyson",
        "proxy_phone_number": "+15550100777",
        "proxy_same_address": "",
        **{f"proxy_{name}": text for name, text in home.items()},
    }
    response: Any = submit_registration(harness, None, **values)
    assert response.status_code == 302, response.context["form"].errors
    harness.deliver()
    person = Demographics.objects.get(last_name=values["last_name"])
    expected = (place["state"], place["zip"], place.get("country", "US").upper())
    assert (person.state, person.zip, person.country) == expected
    proxy_address = person.record_at("medical_proxy", "address")
    assert (proxy_address["state"], proxy_address["zip"], proxy_address["country"]) == expected
    assert proxy_address["second_line"] == "Flat 3"


def test_case_b11_can_be_registered(harness: OutboxHarness) -> None:
    record = load_case("B11.json")
    proxy = record["medical_proxy"]
    values: dict[str, Any] = {
        **{name: record[name] for name in ("first_name", "gender", "dob")},
        **record["address"],
        **{f"proxy_{name}": proxy[name] for name in ("first_name", "last_name", "phone_number")},
        **{f"proxy_{name}": text for name, text in proxy["address"].items()},
        "proxy_same_address": "",
        "last_name": unique_name(),
    }
    response: Any = submit_registration(harness, None, **values)
    assert response.status_code == 302, response.context["form"].errors
    harness.deliver()
    person = Demographics.objects.get(last_name=values["last_name"])
    details = service_details(harness, Patient.objects.get(pk=person.pk))
    for address, expected_address in (
        (details["address"], record["address"]),
        (details["medical_proxy"]["address"], proxy["address"]),
    ):
        assert {name: address[name] for name in expected_address} == expected_address


def test_edit_keeps_change_made_meanwhile(harness: OutboxHarness) -> None:
    patient, client = create_patient(harness, load_case("B10.json")), client_of_role()
    address = reverse("patients:edit", args=[patient.pk])
    own_values = {**shown_fields(client.get(address)), "email": "mine@example.invalid"}
    with harness.sandbox.service() as service:
        other_details = service_details(harness, patient)
        other_details["phone_number"] = "+15550100444"
        other_details["medical_proxy"]["household_size"] = 4
        store_demographics({str(patient.pk): service.users.update_info(patient.pk, other_details)})
    response = client.post(address, own_values)
    assert response.status_code == 422
    assert "details were changed in the meantime" in response.content.decode()
    resubmitted = shown_fields(response)
    assert resubmitted["phone_number"] == "+15550100444"
    assert client.post(address, resubmitted).status_code == 302
    harness.deliver()
    assert service_details(harness, patient) == {**other_details, "email": "mine@example.invalid"}


def test_insurance_uses_covered_person_on_record(harness: OutboxHarness) -> None:
    record = load_case("B10.json")
    record["phone_number"], record["address"]["country"] = "+07700900123", "Testland"
    patient, client = create_patient(harness, record), client_of_role()
    address = reverse("patients:insure", args=[patient.pk])
    card = {"payor": "MUPLAN1 Made-up Mutual", "member_id": "M-1", "relationship": "Self"}
    response: Any = harness.submit_form(client, address, **card)
    assert response.status_code == 302, response.context["form"].errors
    harness.deliver()
    with harness.sandbox.service() as service:
        insured = json.loads(service.insurance.latest(patient.pk).raw)["insured"]
    details = service_details(harness, patient)
    assert (insured["address"], insured["phone_number"]) == (details["address"], "+07700900123")
