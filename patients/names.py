"""How names, phone numbers and birth dates are read: the same on the way in and when asked."""

import re
import unicodedata
from datetime import date, datetime
from typing import Final

_LETTERS: Final = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i"})
_WORD: Final = re.compile(r"[^\W_]+")
_DATES: Final = ("%Y-%m-%d", "%m/%d/%Y", "%d.%m.%Y", "%d %b %Y", "%d %B %Y", "%b %d %Y")


def fold(*parts: str | None) -> str:
    """Lower case, no accents, single spaces: `fold("José", "Núñez ")` is `jose nunez`."""
    text = " ".join(part for part in parts if part)
    if text.isascii():
        return " ".join(text.lower().split())
    plain = unicodedata.normalize("NFKD", text.casefold().translate(_LETTERS))
    kept = "".join(mark for mark in plain if not unicodedata.combining(mark))
    return " ".join(kept.split())


def words(text: str) -> list[str]:
    """The folded words of what somebody typed, without punctuation."""
    return _WORD.findall(fold(text))


def prefix_query(text: str) -> str:
    """What was typed as a text-search query of word beginnings; empty when it has no words."""
    return " & ".join(f"{word}:*" for word in words(text))


def phone_key(number: str | None) -> str:
    """Digits, last first: the end of a number is what people know, and a prefix is indexable."""
    return "".join(mark for mark in number or "" if mark in "0123456789")[::-1]


def birth_date(text: str) -> date | None:
    """A date in the spellings people read aloud; None when it is none."""
    plain = " ".join(fold(text).replace(",", " ").split()).title()
    for pattern in _DATES:
        try:
            return datetime.strptime(plain, pattern).date()  # noqa: DTZ007 - a calendar date
        except ValueError:
            continue
    return None
