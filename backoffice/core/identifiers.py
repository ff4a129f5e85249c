"""Identifiers that people type: sample IDs, our references, account numbers, NPIs.

`clean` returns what is sent and stored, `comparison_key` what is compared. PostgreSQL compares by
the same key:
`Order.objects.filter(same_identifier("sample_id", text))`.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any, Final

from django.db.models import CharField, Q, TextField, Transform
from django.utils.translation import gettext, gettext_noop

SPACES: Final = "\t\n\v\f\r \x1c\x1d\x1e\x1f\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
INVISIBLE: Final = (
    "\u00ad\u034f\u115f\u1160\u180e\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\u2064"
    "\u2800\u3164\ufeff\uffa0" + "".join(map(chr, range(0xFE00, 0xFE10)))
)
"""Invisible characters that copying leaves behind. They are removed: they mean nothing in an
identifier."""
DASHES: Final = "\u2010\u2011\u2012\u2013\u2014\u2015\u2043\u2212\ufe58\ufe63\uff0d"
_OTHER_CONTROLS: Final = "".join(
    chr(code)
    for code in (
        *range(1, 0x20),
        *range(0x7F, 0xA0),
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
    )
    if chr(code) not in SPACES
)
_DIGITS: Final = (0x0660, 0x06F0, 0x0966, 0x09E6, 0x0E50)
"""Zeros of the digit sets that compatibility normalization does not change."""
_SMALL: Final = "abcdefghijklmnopqrstuvwxyzàáâãäåæçèéêëìíîïðñòóôõöøùúûüýþ"
_REMOVED: Final = SPACES + INVISIBLE + _OTHER_CONTROLS
_FROM: Final = (
    _SMALL + DASHES + "".join(chr(zero + digit) for zero in _DIGITS for digit in range(10))
)
_TO: Final = _SMALL.upper() + "-" * len(DASHES) + "0123456789" * len(_DIGITS)
_KEYS: Final = str.maketrans(_FROM, _TO, _REMOVED)
_REPLACEMENT: Final = "\ufffd"
_LOOKALIKES: Final = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE")
"""Scripts with letters that look like Latin ones."""
_SAME_SHAPE: Final = frozenset(
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0405\u0406\u0408"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
)
"""Cyrillic and Greek capitals that look exactly like Latin ones."""
_DESCRIPTIONS: Final = {
    "\n": gettext_noop("a line break"),
    "\r": gettext_noop("a line break"),
    "\u2028": gettext_noop("a line break"),
    "\u2029": gettext_noop("a line break"),
    "\x85": gettext_noop("a line break"),
    "\t": gettext_noop("a tab"),
    _REPLACEMENT: gettext_noop("a damaged character (�)"),
}


class UnusableCharacter(ValueError):
    """A character that no identifier may have.

    `place` counts from 1; `words` is a message for staff.
    """

    def __init__(self, text: str, place: int, what: str) -> None:
        self.place = place
        self.words = gettext(
            "Character %(place)d of “%(text)s” is %(what)s. Type it again without it."
        ) % {"place": place, "text": visible(text), "what": what}
        super().__init__(self.words)


def clean(text: str) -> str:
    """Return the identifier as it is sent. Raises UnusableCharacter.

    It has one spelling of digits, dashes and widths, single spaces and no invisible characters. The
    case does not change.
    """
    offset = len(text) - len(text.lstrip(SPACES + INVISIBLE))
    cleaned: list[str] = []
    for place, mark in enumerate(text.strip(SPACES + INVISIBLE), start=offset + 1):
        if mark in INVISIBLE:
            continue
        if what := _forbidden_kind(mark):
            raise UnusableCharacter(text, place, what)
        if unicodedata.category(mark) == "Nd":
            mark = str(unicodedata.decimal(mark))
        cleaned.append("-" if mark in DASHES else mark)
    _refuse_lookalikes(text)
    plain = unicodedata.normalize("NFKC", "".join(cleaned))
    return " ".join(plain.translate(str.maketrans("", "", INVISIBLE)).split())


def comparison_key(text: str) -> str:
    """Return the key that all spellings of an identifier share; may be empty.

    The result is the same as that of `IdentifierKey` in PostgreSQL.
    """
    return unicodedata.normalize("NFKC", text).translate(_KEYS)


def same_identifier(column: str, *texts: str) -> Q:
    """Return a condition for rows that have one of these identifiers in any spelling."""
    keys = sorted({key for text in texts if (key := comparison_key(text.replace("\x00", "")))})
    if len(keys) == 1:
        return Q(**{f"{column}__identifier": keys[0]})
    return Q(**{f"{column}__identifier__in": keys}) if keys else Q(pk__in=[])


def looks_latin(text: str) -> bool:
    """Return whether all letters are of another script and look exactly like Latin ones."""
    letters = {mark for mark in text if mark.isalpha()}
    return bool(letters) and letters <= _SAME_SHAPE


def visible(text: str) -> str:
    """Return the text with a visible mark for each invisible character, for messages."""
    return "".join("␣" if _is_invisible(mark) else mark for mark in text)


@CharField.register_lookup
@TextField.register_lookup
class IdentifierKey(Transform):
    """`comparison_key` of a column.

    It has no parameters, so that prepared statements find its index.
    """

    lookup_name = "identifier"
    output_field = TextField()

    def as_sql(self, compiler: Any, connection: Any, **context: Any) -> tuple[str, Any]:  # type: ignore[override]
        column, parameters = compiler.compile(self.lhs)
        return key_expression(column), parameters


def key_expression(column: str) -> str:
    """Return the SQL of `IdentifierKey`, for statements written by hand."""
    return f"translate(normalize({column}, NFKC), {_SQL_FROM}, {_SQL_TO})"


def _sql_text(text: str) -> str:
    escaped = "".join(
        mark if (mark.isascii() and mark.isalnum()) or mark == "-" else f"\\{ord(mark):04X}"
        for mark in text
    )
    return f"U&'{escaped}'"


_SQL_FROM: Final = _sql_text(_FROM + _REMOVED)
"""PostgreSQL removes characters that have no counterpart in `_SQL_TO`."""
_SQL_TO: Final = _sql_text(_TO)


def _is_invisible(mark: str) -> bool:
    return mark in INVISIBLE or unicodedata.category(mark) in ("Cc", "Cf", "Zl", "Zp", "Cn", "Co")


def _forbidden_kind(mark: str) -> str:
    if mark in _DESCRIPTIONS:
        return gettext(_DESCRIPTIONS[mark])
    code = f"U+{ord(mark):04X}"
    kinds = {
        "Cc": gettext_noop("a control character (%(code)s)"),
        "Cf": gettext_noop("a format character (%(code)s)"),
        "Cs": gettext_noop("half a character (%(code)s)"),
        "Co": gettext_noop("a private character (%(code)s)"),
        "Cn": gettext_noop("not a character (%(code)s)"),
    }
    kind = kinds.get(unicodedata.category(mark), "")
    return gettext(kind) % {"code": code} if kind else ""


def _refuse_lookalikes(text: str) -> None:
    """Refuse a letter of another script among Latin ones, because nobody sees the difference."""
    if not re.search("[A-Za-z]", unicodedata.normalize("NFKC", text)):
        return
    for place, mark in enumerate(text, start=1):
        name = unicodedata.name(mark, "")
        if name.startswith(_LOOKALIKES):
            what = gettext("not a Latin letter (%(name)s)") % {"name": name.lower()}
            raise UnusableCharacter(text, place, what)
