"""How names, phone numbers and birth dates are read: the same on the way in and when asked."""

import re
import unicodedata
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final

_LETTERS: Final = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i"})
_PLAIN: Final = str.maketrans(
    {
        **dict(zip("øłđðıØŁĐÐ", "olddiOLDD", strict=True)),
        **dict(zip("ßæœþÆŒÞ", ["ss", "ae", "oe", "th", "Ae", "Oe", "Th"], strict=True)),
        **dict.fromkeys("’‘ʼʻ`´′", "'"),
        **dict.fromkeys("‐‑‒–—−", "-"),
    }
)
_WORD: Final = re.compile(r"[^\W_]+")
_DATES: Final = (
    *("%Y-%m-%d", "%m/%d/%Y", "%m-%d-%Y", "%d.%m.%Y", "%m/%d/%y", "%m-%d-%y"),
    *("%d %b %Y", "%d %B %Y", "%b %d %Y", "%B %d %Y"),
)
_BARE_DATES: Final = ("%m%d%Y", "%Y%m%d")
"""Dates without anything between: eight digits, which may be a part of a phone number as well."""
_DATE: Final = re.compile(
    r"(?<!\d)(?:\d{4}-\d{1,2}-\d{1,2}|\d{1,2}([/.-])\d{1,2}\1(?:\d{4}|\d\d)"
    r"|\d{1,2} [a-z]{3,9},? \d{4}|[a-z]{3,9} \d{1,2},? \d{4})(?!\d)"
)
_NUMBER: Final = re.compile(r"[+(]?\d[\d\s().+/-]*\d")
_LEAST_DIGITS: Final = 4
_LONG_NUMBER: Final = 9
"""Digits from which a number is a whole one, with the code of its country or without."""
LONGEST_WORD: Final = 64
"""Letters that are kept of a word: an index holds no more than two thousand."""


def fold(*parts: str | None) -> str:
    """Lower case, no accents, single spaces: `fold("José", "Núñez ")` is `jose nunez`."""
    text = " ".join(part for part in parts if part)
    if text.isascii():
        return " ".join(text.lower().split())
    plain = unicodedata.normalize("NFKD", text.casefold().translate(_LETTERS))
    kept = "".join(mark for mark in plain if not unicodedata.combining(mark))
    return " ".join(kept.split())


def plain_name(text: str) -> str:
    """The nearest spelling without accents and typographic marks, single spaces between its words:
    `Núñez-O’Brien` is `Nunez-O'Brien`. Letters of other scripts stay."""
    letters = unicodedata.normalize("NFKD", text.translate(_PLAIN))
    return " ".join("".join(one for one in letters if not unicodedata.combining(one)).split())


def name_key(*parts: str | None) -> str:
    """For search and sort: the folded words of a name, single spaces between them."""
    return " ".join(words(" ".join(part for part in parts if part)))


def words(text: str) -> list[str]:
    """The folded words of what somebody typed, without punctuation."""
    return _WORD.findall(fold(text))


def phone_key(number: str | None) -> str:
    """Digits, last first: the end of a number is what people know, and a prefix is indexable."""
    return "".join(mark for mark in number or "" if mark in "0123456789")[::-1]


def phone_tail(text: str) -> str:
    """`phone_key` of what somebody typed, without what others leave out: the 1, 00 or 0 in front
    of a whole number. As the beginning of a key it finds the number however it was stored."""
    digits = "".join(mark for mark in text if mark in "0123456789")
    if len(digits) >= _LONG_NUMBER:
        digits = digits.lstrip("0")
        digits = digits[1:] if len(digits) == 11 and digits[0] == "1" else digits
    return digits[::-1]


def birth_date(text: str) -> date | None:
    """A date in the spellings people read aloud; None when it is none.

    Nobody is born in the future: of a year of two digits the latest century that is past.
    """
    plain = " ".join(fold(text).replace(",", " ").split()).title()
    for pattern in _DATES:
        found = _day(plain, pattern)
        if found is not None:
            return found
    return None


def _day(text: str, pattern: str) -> date | None:
    try:
        found = datetime.strptime(text, pattern).date()  # noqa: DTZ007 - a calendar date
    except ValueError:
        return None
    if pattern.endswith("%y") and found > date.today():  # noqa: DTZ011 - a century, not a day
        return found.replace(year=found.year - 100)
    return found


@dataclass(frozen=True, slots=True)
class Told:
    """What was typed about a person, taken apart; all that is given must fit."""

    words: str = ""
    mail: str = ""
    born: date | None = None
    digits: str = ""
    """End of a phone number, last digit first."""
    bare_date: date | None = None
    """The same digits, read as a birth date."""

    def __bool__(self) -> bool:
        return bool(self.words or self.mail or self.born or self.digits)

    @property
    def only_words(self) -> bool:
        return bool(self.words) and not (self.mail or self.born or self.digits)


def told(text: str) -> Told:
    """`maria gonzalez 1 Feb 1980` or `gonz (555) 010-0199` as its parts."""
    rest = fold(text)
    mail = next((part for part in rest.split() if "@" in part), "")
    rest = rest.replace(mail, " ") if mail else rest
    born = birth_date(rest)
    if born:
        return Told(mail=mail, born=born)
    found = _DATE.search(rest)
    if found and (born := birth_date(found[0])):
        rest = f"{rest[: found.start()]} {rest[found.end() :]}"
    digits, bare = "", None
    for found in _NUMBER.finditer(rest):
        digits = phone_tail(found[0])
        if len(digits) >= _LEAST_DIGITS and not _beside_letters(rest, found):
            rest = f"{rest[: found.start()]} {rest[found.end() :]}"
            bare = _bare_date(found[0])
            break
        digits = ""
    return Told(" ".join(words(rest)), mail, born, digits, bare)


def _beside_letters(text: str, found: re.Match[str]) -> bool:
    """A number that is a piece of a word, such as `ada1980`, is no phone number."""
    before, after = text[: found.start()][-1:], text[found.end() :][:1]
    return before.isalpha() or after.isalpha()


def _bare_date(text: str) -> date | None:
    if len(text) != 8 or not text.isdigit():
        return None
    days = [_day(text, pattern) for pattern in _BARE_DATES]
    return next((day for day in days if day and 1900 <= day.year <= date.today().year), None)  # noqa: DTZ011
