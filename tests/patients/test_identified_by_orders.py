"""Patients known only by orders are found, listed and sorted like the others."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.service.orders import OrderAddress, PatientDetails
from orders.models import Order
from orders.sync.orders import patient_phone
from patients.duplicates import TypedPerson, find_duplicate_candidates
from patients.models import Demographics, Patient, PatientNameWord
from patients.search_keys import name_key, phone_key
from tests.api.rows import NOW, order, patient, staff, token_for, uid
from tests.patients.test_list_view import create_person, listed_numbers

pytestmark = pytest.mark.django_db

ALL = ["name", "dob", "gender", "phone", "email"]


@pytest.fixture
def clinician(client: Client) -> User:
    user = staff("clinician")
    client.force_login(user)
    return user


def create_order(n: int, patient_number: int | None, first: str, last: str, **values: Any) -> Order:
    """Create an order with the name of its patient. Orders with greater numbers are older."""
    row = order(
        n,
        **{
            "user_id": None if patient_number is None else uid("patient", patient_number),
            "patient_first_name": first,
            "patient_last_name": last,
            "patient_name": name_key(first, last),
            **values,
        },
    )
    row.save()
    return row


def get_patient(number: int) -> Patient:
    return Patient.objects.get(pk=uid("patient", number))


@pytest.fixture
def clinic(clinician: User) -> None:
    """Patients 2 and 4 have demographics, 1 and 3 only an order, and 5 neither."""
    create_person(
        2, "Maria", "Between", "+15550100177", dob=date(1970, 1, 2), email="m@example.invalid"
    )
    create_person(4, "Zoe", "Sample", "", dob=date(1999, 1, 2), email="zoe@example.invalid")
    for n in (1, 3, 5):
        patient(n).save()
    create_order(
        *(1, 1, "Olga", "Núñez-Orderonly"),
        patient_dob=date(1984, 2, 29),
        patient_gender="female",
        patient_phone="+1 (555) 010-0123",
        patient_email="Olga.O@Example.invalid",
    )
    create_order(3, 3, "Peter", "Orderonly", patient_dob=date(1960, 5, 6))


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("orderonly", [1, 3]),
        ("Olga Nunez", [1]),
        ("nuñez olga", [1]),
        ("(555) 010-0123", [1]),
        ("555.010.0123", [1]),
        ("+15550100123", [1]),
        ("1 555 010 0123", [1]),
        ("0100123", [1]),
        ("olga.o@example.invalid", [1]),
        ("OLGA.O@", [1]),
        ("1984-02-29", [1]),
        ("2/29/84", [1]),
        ("02291984", [1]),
        ("orderonly 0123", [1]),
        ("peter 29 Feb 1984", []),
    ],
)
def test_order_only_patient_is_found_everywhere(
    client: Client, clinic: None, typed: str, expected: list[int]
) -> None:
    ids = {uid("patient", n) for n in expected}
    assert listed_numbers(client, q=typed) == expected
    assert set(listed_numbers(client, q=typed, order_key="name")) == set(expected)
    suggested = client.post("/find/suggestions/", {"q": typed}).context["result"]
    assert {one.patient_id for one in suggested.people} == ids
    answer = client.post("/api/patients/search/", {"search": typed}, "application/json")
    assert {UUID(one["id"]) for one in answer.json()["results"]} == ids
    chosen = client.post("/reports/upload/", {"q": typed}, follow=True)
    assert {one.pk for one in chosen.context["rows"]} == ids


@pytest.mark.parametrize(
    ("sort", "expected"),
    [("name", [2, 1, 3, 4]), ("born", [3, 2, 1, 4]), ("created_on", [1, 2, 3, 4, 5])],
)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_list_pages_forward_and_back_without_loss(
    client: Client, clinic: None, sort: str, expected: list[int], size: int
) -> None:
    numbers = {uid("patient", n): n for n in range(6)}
    query: dict[str, str] = {"order_key": sort, "size": str(size)}
    pages: list[list[int]] = []
    position: dict[str, str] = {}
    while True:
        context = client.get("/patients/", {**query, **position}).context
        pages.append([numbers[row["patient"].pk] for row in context["rows"]])
        if not context["page"].next:
            break
        position = {"after": context["page"].next}
    assert [n for page in pages for n in page] == sorted(expected, key=_sort_key(sort))
    for page in reversed(pages[:-1]):
        context = client.get("/patients/", {**query, "before": context["page"].previous}).context
        assert [numbers[row["patient"].pk] for row in context["rows"]] == page


def _sort_key(sort: str) -> Any:
    """Return the sort key, as Python sorts it."""

    def sort_value(n: int) -> Any:
        row = get_patient(n)
        return {"name": row.name_key, "born": row.dob}.get(sort, -row.created_on.timestamp())

    return sort_value


def test_list_shows_the_source_of_values(client: Client, clinic: None) -> None:
    page = client.get("/patients/", {"q": "olga", "order_key": "name"}).content.decode()
    assert "From order of" in page and "Nov 20, 2026" in page and "Feb 29, 1984" in page
    assert "(555) 010-0123" in page
    assert "From order of" not in client.get("/patients/", {"q": "maria"}).content.decode()
    assert "No name on file" in client.get("/patients/", {"q": "client-5"}).content.decode()
    text = client.get(f"/patients/{uid('patient', 1)}/").content.decode()
    assert "No demographics on file" in text and f"/orders/{uid('order', 1)}/" in text


def test_api_gives_identity_and_its_source(client: Client, clinic: None) -> None:
    headers = token_for(staff("administrator", "reader"))
    for n, fields in ((1, ALL), (3, ["name", "dob"]), (4, []), (5, [])):
        found = client.get(f"/api/patients/{uid('patient', n)}/", headers=headers).json()
        assert found["identity"]["fields_from_order"] == fields
        order_id = str(uid("order", n)) if fields else None
        assert found["identity"]["source_order_id"] == order_id
    nobody = client.post("/api/patients/search/", {"search": "nobody"}, "application/json")
    assert nobody.json()["results"] == []
    client.get("/api/patients/", {"limit": "1"})
    actions = AuditEntry.objects.filter(object_type="patient").order_by("pk")
    assert list(actions.values_list("action", flat=True))[-2:] == ["search", "list"]


def test_order_form_is_filled_from_an_earlier_order(client: Client, clinic: None) -> None:
    page = client.get(f"/orders/new/{uid('patient', 1)}/").content.decode()
    for value in ("Olga", "Núñez-Orderonly", "1984-02-29", "Olga.O@Example.invalid"):
        assert f'value="{value}"' in page, value


def test_later_demographics_replace_order_values(client: Client, clinic: None) -> None:
    row = create_demographics_later(1, "Helga", "Madeup", "+15550100188", dob=date(1985, 3, 1))
    found = get_patient(1)
    assert (found.first_name, found.dob, found.fields_from_order) == ("Helga", row.dob, [])
    assert found.source_order_id is None and found.source_order_created_at is None
    assert listed_numbers(client, q="orderonly") == [3] and listed_numbers(client, q="0188") == [1]
    assert listed_numbers(client, q="0123") == []
    create_order(0, 1, "Olga", "Orderonly", patient_phone="+15550100123")
    assert get_patient(1).first_name == "Helga"


def test_order_fills_values_missing_in_demographics(clinic: None) -> None:
    create_order(5, 4, "Zoe", "Other", patient_phone="555 010 0145")
    assert get_patient(4).phone_number == ""
    create_order(4, 4, "Zoe", "Sample", patient_phone="555 010 0144", patient_dob=date(1950, 1, 1))
    found = get_patient(4)
    assert (found.last_name, found.phone_digits) == ("Sample", phone_key("555 010 0144"))
    assert (found.fields_from_order, found.dob) == (["phone"], date(1999, 1, 2))
    Demographics.objects.filter(pk=found.pk).update(city="Boise")
    assert get_patient(4).fields_from_order == ["phone"] and get_patient(4).city == "Boise"
    Demographics.objects.filter(pk=found.pk).update(phone_number="1234", phone_digits="4321")
    found = get_patient(4)
    assert (found.phone_number, found.fields_from_order) == ("1234", [])
    assert found.source_order_id is None


def test_newest_order_with_a_full_name_wins(clinic: None) -> None:
    create_order(2, 1, "Older", "Name", patient_phone="5550100999")
    assert get_patient(1).first_name == "Olga"
    create_order(0, 1, "Olga", "Married", patient_dob=date(1984, 2, 28))
    found = get_patient(1)
    assert (found.last_name, found.dob, found.email) == ("Married", date(1984, 2, 28), "")
    create_order(10, 1, "", "Kit", created_at=NOW + timedelta(days=1))
    assert get_patient(1).source_order_id == uid("order", 0)
    create_order(11, 1, "Olga", "Married", patient_email="olga@example.invalid")
    assert get_patient(1).email == "olga@example.invalid"


@pytest.mark.parametrize(
    ("own", "receiver", "expected"),
    [
        ("+15550100123", "Grace Other", "+15550100123"),
        (None, "OLGA  Núñez", "+15550100166"),
        (None, None, "+15550100166"),
        (None, "Grace Other", ""),
    ],
)
def test_address_phone_is_patients_unless_for_recipient(
    own: str | None, receiver: str | None, expected: str
) -> None:
    details = PatientDetails(first_name="Olga", last_name="Nunez", phone_number=own)
    address = OrderAddress(receiver_name=receiver, phone_number="+15550100166")
    name, recipient = name_key("Olga", "Nunez"), name_key(receiver)
    assert patient_phone(details, address, name, recipient) == expected


def test_order_moved_to_another_patient_moves_name(client: Client, clinic: None) -> None:
    Order.objects.filter(pk=uid("order", 1)).update(user_id=uid("patient", 5))
    assert get_patient(5).full_name == "Olga Núñez-Orderonly"
    found = get_patient(1)
    assert (found.full_name, found.phone_digits, found.dob) == ("", "", None)
    assert found.fields_from_order == [] and found.source_order_id is None
    assert listed_numbers(client, q="orderonly") == [3, 5]
    assert not PatientNameWord.objects.filter(user_id=found.pk)


def test_patient_stored_after_order_is_identified(clinic: None) -> None:
    create_order(8, 8, "Late", "Arrival", patient_phone="5550100888")
    Demographics(
        pk=uid("patient", 9),
        first_name="Latest",
        last_name="Arrival",
        name_key="latest arrival",
        email="",
        phone_number="",
        phone_digits="",
        gender="",
        record="{}",
        content_hash=b"0",
        as_of=NOW,
    ).save()
    Patient.objects.bulk_create([patient(8), patient(9)])
    assert get_patient(8).full_name == "Late Arrival" and get_patient(8).is_named_by_order
    assert get_patient(9).full_name == "Latest Arrival" and not get_patient(9).is_named_by_order


def test_order_only_patient_is_a_possible_duplicate(clinic: None) -> None:
    for typed in (
        TypedPerson("Olga", "Nunez-Orderonly", date(1984, 2, 29)),
        TypedPerson(phone_number="555-010-0123"),
        TypedPerson(email="olga.o@example.invalid"),
    ):
        assert [one.person.pk for one in find_duplicate_candidates(typed)] == [uid("patient", 1)]


def create_demographics_later(
    n: int, first: str, last: str, phone: str, **values: Any
) -> Demographics:
    """Create demographics of an existing patient."""
    row = Demographics(
        pk=uid("patient", n),
        first_name=first,
        last_name=last,
        name_key=name_key(first, last),
        email="",
        phone_number=phone,
        phone_digits=phone_key(phone),
        gender="female",
        record="{}",
        content_hash=b"0",
        as_of=NOW,
        **values,
    )
    row.save()
    return row


def test_api_search_is_posted_and_paged(client: Client, clinic: None) -> None:
    url = "/api/patients/search/"
    assert client.get(url).status_code == 405
    assert client.get("/api/patients/", {"search": "olga"}).status_code == 400
    found: list[str] = []
    body = {"search": "orderonly", "limit": "1"}
    while True:
        page = client.post(url, body, "application/json").json()
        found += [one["id"] for one in page["results"]]
        if page["next"] is None:
            break
        body["cursor"] = page["next"]
    whole = client.post(url, {"search": "orderonly"}, "application/json").json()["results"]
    assert found == [one["id"] for one in whole] and len(found) > 1


@pytest.mark.parametrize(
    "body",
    [
        "[]", "{}", "{", '{"name": "a"}', '{"search": ""}', '{"search": 5}',
        '{"search": "\\ud800"}', '{"search": "\\u0000"}',
        '{"search": "a", "limit": "0"}', '{"search": "a", "cursor": "x"}',
    ],
)  # fmt: skip
def test_api_search_refuses_other_bodies(client: Client, clinic: None, body: str) -> None:
    answer = client.post("/api/patients/search/", body, "application/json")
    assert answer.status_code == 400 and answer.json()["message"], body
