"""What a typed text may mean to find a patient: each text is parsed once.

The search box, the lists, the JSON API and the pages that choose a patient use it.
`orders.search_text` adds what finds an order.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final
from uuid import UUID

from backoffice.core.identifiers import comparison_key
from backoffice.core.phone_numbers import e164_or_unchanged
from patients.search_keys import (
    EXTRAS,
    contract_umlauts,
    digraphs,
    fold,
    parse_birth_date,
    parse_digits_as_birth_date,
    phone_key,
    words,
)

_UMLAUTS: Final = "äöüåø"
_PRIVATE_LETTERS = {letter: chr(0xE000 + place) for place, letter in enumerate(_UMLAUTS)}
_HIDE_UMLAUTS: Final = str.maketrans(_PRIVATE_LETTERS)
_SHOW_UMLAUTS: Final = str.maketrans(
    {private: letter for letter, private in _PRIVATE_LETTERS.items()}
)
"""Private use letters that replace umlauts while a text is folded, because folding does not change
them.
"""
_DATE: Final = re.compile(
    r"(?<!\d)(?:\d{4}-\d{1,2}-\d{1,2}|\d{1,2}([/.-])\d{1,2}\1(?:\d{4}|\d\d)"
    r"|\d{1,2} [a-z]{3,9},? \d{4}|[a-z]{3,9} \d{1,2},? \d{4})(?!\d)"
)
_NUMBER: Final = re.compile(r"[+(]?\d[\d\s().+/-]*\d")
_LEAST_DIGITS: Final = 4
_LONG_NUMBER: Final = 9
"""A number with at least this many digits is complete, with or without its country code."""
_LEAST_ID_DIGITS: Final = 4
_SHORT_ID_DIGITS: Final = 5
_HEX_DIGITS: Final = frozenset("0123456789abcdef")

RequiredPrefixes = Sequence[tuple[str, ...]]
"""Prefixes of words: a name must have one of each tuple."""


@dataclass(frozen=True, slots=True)
class SearchText:
    """The meanings of a text. The parts about a person must all match, or else an id."""

    text: str = ""
    """With single spaces."""
    name: RequiredPrefixes = ()
    """The whole text as a name; empty if it has a birth date or an email address."""
    words: RequiredPrefixes = ()
    """The name that is left without the other parts."""
    email: str = ""
    birth_date: date | None = None
    phone_digits: str = ""
    """End of a phone number, last digit first."""
    digits_as_date: date | None = None
    """The same digits read as a birth date."""
    id_range: tuple[UUID, UUID] | None = None
    """The first and the last id that begin with the text."""
    identifier: str = ""
    """The text as our reference of a patient, as `core.identifiers` compares it."""

    @property
    def has_person(self) -> bool:
        return bool(self.words or self.email or self.birth_date or self.phone_digits)

    @property
    def has_only_words(self) -> bool:
        return bool(self.words) and not (self.email or self.birth_date or self.phone_digits)

    @property
    def is_short_id(self) -> bool:
        """Whether the beginning of an id is so short that it may be one by chance."""
        return self.id_range is not None and len(self.text.replace("-", "")) <= _SHORT_ID_DIGITS

    def without_person(self) -> SearchText:
        """Return only the range of ids, for users who may not see who a patient is."""
        return SearchText(self.text, id_range=self.id_range)


def parse_search_text(text: str) -> SearchText:
    """Return the meanings of a text such as `maria gonz 1 Feb 1980` or `gonz (555) 010-0199`."""
    text = " ".join(text.replace("\x00", "").split())
    whole = rest = _fold_but_umlauts(text)
    email = next((part for part in rest.split() if "@" in part), "")
    rest = rest.replace(email, " ") if email else rest
    identifier = comparison_key(text)
    born = parse_birth_date(rest)
    if born:
        # Digits of a date are the beginning of an id only by chance.
        return SearchText(text, email=email, birth_date=born, identifier=identifier)
    match = _DATE.search(rest)
    if match and (born := parse_birth_date(match[0])):
        rest = f"{rest[: match.start()]} {rest[match.end() :]}"
    digits, digits_as_date = "", None
    for match in _NUMBER.finditer(rest):
        digits = phone_tail(match[0])
        if len(digits) >= _LEAST_DIGITS and not _beside_letters(rest, match):
            rest = f"{rest[: match.start()]} {rest[match.end() :]}"
            digits_as_date = parse_digits_as_birth_date(match[0])
            break
        digits = ""
    required = required_prefixes(rest)
    return SearchText(
        text,
        name=() if email or born else required_prefixes(whole) if digits else required,
        words=required,
        email=email,
        birth_date=born,
        phone_digits=digits,
        digits_as_date=digits_as_date,
        id_range=_id_range(text),
        identifier=identifier,
    )


def required_prefixes(text: str) -> list[tuple[str, ...]]:
    """Return the word prefixes that a name must have so that `text` finds it.

    The name must have one prefix of each tuple. A typed word may also be joined with up to two
    words before it, so `de la cruz` finds Delacruz. Müller finds Mueller, and Angstroem finds
    Ångström. Titles, suffixes, and initials beside two other words are not required, because
    laboratories add them.
    """
    typed = words(text)
    with_digraphs = words(digraphs(text))
    spellings = [typed, with_digraphs] if len(with_digraphs) == len(typed) else [typed]
    places = [place for place, word in enumerate(typed) if word not in EXTRAS]
    places = places or list(range(len(typed)))
    if sum(len(typed[place]) > 1 for place in places) > 1:
        places = [place for place in places if len(typed[place]) > 1]
    return [
        tuple(
            dict.fromkeys(
                prefix
                for start in range(place, max(place - 3, -1), -1)
                for spelling in spellings
                for joined in ["".join(spelling[start : place + 1])]
                for prefix in (joined, contract_umlauts(joined))
            )
        )
        for place in places
    ]


def phone_tail(text: str) -> str:
    """Return the `phone_key` of a typed number, without 1, 00 or 0 before a complete number.

    Used as a prefix, it finds the number in any stored form.
    """
    digits = phone_key(text)
    if len(digits) < _LONG_NUMBER:
        return digits
    digits = phone_key(e164_or_unchanged(text)).rstrip("0")
    return digits[:-1] if len(digits) == 11 and digits[-1] == "1" else digits


def _id_range(prefix: str) -> tuple[UUID, UUID] | None:
    """Return the first and the last id with this prefix of at least four digits."""
    digits = prefix.replace("-", "").lower()
    if not _LEAST_ID_DIGITS <= len(digits) <= 32 or set(digits) - _HEX_DIGITS:
        return None
    return UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))


def _fold_but_umlauts(text: str) -> str:
    """Return the folded text with umlauts. `required_prefixes` reads both of their spellings."""
    apart = unicodedata.normalize("NFC", text).lower().translate(_HIDE_UMLAUTS)
    return fold(apart).translate(_SHOW_UMLAUTS)


def _beside_letters(text: str, match: re.Match[str]) -> bool:
    """Whether the number is a part of a word such as `ada1980`, and so not a phone number."""
    before, after = text[: match.start()][-1:], text[match.end() :][:1]
    return before.isalpha() or after.isalpha()
