"""A form that sends a whole record changes what the person changed, and nothing else."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse

from backoffice.models import CommandRecord
from backoffice.service.users import NewUser
from patients.models import Demographics, Patient
from patients.sync import store_demographics, store_users
from tests.outbox.desk import Desk
from tests.outbox.test_people import at_desk, reference, register, unlike

CASES = Path(__file__).parents[1] / "cases"


def case(name: str) -> dict[str, Any]:
    return dict(json.loads((CASES / name).read_text()))


def on_record(desk: Desk, record: dict[str, Any]) -> Patient:
    """A patient whose details the service has as `record`."""
    with desk.sandbox.service() as service:
        user = service.users.create(NewUser(client_user_id=reference()))
        store_users([user])
        record = {**record, "last_name": unlike()}
        store_demographics({str(user.data.user_id): service.users.update_info(
            user.data.user_id, record
        )})  # fmt: skip
    return Patient.objects.get(pk=user.data.user_id)


def at_service(desk: Desk, patient: Patient) -> dict[str, Any]:
    with desk.sandbox.service() as service:
        return dict(json.loads(service.users.info(patient.pk).raw))


def shown_fields(page: Any) -> dict[str, str]:
    """What a browser would send back of the form as shown."""
    form, fields = page.context["form"], {}
    for bound in form:
        value = bound.value()
        if value is True:
            fields[bound.html_name] = "on"
        elif value not in (None, False):
            fields[bound.html_name] = str(value)
    return fields


def edit(desk: Desk, patient: Patient, **changes: str) -> Any:
    client, address = at_desk(), reverse("patients:edit", args=[patient.pk])
    fields = shown_fields(client.get(address))
    return client.post(address, {**fields, **changes})


@pytest.mark.parametrize("name", ["B10.json", "B11.json"])
def test_only_the_phone_changes_when_only_it_is_typed(desk: Desk, name: str) -> None:
    patient = on_record(desk, case(name))
    before = at_service(desk, patient)
    answer = edit(desk, patient, phone_number="+15550100333")
    assert answer.status_code == 302, answer.context["form"].errors
    desk.deliver()
    assert at_service(desk, patient) == {**before, "phone_number": "+15550100333"}


@pytest.mark.parametrize(
    ("place", "value"),
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
def test_places_on_record_survive_an_edit(desk: Desk, place: str, value: str) -> None:
    record = case("B10.json")
    record["address"][place] = record["medical_proxy"]["address"][place] = value
    patient = on_record(desk, record)
    before = at_service(desk, patient)
    assert edit(desk, patient, email="new@example.invalid").status_code == 302
    desk.deliver()
    assert at_service(desk, patient) == {**before, "email": "new@example.invalid"}


def test_unknown_words_and_fields_are_sent_back(desk: Desk) -> None:
    patient = on_record(desk, case("B10.json"))
    odd = {
        "gender": "Nonbinary",
        "race": "a_new_word",
        "phone_number": "+011442079460958",
        "preferred_language": "es",
        "address": {"plus_code": "made-up"},
        "medical_proxy": {"relation": "aunt", "household_income": 52000.5},
    }
    desk.sandbox.prepare_answer("/info/latest$", merge=odd)
    with desk.sandbox.service() as service:
        answer = service.users.info(patient.pk)
        store_demographics({str(patient.pk): answer})
    received = json.loads(answer.raw)
    assert edit(desk, patient, second_line="Apt 2").status_code == 302
    sent = CommandRecord.objects.get(kind="patient.info").payload["info"]
    expected = copy.deepcopy(received)
    expected["address"]["second_line"] = "Apt 2"
    assert sent == expected


def test_a_proxy_who_lives_with_the_patient_moves_along(desk: Desk) -> None:
    record = case("B11.json")
    record["medical_proxy"]["address"] = {**record["address"], "access_notes": "ring twice"}
    patient = on_record(desk, record)
    assert edit(desk, patient, first_line="PSC 900 Box 1").status_code == 302
    desk.deliver()
    now = at_service(desk, patient)
    there = now["medical_proxy"]["address"]
    assert there["first_line"] == now["address"]["first_line"] == "PSC 900 Box 1"
    assert there["access_notes"] == "ring twice"


def test_a_removed_proxy_is_gone(desk: Desk) -> None:
    patient = on_record(desk, case("B10.json"))
    empty = dict.fromkeys(("proxy_first_name", "proxy_last_name", "proxy_phone_number"), "")
    assert edit(desk, patient, **empty).status_code == 302
    desk.deliver()
    assert at_service(desk, patient)["medical_proxy"] is None


@pytest.mark.parametrize(
    "place",
    [
        {"state": "AE", "zip": "09622-0077", "city": "FPO"},
        {"state": "PR", "zip": "00901", "country": "PR"},
        {"state": "Ontario", "zip": "K1A 0B1", "country": "ca"},
    ],
)
def test_people_at_such_places_can_be_registered(desk: Desk, place: dict[str, str]) -> None:
    lives = {"first_line": "Unit 2050 Box 4190", "second_line": "Flat 3", "city": "APO", **place}
    given: dict[str, Any] = {
        "last_name": unlike(),
        **lives,
        "proxy_first_name": "Nora",
        "proxy_last_name": "Proxyson",
        "proxy_phone_number": "+15550100777",
        "proxy_same_address": "",
        **{f"proxy_{name}": text for name, text in lives.items()},
    }
    answer: Any = register(desk, None, **given)
    assert answer.status_code == 302, answer.context["form"].errors
    desk.deliver()
    person = Demographics.objects.get(last_name=given["last_name"])
    expected = (place["state"], place["zip"], place.get("country", "US").upper())
    assert (person.state, person.zip, person.country) == expected
    there = person.said("medical_proxy", "address")
    assert (there["state"], there["zip"], there["country"]) == expected
    assert there["second_line"] == "Flat 3"


def test_case_b11_can_be_registered(desk: Desk) -> None:
    record = case("B11.json")
    proxy = record["medical_proxy"]
    given: dict[str, Any] = {
        **{name: record[name] for name in ("first_name", "gender", "dob")},
        **record["address"],
        **{f"proxy_{name}": proxy[name] for name in ("first_name", "last_name", "phone_number")},
        **{f"proxy_{name}": text for name, text in proxy["address"].items()},
        "proxy_same_address": "",
        "last_name": unlike(),
    }
    answer: Any = register(desk, None, **given)
    assert answer.status_code == 302, answer.context["form"].errors
    desk.deliver()
    person = Demographics.objects.get(last_name=given["last_name"])
    there = at_service(desk, Patient.objects.get(pk=person.pk))
    for now, wanted in (
        (there["address"], record["address"]),
        (there["medical_proxy"]["address"], proxy["address"]),
    ):
        assert {name: now[name] for name in wanted} == wanted


def test_a_change_in_between_survives_the_second_save(desk: Desk) -> None:
    patient, client = on_record(desk, case("B10.json")), at_desk()
    address = reverse("patients:edit", args=[patient.pk])
    mine = {**shown_fields(client.get(address)), "email": "mine@example.invalid"}
    with desk.sandbox.service() as service:
        theirs = at_service(desk, patient)
        theirs["phone_number"] = "+15550100444"
        theirs["medical_proxy"]["household_size"] = 4
        store_demographics({str(patient.pk): service.users.update_info(patient.pk, theirs)})
    answer = client.post(address, mine)
    assert answer.status_code == 422
    assert "changed these details meanwhile" in answer.content.decode()
    second = shown_fields(answer)
    assert second["phone_number"] == "+15550100444"
    assert client.post(address, second).status_code == 302
    desk.deliver()
    assert at_service(desk, patient) == {**theirs, "email": "mine@example.invalid"}


def test_insurance_takes_the_covered_person_as_on_record(desk: Desk) -> None:
    record = case("B10.json")
    record["phone_number"], record["address"]["country"] = "+07700900123", "Testland"
    patient, client = on_record(desk, record), at_desk()
    address = reverse("patients:insure", args=[patient.pk])
    card = {"payor": "MUPLAN1 Made-up Mutual", "member_id": "M-1", "relationship": "Self"}
    answer: Any = desk.fill(client, address, **card)
    assert answer.status_code == 302, answer.context["form"].errors
    desk.deliver()
    with desk.sandbox.service() as service:
        insured = json.loads(service.insurance.latest(patient.pk).raw)["insured"]
    now = at_service(desk, patient)
    assert (insured["address"], insured["phone_number"]) == (now["address"], "+07700900123")
