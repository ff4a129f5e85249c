"""Phone numbers follow one rule in every input and output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from backoffice.core import phone_numbers
from backoffice.core.phone_numbers import NotAPhoneNumber, e164
from backoffice.outbox.models import CommandRecord
from backoffice.pages.macros import render_macro
from orders.placing import patient_rules
from patients.duplicates import TypedPerson, find_duplicate_candidates
from patients.models import Patient
from patients.search_keys import phone_key
from patients.search_text import parse_search_text
from tests.api.rows import demographics, patient, staff
from tests.patients.test_registering import post_form

CASE = (Path(__file__).parent / "cases" / "B12.txt").read_text().splitlines()[1:]
TYPED = [line.split("\t")[0] for line in CASE]
STORED = [line.split("\t")[1] for line in CASE]
VALID = {
    "(555) 010-0165": "+15550100165",
    "555.010.0165": "+15550100165",
    "1 555 010 0165": "+15550100165",
    "tel:+1-555-010-0165": "+15550100165",
    "\u202a+1 (555)\u00a0010\u20110165\u202c": "+15550100165",
    "011 44 20 7946 0958": "+442079460958",
    "+011 44 20 7946 0958": "+442079460958",
    "0044 20 7946 0958": "+442079460958",
    "00 1 555 010 0165": "+15550100165",
    "+44 20 7946 0958": "+442079460958",
    "+39 06 1234 5678": "+390612345678",
}
INVALID = {
    "07700 900123": "country code",
    "+07700 900123": "country code",
    "+0 555 010 0165": "country code",
    "000 555 010 0165": "country code",
    "٥٥٥ ٠١٠ ٠١٦٥": "0 to 9",
    "５５５ ０１０ ０１６５": "0 to 9",  # noqa: RUF001
    "555 010 0165 x12": "extension",
    "+1 555 010 0165 ext. 4": "extension",
    "+15550100165;ext=4": "extension",
    "555-010-0165,12": "extension",
    "555-0165": "area code",
    "055 010 0165": "country code",
    "+1 055 010 0165": "area code",
    "+1 555 010 01650": "area code",
    "1-800-FLOWERS": "area code",
    "+999 1234567": "area code",
    "+1+5550100165": "area code",
    "": "area code",
    "\0": "area code",
}


@pytest.mark.parametrize(("typed", "number"), VALID.items())
def test_numbers_become_plus_and_digits(typed: str, number: str) -> None:
    assert e164(typed) == number == e164(number)
    assert patient_rules.phone(typed) == number


@pytest.mark.parametrize(("typed", "words"), INVALID.items())
def test_invalid_number_is_refused_with_reason(typed: str, words: str) -> None:
    with pytest.raises(NotAPhoneNumber, match=words):
        e164(typed)
    assert patient_rules.phone(typed) == ""


@given(
    st.sampled_from(["0", "+0", "+0 ", "00 0", "011 0", "(0) "]),
    st.text(alphabet="23456789", min_size=4, max_size=12),
)
def test_zero_at_start_of_country_code_is_refused(zeros: str, rest: str) -> None:
    with pytest.raises(NotAPhoneNumber):
        e164(zeros + rest)


@given(st.text(alphabet="+0123456789 ()-./x٥", max_size=22))
def test_normalized_number_never_starts_with_zero(typed: str) -> None:
    number = phone_numbers.e164_or_unchanged(typed)
    if patient_rules.phone(typed) == "":
        assert number == typed
        return
    assert number[0] == "+" and number[1] in "123456789" and 8 <= len(number) <= 16
    assert number[1:].isascii() and number[1:].isdigit()
    assert e164(number) == number == e164(phone_numbers.display_and_dial(number)[0])


@pytest.mark.parametrize(
    ("number", "displayed"),
    [
        ("+15550100165", "(555) 010-0165"),
        ("5550100165", "(555) 010-0165"),
        ("+442079460958", "+44 20 7946 0958"),
    ],
)
def test_numbers_are_shown_in_groups(number: str, displayed: str) -> None:
    link = render_macro("macros/values.html", "phone", number)
    assert f">{displayed}</a>" in link and f"tel:{e164(number)}" in link


@pytest.mark.parametrize("number", [*STORED, "call <desk>", "555-0165"])
def test_invalid_number_is_shown_unchanged(number: str) -> None:
    assert phone_numbers.display_and_dial(number) == (number, "")
    assert "tel:" not in render_macro("macros/values.html", "phone", number)


@pytest.mark.django_db(transaction=True)
def test_case_b12_is_normalized_or_refused_in_the_form(client: Client) -> None:
    client.force_login(staff("front desk"))
    outcomes: list[Any] = []
    for typed in TYPED:
        CommandRecord.objects.all().delete()
        answer = post_form(client, phone_number=typed)
        row = CommandRecord.objects.first()
        outcomes.append(row.payload["info"]["phone_number"] if row else answer.status_code)
    assert outcomes == ["+442079460958", "+442079460958", 422]


@pytest.mark.django_db
@pytest.mark.parametrize("stored", ["+442079460958", *STORED[:2]])
def test_numbers_are_found_whichever_prefix_is_typed(stored: str) -> None:
    patient(1).save()
    digits = phone_key(stored)
    demographics(1, phone_number=stored, phone_digits=digits).save()
    for typed in ("+442079460958", *TYPED[:2]):
        assert Patient.objects.matching(parse_search_text(typed)).count() == 1, typed
        found = find_duplicate_candidates(TypedPerson(phone_number=typed))
        assert [one.reasons for one in found] == [["Same phone number"]], typed
