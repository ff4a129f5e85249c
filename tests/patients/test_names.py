"""Patients by name: words follow changed names, and all queries find the same patients."""

from __future__ import annotations

import pytest
from django.db.models import QuerySet
from django.test import Client

from backoffice.pages.paging.counts import COUNT_CAP
from patients.models import (
    Demographics,
    Patient,
    PatientNameWord,
)
from patients.models.patient_queryset import name_condition
from patients.search_keys import name_key
from patients.search_text import parse_search_text
from tests.api.rows import demographics, patient, staff
from tests.patients.test_list_view import ADDRESS, create_person

pytestmark = pytest.mark.django_db

NAMES = ("Ada Sample", "Maria O Sample", "Sampson Adams", "Bada Masample", "Ana Ana-Añez")
TYPED = ("ada", "sam ada", "o'sam", "ada sample", "masample", "nobody", "ana", "anez a", "a")


def create_people() -> None:
    for number, name in enumerate(NAMES):
        create_person(number, *name.split(" ", 1))


def sorted_name_keys(found: QuerySet[Patient]) -> list[str]:
    return sorted(found.values_list("name_key", flat=True))


def stored_words() -> set[tuple[str, str]]:
    return set(PatientNameWord.objects.values_list("word", "name_key"))


@pytest.mark.parametrize("typed", TYPED)
def test_many_and_few_matches_have_the_same_condition(typed: str) -> None:
    create_people()
    expected = sorted(
        name_key(name)
        for name in NAMES
        if all(any(word.startswith(one) for word in name_key(name).split())
               for one in name_key(typed).split())
    )  # fmt: skip
    assert sorted_name_keys(Patient.objects.matching(parse_search_text(typed))) == expected
    assert sorted_name_keys(Patient.objects.identified_by(parse_search_text(typed))) == expected
    words = parse_search_text(typed).words
    checked_by_row = Patient.objects.filter(name_condition(words, max_words=0))
    assert sorted_name_keys(checked_by_row) == expected


def test_name_words_follow_a_changed_name() -> None:
    row = create_person(1, "Ada", "Sample")
    assert stored_words() == {("ada", "ada sample"), ("sample", "ada sample")}
    Demographics.objects.filter(pk=row.pk).update(city="Boise")
    assert stored_words() == {("ada", "ada sample"), ("sample", "ada sample")}
    Demographics.objects.filter(pk=row.pk).update(name_key="ada ada madeup")
    assert stored_words() == {("ada", "ada ada madeup"), ("madeup", "ada ada madeup")}
    Patient.objects.filter(pk=row.pk).delete()
    assert not stored_words()


def test_other_spellings_of_a_name_leave_no_empty_word() -> None:
    create_person(1, "Marco", "O'Sample")
    assert "  " in name_key("Marco", "O'Sample")
    words = set(PatientNameWord.objects.values_list("word", flat=True))
    assert words == {"marco", "o", "sample", "osample"}


def test_upsert_updates_new_and_changed_words() -> None:
    create_person(1, "Ada", "Sample")
    patient(2).save()
    rows = [demographics(1, name_key="ada madeup"), demographics(2, name_key="grace sample")]
    fields = ["name_key"]
    Demographics.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["user"], update_fields=fields
    )
    assert stored_words() == {
        *(("ada", "ada madeup"), ("madeup", "ada madeup")),
        *(("grace", "grace sample"), ("sample", "grace sample")),
    }


def test_exact_name_match_comes_first() -> None:
    create_people()
    assert Patient.objects.best_matches(parse_search_text("ada"), 9)[0] == patient(0).pk
    assert Patient.objects.best_matches(parse_search_text("sample ada"), 9) == [patient(0).pk]


def test_very_long_word_is_found_by_its_beginning() -> None:
    create_person(1, "A" * 600, "Sample")
    for typed in ("a" * 600, "a" * 700, "sam aaa"):
        assert Patient.objects.matching(parse_search_text(typed)).count() == 1
    assert not Patient.objects.matching(parse_search_text("a" * 60 + "b"))


def test_list_of_a_very_common_name(client: Client) -> None:
    """There are more matches than are counted; newest first or by name, page by page."""
    client.force_login(staff("clinician"))
    number = COUNT_CAP + 100
    Patient.objects.bulk_create(patient(n) for n in range(number))
    Demographics.objects.bulk_create(
        demographics(n, name_key=f"ada sample{n:05}") for n in range(number)
    )
    create_person(number, "Grace", "Madeup")
    names = [f"ada sample{n:05}" for n in range(150)]
    for sort in ("name", "created_on"):
        seen: list[str] = []
        query = {"q": "sam ada", "order_key": sort, "size": "50"}
        for _ in range(3):
            answer = client.get(ADDRESS, query)
            assert str(answer.context["total"]) == f"{COUNT_CAP}+"
            seen += [row["patient"].name_key for row in answer.context["rows"]]
            query["after"] = answer.context["page"].next
        assert seen == names, sort
