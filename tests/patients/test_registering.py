"""Forms about people: every fault is told at its field, in words, and nothing typed is lost."""

from __future__ import annotations

import json
import re
import socket
import time
import uuid
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.core import service_client
from backoffice.outbox.models import CommandRecord
from patients.duplicates import TypedPerson, find_duplicate_candidates
from patients.models import Connection, DifferentPeople
from patients.names import phone_key
from tests.api.rows import NOW, demographics, envelope, patient, staff, uid
from tests.sandboxes import Sandbox

CASES = Path(__file__).parents[1] / "cases"
pytestmark = pytest.mark.django_db(transaction=True)

REGISTER = "/patients/register/"
WHO = uid("patient", 1)
CHILD = str(timezone.localdate() - timedelta(days=3650))
PERSON = {
    "client_user_id": "5ad4c0de-sample",
    "first_name": "Testa",
    "last_name": "Sampleton",
    "dob": "1980-02-29",
    "gender": "female",
    "phone_number": "+15550100199",
    "email": "testa@example.invalid",
    "first_line": "1 Madeup Street",
    "city": "Phoenix",
    "state": "AZ",
    "zip": "85001",
    "proxy_same_address": "on",
    "guarantor_same_address": "on",
    "relationship": "Self",
}
CARD = {"payor": "MUPLAN1 Made-up Mutual", "member_id": "MEMBER-1"}


@pytest.fixture
def desk(client: Client) -> User:
    user = staff("front desk")
    client.force_login(user)
    return user


def send(client: Client, address: str = REGISTER, **values: str) -> HttpResponse:
    given = {**PERSON, "form_id": str(uuid.uuid4()), **values}
    return client.post(address, given)  # type: ignore[return-value]


def somebody(number: int = 1, **columns: Any) -> None:
    """A patient whose details were read from a record."""
    patient(number).save()
    record = {"first_name": "Maria", "last_name": "Testperson", "dob": "1980-02-29", **columns}
    demographics(number, **{**record, **envelope(json.dumps(record))}).save()


def faults(answer: Any) -> dict[str, list[str]]:
    return {name: list(told) for name, told in answer.context["form"].errors.items()}


@pytest.mark.parametrize(
    ("field", "typed", "words"),
    [
        ("first_name", "", "Give the first name."),
        ("state", "", "Give the state."),
        ("first_name", "Zoë", "write Zoe"),
        ("last_name", "O’Brien-McDonáld", "write O'Brien-McDonald,"),
        ("last_name", "Nuñez–Sæther", "write Nunez-Saether,"),
        ("first_name", " Testa", "spaces"),
        ("first_name", "Te  sta", "spaces"),
        ("first_name", "Testa\n", "spaces"),
        ("first_name", "-Testa", "Begin with a letter"),
        ("first_name", "Te@sta", "letters, digits"),
        ("last_name", "S" * 51, "at most 50"),
        ("dob", "tomorrow", "valid date"),
        # Named, as days go by between processes that collect.
        pytest.param("dob", str(timezone.localdate() + timedelta(days=2)), "future", id="soon"),
        ("dob", "1850-01-01", "nobody is that old"),
        ("gender", "Female", "valid choice"),
        ("phone_number", "555-0199", "area code"),
        ("phone_number", "call me 5550100199", "area code"),
        ("email", "testa", "valid email"),
        ("state", "Arizona", "two letters"),
        ("country", "Nowhere", "two letters"),
        ("zip", "8500", "five digits"),
        ("zip", "٨٥٠٠١", "five digits"),
        ("access_notes", "x" * 1001, "at most 1000"),
        ("client_user_id", "testa@example.invalid", "looks like an email"),
        ("client_user_id", "+1 (555) 010-0199", "looks like a phone"),
        ("client_user_id", "sampleton-1", "contains the patient"),
        ("client_user_id", "a/b", "no slash"),
        ("proxy_email", "nobody", "valid email"),
    ],
)
def test_register_shows_errors_at_their_fields(
    client: Client, desk: User, field: str, typed: str, words: str
) -> None:
    answer = send(client, **{field: typed})
    assert answer.status_code == 422
    told = faults(answer)
    assert list(told) == [field] and words in told[field][0], told
    page = answer.content.decode()
    assert "1 thing to look at" in page and f'href="#id_{field}"' in page
    assert 'value="1 Madeup Street"' in page or field == "first_line"
    assert f'id="id_{field}_error"' in page and 'aria-invalid="true"' in page
    assert not CommandRecord.objects.exists()


@pytest.mark.parametrize("name", ["D'Arcy", "Anne-Marie", "St. Clair", "X", "2Pac Jr.", "a" * 50])
def test_name_field_accepts_names_labs_accept(client: Client, desk: User, name: str) -> None:
    assert send(client, last_name=name).status_code == 302


def test_phone_number_is_sent_with_country_code(client: Client, desk: User) -> None:
    for typed in ("(555) 010-0199", "1 555 010 0199", "+1 555 010 0199"):
        CommandRecord.objects.all().delete()
        assert send(client, phone_number=typed).status_code == 302
        payload = CommandRecord.objects.get().payload
        assert payload["info"]["phone_number"] == "+15550100199"


def test_register_minor_requires_proxy(client: Client, desk: User) -> None:
    told = faults(send(client, dob=CHILD))
    assert set(told) == {"proxy_first_name", "proxy_last_name", "proxy_phone_number"}
    assert "under 18" in told["proxy_first_name"][0]
    proxy = {
        "proxy_first_name": "Pat",
        "proxy_last_name": "Proxy",
        "proxy_phone_number": "+15550100111",
    }
    told = faults(send(client, dob=CHILD, **proxy, proxy_same_address=""))
    assert set(told) == {"proxy_first_line", "proxy_city", "proxy_state", "proxy_zip"}
    assert send(client, dob=CHILD, **proxy).status_code == 302
    sent = CommandRecord.objects.get().payload["info"]["medical_proxy"]
    assert (sent["first_name"], sent["address"]["first_line"]) == ("Pat", "1 Madeup Street")


def test_register_rejects_partial_insurance(client: Client, desk: User) -> None:
    assert set(faults(send(client, member_id="M-1"))) == {"payor"}
    assert set(faults(send(client, payor_query="mutual"))) == {"payor", "member_id"}
    assert set(faults(send(client, payor="MUPLAN1 Made-up Mutual"))) == {"member_id"}
    told = faults(send(client, payor_new="on", member_id="M-1"))
    assert set(told) == {
        "payor_name", "payor_first_line", "payor_city", "payor_state", "payor_zip",
    }  # fmt: skip
    assert not CommandRecord.objects.exists()
    assert send(client).status_code == 302
    assert CommandRecord.objects.get().payload["insuring"] is None


def test_insurance_of_another_person_requires_guarantor(client: Client, desk: User) -> None:
    told = faults(send(client, **CARD, relationship="Spouse"))
    assert set(told) == {
        "guarantor_first_name", "guarantor_last_name", "guarantor_phone_number",
    }  # fmt: skip
    holder = {
        "guarantor_first_name": "Holder",
        "guarantor_last_name": "Sampleton",
        "guarantor_phone_number": "+15550100112",
    }
    assert send(client, **CARD, relationship="Self", **holder).status_code == 302
    assert CommandRecord.objects.get().payload["insuring"]["guarantor"] is None
    CommandRecord.objects.all().delete()
    assert send(client, **CARD, relationship="Spouse", **holder).status_code == 302
    sent = CommandRecord.objects.get().payload["insuring"]["guarantor"]
    assert (sent["first_name"], sent["address"]["zip"]) == ("Holder", "85001")


def test_form_sent_twice_registers_one_person(client: Client, desk: User) -> None:
    form_id = str(uuid.uuid4())
    for _ in range(3):
        assert send(client, form_id=form_id).status_code == 302
    assert CommandRecord.objects.count() == 1
    assert AuditEntry.objects.filter(object_type="patient.create").count() == 1


def test_field_is_checked_when_it_loses_focus(client: Client, desk: User) -> None:
    def left(name: str, **values: str) -> str:
        given = {**PERSON, **values, "checked": name}
        answer = client.post("/patients/check/", given)
        assert answer.status_code == 200
        return answer.content.decode().strip()

    assert "write Zoe" in left("first_name", first_name="Zoë")
    assert left("last_name", first_name="Zoë") == ""
    assert "under 18" in left("proxy_first_name", dob=CHILD)
    assert client.post("/patients/check/", {**PERSON, "checked": "made_up"}).status_code == 400


def test_payors_are_searched_by_name_alias_and_code(
    client: Client, desk: User, sandbox: Sandbox, settings: Settings
) -> None:
    settings.SERVICE_BASE_URL = sandbox.url
    service_client.service.cache_clear()

    def found(text: str, **more: str) -> str:
        return client.post("/patients/payors/", {"payor_query": text, **more}).content.decode()

    assert 'value="MUPLAN1 Made-up Mutual"' in found("mutual")
    assert "Made-up Mutual" in found("MUM")
    assert "Nothing found for “zzzz”" in found("zzzz")
    assert found("m").strip() == found("mu").strip() == ""
    assert "takes the plan of the patient's state: AZ" in found("senior", state="AZ")
    assert "Ours" in found("Local Plan")
    kept = found("shield", payor="MUPLAN1 Made-up Mutual")
    assert 'value="MUPLAN1 Made-up Mutual" checked' in kept and "Sample Shield" in kept
    service_client.service.cache_clear()


def test_failed_payor_search_keeps_the_form(client: Client, desk: User, settings: Settings) -> None:
    settings.SERVICE_BASE_URL = "http://127.0.0.1:9"
    service_client.service.cache_clear()
    answer = send(client, payor_query="mutual", find_payor="1", last_name="Zoë")
    page = answer.content.decode()
    assert answer.status_code == 200 and "does not answer" in page
    assert 'value="Zoë"' in page and 'value="mutual"' in page
    assert not CommandRecord.objects.exists()
    service_client.service.cache_clear()


def test_payor_search_times_out_soon(client: Client, desk: User, settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings.SERVICE_BASE_URL = f"http://127.0.0.1:{silent.getsockname()[1]}"
        service_client.service.cache_clear()
        began = time.monotonic()
        page = client.post("/patients/payors/", {"payor_query": "mutual"}).content.decode()
        assert "does not answer" in page and time.monotonic() - began < 10
    service_client.service.cache_clear()


def test_null_characters_cause_no_server_error(
    client: Client, desk: User, sandbox: Sandbox, settings: Settings
) -> None:
    settings.SERVICE_BASE_URL = sandbox.url
    service_client.service.cache_clear()
    somebody()
    for name in ("email", "payor_query", "first_name", "phone_number", "dob", "client_user_id"):
        given = {**PERSON, "payor_query": "mutual", name: "mut\0ual@"}
        assert client.post("/patients/duplicates/", given).status_code == 200, name
        assert client.post("/patients/payors/", given).status_code == 200, name
        assert send(client, find_payor="1", **given).status_code == 200, name
        answer = send(client, **given)
        assert answer.status_code == 422 and name in faults(answer), name
    for more in ({}, {"find_payor": "1"}):
        answer = send(client, f"/patients/{WHO}/insurance/", payor_query="mut\0ual", **more)
        assert answer.status_code == (200 if more else 422)
    assert not CommandRecord.objects.exists()
    service_client.service.cache_clear()


def test_view_of_a_registration_is_recorded(client: Client, desk: User) -> None:
    assert send(client).status_code == 302
    row = CommandRecord.objects.get()
    again = f"{REGISTER}?again={row.pk}"
    client.force_login(staff("clinician"))
    assert client.get(again).context["form"]["first_name"].value() == "Testa"
    entry = AuditEntry.objects.get(action="view", object_type="registration")
    assert entry.object_ids == [str(row.pk)]
    assert entry.actor is not None and entry.actor.pk != desk.pk
    client.force_login(staff("viewer"))
    assert client.get(again).status_code == 403
    # What was typed for something else is not shown as a registration.
    CommandRecord.objects.update(kind="insurance.create")
    client.force_login(desk)
    assert client.get(again).context["form"]["first_name"].value() is None
    assert AuditEntry.objects.filter(action="view", object_type="registration").count() == 1


def alike(**typed: Any) -> list[list[str]]:
    return [one.reasons for one in find_duplicate_candidates(TypedPerson(**typed))]


def test_possible_duplicates(client: Client, desk: User) -> None:
    patient(1).save()
    demographics(
        1, first_name="María", last_name="Testperson", dob=date(1980, 2, 29),
        phone_number="+15550100123", phone_digits=phone_key("+15550100123"),
        email="Maria@example.invalid",
    ).save()  # fmt: skip
    born = date(1980, 2, 29)
    assert alike(first_name="Maria", last_name="Testperson", dob=born) == [
        ["Same name and birth date"]
    ]
    assert alike(first_name="Testperson", last_name="Maria", dob=born) == [
        ["First and last name swapped, same birth date"]
    ]
    for near in ("Mari", "Marie", "Marya"):
        found = alike(first_name=near, last_name="Testpersen", dob=born)
        assert found == [["Similar name, same birth date"]], near
    assert alike(phone_number="(555) 010-0123") == [["Same phone number"]]
    assert alike(email="MARIA@example.invalid") == [["Same e-mail address"]]
    assert alike(first_name="Maria", last_name="Testperson", dob=date(1980, 3, 1)) == []
    assert alike(first_name="Olga", last_name="Otherwise", dob=born) == []
    assert alike(phone_number="0123") == alike(email="") == alike() == []


def test_part_of_double_surname_is_a_possible_duplicate(client: Client, desk: User) -> None:
    """tests/cases/B14.txt: on record, and about to be registered with the same birth date."""
    patient(1).save()
    born = date(1980, 2, 29)
    for line in (CASES / "B14.txt").read_text().splitlines()[1:]:
        on_record, typed = (name.split(" ", 1) for name in line.split("\t"))
        row = demographics(1, first_name=on_record[0], last_name=on_record[1], dob=born)
        row.save()
        given = {"first_name": typed[0], "last_name": typed[1]}
        assert alike(**given, dob=born) == [["Similar name, same birth date"]], line
        answer = client.post("/patients/duplicates/", {**PERSON, **given, "dob": born.isoformat()})
        assert on_record[1] in answer.content.decode(), line
        row.delete()


@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        (("INA A.", "OMADEUP"), "Similar name, same birth date"),
        (("Ina", "O Madeup"), "Same name and birth date"),
        (("Ina", "O’MADEUP"), "Same name and birth date"),
        (("I", "OMadeup"), "Similar name, same birth date"),
        (("O’Madeup", "Ina"), "First and last name swapped, same birth date"),
        (("Omadeup", "I"), "First and last name swapped, same birth date"),
    ],
)
def test_other_spelling_is_a_possible_duplicate(typed: tuple[str, str], reason: str) -> None:
    patient(1).save()
    born = date(1980, 2, 29)
    demographics(1, first_name="Ina", last_name="O'Madeup", dob=born).save()
    assert alike(first_name=typed[0], last_name=typed[1], dob=born) == [[reason]]


def test_possible_duplicates_are_shown_while_typing(client: Client, desk: User) -> None:
    patient(1).save()
    demographics(1, first_name="Testa", last_name="Sampleton", dob=date(1980, 2, 29)).save()
    answer = client.post("/patients/duplicates/", PERSON)
    page = answer.content.decode()
    assert f"/patients/{WHO}/" in page and "Not the same person" in page
    entry = AuditEntry.objects.get(action="search")
    assert entry.object_ids == [str(WHO)]
    stopped = send(client)
    assert stopped.status_code == 422
    assert "Look at the possible duplicates first" in stopped.content.decode()
    # It was on the page: that is warning enough.
    assert send(client, shown=str(WHO)).status_code == 302


def test_different_people_are_stored_for_both_patients() -> None:
    one, other = sorted([uuid.uuid4(), uuid.uuid4()])
    DifferentPeople.remember(other, [one, other])
    DifferentPeople.remember(one, [other])
    assert DifferentPeople.objects.count() == 1
    assert DifferentPeople.than(one) == {other} and DifferentPeople.than(other) == {one}


@pytest.mark.parametrize("page", ["details", "insurance", "registration"])
def test_change_pages_need_the_permission(client: Client, page: str) -> None:
    somebody()
    client.force_login(staff("viewer"))
    assert client.get(f"/patients/{WHO}/{page}/").status_code == 403
    client.force_login(staff("front desk"))
    assert client.get(f"/patients/{WHO}/{page}/").status_code == 200
    assert AuditEntry.objects.filter(action="view", patient_ids=[WHO]).count() == 1
    assert client.get(f"/patients/{uuid.uuid4()}/{page}/").status_code == 404


def test_edit_form_shows_stored_details(client: Client, desk: User) -> None:
    somebody(race="a_new_word", gender="Female")
    form = client.get(f"/patients/{WHO}/details/").context["form"]
    assert form["first_name"].value() == "Maria" and form["gender"].value() == "female"
    # A value that we have no word for stays what it was.
    assert 'value="a_new_word" selected' in str(form["race"])


def test_edit_searches_possible_duplicates_again(client: Client, desk: User) -> None:
    somebody(1)
    somebody(2, first_name="Testperson", last_name="Maria")
    other = uid("patient", 2)
    shown = client.get(f"/patients/{WHO}/details/").content.decode()
    assert f"/patients/{other}/" in shown and "First and last name swapped" in shown
    DifferentPeople.remember(other, [WHO])
    assert f"/patients/{other}/" not in client.get(f"/patients/{WHO}/details/").content.decode()


def test_refused_form_is_not_shown_for_another_patient(client: Client, desk: User) -> None:
    for number in (1, 2):
        somebody(number, first_name=f"P{number}")
    seen = client.get(f"/patients/{WHO}/details/").context["form"]["seen"].value()
    assert send(client, f"/patients/{WHO}/details/", seen=seen).status_code == 302
    row = CommandRecord.objects.get()
    other = client.get(f"/patients/{uid('patient', 2)}/details/?again={row.pk}")
    assert other.context["form"]["first_name"].value() == "P2"
    own = client.get(f"/patients/{WHO}/details/?again={row.pk}")
    assert own.context["form"]["first_name"].value() == "Testa"


def test_disconnect_explains_its_limits(client: Client, desk: User) -> None:
    patient(1).save()
    demographics(1).save()
    Connection(user_id=WHO, slug="band-one", name="Band One", created_on=NOW,
               status="connected", **envelope()).save()  # fmt: skip
    page = client.get(f"/patients/{WHO}/devices/").content.decode()
    link = re.search(r'href="([^"]+/disconnect/)"', page)
    assert link
    shown = client.get(link[1]).content.decode()
    assert "goes on: the service accepts and changes nothing" in shown
    assert not CommandRecord.objects.exists()
    assert client.get(f"/patients/{WHO}/devices/ring-two/disconnect/").status_code == 404
