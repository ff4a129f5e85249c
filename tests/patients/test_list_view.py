"""The patient list and its search field."""

from __future__ import annotations

import base64
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.pages.formats import initials
from patients.models import Demographics, Patient, PatientNameWord
from patients.search_keys import name_key, phone_key
from patients.search_text import parse_search_text, required_prefixes
from tests.api.rows import NOW, demographics, order, patient, staff, uid

pytestmark = pytest.mark.django_db

ADDRESS = "/patients/"


@pytest.fixture
def clinician(client: Client) -> User:
    user = staff("clinician")
    client.force_login(user)
    return user


def create_person(n: int, first: str, last: str, phone: str = "", **values: Any) -> Demographics:
    patient(n).save()
    row = demographics(
        n,
        **{
            "first_name": first,
            "last_name": last,
            "name_key": name_key(first, last),
            "phone_number": phone,
            "phone_digits": phone_key(phone),
            **values,
        },
    )
    row.save()
    return row


def listed_numbers(client: Client, **query: str) -> list[int]:
    answer = client.get(ADDRESS, query)
    assert answer.status_code == 200
    numbers = {uid("patient", n): n for n in range(100)}
    return [numbers[row["patient"].pk] for row in answer.context["rows"]]


@pytest.fixture
def several_patients(clinician: User) -> None:
    create_person(1, "José", "Núñez-Sample", "+15550100123", dob=date(1984, 2, 29), city="Phoenix")
    create_person(2, "Anne-Marie", "O'Madeup", "+1 (555) 010-0199", email="Anne.M@Example.com")
    create_person(3, "Maria", "Gonzalez Test’person", "555-010-0123")
    patient(4, client_user_id="clinic/0004").save()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", [1, 2, 3, 4]),
        ("jose", [1]),
        ("JOSÉ", [1]),
        ("nun jo", [1]),
        ("núñez sample", [1]),
        ("mar", [2, 3]),
        ("mar gon", [3]),
        ("o'mad", [2]),
        ("madeup", [2]),
        ("o’mad", [2]),
        ("person", [3]),
        ("test'per", [3]),
        ("arie", []),
        ("0123", [1, 3]),
        ("010-0123", [1, 3]),
        ("(555) 010 0199", [2]),
        ("+15550100123", [1, 3]),
        ("anne.m@example.com", [2]),
        ("ANNE.M@EXAMPLE.COM", [2]),
        ("1984-02-29", [1]),
        ("02/29/1984", [1]),
        ("29 Feb 1984", [1]),
        ("1984-02-28", []),
        ("Feb 29, 1984", [1]),
        ("2/29/84", [1]),
        ("02291984", [1]),
        ("19840229", [1]),
        ("555.010.0123", [1, 3]),
        ("1-555-010-0199", [2]),
        ("anne.m@", [2]),
        ("madeup 0199", [2]),
        ("madeup 0123", []),
        ("nunez 29 feb 1984", [1]),
        ("maria 29 feb 1984", []),
        (str(uid("patient", 3)), [3]),
        (str(uid("patient", 3))[:6], [3]),
        ("clinic/0004", [4]),
        ("clinic/000", []),
        ("%", []),
        ("'; --", []),
    ],
)
def test_search_box_finds_by_any_identifying_text(
    client: Client, several_patients: None, words: str, expected: list[int]
) -> None:
    assert listed_numbers(client, q=words) == expected
    assert sorted(listed_numbers(client, q=words, order_key="name")) == [
        n for n in expected if n != 4
    ]


def test_list_distinguishes_people_of_one_name(client: Client, several_patients: None) -> None:
    order(1, user_id=uid("patient", 1)).save()
    order(2, user_id=uid("patient", 1), bucket="closed").save()
    answer = client.get(ADDRESS, {"q": "jose"})
    page = answer.content.decode()
    for words in ("José Núñez-Sample", "Feb 29, 1984", "(555) 010-0123", "Phoenix", "client-1"):
        assert words in page, words
    assert [row["open_orders"] for row in answer.context["rows"]] == [1]


def test_list_shows_patient_without_demographics(client: Client, several_patients: None) -> None:
    assert "No name on file" in client.get(ADDRESS, {"q": "clinic/0004"}).content.decode()


def test_patient_without_demographics_has_newest_order_name(
    client: Client, several_patients: None
) -> None:
    for n, first in ((1, "New"), (2, "Old"), (3, "")):  # A greater number is an older order.
        named = {
            "patient_first_name": first,
            "patient_last_name": "Order",
            "patient_name": f"{first} order".lower(),
        }
        order(n, user_id=uid("patient", 4), patient_dob=date(1990, 3, 4), **named).save()
        order(n + 10, user_id=uid("patient", 1), **named).save()
    page = client.get(ADDRESS, {"q": "clinic/0004"}).content.decode()
    assert "<bdi>New Order</bdi>" in page and "From order of" in page and "Mar 4, 1990" in page
    page = client.get(ADDRESS, {"q": "jose"}).content.decode()
    assert "José" in page and "From order of" not in page
    for text in ("jose", "new"):
        page = client.get(ADDRESS, {"q": text}).content.decode()
        assert (
            "Search orders</button>" in page
            and f'<input type="hidden" name="q" value="{text}">' in page
        )
    assert "Search orders</button>" not in client.get(ADDRESS).content.decode()
    results_page = client.post("/find/", {"q": "new"}, follow=True).content.decode()
    assert f"/patients/{uid('patient', 4)}/" in results_page


def test_sort_by_name_notes_patients_left_out(client: Client, several_patients: None) -> None:
    words = "Patients without a name are not shown"
    answer = client.get("/patients/", {"order_key": "name"})
    assert words in answer.content.decode()
    assert answer.context["total"].value == len(answer.context["rows"])
    assert words not in client.get("/patients/").content.decode()


def test_list_sorts_by_name(client: Client, several_patients: None) -> None:
    assert listed_numbers(client, order_key="name") == [2, 1, 3]


@pytest.mark.parametrize("key", ["", "name"])
def test_paging_lists_each_patient_once_both_ways(
    client: Client, clinician: User, key: str
) -> None:
    for n in range(1, 12):
        create_person(n, f"Ada{n % 3}", "Canary")
    patient_ids = []
    query, answer = {"size": "4", "order_key": key}, None
    position: dict[str, str] = {}
    while True:
        answer = client.get(ADDRESS, {**query, **position})
        patient_ids.append([row["patient"].pk for row in answer.context["rows"]])
        if not answer.context["page"].next:
            break
        position = {"after": answer.context["page"].next}
        assert b"anary" not in base64.urlsafe_b64decode(position["after"] + "==")
    assert [len(page) for page in patient_ids] == [4, 4, 3]
    assert len({pk for page in patient_ids for pk in page}) == 11
    answer = client.get(ADDRESS, {**query, "before": answer.context["page"].previous})
    assert [row["patient"].pk for row in answer.context["rows"]] == patient_ids[1]


def test_new_patients_do_not_shift_pages(client: Client, several_patients: None) -> None:
    first = client.get(ADDRESS, {"size": "2"})
    patient(50, created_on=NOW + timedelta(days=1)).save()
    after = {"size": "2", "after": first.context["page"].next}
    assert listed_numbers(client, **after) == [3, 4]


def test_list_records_shown_patients(client: Client, several_patients: None) -> None:
    listed_numbers(client, q="mar")
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.object_type, entry.row_count) == ("search", "patient", 2)
    assert set(entry.patient_ids) == {uid("patient", 2), uid("patient", 3)}


def test_empty_list_and_no_match_have_texts(client: Client, clinician: User) -> None:
    assert b"No patients yet" in client.get(ADDRESS).content
    patient(1).save()
    assert b"No matching patients" in client.get(ADDRESS, {"q": "zzz"}).content


@pytest.mark.parametrize("sort", ["created_on", "name"])
def test_too_long_search_is_refused(client: Client, several_patients: None, sort: str) -> None:
    answer = client.get(ADDRESS, {"q": "a" * 101, "order_key": sort})
    assert answer.status_code == 400
    assert answer.context["rows"] == []


def test_query_count_does_not_grow_with_page(client: Client, clinician: User) -> None:
    def count_queries(**query: str) -> int:
        with CaptureQueriesContext(connection) as seen:
            client.get(ADDRESS, query)
        return len(seen)

    create_person(1, "Ada", "Sample")
    count_queries()  # the first page of a session also stores its CSRF secret
    one = count_queries()
    for n in range(2, 40):
        create_person(n, "Ada", "Sample")
    assert count_queries() == one <= 18
    assert count_queries(q="ada", order_key="name") <= 18


@pytest.mark.parametrize("role", ["viewer", "auditor"])
def test_roles_without_permission_are_refused(client: Client, role: str) -> None:
    create_person(1, "Canary", "Sample")
    client.force_login(staff(role))
    answer = client.get(ADDRESS, {"q": "canary"})
    assert answer.status_code == 403
    assert b"Canary Sample" not in answer.content


def test_text_that_is_id_and_name_finds_both() -> None:
    for n, name in ((1, "Ada"), (2, "Clinic")):
        create_person(n, name, "Sample")
    Patient.objects.filter(pk=patient(1).pk).update(client_user_id="clinic")
    found = Patient.objects.matching(parse_search_text("clinic")).values_list("pk", flat=True)
    assert set(found) == {patient(1).pk, patient(2).pk}


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("client-4", "patient_client_id"),
        ("abcd12", "patients_patient_pkey"),
        ("Ada Sampl", "patients_patient_pkey"),
        ("1984-02-29", "patient_by_birth_date"),
        ("ada@example.invalid", "patient_email"),
        ("+1 555 0100", "patient_phone"),
    ],
)
def test_each_kind_of_search_uses_its_index(text: str, index: str) -> None:
    """Alternatives in one condition would be checked for every patient."""
    Patient.objects.bulk_create(patient(n) for n in range(500))
    Demographics.objects.bulk_create(demographics(n) for n in range(500))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE patients_patient, patients_demographics")
        cursor.execute("SET LOCAL enable_seqscan = off")  # such a small table would be scanned
        plan = Patient.objects.matching(parse_search_text(text)).explain()
    assert index in plan
    assert "SubPlan" not in plan
    assert "Seq Scan" not in plan


def find_by_search(client: Client, typed: str) -> list[str]:
    answer = client.get(ADDRESS, {"q": typed})
    return [row["patient"].name_key for row in answer.context["rows"]]


def test_names_as_laboratories_print_them_are_found(client: Client, clinician: User) -> None:
    """tests/cases/B13.txt: names on record, and as typed in the searches of patients and orders."""
    cases = Path(__file__).parents[1] / "cases"
    for n, line in enumerate((cases / "B13.txt").read_text().splitlines()[1:]):
        on_record, typed = line.split("\t")
        row = create_person(n, *on_record.split(" ", 1))
        order(n, user_id=row.pk, patient_name=name_key(*on_record.split(" ", 1))).save()
        assert row.name_key in find_by_search(client, typed), line
        suggested = client.post("/find/suggestions/", {"q": typed}).context["result"]
        assert row.pk in [one.patient_id for one in suggested.people], line
        answer = client.get("/orders/", {"search_input": typed})
        assert row.pk in [one.user_id for one in answer.context["page"].rows], line
        answer = client.get("/find/", {"q": typed})
        assert answer.status_code == 200


@pytest.mark.parametrize(
    ("first", "last", "typed"),
    [
        ("Marco", "OSample", "O'Sample"),
        ("Marco", "OSample", "o sample, marco"),
        ("Ana", "De La Cruz", "DELACRUZ"),
        ("Ana", "De La Cruz", "lacruz ana"),
        ("Ana", "Delacruz", "de la cruz"),
        ("Mary Ann", "Sample", "MARYANN"),
        ("Maryann", "Sample", "sample mary ann"),
        ("Ivan", "Test-Person", "person"),
        ("Ivan", "Test-Person", "TESTPERSON, IVAN"),
        ("Ivan", "Testperson", "Test-Person Ivan"),
        ("Ina", "O'Madeup", "INA A. OMADEUP"),
        ("Ina", "O'Madeup", "i omad"),
        ("Ina", "Madeup", "Mrs Ina Madeup, MD"),
        ("Otto", "Sample", "SAMPLE JR OTTO"),
        ("Joerg", "Mueller", "Jörg Müller"),
        ("Joerg", "Mueller", "Mü"),
        ("Joerg", "Mueller", "Muller"),
        ("Joerg", "Mueller", "JORG MULL"),
        ("Søren", "Ångström", "Aangstrom"),
        ("Søren", "Ångström", "ANGSTROEM, SOEREN"),
        ("Soeren", "Aangstroem", "Søren Ångström"),
        ("Hans", "Gross", "GROß"),
        ("Hans", "Groß", "Gross Hans"),
        ("Jörg", "Müller", "MUELLER"),
        ("Jörg", "Müller", "muller"),
        ("Søren", "Łukaß", "soeren lukass"),
        ("Ina", "OʼMadeup", "O’Madeup"),
    ],
)
def test_another_spelling_of_a_name_is_found(
    client: Client, clinician: User, first: str, last: str, typed: str
) -> None:
    row = create_person(1, first, last)
    create_person(2, "Grace", "Otherwise")
    assert find_by_search(client, typed) == [row.name_key]
    suggested = client.post("/find/suggestions/", {"q": typed}).context["result"]
    assert [one.patient_id for one in suggested.people] == [row.pk]


def test_roles_without_names_see_initials() -> None:
    assert initials(name_key("Ana", "De La Cruz")) == initials("Ana De La Cruz")


def test_joined_words_are_found_by_the_index() -> None:
    for n in range(60):
        create_person(n, "Marco", f"O'Sample{n}")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE patients_patientnameword")
        cursor.execute("SET LOCAL enable_seqscan = off")
    for typed in ("osample5", "o sample5", "OSAMPLE5, MARCO"):
        plan = PatientNameWord.matching(required_prefixes(typed)).explain()
        assert "patients_patientnameword_pkey" in plan and "Seq Scan" not in plan, plan
