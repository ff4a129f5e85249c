"""Comparison of a printed name, birth date and age with those of a patient.

Results, uploaded reports and possible duplicates use it. `patients.search_keys.fold` folds letters.
This module knows what may differ between two spellings of one person: the order of the names,
middle names and initials, titles and suffixes, a part of a double surname, joined words, and the
order of day and month in a birth date.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from itertools import chain, product
from typing import Final

from django.utils import timezone

from patients.search_keys import EXTRAS, PARTICLES, contract_umlauts, digraphs, fold, words

MAX_TEXT_LENGTH: Final = 300
"""Most characters of a printed name or date that are read."""
MAX_WORDS: Final = 12
_PLACEHOLDERS = (
    "unknown none null na nil anonymous anon unavailable withheld redacted not given provided"
    " available specified recorded on file no name n a"
)
_PLACEHOLDER_WORDS: Final = frozenset(_PLACEHOLDERS.split())
"""Words that laboratories print if they have no name."""
_IN_BRACKETS: Final = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|\"[^\"]*\"|“[^”]*”")

_SEPARATORS: Final = re.compile(r"[/;_]")
_PRINTED_AGE: Final = re.compile(r"\s[0-9]{1,3}\s?(?:y|yrs?|yo|y/o)\b[\s,/]*(?:[mf]\s*)?$")
"""An age, perhaps with the sex, after a name: `72Y M`."""


class Agreement(StrEnum):
    """Whether two facts about a person agree. `UNKNOWN`: one of them is missing or unreadable."""

    SAME = "same"
    DIFFERENT = "different"
    UNKNOWN = "unknown"


def combine_agreements(agreements: Iterable[Agreement]) -> Agreement:
    """Return DIFFERENT if any fact differs, else SAME if any agrees, else UNKNOWN."""
    return _first_present(agreements, (Agreement.DIFFERENT, Agreement.SAME, Agreement.UNKNOWN))


def _first_present(agreements: Iterable[Agreement], ranked: Sequence[Agreement]) -> Agreement:
    """Return the first of `ranked` that is in `agreements`, or the last one if none is."""
    present = set(agreements)
    return next((agreement for agreement in ranked if agreement in present), ranked[-1])


# Names


@dataclass(frozen=True, slots=True)
class _Name:
    """The folded words of a name, without titles and suffixes."""

    given: tuple[str, ...]
    family: tuple[str, ...]

    @property
    def is_initials(self) -> bool:
        return all(len(word) == 1 for word in self.given + self.family)


def compare_names(printed: str, first_name: str, last_name: str) -> Agreement:
    """Compare a whole name, in any order, with the name of a patient."""
    readings = [name for text in _letterings(printed) for name in _readings(text)]
    return _compare(readings, _spellings(first_name, last_name))


def compare_name_parts(
    printed_first: str, printed_last: str, first_name: str, last_name: str
) -> Agreement:
    """Compare first and last name, perhaps in the wrong fields, with the name of a patient."""
    texts = zip(_letterings(printed_first), _letterings(printed_last), strict=True)
    readings = []
    for first, last in texts:
        given_names, family = _words(first), _words(last)
        if given_names and family:
            readings += [_Name(given_names, family), _Name(family, given_names)]
        readings += _readings(f"{first} {last}")
    return _compare(readings, _spellings(first_name, last_name))


def _compare(readings: Iterable[_Name], spellings: Sequence[_Name]) -> Agreement:
    """Compare the readings of a printed name with the spellings of the patient's name."""
    names = [name for name in readings if name.given or name.family]
    if not names or not spellings:
        return Agreement.UNKNOWN
    return _first_present(
        (_compare_pair(printed, stored) for printed, stored in product(names, spellings)),
        (Agreement.SAME, Agreement.UNKNOWN, Agreement.DIFFERENT),
    )


def _compare_pair(printed: _Name, stored: _Name) -> Agreement:
    given_fits = _given_fits(printed.given, stored.given)
    family_fits = _family_fits(printed.family, stored.family)
    if not given_fits or not family_fits:
        return Agreement.DIFFERENT
    if printed.is_initials or stored.is_initials:
        return Agreement.SAME if printed == stored else Agreement.UNKNOWN
    # Half a name is not enough to agree, but it does not contradict either.
    have_same_parts = bool(printed.given) == bool(stored.given) and bool(printed.family) == bool(
        stored.family
    )
    return Agreement.SAME if have_same_parts else Agreement.UNKNOWN


def _given_fits(printed: Sequence[str], stored: Sequence[str]) -> bool:
    """Whether the first given names agree and no other contradicts. Initials are names, too."""
    if not printed or not stored or "".join(printed) == "".join(stored):
        return True
    for few, many in ((printed, stored), (stored, printed)):
        # Maryann and Mary Ann Lee: the first words of one name are joined in the other.
        for end in range(1, len(many) + 1):
            if _is_name_or_initial(few[0], "".join(many[:end])) and _middle_fits(
                few[1:], many[end:]
            ):
                return True
    return False


def _middle_fits(printed: Sequence[str], stored: Sequence[str]) -> bool:
    """Whether all words of the shorter name are in the longer one, in the same order."""
    few, many = sorted((printed, stored), key=len)
    rest = iter(many)
    return all(any(_is_name_or_initial(word, name) for name in rest) for word in few)


def _is_name_or_initial(printed: str, stored: str) -> bool:
    """Whether the words are equal, or one is the initial of the other."""
    short, long = sorted((printed, stored), key=len)
    return printed == stored or (len(short) == 1 and long.startswith(short))


def _family_fits(printed: Sequence[str], stored: Sequence[str]) -> bool:
    """Whether it is the same surname, a part of a double surname in any order, or its initial."""
    if not printed or not stored:
        return True
    if any(len(name) == len(name[0]) == 1 for name in (printed, stored)):
        return _is_name_or_initial(printed[0], stored[0])
    if _is_part(printed, stored):
        return True
    # A middle initial may be read as a part of a double surname, but it is not one.
    initials = {word for word in printed if len(word) == 1} - {*stored, *_CONJUNCTIONS}
    return not initials and _is_part(stored, printed)


_CONJUNCTIONS: Final = ("y", "e")


def _is_part(few: Sequence[str], many: Sequence[str]) -> bool:
    """Whether each word of `few` is in `many`, alone or joined with its neighbors."""
    runs = set(_joined(many))
    if "".join(few) in runs:
        return True
    significant = [word for word in few if word not in PARTICLES] or few
    return all(word in runs for word in significant)


def _joined(name: Sequence[str]) -> Iterator[str]:
    for start in range(len(name)):
        for end in range(start + 1, len(name) + 1):
            yield "".join(name[start:end])


def _readings(text: str) -> list[_Name]:
    """Return the ways to divide a whole name into given and family name.

    A comma divides them. Without a comma, they may be divided between any two words. Both orders
    are returned.
    """
    parts = [tokens for part in _with_commas(text).split(",") if (tokens := _tokens(part))]
    if len(parts) > 1:
        first, rest = parts[0], [token for part in parts[1:] for token in part]
        return [_name(rest, first), _name(first, rest)]
    tokens = parts[0] if parts else [whole] if (whole := _words(text)) else []
    places = range(1, len(tokens)) if len(tokens) > 1 else range(len(tokens))
    names = []
    for place in places:
        before, after = tokens[:place], tokens[place:]
        names += [_name(before, after), _name(after, before)]
    return names


def _with_commas(text: str) -> str:
    """Put a comma after the first part of names with other marks instead of spaces.

    HL7 messages print such names, for example `SAMPLE^KARL^M^JR`.
    """
    if "^" in text:
        return text.replace("^", ",", 1).replace("^", " ")
    return text if " " in text.strip() else _SEPARATORS.sub(",", text)


def _tokens(text: str) -> list[tuple[str, ...]]:
    """Return the words of each part between spaces, without titles and suffixes."""
    if not _words(text):
        return []
    plain = _PRINTED_AGE.sub(" ", fold(_IN_BRACKETS.sub(" ", text)))
    word_lists = [words(token) for token in plain.split()][:MAX_WORDS]
    without_extras = [tuple(word for word in token if word not in EXTRAS) for token in word_lists]
    return [token for token in without_extras if token]


def _name(given_names: Iterable[tuple[str, ...]], family: Iterable[tuple[str, ...]]) -> _Name:
    return _Name(tuple(chain.from_iterable(given_names)), tuple(chain.from_iterable(family)))


def _spellings(first_name: str, last_name: str) -> list[_Name]:
    names: list[_Name] = []
    for first, last in zip(_letterings(first_name), _letterings(last_name), strict=True):
        given_names, family = _words(first), _words(last)
        names += (
            [_Name(given_names, family)] if given_names and family else _readings(f"{first} {last}")
        )
    return list(dict.fromkeys(names))


def _letterings(text: str) -> tuple[str, str, str]:
    """Return the text as written, with two letters per umlaut, and with one letter per digraph."""
    short = text[:MAX_TEXT_LENGTH]
    contracted = _LETTERS.sub(lambda word: contract_umlauts(word[0]), fold(short))
    return short, digraphs(short), contracted


_LETTERS: Final = re.compile(r"[^\W_]+")


def _words(text: str) -> tuple[str, ...]:
    """Return the folded words without titles, suffixes and text in brackets.

    Returns an empty tuple if the text is a placeholder for a name.
    """
    name_words = words(_IN_BRACKETS.sub(" ", text)) or words(text)
    if all(word in _PLACEHOLDER_WORDS or set(word) <= {"x"} for word in name_words):
        return ()
    # `Sr.` and `II` are dropped, unless the name has no other words.
    return tuple([word for word in name_words if word not in EXTRAS] or name_words)[:MAX_WORDS]


# Birth dates


@dataclass(frozen=True, slots=True)
class PartialDate:
    """A calendar date, or only its year, or only year and month."""

    year: int
    month: int | None = None
    day: int | None = None

    def includes(self, day: date) -> bool:
        return (
            self.year == day.year
            and self.month in (None, day.month)
            and self.day in (None, day.day)
        )


_MONTH_NAMES: Final = (
    "january february march april may june july august september october november december"
)
_MONTHS: Final = [name[:3] for name in _MONTH_NAMES.split()]
_LONG_MONTHS: Final = frozenset({*_MONTH_NAMES.split(), "sept"})
_TIME: Final = re.compile(r"(?<=\d)(?:t|\s+)\d{1,2}:\d{2}.*$")
_TOKEN: Final = re.compile(r"\d+|[a-z]+")
_YEAR: Final = re.compile(r"(?<![0-9])[0-9]{4}(?![0-9])")
_MASKED: Final = re.compile(r"\*|[0-9]x|(?<![a-z])x+[0-9/.-]|\?|#")
"""Matches masked digits. Of such a date only the year is read."""
_ORDINAL: Final = frozenset({"st", "nd", "rd", "th"})
_OLDEST: Final = 130
_PLACEHOLDER: Final = PartialDate(1900, 1, 1)
"""The date that systems store for an unknown birth date. Earlier placeholders are out of range."""


def birth_dates(printed: str) -> frozenset[PartialDate]:
    """Return every date that the text may mean; empty if it is not readable as a birth date.

    Laboratories use many formats: day and month are read in both orders, and years of two digits in
    both centuries. Dates in the future or more than 130 years ago are left out.
    """
    text = _TIME.sub("", _IN_BRACKETS.sub(" ", fold(printed[:MAX_TEXT_LENGTH])))
    if _MASKED.search(text):
        text = " ".join(_YEAR.findall(text))
    tokens = [token for token in _TOKEN.findall(text) if token not in _ORDINAL]
    numbers = [token for token in tokens if token.isdecimal()]
    if any(len(number) == 4 and number != "0000" for number in numbers):
        # 00 is an unknown day or month. In a date without a year of four digits, it is the year
        # 2000.
        numbers = [number for number in numbers if number not in ("0", "00")]
    named = [token for token in tokens if token in _LONG_MONTHS or token in _MONTHS]
    months = {_MONTHS.index(token[:3]) + 1 for token in named}
    other_words = [token for token in tokens if token.isalpha() and token not in named]
    if len(months) > 1 or (other_words and not months and len(numbers) == 2):
        return frozenset()  # `4 Okt 1954`: the word may be the month.
    today = timezone.localdate()
    return frozenset(
        partial_date
        for year, month, day in _orders(numbers, next(iter(months), None))
        for partial_date in _dates(year, month, day, today)
    )


def _orders(
    numbers: Sequence[str], month: int | None
) -> Iterator[tuple[str, int | None, int | None]]:
    """Yield (year, month, day) for each possible order of the numbers."""
    if month is not None:
        if len(numbers) == 1:
            yield numbers[0], month, None
        if len(numbers) == 2:
            day, year = sorted(numbers, key=lambda number: len(number) > 2)
            if len(day) <= 2:
                yield year, month, int(day)
        return
    parts = list(numbers)
    if len(parts) == 1 and len(parts[0]) == 8:
        text = parts[0]
        for three in (
            (text[:4], text[4:6], text[6:]),
            (text[:2], text[2:4], text[4:]),
        ):
            yield from _orders(three, None)
    elif len(parts) == 1 and len(parts[0]) == 6:
        yield from _orders((parts[0][:2], parts[0][2:4], parts[0][4:]), None)
    elif len(parts) == 1 and len(parts[0]) == 4:
        yield parts[0], None, None
    elif len(parts) == 2 and {len(parts[0]), len(parts[1])} in ({4, 2}, {4, 1}):
        year, other = sorted(parts, key=len, reverse=True)
        yield year, int(other), None
    elif len(parts) == 3 and all(len(part) <= 4 for part in parts):
        first, second, third = parts
        orders = [(first, second, third)]
        if len(first) <= 2:
            orders = [(third, first, second), (third, second, first)]
            # 86-02-01
            orders += [(first, second, third)] if len(first) == len(third) == 2 else []
        for year, mid, day in orders:
            if len(mid) <= 2 and len(day) <= 2:
                yield year, int(mid), int(day)


def _dates(text: str, month: int | None, day: int | None, today: date) -> Iterator[PartialDate]:
    if len(text) not in (2, 4):
        return
    years = [int(text)] if len(text) == 4 else [1900 + int(text), 2000 + int(text)]
    for year in years:
        if not today.year - _OLDEST <= year <= today.year:
            continue
        try:
            parsed = date(year, month or 1, day or 1)
        except ValueError:
            continue
        if parsed <= today:
            yield PartialDate(year, month, day)


def compare_birth_dates(printed: str, stored: date | None) -> Agreement:
    """Return DIFFERENT only if no reading of the printed date is the date of the patient."""
    readings = birth_dates(printed)
    if stored is None or not readings:
        return Agreement.UNKNOWN
    if any(reading.includes(stored) for reading in readings):
        return Agreement.SAME
    return Agreement.UNKNOWN if readings == {_PLACEHOLDER} else Agreement.DIFFERENT


# Ages

_AGE: Final = re.compile(r"(\d{1,3})(?:\.\d+)?\s*([ymwd]?)[a-z]*\b")
_YEARS: Final = {"": 1.0, "y": 1.0, "m": 1 / 12, "w": 1 / 52, "d": 1 / 365}
_AGE_TOLERANCE: Final = 2
"""Years that a printed age may differ: it is rounded, and the day of counting is uncertain."""


def compare_ages(printed: str, born: date | None, on: date) -> Agreement:
    """Compare an age (`64`, `64 Y`, `18 months`) on a day with a birth date."""
    match = _AGE.search(fold(printed[:MAX_TEXT_LENGTH]))
    if born is None or match is None:
        return Agreement.UNKNOWN
    years = int(match[1]) * _YEARS[match[2]]
    actual = (on - born).days / 365.25
    return Agreement.SAME if abs(actual - years) < _AGE_TOLERANCE else Agreement.DIFFERENT
