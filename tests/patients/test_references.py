"""Generated references never violate the rule against personal data in references."""

from __future__ import annotations

import random
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patients.references import UnusableReference, clean_reference, is_random, new_reference

_HEX = "0123456789abcdef"


@given(st.integers(0, 2**128 - 1), st.text(_HEX + "- ", min_size=1, max_size=12))
def test_random_references_are_never_refused(number: int, name: str) -> None:
    reference = str(uuid.UUID(int=number, version=4))
    start = random.Random(number).randrange(len(reference))
    names = [name, reference[start : start + 5], reference[:3], "Ada", "Abe", "Dee"]
    assert is_random(reference)
    assert clean_reference(reference, names) == reference


def test_random_reference_of_digits_is_accepted() -> None:
    reference = "55501000-1650-4000-8000-555010001650"
    assert clean_reference(reference, ["Ada"]) == reference
    assert clean_reference(new_reference(), ["Ada", "Bea"])


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("ada@example.org", "email address"),
        ("555-010-0165", "phone number"),
        ("(555) 010 0165", "phone number"),
        ("５５５‑0100165", "phone number"),
        ("x/1", "no slash"),
        ("2026-adalovely-1", "the patient's name"),
        ("55501000-1650-1000-8000-555010001650", "phone number"),
        ("a\x1bb", "Character 2"),
    ],
)
def test_personal_references_are_refused(typed: str, words: str) -> None:
    with pytest.raises(UnusableReference) as error:
        clean_reference(typed, ["Adalovely", "Mo"])
    assert words in error.value.words
