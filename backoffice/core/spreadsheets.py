"""Detect identifiers that a spreadsheet changed before somebody exported the table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

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
_AS_TEXT: Final = "Format the column as text in the spreadsheet and type the value again."


def damage_message(text: str) -> str:
    """Return why a cell cannot be the typed identifier, for staff; empty when it can."""
    text = text.strip()
    if _SHORTENED.fullmatch(text):
        return f"“{text}” is a number that a spreadsheet shortened: its digits are lost. {_AS_TEXT}"
    if match := _FORMULA.fullmatch(text):
        return f"“{text}” is a spreadsheet formula. Write only {match[1] or 'the value'}."
    if text.startswith("="):
        return f"“{text}” is a spreadsheet formula. Write its value."
    if text.startswith("'") and len(text) > 1:
        return f"“{text}” begins with the text mark of a spreadsheet. Write {text[1:]}."
    if _ERROR.fullmatch(text):
        return f"“{text}” is a spreadsheet error. Write the value."
    if _NOTHING.fullmatch(text):
        return f"“{text}” is what programs write for an empty or yes/no cell. Write the value."
    if text and not any(mark.isalnum() for mark in text):
        return f"“{text}” has neither a letter nor a digit. Write the value."
    if _DATE.fullmatch(text):
        return f"“{text}” is a date or time, perhaps made by a spreadsheet. {_AS_TEXT}"
    if match := _DECIMALS.fullmatch(text):
        return f"“{text}” was turned into a number by a spreadsheet. Write {match[1]}."
    if _THOUSANDS.fullmatch(text):
        return f"“{text}” was turned into a number by a spreadsheet. {_AS_TEXT}"
    return ""


def warning_message(text: str) -> str:
    """Return why a cell should be compared with the paper, for staff; empty when nothing is odd."""
    rest = text[_EXACT_DIGITS:]
    if text.isascii() and text.isdigit() and rest and not rest.strip("0"):
        return (
            f"“{text}” has zeros after its 15th digit, as spreadsheets write long numbers. "
            "Compare it with the paper."
        )
    if looks_latin(text):
        return (
            f"“{text}” is written in Cyrillic or Greek letters that look like Latin ones. "
            "Compare it with the paper."
        )
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
        text: (
            f"“{text}” has {len(text)} digits where others have {width}: a spreadsheet may have "
            "removed its first zeros. Compare it with the paper."
        )
        for text in numbers
        if len(text) < width
    }
