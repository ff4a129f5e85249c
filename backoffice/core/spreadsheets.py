"""Detect identifiers that a spreadsheet changed before somebody exported the table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from django.utils.translation import gettext, gettext_noop

from backoffice.core.identifiers import looks_latin

_MONTH: Final = (
    "(?:(?:[Jj]an|[Ff]eb)(?:uary|ruary)?|[Mm]ar(?:ch)?|[Aa]pr(?:il)?|[Mm]ay|[Jj]une?|[Jj]uly?"
    "|[Aa]ug(?:ust)?|[Ss]ept?(?:ember)?|[Oo]ct(?:ober)?|(?:[Nn]ov|[Dd]ec)(?:ember)?)"
)
"""Months as spreadsheets write them; MAR-01 in capitals was typed."""
_SHORTENED: Final = re.compile(r"[+-]?\d+(?:[.,]\d+)?e\+\d+|[+-]?\d+[.,]\d+e-?\d+", re.I)
_ERROR: Final = re.compile(r"#(?:N/A|REF!|NAME\?|VALUE!|DIV/0!|NUM!|NULL!|SPILL!|CALC!|#+)", re.I)
_NOTHING: Final = re.compile(r"nan|nat|none|null|undefined|true|false|n/a", re.I)
_YEAR: Final = r"(?:\d{2}|(?:19|20)\d{2})"
_TIME: Final = r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?[AaPp][Mm])?"
_DATE: Final = re.compile(
    rf"\d{{1,2}}[-/. ]\s?{_MONTH}(?:[-/. ,]\s?{_YEAR})?|{_MONTH}[-/. ]\s?{_YEAR}"
    rf"|{_MONTH} \d{{1,2}},? {_YEAR}|\d{{1,2}}[/.]\d{{1,2}}[/.]{_YEAR}(?: {_TIME})?"
    rf"|\d{{1,2}}/\d{{1,2}}|\d{{1,2}}-\d{{1,2}}-(?:19|20)\d{{2}}"
    rf"|(?:19|20)\d{{2}}[-/]\d{{1,2}}[-/]\d{{1,2}}(?:[T ]{_TIME})?|{_TIME}"
)
_DECIMALS: Final = re.compile(r"([+-]?\d+)[.,]0+")
_THOUSANDS: Final = re.compile(r"\d{1,3}(?:[,. ]\d{3}){2,}|\d{1,3},\d{3}")
_FORMULA: Final = re.compile(r'=\s*"([^"]*)"')
_EXACT_DIGITS: Final = 15
"""Significant digits that spreadsheets keep; they replace the rest by zeros."""
_ENOUGH: Final = 3
"""Numbers of a column that are enough to know their usual length."""
_DAMAGE: Final = {
    "shortened": gettext_noop(
        "“%(text)s” is a number that a spreadsheet shortened: its digits are lost. "
        "Format the column as text in the spreadsheet and type the value again."
    ),
    "formula with value": gettext_noop(
        "“%(text)s” is a spreadsheet formula. Enter only %(value)s."
    ),
    "formula": gettext_noop("“%(text)s” is a spreadsheet formula. Enter only the value."),
    "text mark": gettext_noop(
        "“%(text)s” starts with the text mark of a spreadsheet. Enter %(value)s."
    ),
    "error": gettext_noop("“%(text)s” is a spreadsheet error. Enter the value."),
    "nothing": gettext_noop(
        "“%(text)s” is what programs write for an empty or yes/no cell. Enter the value."
    ),
    "signs": gettext_noop("“%(text)s” has no letter and no digit. Enter the value."),
    "date": gettext_noop(
        "“%(text)s” is a date or time, possibly made by a spreadsheet. "
        "Format the column as text in the spreadsheet and type the value again."
    ),
    "decimals": gettext_noop(
        "“%(text)s” was turned into a number by a spreadsheet. Enter %(value)s."
    ),
    "thousands": gettext_noop(
        "“%(text)s” was turned into a number by a spreadsheet. "
        "Format the column as text in the spreadsheet and type the value again."
    ),
}


def damage_message(text: str) -> str:
    """Return why a cell cannot be the typed identifier, for staff; empty when it can."""
    text = text.strip()
    damage, value = _damage(text)
    return gettext(_DAMAGE[damage]) % {"text": text, "value": value} if damage else ""


def _damage(text: str) -> tuple[str, str]:
    """Return the key of the message about a cell, empty for none, and what to enter instead."""
    damage, value = "", ""
    if _SHORTENED.fullmatch(text):
        damage = "shortened"
    elif match := _FORMULA.fullmatch(text):
        damage, value = ("formula with value" if match[1] else "formula"), match[1]
    elif text.startswith("="):
        damage = "formula"
    elif text.startswith("'") and len(text) > 1:
        damage, value = "text mark", text[1:]
    elif _ERROR.fullmatch(text):
        damage = "error"
    elif _NOTHING.fullmatch(text):
        damage = "nothing"
    elif text and not any(mark.isalnum() for mark in text):
        damage = "signs"
    elif _DATE.fullmatch(text):
        damage = "date"
    elif match := _DECIMALS.fullmatch(text):
        damage, value = "decimals", match[1]
    elif _THOUSANDS.fullmatch(text):
        damage = "thousands"
    return damage, value


def warning_message(text: str) -> str:
    """Return why a cell should be compared with the paper, for staff; empty when nothing is odd."""
    rest = text[_EXACT_DIGITS:]
    if text.isascii() and text.isdigit() and rest and not rest.strip("0"):
        return gettext(
            "“%(text)s” has zeros after its 15th digit, as spreadsheets write long numbers. "
            "Compare it with the paper."
        ) % {"text": text}
    if looks_latin(text):
        return gettext(
            "“%(text)s” is written in Cyrillic or Greek letters that look like Latin ones. "
            "Compare it with the paper."
        ) % {"text": text}
    return ""


def lost_zero_warnings(texts: Iterable[str]) -> dict[str, str]:
    """Return warnings for numbers of one column that may have lost leading zeros.

    Such a number is shorter than others of the column that begin with a zero, or than most of at
    least three.
    """
    numbers = [text for text in texts if text.isascii() and text.isdigit()]
    widths = Counter(len(text) for text in numbers if text.startswith("0"))
    if not widths and len(numbers) >= _ENOUGH:
        width, count = Counter(map(len, numbers)).most_common(1)[0]
        widths = Counter({width: count} if 2 * count > len(numbers) else {})
    width = max(widths, default=0)
    return {
        text: gettext(
            "“%(text)s” has %(count)d digits where others have %(usual)d: a spreadsheet may have "
            "removed its first zeros. Compare it with the paper."
        )
        % {"text": text, "count": len(text), "usual": width}
        for text in numbers
        if len(text) < width
    }
