"""Formats of a person's data that labs accept: names, numbers, ages (orders.md 2.4, 2.5)."""

from __future__ import annotations

import re
from datetime import date
from typing import Final

from backoffice.core import phone_numbers
from patients import search_keys

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.,'-]*(\s[A-Za-z0-9.,'-]+)*")
NAME_LETTERS: Final = 50
ZIP: Final = re.compile(r"\d{5}(-\d{4})?")
ADULT: Final = 18
_MAIL: Final = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_NPI_PREFIX: Final = "80840"


def is_name(text: str) -> bool:
    return len(text) <= NAME_LETTERS and NAME.fullmatch(text) is not None


def plain_name(text: str) -> str:
    """Return a similar name that would be accepted (Jose for José), or an empty text."""
    plain = search_keys.plain_name(text)
    return plain if plain != text and is_name(plain) else ""


def is_zip(text: str) -> bool:
    return ZIP.fullmatch(text) is not None


def is_mail(text: str) -> bool:
    return _MAIL.fullmatch(text) is not None


def phone(text: str) -> str:
    """Return the number as the service expects it: a plus and digits. Empty if it is invalid."""
    try:
        return phone_numbers.e164(text)
    except phone_numbers.NotAPhoneNumber:
        return ""


def age_on(born: date, day: date) -> int:
    return day.year - born.year - ((day.month, day.day) < (born.month, born.day))


def is_npi(text: str) -> bool:
    """Whether the text has ten digits with a valid check digit.

    The check digit is Luhn's, computed with the prefix of these numbers.
    """
    if not re.fullmatch(r"[0-9]{10}", text):
        return False
    total = 0
    for place, digit in enumerate(reversed(_NPI_PREFIX + text)):
        value = int(digit) * (2 if place % 2 else 1)
        total += value - 9 if value > 9 else value
    return total % 10 == 0
