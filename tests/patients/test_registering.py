"""Forms about people: every error is explained at its field, and typed values are kept."""

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
from patients.search_keys import phone_key
from tests.api.rows import NOW, demographics, envelope, patient, staff, uid
from tests.sandboxes import Sandbox

CASES = Path(__file__).parents[1] / "cases"
pytestmark = pytest.mark.django_db(transaction=True)

REGISTER = "/patients/register/"
PATIENT_ID = uid("patient", 1)
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
def front_desk_user(client: Client) -> User:
    user = staff("front desk")
    client.force_login(user)
    return user


def post_form(client: Client, address: str = REGISTER, **values: str) -> HttpResponse:
    form_values = {**PERSON, "form_id": str(uuid.uuid4()), **values}
    return client.post(address, form_values)  # type: ignore[return-value]


def create_patient(number: int = 1, **columns: Any) -> None:
    """Create a patient with demographics from a record."""
    patient(number).save()
    record = {"first_name": "Maria", "last_name": "Testperson", "dob": "1980-02-29", **columns}
    demographics(number, **{**record, **envelope(json.dumps(record))}).save()


def form_errors(answer: Any) -> dict[str, list[str]]:
    return {name: list(messages) for name, messages in answer.context["form"].errors.items()}


@pytest.mark.parametrize(
    ("field", "typed", "words"),
    [
        ("first_name", "", "First name is required."),
        ("state", "", "State is required."),
        ("first_name", "Zoë", "Use Zoe if"),
        ("last_name", "O’Brien-McDonáld", "Use O'Brien-McDonald if"),
        ("last_name", "Nuñez–Sæther", "Use Nunez-Saether if"),
        ("first_name", " Testa", "spaces"),
        ("first_name", "Te  sta", "spaces"),
        ("first_name", "Testa\n", "spaces"),
        ("first_name", "-Testa", "Start with a letter"),
        ("first_name", "Te@sta", "letters, numbers"),
        ("last_name", "S" * 51, "at most 50"),
        ("dob", "tomorrow", "valid date"),
        # The ID is fixed, because the date may change between processes that collect tests.
        pytest.param("dob", str(timezone.localdate() + timedelta(days=2)), "future", id="soon"),
        ("dob", "1850-01-01", "would be over 130"),
        ("gender", "Female", "valid choice"),
        ("phone_number", "555-0199", "area code"),
        ("phone_number", "call me 5550100199", "area code"),
        ("email", "testa", "valid email"),
        ("state", "Arizona", "two-letter"),
        ("country", "Nowhere", "two-letter"),
        ("zip", "8500", "5 or 9 digits"),
        ("zip", "٨٥٠٠١", "5 or 9 digits"),
        ("access_notes", "x" * 1001, "at most 1000"),
        ("client_user_id", "testa@example.invalid", "looks like an email"),
        ("client_user_id", "+1 (555) 010-0199", "looks like a phone"),
        ("client_user_id", "sampleton-1", "contains the patient"),
        ("client_user_id", "a/b", "no slash"),
        ("proxy_email", "nobody", "valid email"),
    ],
)
def test_register_shows_errors_at_their_fields(
    client: Client, front_desk_user: User, field: str, typed: str, words: str
) -> None:
    answer = post_form(client, **{field: typed})
    assert answer.status_code == 422
    errors = form_errors(answer)
    assert list(errors) == [field] and words in errors[field][0], errors
    page = answer.content.decode()
    assert "1 problem to fix" in page and f'href="#id_{field}"' in page
    assert 'value="1 Madeup Street"' in page or field == "first_line"
    assert f'id="id_{field}_error"' in page and 'aria-invalid="true"' in page
    assert not CommandRecord.objects.exists()


@pytest.mark.parametrize("name", ["D'Arcy", "Anne-Marie", "St. Clair", "X", "2Pac Jr.", "a" * 50])
def test_name_field_accepts_names_labs_accept(
    client: Client, front_desk_user: User, name: str
) -> None:
    assert post_form(client, last_name=name).status_code == 302


def test_phone_number_is_sent_with_country_code(client: Client, front_desk_user: User) -> None:
    for typed in ("(555) 010-0199", "1 555 010 0199", "+1 555 010 0199"):
        CommandRecord.objects.all().delete()
        assert post_form(client, phone_number=typed).status_code == 302
        payload = CommandRecord.objects.get().payload
        assert payload["info"]["phone_number"] == "+15550100199"


def test_register_minor_requires_proxy(client: Client, front_desk_user: User) -> None:
    errors = form_errors(post_form(client, dob=CHILD))
    assert set(errors) == {"proxy_first_name", "proxy_last_name", "proxy_phone_number"}
    assert "under 18" in errors["proxy_first_name"][0]
    proxy = {
        "proxy_first_name": "Pat",
        "proxy_last_name": "Proxy",
        "proxy_phone_number": "+15550100111",
    }
    errors = form_errors(post_form(client, dob=CHILD, **proxy, proxy_same_address=""))
    assert set(errors) == {"proxy_first_line", "proxy_city", "proxy_state", "proxy_zip"}
    assert post_form(client, dob=CHILD, **proxy).status_code == 302
    sent = CommandRecord.objects.get().payload["info"]["medical_proxy"]
    assert (sent["first_name"], sent["address"]["first_line"]) == ("Pat", "1 Madeup Street")


def test_register_rejects_partial_insurance(client: Client, front_desk_user: User) -> None:
    assert set(form_errors(post_form(client, member_id="M-1"))) == {"payor"}
    assert set(form_errors(post_form(client, payor_query="mutual"))) == {"payor", "member_id"}
    assert set(form_errors(post_form(client, payor="MUPLAN1 Made-up Mutual"))) == {"member_id"}
    errors = form_errors(post_form(client, payor_new="on", member_id="M-1"))
    assert set(errors) == {
        "payor_name", "payor_first_line", "payor_city", "payor_state", "payor_zip",
    }  # fmt: skip
    assert not CommandRecord.objects.exists()
    assert post_form(client).status_code == 302
    assert CommandRecord.objects.get().payload["insuring"] is None


def test_insurance_of_another_person_requires_guarantor(
    client: Client, front_desk_user: User
) -> None:
    errors = form_errors(post_form(client, **CARD, relationship="Spouse"))
    assert set(errors) == {
        "guarantor_first_name", "guarantor_last_name", "guarantor_phone_number",
    }  # fmt: skip
    holder = {
        "guarantor_first_name": "Holder",
        "guarantor_last_name": "Sampleton",
        "guarantor_phone_number": "+15550100112",
    }
    assert post_form(client, **CARD, relationship="Self", **holder).status_code == 302
    assert CommandRecord.objects.get().payload["insuring"]["guarantor"] is None
    CommandRecord.objects.all().delete()
    assert post_form(client, **CARD, relationship="Spouse", **holder).status_code == 302
    sent = CommandRecord.objects.get().payload["insuring"]["guarantor"]
    assert (sent["first_name"], sent["address"]["zip"]) == ("Holder", "85001")


def test_form_sent_twice_registers_one_person(client: Client, front_desk_user: User) -> None:
    form_id = str(uuid.uuid4())
    for _ in range(3):
        assert post_form(client, form_id=form_id).status_code == 302
    assert CommandRecord.objects.count() == 1
    assert AuditEntry.objects.filter(object_type="patient.create").count() == 1


def test_field_is_checked_when_it_loses_focus(client: Client, front_desk_user: User) -> None:
    def check_field(name: str, **values: str) -> str:
        given = {**PERSON, **values, "checked": name}
        answer = client.post("/patients/check/", given)
        assert answer.status_code == 200
        return answer.content.decode().strip()

    assert "Use Zoe if" in check_field("first_name", first_name="Zoë")
    assert check_field("last_name", first_name="Zoë") == ""
    assert "under 18" in check_field("proxy_first_name", dob=CHILD)
    assert client.post("/patients/check/", {**PERSON, "checked": "made_up"}).status_code == 400


def test_payors_are_searched_by_name_alias_and_code(
    client: Client, front_desk_user: User, sandbox: Sandbox, settings: Settings
) -> None:
    settings.SERVICE_BASE_URL = sandbox.url
    service_client.service.cache_clear()

    def search_payors(text: str, **more: str) -> str:
        return client.post("/patients/payors/", {"payor_query": text, **more}).content.decode()

    assert 'value="MUPLAN1 Made-up Mutual"' in search_payors("mutual")
    assert "Made-up Mutual" in search_payors("MUM")
    assert "No results for “zzzz”" in search_payors("zzzz")
    assert search_payors("m").strip() == search_payors("mu").strip() == ""
    assert "uses the plan of the patient's state: AZ" in search_payors("senior", state="AZ")
    assert "Custom" in search_payors("Local Plan")
    page = search_payors("shield", payor="MUPLAN1 Made-up Mutual")
    assert 'value="MUPLAN1 Made-up Mutual" checked' in page and "Sample Shield" in page
    service_client.service.cache_clear()


def test_failed_payor_search_keeps_the_form(
    client: Client, front_desk_user: User, settings: Settings
) -> None:
    settings.SERVICE_BASE_URL = "http://127.0.0.1:9"
    service_client.service.cache_clear()
    answer = post_form(client, payor_query="mutual", find_payor="1", last_name="Zoë")
    page = answer.content.decode()
    assert answer.status_code == 200 and "is not responding" in page
    assert 'value="Zoë"' in page and 'value="mutual"' in page
    assert not CommandRecord.objects.exists()
    service_client.service.cache_clear()


def test_payor_search_times_out_soon(
    client: Client, front_desk_user: User, settings: Settings
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent_server:
        settings.SERVICE_BASE_URL = f"http://127.0.0.1:{silent_server.getsockname()[1]}"
        service_client.service.cache_clear()
        started = time.monotonic()
        page = client.post("/patients/payors/", {"payor_query": "mutual"}).content.decode()
        assert "is not responding" in page and time.monotonic() - started < 10
    service_client.service.cache_clear()


def test_null_characters_cause_no_server_error(
    client: Client, front_desk_user: User, sandbox: Sandbox, settings: Settings
) -> None:
    settings.SERVICE_BASE_URL = sandbox.url
    service_client.service.cache_clear()
    create_patient()
    for name in ("email", "payor_query", "first_name", "phone_number", "dob", "client_user_id"):
        given = {**PERSON, "payor_query": "mutual", name: "mut\0ual@"}
        assert client.post("/patients/duplicates/", given).status_code == 200, name
        assert client.post("/patients/payors/", given).status_code == 200, name
        assert post_form(client, find_payor="1", **given).status_code == 200, name
        answer = post_form(client, **given)
        assert answer.status_code == 422 and name in form_errors(answer), name
    for more in ({}, {"find_payor": "1"}):
        answer = post_form(
            client, f"/patients/{PATIENT_ID}/insurance/", payor_query="mut\0ual", **more
        )
        assert answer.status_code == (200 if more else 422)
    assert not CommandRecord.objects.exists()
    service_client.service.cache_clear()


def test_view_of_a_registration_is_recorded(client: Client, front_desk_user: User) -> None:
    assert post_form(client).status_code == 302
    row = CommandRecord.objects.get()
    again = f"{REGISTER}?again={row.pk}"
    client.force_login(staff("clinician"))
    assert client.get(again).context["form"]["first_name"].value() == "Testa"
    entry = AuditEntry.objects.get(action="view", object_type="registration")
    assert entry.object_ids == [str(row.pk)]
    assert entry.actor is not None and entry.actor.pk != front_desk_user.pk
    client.force_login(staff("viewer"))
    assert client.get(again).status_code == 403
    # Input of another request is not shown as a registration.
    CommandRecord.objects.update(kind="insurance.create")
    client.force_login(front_desk_user)
    assert client.get(again).context["form"]["first_name"].value() is None
    assert AuditEntry.objects.filter(action="view", object_type="registration").count() == 1


def duplicate_reasons(**typed: Any) -> list[list[str]]:
    return [one.reasons for one in find_duplicate_candidates(TypedPerson(**typed))]


def test_possible_duplicates(client: Client, front_desk_user: User) -> None:
    patient(1).save()
    demographics(
        1, first_name="María", last_name="Testperson", dob=date(1980, 2, 29),
        phone_number="+15550100123", phone_digits=phone_key("+15550100123"),
        email="Maria@example.invalid",
    ).save()  # fmt: skip
    born = date(1980, 2, 29)
    assert duplicate_reasons(first_name="Maria", last_name="Testperson", dob=born) == [
        ["Same name and birth date"]
    ]
    assert duplicate_reasons(first_name="Testperson", last_name="Maria", dob=born) == [
        ["First and last name swapped, same birth date"]
    ]
    for similar in ("Mari", "Marie", "Marya"):
        found = duplicate_reasons(first_name=similar, last_name="Testpersen", dob=born)
        assert found == [["Similar name, same birth date"]], similar
    assert duplicate_reasons(phone_number="(555) 010-0123") == [["Same phone number"]]
    assert duplicate_reasons(email="MARIA@example.invalid") == [["Same email address"]]
    assert duplicate_reasons(first_name="Maria", last_name="Testperson", dob=date(1980, 3, 1)) == []
    assert duplicate_reasons(first_name="Olga", last_name="Otherwise", dob=born) == []
    assert (
        duplicate_reasons(phone_number="0123")
        == duplicate_reasons(email="")
        == duplicate_reasons()
        == []
    )


def test_part_of_double_surname_is_a_possible_duplicate(
    client: Client, front_desk_user: User
) -> None:
    """tests/cases/B14.txt: names on record, and of new patients with the same birth date."""
    patient(1).save()
    born = date(1980, 2, 29)
    for line in (CASES / "B14.txt").read_text().splitlines()[1:]:
        on_record, typed = (name.split(" ", 1) for name in line.split("\t"))
        row = demographics(1, first_name=on_record[0], last_name=on_record[1], dob=born)
        row.save()
        given = {"first_name": typed[0], "last_name": typed[1]}
        assert duplicate_reasons(**given, dob=born) == [["Similar name, same birth date"]], line
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
    assert duplicate_reasons(first_name=typed[0], last_name=typed[1], dob=born) == [[reason]]


def test_possible_duplicates_are_shown_while_typing(client: Client, front_desk_user: User) -> None:
    patient(1).save()
    demographics(1, first_name="Testa", last_name="Sampleton", dob=date(1980, 2, 29)).save()
    answer = client.post("/patients/duplicates/", PERSON)
    page = answer.content.decode()
    assert f"/patients/{PATIENT_ID}/" in page and "Not the same person" in page
    entry = AuditEntry.objects.get(action="search")
    assert entry.object_ids == [str(PATIENT_ID)]
    refused = post_form(client)
    assert refused.status_code == 422
    assert "Check the possible duplicates first" in refused.content.decode()
    # The duplicate was on the page, so the warning was given.
    assert post_form(client, shown=str(PATIENT_ID)).status_code == 302


def test_different_people_are_stored_for_both_patients() -> None:
    one, other = sorted([uuid.uuid4(), uuid.uuid4()])
    DifferentPeople.declare(other, [one, other])
    DifferentPeople.declare(one, [other])
    assert DifferentPeople.objects.count() == 1
    assert DifferentPeople.different_from(one) == {other} and DifferentPeople.different_from(
        other
    ) == {one}


@pytest.mark.parametrize("page", ["details", "insurance", "registration"])
def test_change_pages_need_the_permission(client: Client, page: str) -> None:
    create_patient()
    client.force_login(staff("viewer"))
    assert client.get(f"/patients/{PATIENT_ID}/{page}/").status_code == 403
    client.force_login(staff("front desk"))
    assert client.get(f"/patients/{PATIENT_ID}/{page}/").status_code == 200
    assert AuditEntry.objects.filter(action="view", patient_ids=[PATIENT_ID]).count() == 1
    assert client.get(f"/patients/{uuid.uuid4()}/{page}/").status_code == 404


def test_edit_form_shows_stored_details(client: Client, front_desk_user: User) -> None:
    create_patient(race="a_new_word", gender="Female")
    form = client.get(f"/patients/{PATIENT_ID}/details/").context["form"]
    assert form["first_name"].value() == "Maria" and form["gender"].value() == "female"
    # A value without a label is kept.
    assert 'value="a_new_word" selected' in str(form["race"])


def test_edit_searches_possible_duplicates_again(client: Client, front_desk_user: User) -> None:
    create_patient(1)
    create_patient(2, first_name="Testperson", last_name="Maria")
    other = uid("patient", 2)
    shown = client.get(f"/patients/{PATIENT_ID}/details/").content.decode()
    assert f"/patients/{other}/" in shown and "First and last name swapped" in shown
    DifferentPeople.declare(other, [PATIENT_ID])
    assert (
        f"/patients/{other}/" not in client.get(f"/patients/{PATIENT_ID}/details/").content.decode()
    )


def test_refused_form_is_not_shown_for_another_patient(
    client: Client, front_desk_user: User
) -> None:
    for number in (1, 2):
        create_patient(number, first_name=f"P{number}")
    stamp = client.get(f"/patients/{PATIENT_ID}/details/").context["form"]["seen"].value()
    assert post_form(client, f"/patients/{PATIENT_ID}/details/", seen=stamp).status_code == 302
    row = CommandRecord.objects.get()
    other = client.get(f"/patients/{uid('patient', 2)}/details/?again={row.pk}")
    assert other.context["form"]["first_name"].value() == "P2"
    own = client.get(f"/patients/{PATIENT_ID}/details/?again={row.pk}")
    assert own.context["form"]["first_name"].value() == "Testa"


def test_disconnect_explains_its_limits(client: Client, front_desk_user: User) -> None:
    patient(1).save()
    demographics(1).save()
    Connection(user_id=PATIENT_ID, slug="band-one", name="Band One", created_on=NOW,
               status="connected", **envelope()).save()  # fmt: skip
    page = client.get(f"/patients/{PATIENT_ID}/devices/").content.decode()
    link = re.search(r'href="([^"]+/disconnect/)"', page)
    assert link
    shown = client.get(link[1]).content.decode()
    assert "keeps this source connected, it stays connected" in shown
    assert not CommandRecord.objects.exists()
    assert client.get(f"/patients/{PATIENT_ID}/devices/ring-two/disconnect/").status_code == 404
