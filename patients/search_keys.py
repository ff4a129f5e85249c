"""Keys of names, phone numbers and birth dates, for search and sort.

The same functions process stored values and search texts, which `patients.search_text` parses.
`patients.identity_comparison` compares the names and birth dates of two people.
"""

import re
import unicodedata
from datetime import date, datetime
from typing import Final

_LETTERS: Final = str.maketrans(
    {
        **dict(zip("øłđðħıŧŋəɨƒ", "olddhitneif", strict=True)),
        **dict(zip("þæœĳ", ["th", "ae", "oe", "ij"], strict=True)),
        **dict.fromkeys("ʹʺʻʼʽʾʿˈˊˋˮ՚׳ꞌꞋ", "'"),
    }
)
"""Letters that Unicode does not decompose, and apostrophes that it classifies as letters."""
_DIGRAPHS: Final = str.maketrans(
    dict(zip("äöüåøÄÖÜÅØ", ["ae", "oe", "ue", "aa", "oe"] * 2, strict=True))
)
"""Replacements that laboratories print for umlauts: Müller is MUELLER or MULLER."""
_UMLAUT_DIGRAPH: Final = re.compile(r"(?<=[ou])e(?=.)|(?<=a)e(?!l|$)|a(?=a)")
_SHORTEST_CONTRACTED: Final = 5
_PARTICLES = (
    "abu af al av ben bin bint d da das de del della den der di do dos du el ibn l la las le"
    " lo los mac mc o of san santa st t te ten ter van vom von y zu zum zur"
)
PARTICLES: Final = frozenset(_PARTICLES.split())
"""Words of a surname that are often joined with the next word."""
_EXTRAS = (
    "jr jnr junior sr snr senior ii iii iv md phd dds dvm rn np pa esq mr mrs ms miss mx dr"
    " prof herr frau"
)
EXTRAS: Final = frozenset(_EXTRAS.split())
"""Titles and suffixes. Laboratories may add them or leave them out."""
WRITTEN_TOGETHER: Final = "  "
"""Separates the words of a name from their other spellings in a key: a space in a search."""
_INVISIBLE: Final = frozenset({"Mn", "Me", "Cf"})
"""Unicode categories of decomposed accents and of invisible characters. Folding drops them."""
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
"""Formats of dates of eight digits without separators. These digits may also be a part of a phone
number.
"""
LONGEST_WORD: Final = 64
"""Most letters of a word that are stored. An index entry can have about two thousand bytes."""


def fold(*parts: str | None) -> str:
    """Return the text in lower case, without accents, with single spaces.

    `fold("José", "Núñez ")` is `jose nunez`. Apostrophes and hyphens stay. Invisible characters are
    removed. Never raises.
    """
    text = " ".join(part for part in parts if part)
    if text.isascii():
        return " ".join(text.lower().split())
    # Twice: a character that is compatible with a capital letter becomes one only in the first
    # pass.
    plain = unicodedata.normalize("NFKD", text.casefold())
    plain = unicodedata.normalize("NFKD", plain.casefold().translate(_LETTERS))
    visible = "".join(mark for mark in plain if unicodedata.category(mark) not in _INVISIBLE)
    return " ".join(visible.split())


def digraphs(text: str) -> str:
    """Return the text with two letters for each umlaut: `Müller` becomes `Mueller`."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", text).translate(_DIGRAPHS)


def contract_umlauts(word: str) -> str:
    """Return a folded word with one letter for each digraph: `mueller` becomes `muller`.

    Short words and endings do not change, so that Joe is not Jo, Danae is not Dana, and Michael is
    not Michal.
    """
    return _UMLAUT_DIGRAPH.sub("", word) if len(word) >= _SHORTEST_CONTRACTED else word


def plain_name(text: str) -> str:
    """Return the nearest spelling without accents and typographic marks, with single spaces.

    `Núñez-O’Brien` becomes `Nunez-O'Brien`. Letters of other scripts stay.
    """
    marks = unicodedata.normalize("NFKD", text.translate(_PLAIN))
    return " ".join("".join(mark for mark in marks if not unicodedata.combining(mark)).split())


def name_key(*parts: str | None) -> str:
    """Return the key of a name for search and sort.

    The key is the folded words of the name with single spaces, then `WRITTEN_TOGETHER`, then the
    other spellings of the name as separate words.
    `name_key("Marco", "O'Sample")` is `marco o sample  osample`, and `name_key("Mueller")` is
    `mueller  muller`, so that Muller finds it. When there are several parts (first name, last
    name), all words of a part may be joined. When there is one part, it is a whole name, and only
    words next to a hyphen, an apostrophe or a particle are joined.
    """
    nonempty = [part for part in parts if part]
    plain = words(" ".join(nonempty))
    other_keys: dict[str, None] = {}
    for part in nonempty:
        if part.isascii() and part.isalpha():
            continue  # One word with one spelling, which `plain` has.
        for spelling in {part: None, digraphs(part): None}:
            for run in _runs(fold(spelling), whole=len(parts) > 1):
                other_keys |= dict.fromkeys("".join(run[start:]) for start in range(len(run)))
    other_keys |= dict.fromkeys(map(contract_umlauts, plain))
    new = [word for word in other_keys if word not in plain]
    return WRITTEN_TOGETHER.join([" ".join(plain), " ".join(new)] if new else [" ".join(plain)])


def plain_key(key: str) -> str:
    """Return the words of a name from its key, as the name is written."""
    return key.partition(WRITTEN_TOGETHER)[0]


def _runs(folded: str, *, whole: bool) -> list[list[str]]:
    """Return the groups of words that may be joined to one word.

    With `whole`, all words of the name are one group. Otherwise a group has the words that hyphens,
    apostrophes or particles join.
    """
    if whole:
        return [_WORD.findall(folded)]
    runs: list[list[str]] = [[]]
    for token in filter(None, map(_WORD.findall, folded.split())):
        runs[-1] += token
        if token[-1] not in PARTICLES:
            runs.append([])
    return runs


def words(text: str) -> list[str]:
    """Return the folded words of a text, without punctuation."""
    return _WORD.findall(fold(text))


def phone_key(number: str | None) -> str:
    """Return the digits in reverse order.

    People know the end of a number, and an index can search for a prefix.
    """
    return "".join(mark for mark in number or "" if mark in "0123456789")[::-1]


def parse_birth_date(text: str) -> date | None:
    """Return the date that the text has in one of the common forms, or None.

    A year of two digits is in the latest century in which the date is not in the future.
    """
    plain = " ".join(fold(text).replace(",", " ").split()).title()
    for pattern in _DATES:
        birth_date = _day(plain, pattern)
        if birth_date is not None:
            return birth_date
    return None


def parse_digits_as_birth_date(text: str) -> date | None:
    """Return the past date that eight digits are, or None."""
    if len(text) != 8 or not text.isdigit():
        return None
    days = [_day(text, pattern) for pattern in _BARE_DATES]
    return next((day for day in days if day and 1900 <= day.year <= date.today().year), None)  # noqa: DTZ011


def _day(text: str, pattern: str) -> date | None:
    try:
        day = datetime.strptime(text, pattern).date()  # noqa: DTZ007 - a calendar date
    except ValueError:
        return None
    if pattern.endswith("%y") and day > date.today():  # noqa: DTZ011 - a century, not a day
        return day.replace(year=day.year - 100)
    return day
