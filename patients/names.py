"""How names, phone numbers and birth dates are read: the same on the way in and when asked.

Whether two names or birth dates are of one person: `patients.identity`.
"""

import re
import unicodedata
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final

from backoffice.core.phone_numbers import e164_or_unchanged

_LETTERS: Final = str.maketrans(
    {
        **dict(zip("øłđðħıŧŋəɨƒ", "olddhitneif", strict=True)),
        **dict(zip("þæœĳ", ["th", "ae", "oe", "ij"], strict=True)),
        **dict.fromkeys("ʹʺʻʼʽʾʿˈˊˋˮ՚׳ꞌꞋ", "'"),
    }
)
"""Letters that Unicode does not take apart, and apostrophes that it counts as letters."""
_DIGRAPHS: Final = str.maketrans(
    dict(zip("äöüåøÄÖÜÅØ", ["ae", "oe", "ue", "aa", "oe"] * 2, strict=True))
)
"""How laboratories without these letters print them: Müller is MUELLER or MULLER."""
_TWO_FOR_ONE: Final = re.compile(r"(?<=[ou])e(?=.)|(?<=a)e(?!l|$)|a(?=a)")
_LEAST_CONTRACTED: Final = 5
_UMLAUTS: Final = "äöüåø"
_APART = {letter: chr(0xE000 + place) for place, letter in enumerate(_UMLAUTS)}
_SET_APART: Final = str.maketrans(_APART)
_PUT_BACK: Final = str.maketrans({apart: letter for letter, apart in _APART.items()})
"""Letters of private use, which folding leaves as they are."""
_PARTICLES = (
    "abu af al av ben bin bint d da das de del della den der di do dos du el ibn l la las le"
    " lo los mac mc o of san santa st t te ten ter van vom von y zu zum zur"
)
PARTICLES: Final = frozenset(_PARTICLES.split())
"""Words of a surname that are often written together with the next one."""
_EXTRAS = (
    "jr jnr junior sr snr senior ii iii iv md phd dds dvm rn np pa esq mr mrs ms miss mx dr"
    " prof herr frau"
)
EXTRAS: Final = frozenset(_EXTRAS.split())
"""Titles and suffixes: laboratories add them and leave them out."""
WRITTEN_TOGETHER: Final = "  "
"""Between the words of a name and their other spellings in a key: a search sees a space."""
_INVISIBLE: Final = frozenset({"Mn", "Me", "Cf"})
"""Accents once they stand apart, and what has no shape: no part of a name's letters."""
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
    """Lower case, no accents, single spaces: `fold("José", "Núñez ")` is `jose nunez`.

    Apostrophes and hyphens stay; invisible characters go. Never raises.
    """
    text = " ".join(part for part in parts if part)
    if text.isascii():
        return " ".join(text.lower().split())
    # Twice: what is compatible to a capital letter is one only after the first time.
    plain = unicodedata.normalize("NFKD", text.casefold())
    plain = unicodedata.normalize("NFKD", plain.casefold().translate(_LETTERS))
    kept = "".join(mark for mark in plain if unicodedata.category(mark) not in _INVISIBLE)
    return " ".join(kept.split())


def digraphs(text: str) -> str:
    """The same text as printed without umlauts: `Müller` is `Mueller`."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", text).translate(_DIGRAPHS)


def contract_umlauts(word: str) -> str:
    """A folded word with one letter for two: `mueller` and `muller` are `muller`. Short words stay,
    and endings, so that Joe is not Jo, Danae not Dana, and Michael not Michal."""
    return _TWO_FOR_ONE.sub("", word) if len(word) >= _LEAST_CONTRACTED else word


def plain_name(text: str) -> str:
    """The nearest spelling without accents and typographic marks, single spaces between its words:
    `Núñez-O’Brien` is `Nunez-O'Brien`. Letters of other scripts stay."""
    letters = unicodedata.normalize("NFKD", text.translate(_PLAIN))
    return " ".join("".join(one for one in letters if not unicodedata.combining(one)).split())


def name_key(*parts: str | None) -> str:
    """For search and sort: the folded words of a name, single spaces between them; then, after
    `WRITTEN_TOGETHER`, its other spellings as words of their own.

    `name_key("Marco", "O'Sample")` is `marco o sample  osample`, and `name_key("Mueller")` is
    `mueller  muller`, so that Muller finds it. Of several parts (first name, last
    name) the words of each may be written together; of one text, which is a whole name, only what a
    mark or a particle joins.
    """
    given = [part for part in parts if part]
    plain = words(" ".join(given))
    others: dict[str, None] = {}
    for part in given:
        if part.isascii() and part.isalpha():
            continue  # One word, and spelled in one way: it is in `plain`.
        for spelling in {part: None, digraphs(part): None}:
            for run in _runs(fold(spelling), whole=len(parts) > 1):
                others |= dict.fromkeys("".join(run[start:]) for start in range(len(run)))
    others |= dict.fromkeys(map(contract_umlauts, plain))
    new = [word for word in others if word not in plain]
    return WRITTEN_TOGETHER.join([" ".join(plain), " ".join(new)] if new else [" ".join(plain)])


def add_contracted_words(key: str) -> str:
    """A key that was made before names had their contracted words, with these."""
    known = key.split()
    new = [word for word in map(contract_umlauts, plain_key(key).split()) if word not in known]
    if not new:
        return key
    between = " " if WRITTEN_TOGETHER in key else WRITTEN_TOGETHER
    return key + between + " ".join(dict.fromkeys(new))


with_contracted = add_contracted_words
"""The name by which migrations import it."""


def plain_key(key: str) -> str:
    """The words of a name as it is written, out of its key."""
    return key.partition(WRITTEN_TOGETHER)[0]


def _runs(folded: str, *, whole: bool) -> list[list[str]]:
    """Words of a name that may be written together: all of them, or those that hyphens,
    apostrophes or particles join."""
    if whole:
        return [_WORD.findall(folded)]
    runs: list[list[str]] = [[]]
    for token in filter(None, map(_WORD.findall, folded.split())):
        runs[-1] += token
        if token[-1] not in PARTICLES:
            runs.append([])
    return runs


def words(text: str) -> list[str]:
    """The folded words of what somebody typed, without punctuation."""
    return _WORD.findall(fold(text))


def required_prefixes(text: str) -> list[tuple[str, ...]]:
    """What a name must have to be found by `text`: of each tuple, one beginning of a word.

    `de la cruz` finds Delacruz: each word counts together with those before it as well. Müller
    finds Mueller, and Angstroem Ångström. Titles and suffixes, and initials beside two other words,
    need not be on record: laboratories add them.
    """
    typed = words(text)
    other = words(digraphs(text))
    spellings = [typed, *([other] if len(other) == len(typed) else [])]
    needed = {place for place, word in enumerate(typed) if word not in EXTRAS} or {
        *range(len(typed))
    }
    if sum(len(typed[place]) > 1 for place in needed) > 1:
        needed = {place for place in needed if len(typed[place]) > 1}
    return [
        tuple(
            dict.fromkeys(
                spelling
                for start in range(place, max(place - 3, -1), -1)
                for one in spellings
                for joined in ["".join(one[start : place + 1])]
                for spelling in (joined, contract_umlauts(joined))
            )
        )
        for place in sorted(needed)
    ]


def phone_key(number: str | None) -> str:
    """Digits, last first: the end of a number is what people know, and a prefix is indexable."""
    return "".join(mark for mark in number or "" if mark in "0123456789")[::-1]


def phone_tail(text: str) -> str:
    """`phone_key` of what somebody typed, without what others leave out: the 1, 00 or 0 in front
    of a whole number. As the beginning of a key it finds the number however it was stored."""
    digits = "".join(mark for mark in text if mark in "0123456789")
    if len(digits) >= _LONG_NUMBER:
        number = e164_or_unchanged(text)
        digits = "".join(mark for mark in number if mark in "0123456789")
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
class SearchText:
    """What was typed about a person, taken apart; all that is given must fit."""

    words: str = ""
    """Folded, but for umlauts."""
    mail: str = ""
    born: date | None = None
    digits: str = ""
    """End of a phone number, last digit first."""
    bare_date: date | None = None
    """The same digits, read as a birth date."""

    def __bool__(self) -> bool:
        return bool(self.words or self.mail or self.born or self.digits)

    @property
    def has_only_words(self) -> bool:
        return bool(self.words) and not (self.mail or self.born or self.digits)


def parse_search_text(text: str) -> SearchText:
    """`maria gonzalez 1 Feb 1980` or `gonz (555) 010-0199` as its parts."""
    rest = _fold_but_umlauts(text)
    mail = next((part for part in rest.split() if "@" in part), "")
    rest = rest.replace(mail, " ") if mail else rest
    born = birth_date(rest)
    if born:
        return SearchText(mail=mail, born=born)
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
    return SearchText(" ".join(_WORD.findall(rest)), mail, born, digits, bare)


def _fold_but_umlauts(text: str) -> str:
    """Return the folded text, umlauts kept: `required_prefixes` reads both of their spellings."""
    apart = unicodedata.normalize("NFC", text).lower().translate(_SET_APART)
    return fold(apart).translate(_PUT_BACK)


def _beside_letters(text: str, found: re.Match[str]) -> bool:
    """A number that is a piece of a word, such as `ada1980`, is no phone number."""
    before, after = text[: found.start()][-1:], text[found.end() :][:1]
    return before.isalpha() or after.isalpha()


def _bare_date(text: str) -> date | None:
    if len(text) != 8 or not text.isdigit():
        return None
    days = [_day(text, pattern) for pattern in _BARE_DATES]
    return next((day for day in days if day and 1900 <= day.year <= date.today().year), None)  # noqa: DTZ011
