"""Numbers, reference ranges, and units as laboratories print them (orders.md 8.3)."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_NUMBER: Final = r"[-+]?(?:[0-9]+(?:,[0-9]{3})+|[0-9]+)?(?:[.,][0-9]+)?(?:[eE][-+]?[0-9]{1,3})?"
_DIGIT: Final = re.compile(r"[0-9]")
_NUMBER_CONTINUES: Final = re.compile(r"[0-9.,:/–—-]|[eE][-+]?[0-9]")
"""Text after a number that makes it something other than a number.

Examples: `1:40`, `7-3`, `1.2.3`, `1.8 E+3`.
"""
_COMPARED: Final = re.compile(
    rf"(?P<sign><=|>=|<|>|≤|≥)?(?:\s*or\s*=)?\s*(?P<number>{_NUMBER})(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_SPAN: Final = re.compile(
    rf"(?P<low>{_NUMBER})\s*(?:-|–|—|−|~|\bto\b|\bthru\b|\bthrough\b|\.\.\.?)\s*(?P<high>{_NUMBER})(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_LABEL: Final = re.compile(
    r"(?:normal|reference|ref\.?|expected|adults?|fasting|males?|females?|negative)"
    r"(?:\s+(?:range|interval|value))?\s*[:=]\s*",
    re.IGNORECASE,
)
"""Labels that may precede the only range of a line.

Other labels, such as `Positive:`, are not removed: the range after them may be that of an abnormal
result.
"""
_SPELLED_COMPARISONS: Final = tuple(
    (re.compile(words, re.IGNORECASE), sign)
    for words, sign in (
        (
            r"^(?:less|lower|fewer) than or equal(?: to)?\b|^(?:up to|at most|max(?:imum|\.)?)\b",
            "<=",
        ),
        (r"^(?:greater|more|higher) than or equal(?: to)?\b|^(?:at least|min(?:imum|\.)?)\b", ">="),
        (r"^(?:(?:less|lower|fewer) than|under|below)\b", "<"),
        (r"^(?:(?:greater|more|higher) than|over|above)\b", ">"),
        (r"^([0-9][0-9.,]*) or (?:less|lower|fewer|below|under)\b", r"<=\1"),
        (r"^([0-9][0-9.,]*) or (?:more|greater|higher|above|over)\b", r">=\1"),
    )
)
_ONE_UNIT: Final = re.compile(r"[%A-Za-zµμ][\w%/^*.µμ²³]*")
_TITER: Final = re.compile(
    r"(?P<sign><=|>=|<|>|≤|≥)?(?:\s*or\s*=)?\s*1\s*:\s*(?P<number>[0-9]{1,9})"
)


@dataclass(frozen=True, slots=True)
class Interval:
    """A value, which may be known only as a range, or a reference range; None is an open end."""

    low: float | None = None
    high: float | None = None
    includes_low: bool = True
    includes_high: bool = True

    def is_exceeded_by(self, value: Interval) -> bool:
        """Return whether the value is certainly above this range."""
        if self.high is None or value.low is None:
            return False
        touches = self.includes_high and value.includes_low
        return value.low > self.high or (value.low == self.high and not touches)

    def is_undercut_by(self, value: Interval) -> bool:
        """Return whether the value is certainly below this range."""
        if self.low is None or value.high is None:
            return False
        touches = self.includes_low and value.includes_high
        return value.high < self.low or (value.high == self.low and not touches)


def number_of(text: str | None) -> float | None:
    """Return the number in a text; None when it is not one exact number.

    Examples: `410`, `1,234.5`, `7,9`, also before a unit or a flag.
    """
    interval, _ = interval_of(text or "")
    return interval.low if interval is not None and interval.low == interval.high else None


def line_number(type: str, text: str, value: float | None) -> float | None:
    """Return the number of a line, or None when it is not a number.

    The text takes precedence. `value` is deprecated, and is -1 when there is no number.
    """
    if type.strip().casefold() not in ("numeric", ""):
        return None
    number = number_of(text)
    return number if number is not None or value == -1 else value


def interval_of(text: str) -> tuple[Interval | None, str]:
    """Return a value as printed (`410`, `<1.2`, `3-7`), and the text after it."""
    text = _plain(text)
    span = _SPAN.fullmatch(text)
    if span:
        low, high = _float(span["low"]), _float(span["high"])
        if low is not None and high is not None and low <= high:
            return Interval(low, high), span["rest"].strip()
    match = _COMPARED.fullmatch(text)
    number = _float(match["number"]) if match else None
    if match is None or number is None or _NUMBER_CONTINUES.match(match["rest"].strip()):
        return None, ""
    return _interval(_sign(match, text), number), match["rest"].strip()


def range_of(text: str, unit: str = "") -> Interval:
    """Return a reference range as printed; open at both ends when it cannot be read.

    Ranges in words are read too: `up to 40`, `40 or less`, `Adult: 70-99 mg/dL (fasting)`.
    """
    plain = _LABEL.sub("", _without_remark(_plain(text)))
    for pattern, sign in _SPELLED_COMPARISONS:
        plain = pattern.sub(sign, plain)
    interval, rest = interval_of(plain)
    if interval is None or interval.low == interval.high or not _is_unit(rest, unit):
        return Interval()
    return interval


def _is_unit(rest: str, unit: str) -> bool:
    """Return whether the text after a range is the unit of the line, or the only unit.

    Words without digits may follow the unit.
    """
    if not rest or same_unit(rest, unit):
        return True
    first, _, more = rest.partition(" ")
    if not unit.strip():
        return not more and _ONE_UNIT.fullmatch(first) is not None
    return same_unit(first, unit) and not _DIGIT.search(more)


def titer_of(text: str | None) -> Interval | None:
    """Return the dilution of a titer (`1:640`, `<1:40`); None when it is not a titer."""
    plain = _plain(text or "")
    match = _TITER.fullmatch(plain)
    return _interval(_sign(match, plain), float(match["number"])) if match else None


def _without_remark(text: str) -> str:
    """Return the text without a remark in parentheses at its end: `70-99 (fasting)` is `70-99`."""
    before, opened, remark = text.rstrip().rpartition("(")
    words = remark.removesuffix(")")
    if opened and words != remark and not _DIGIT.search(words) and ")" not in words:
        return before.strip()
    return text.strip()


def _plain(text: str) -> str:
    text = unicodedata.normalize("NFKC", text).replace("−", "-").strip()
    return text[1:-1].strip() if text[:1] + text[-1:] in ("()", "[]") else text


def _sign(match: re.Match[str], text: str) -> str:
    sign = {"≤": "<=", "≥": ">="}.get(match["sign"] or "", match["sign"] or "")
    has_or = re.match(r"[<>]\s*or\s*=", text, re.IGNORECASE)
    return sign + "=" if has_or and sign in ("<", ">") else sign


def _interval(sign: str, number: float) -> Interval:
    if sign in ("<", "<="):
        return Interval(high=number, includes_high=sign == "<=")
    if sign in (">", ">="):
        return Interval(low=number, includes_low=sign == ">=")
    return Interval(number, number)


def _float(text: str) -> float | None:
    """Return the number of a text, or None.

    A comma before three digits separates thousands. Any other comma is a decimal point.
    """
    if not _DIGIT.search(text):
        return None
    if re.fullmatch(r"[-+]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?([eE].*)?", text):
        text = text.replace(",", "")
    elif text.count(",") == 1 and "." not in text:
        text = text.replace(",", ".")
    try:
        return float(text)
    except ValueError:
        return None


# Units

_SAME: Final = {
    "mcg": "ug",
    "mcl": "ul",
    "mcmol": "umol",
    "mciu": "uiu",
    "mcu": "uu",
    "litre": "l",
    "liter": "l",
    "cumm": "ul",
    "mm3": "ul",
    "hours": "h",
    "hour": "h",
    "hr": "h",
    "hrs": "h",
    "sec": "s",
    "secs": "s",
    "seconds": "s",
    "minutes": "min",
    "minute": "min",
    "units": "u",
    "unit": "u",
    "percent": "%",
    "pct": "%",
}
"""Other spellings of one part of a unit; parts of different size are never merged."""
_POWERS: Final = {
    "k": "10^3", "thou": "10^3", "thousand": "10^3", "thous": "10^3", "x1000": "10^3",
    "m": "10^6", "mil": "10^6", "mill": "10^6", "million": "10^6",
}  # fmt: skip
"""Counts per volume: `K/uL`, `M/uL`. Elsewhere the same letters are prefixes or meters."""
_POWER: Final = re.compile(r"(?:x|×|\*|·)?10(?:e|\^|\*\*|\*|(?=[⁰¹²³⁴⁵⁶⁷⁸⁹]))\+?([0-9]{1,2})")
_SUPERSCRIPTS: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")


@lru_cache(maxsize=2048)
def fold_unit(unit: str) -> str:
    """Return a key that is equal for spellings of one unit.

    `mg/dL` and `MG/DL`; `µg` and `ug`; `10^3/uL`, `x10E3/uL` and `K/uL`. Different units never have
    the same key.
    """
    text = re.sub(r"10([⁰¹²³⁴⁵⁶⁷⁸⁹]+)", lambda m: "10^" + m[1].translate(_SUPERSCRIPTS), unit)
    text = unicodedata.normalize("NFKC", text).casefold()
    text = text.replace("μ", "u").replace("µ", "u")
    text = re.sub(r"\bper\b", "/", text)
    text = "".join(mark for mark in text if not mark.isspace() and mark.isprintable())
    text = _POWER.sub(lambda m: f"10^{int(m[1])}", text).strip("()[]")
    parts = [_SAME.get(part, part) for part in text.replace("÷", "/").split("/")]
    if len(parts) > 1 and parts[0] in _POWERS and parts[-1] in ("ul", "mm^3"):
        parts[0] = _POWERS[parts[0]]
    return "/".join(_SAME.get(part, part) for part in parts).replace("mm^3", "ul")


def same_unit(first: str | None, second: str | None) -> bool:
    return fold_unit(first or "") == fold_unit(second or "")
