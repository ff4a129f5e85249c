"""Identifiers: removed and refused characters, and comparison here and in PostgreSQL."""

from __future__ import annotations

from contextlib import suppress

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from backoffice.core.identifiers import (
    INVISIBLE,
    SPACES,
    UnusableCharacter,
    clean,
    comparison_key,
    key_expression,
    same_identifier,
)
from orders.models import Order
from patients.models import Patient
from tests.api.rows import order, patient, uid

SPELLINGS = (
    "MADEUP-0003",
    "madeup-0003",
    "MADEUP-0003\u200b",
    "\ufeffMADEUP-0003",
    "MADE\u00adUP-0003",
    " MADEUP-0003\u00a0",
    "\tMADEUP-0003\r\n",
    "ＭＡＤＥＵＰ-0003",
    "MADEUP\u20110003",
    "MADEUP\u20130003",
    "MADEUP-\u0660\u0660\u0660\u0663",
    "MADEUP-\U0001d7ce\U0001d7ce\U0001d7ce\U0001d7d1",
    "MADEUP -\u20090003",
)


@pytest.mark.parametrize("text", SPELLINGS)
def test_identifier_in_any_spelling_has_one_key(text: str) -> None:
    assert comparison_key(text) == comparison_key(clean(text)) == "MADEUP-0003"
    assert clean(text).isascii() and clean(text).isprintable()


@pytest.mark.parametrize("text", SPELLINGS[2:12])
def test_clean_removes_invisible_characters(text: str) -> None:
    assert clean(text) == "MADEUP-0003"


@pytest.mark.parametrize(
    ("text", "place", "expected_text"),
    [
        ("MADEUP\n0003", 7, "a line break"),
        ("MADEUP\r\n0003", 7, "a line break"),
        ("MADEUP\u20280003", 7, "a line break"),
        ("  A\t1", 4, "a tab"),
        ("MADEUP\x1b0003", 7, "a control character (U+001B)"),
        ("A\x7f", 2, "a control character (U+007F)"),
        ("A\x001", 2, "a control character (U+0000)"),
        ("AB\u202e12", 3, "a format character (U+202E)"),
        ("AB\u206612", 3, "a format character (U+2066)"),
        ("AB\ufffd", 3, "damaged"),
        ("AB\ue000", 3, "a private character (U+E000)"),
        ("\u0410B-1", 1, "not a Latin letter (cyrillic"),
        ("AB-\u0391", 4, "not a Latin letter (greek"),
    ],
)
def test_clean_refuses_control_characters_with_place(
    text: str, place: int, expected_text: str
) -> None:
    with pytest.raises(UnusableCharacter, match="Character") as error:
        clean(text)
    assert error.value.place == place
    assert expected_text in error.value.words and f"Character {place} of" in error.value.words
    assert error.value.words.isprintable()


@pytest.mark.parametrize("text", ["12345", "X-1/2", "Größe 7", "a.b_c#d", "МОСКВА-1"])
def test_clean_leaves_ordinary_identifiers_alone(text: str) -> None:
    assert clean(text) == text


@given(st.text(max_size=40))
def test_clean_is_stable_and_has_nothing_invisible(text: str) -> None:
    cleaned = text
    with suppress(UnusableCharacter):
        cleaned = clean(text)
        assert not set(cleaned) & (set(INVISIBLE) | set(SPACES) - {" "})
        assert clean(cleaned) == cleaned
    assert comparison_key(cleaned) == comparison_key(text)


@given(
    st.text("abcXYZ019-_.", min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 12), st.sampled_from(INVISIBLE + " \u00a0\u2009"))),
)
def test_invisible_characters_never_make_another_key(
    text: str, added: list[tuple[int, str]]
) -> None:
    changed = text
    for place, mark in added:
        changed = changed[:place] + mark + changed[place:]
    assert (
        comparison_key(clean(changed))
        == comparison_key(changed)
        == comparison_key(text.swapcase())
        == comparison_key(text)
    )


@pytest.mark.django_db
def test_postgresql_compares_by_the_same_key() -> None:
    texts = [chr(code) for code in range(1, 0x3000) if not 0xD800 <= code < 0xE000]
    texts += [*SPELLINGS, "ß", "ﬁ", "²", "\ufeffx", "\ufe0fx", "\uffa0x", "ÿŸ", "İı"]
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT typed, {key_expression('typed')} FROM unnest(%s::text[]) AS t (typed)",  # noqa: S608
            [texts],
        )
        found = dict(cursor.fetchall())
    assert {text: comparison_key(text) for text in texts} == found


@pytest.mark.django_db
@pytest.mark.parametrize("text", SPELLINGS)
def test_records_are_found_in_any_spelling(text: str) -> None:
    patient(1, client_user_id="Madeup-0003").save()
    order(1, sample_id="madeup-0003\u200b").save()
    order(2, sample_id="MADEUP-00033").save()
    assert Order.objects.with_sample_id(text).get().pk == uid("order", 1)
    assert Patient.objects.with_reference(text, "another").get().pk == uid("patient", 1)
    assert not Order.objects.filter(same_identifier("sample_id", "", "\u200b", "\x00")).exists()


@pytest.mark.django_db
def test_sample_lookup_reads_its_index() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    for wanted in (same_identifier("sample_id", "A-1"), same_identifier("sample_id", "A-1", "B-2")):
        assert "order_sample" in Order.objects.order_by().filter(wanted).explain()
