"""Printed names, birth dates and ages are compared with those of a patient."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patients.identity_comparison import (
    Agreement,
    PartialDate,
    birth_dates,
    combine_agreements,
    compare_ages,
    compare_birth_dates,
    compare_name_parts,
    compare_names,
)
from patients.search_keys import digraphs, fold, name_key, plain_name, words
from patients.search_text import required_prefixes

SAME, DIFFERENT, UNKNOWN = Agreement.SAME, Agreement.DIFFERENT, Agreement.UNKNOWN
BORN = date(1986, 2, 1)


@pytest.mark.parametrize(
    ("first", "last", "printed"),
    [
        ("Ina", "O'Madeup", "INA A. OMADEUP"),
        ("Ina", "O'Madeup", "OMADEUP, INA A"),
        ("Ina", "O'Madeup", "O’Madeup Ina"),
        ("Ina", "O'Madeup", "Ina OʼMadeup"),
        ("Ina", "O'Madeup", "Ina O`Madeup"),
        ("Ina", "O'Madeup", "  ina   o madeup "),
        ("Ina", "OMadeup", "Ina O'Madeup"),
        ("Ina Anna", "Madeup", "INA A MADEUP"),
        ("Ina", "Madeup", "I. Madeup"),
        ("Ina", "Madeup", "Mrs. Ina Madeup, MD"),
        ("Otto", "Sample", "SAMPLE JR, OTTO"),
        ("Otto", "Sample Sr.", "Otto Sample"),
        ("Otto", "Sample III", "OTTO SAMPLE, III"),
        ("Otto", "Sample", 'Otto "Ottie" Sample'),
        ("Søren", "Łukaßæđı", "SOREN LUKASSAEDI"),
        ("Søren", "Sample", "SOEREN SAMPLE"),
        ("Jörg", "Müller", "JOERG MUELLER"),
        ("Jörg", "Müller", "JORG MULLER"),
        ("Joerg", "Mueller", "Jörg Müller"),
        ("Joerg", "Mueller", "JORG MULLER"),
        ("Søren", "Ångström", "AANGSTROM, SOREN"),
        ("Soeren", "Aangstroem", "Soren Angstrom"),
        ("Hans", "Gross", "GROß, HANS"),
        ("José", "Núñez", "JOSE NUN\u0303EZ"),
        ("Zoë", "Sample\u00adton", "Zoe Sampleton"),
        ("Ivan", "Test-Person", "IVAN PERSON"),
        ("Ivan", "Test-Person", "Ivan Person‐Test"),
        ("Ivan", "Test-Person", "TESTPERSON IVAN"),
        ("Ivan", "Test–Person", "Test−Person, Ivan"),
        ("Ana", "De La Cruz", "DELACRUZ, ANA"),
        ("Ana", "Delacruz", "De la Cruz Ana"),
        ("Ana", "De La Cruz Lopez", "Ana Lopez"),
        ("Ana", "De La Cruz Lopez", "ANA DELACRUZ"),
        ("Mary Ann", "Sample", "MARYANN SAMPLE"),
        ("Mary-Ann", "Sample", "Sample, Mary Ann"),
        ("Maryann", "Sample", "Mary Ann L Sample"),
        ("Sample", "Otto", "Otto Sample"),
        ("Xi", "Le", "LE, XI"),
        ("Otto", "Sample", "SAMPLE^OTTO^M^JR"),
        ("Otto", "Sample", "SAMPLE/OTTO"),
        ("Otto", "Sample", "Otto Sample 72Y M"),
    ],
)
def test_harmless_spelling_of_a_name_is_the_same_person(
    first: str, last: str, printed: str
) -> None:
    assert compare_names(printed, first, last) is SAME


@pytest.mark.parametrize(
    ("first", "last", "printed"),
    [
        ("Ina", "Madeup", "Otto Other"),
        ("Ina", "Madeup", "Ina Other"),
        ("Ina", "Madeup", "Otto Madeup"),
        ("Ina", "Madeup", "MADEUP, OTTO"),
        ("Ina", "Madeup", "Ida Madeup"),
        ("Joe", "Madeup", "Jo Madeup"),
        ("Danae", "Madeup", "Dana Madeup"),
        ("Michael", "Madeup", "MADEUP, MICHAL"),
        ("Rafaela", "Madeup", "Rafala Madeup"),
        ("Ina", "Madeup", "O. Madeup"),
        ("Ina A", "Madeup", "Ina B Madeup"),
        ("Ina", "Madeup", "Other"),
        ("Ivan", "Test-Person", "Ivan Other-Person"),
        ("Ana", "De La Cruz", "Ana De La Rosa"),
        ("Xi", "Le", "Xi Van"),
        ("Otto", "Sample", "SAMPLE^INA^M"),
        ("Otto", "Sample", "OTHER/OTTO"),
    ],
)
def test_another_person_is_a_contradiction(first: str, last: str, printed: str) -> None:
    assert compare_names(printed, first, last) is DIFFERENT


@pytest.mark.parametrize(
    ("first", "last", "printed"),
    [
        ("Ina", "Madeup", ""),
        ("Ina", "Madeup", " - "),
        ("Ina", "Madeup", "N/A"),
        ("Ina", "Madeup", "UNKNOWN, UNKNOWN"),
        ("Ina", "Madeup", "Not provided"),
        ("Ina", "Madeup", "Madeup"),
        ("Ina", "Madeup", "I. M."),
        ("", "", "Otto Other"),
    ],
)
def test_missing_or_half_a_name_is_not_known(first: str, last: str, printed: str) -> None:
    assert compare_names(printed, first, last) is UNKNOWN


def test_swapped_first_and_last_name_is_the_same() -> None:
    assert compare_name_parts("OMADEUP", "INA A.", "Ina", "O'Madeup") is SAME
    assert compare_name_parts("INA A.", "OMADEUP", "Ina", "O'Madeup") is SAME
    assert compare_name_parts("", "OMADEUP INA", "Ina", "O'Madeup") is SAME
    assert compare_name_parts("", "OMADEUP", "Ina", "O'Madeup") is UNKNOWN
    assert compare_name_parts("", "OTHER", "Ina", "O'Madeup") is DIFFERENT
    assert compare_name_parts("OTTO", "OMADEUP", "Ina", "O'Madeup") is DIFFERENT


@pytest.mark.parametrize(
    "printed",
    [
        "1986-02-01",
        "1986/2/1",
        "02/01/1986",
        "01/02/1986",
        "2/1/86",
        "01-Feb-86",
        "01FEB1986",
        "1 February 1986",
        "1st Feb. 1986",
        "Feb 1, 1986",
        "FEBRUARY 1 1986",
        "01.02.1986",
        "19860201",
        "02011986",
        "01021986",
        "860201",
        "1986-02-01T00:00:00+00:00",
        "02/01/1986 12:00 AM",
        "DOB: 02/01/1986 (40 Y)",
        "XX/XX/1986",
        "**/04/1986",
        "00/00/1986",
        "1986-02-00",
        "Feb 1986",
        "02/1986",
        "1986",
    ],
)
def test_birth_date_as_laboratories_print_it_is_the_same(printed: str) -> None:
    assert compare_birth_dates(printed, BORN) is SAME


@pytest.mark.parametrize("printed", ["4 Sept 1954", "Sept. 4, 1954", "4-sept-54", "4 Sep 1954"])
def test_september_is_read_in_its_abbreviations(printed: str) -> None:
    assert compare_birth_dates(printed, date(1954, 9, 4)) is SAME
    assert compare_birth_dates(printed, date(1960, 1, 1)) is DIFFERENT


@pytest.mark.parametrize(
    "printed",
    [
        "23/01/1962",
        "1986-02-02",
        "02-Feb-86",
        "02/03/1986",
        "1985",
        "Mar 1986",
        "870201",
        "**/01/1985",
        "00/00/1985",
    ],
)
def test_birth_date_that_never_fits_is_different(printed: str) -> None:
    assert compare_birth_dates(printed, BORN) is DIFFERENT


@pytest.mark.parametrize(
    "printed",
    [
        "",
        "unknown",
        "00/00/0000",
        "01/01/1900",
        "0001-01-01",
        "2999-01-01",
        "99999",
        "-",
        "1 Febr 1986",
        "1 fév 1986",
        "##/##/##",
    ],
)
def test_unreadable_birth_date_is_unknown(printed: str) -> None:
    assert compare_birth_dates(printed, BORN) is UNKNOWN
    assert compare_birth_dates("1986-02-01", None) is UNKNOWN


def test_years_of_two_digits_are_read_in_both_centuries() -> None:
    assert birth_dates("02-Feb-11") == {PartialDate(1911, 2, 2), PartialDate(2011, 2, 2)}
    assert birth_dates("01-Feb-86") == {PartialDate(1986, 2, 1)}


@pytest.mark.parametrize(
    ("printed", "agreement"),
    [
        ("40", SAME),
        ("40 Y", SAME),
        ("39 years 11 months", SAME),
        ("480 M", SAME),
        ("64", DIFFERENT),
        ("3 D", DIFFERENT),
        ("", UNKNOWN),
        ("adult", UNKNOWN),
    ],
)
def test_age_is_compared_in_years_or_parts_of_them(printed: str, agreement: Agreement) -> None:
    assert compare_ages(printed, BORN, date(2026, 11, 14)) is agreement


def test_one_different_fact_outweighs_agreements() -> None:
    assert combine_agreements([SAME, DIFFERENT, UNKNOWN]) is DIFFERENT
    assert combine_agreements([SAME, UNKNOWN]) is SAME
    assert combine_agreements([UNKNOWN]) is combine_agreements([]) is UNKNOWN


# Properties with generated names and dates

DATE_FORMATS = (
    *("%Y-%m-%d", "%m/%d/%Y", "%d/%m/%Y", "%d-%b-%y", "%d%b%Y", "%Y%m%d", "%m%d%Y", "%d.%m.%Y"),
    *("%m-%d-%y", "%b %d, %Y", "%d %B %Y", "%B %d %y", "%Y-%m-%dT00:00:00Z"),
)
LETTERS = "abcdefghijklmnoprstuvwzáéíñöøłßæđ"
SUFFIXES_AND_PLACEHOLDERS = {
    *("iii", "jnr", "snr", "phd", "dds", "dvm", "esq", "mrs"),
    *("unknown", "none", "null", "nil", "anonymous", "anon", "withheld", "redacted", "not"),
    *("given", "provided", "available", "specified", "recorded", "file", "name", "unavailable"),
}
"""Words that are no names: a name of placeholders alone is unknown, not different."""
name_words = st.text(LETTERS, min_size=3, max_size=9).filter(
    lambda word: len(words(word)) == 1 and words(word)[0] not in SUFFIXES_AND_PLACEHOLDERS
)


@given(name_words, name_words, name_words, st.data())
def test_every_spelling_of_a_name_folds_equally(
    first: str, middle: str, last: str, data: st.DataObject
) -> None:
    is_double = data.draw(st.booleans())
    known_last = f"{last}-{middle}" if is_double else f"o'{last}"
    mark = data.draw(st.sampled_from(["", *("-‐–—− " if is_double else "’ʼ'`´-‐ ")]))
    family = f"{last}{mark}{middle}" if is_double else f"o{mark}{last}"
    extra = data.draw(st.sampled_from(["", f" {middle[0]}.", f" {middle}"]))
    suffix = data.draw(st.sampled_from(["", " Jr", " III", ", MD"]))
    printed = data.draw(
        st.sampled_from(
            [f"{first}{extra} {family}{suffix}", f"{family}, {first}{extra}", f"{family} {first}"]
        )
    )
    printed = data.draw(st.sampled_from([str.upper, str.title, str.lower]))(printed)
    spellings: list[Callable[[str], str]] = [str, plain_name, digraphs]
    printed = data.draw(st.sampled_from(spellings))(printed)
    printed = unicodedata.normalize(data.draw(st.sampled_from(["NFC", "NFD"])), printed)
    assert compare_names(printed, first, known_last) is SAME


@given(name_words, name_words, name_words, name_words)
def test_people_without_common_word_are_different(
    first: str, last: str, other_first: str, other_last: str
) -> None:
    our_words = {*words(first), *words(last)}
    other_words = {*words(other_first), *words(other_last)}
    joined_words = {"".join(words(first) + words(last)), "".join(words(last) + words(first))}
    if our_words & other_words or joined_words & {"".join(words(other_first) + words(other_last))}:
        return
    assert compare_names(f"{other_first} {other_last}", first, last) is DIFFERENT
    assert compare_name_parts(other_first, other_last, first, last) is DIFFERENT


@pytest.mark.parametrize("printed", ["02/01/00", "2-Jan-00", "010200", "00-01-02"])
def test_year_2000_of_two_digits_is_read(printed: str) -> None:
    assert compare_birth_dates(printed, date(2000, 1, 2)) is SAME
    assert compare_birth_dates(printed, date(2001, 3, 4)) is DIFFERENT


@given(
    st.dates(date(1925, 1, 1), date(2020, 12, 31)),
    st.sampled_from(DATE_FORMATS),
    st.integers(32, 4000),
)
def test_every_format_of_a_birth_date_is_read(born: date, date_format: str, days: int) -> None:
    printed = born.strftime(date_format)
    assert compare_birth_dates(printed, born) is SAME
    assert compare_birth_dates(printed.upper(), born) is SAME
    other = born + timedelta(days=days)
    if (born.day, born.month) != (other.month, other.day) and other.year != born.year:
        assert compare_birth_dates(printed, other) is DIFFERENT


@given(st.text(max_size=400), st.text(max_size=40), st.text(max_size=40))
def test_compare_never_raises_for_any_text(printed: str, first: str, last: str) -> None:
    compare_names(printed, first, last)
    compare_name_parts(printed, last, first, printed)
    compare_birth_dates(printed, BORN)
    compare_ages(printed, BORN, BORN)
    name_key(first, last), required_prefixes(printed)
    assert fold(fold(printed)) == fold(printed)
