"""Results in words as laboratories print them: without a value, or not as expected."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_NO_VALUE = (
    "qns tnp dnr na null nil nan notperformed testnotperformed nottested notdone"
    " notreported notreportable unabletoreport unabletoperform pending inprogress tofollow"
    " canceled cancelled testcanceled testcancelled rejected specimenrejected insufficient"
    " quantitynotsufficient insufficientquantity hemolyzed haemolyzed clotted invalid error"
    " seenote seecomment seebelow seereport notavailable unavailable noresult"
)
"""Words that a laboratory prints in place of a value; folded."""
_NEGATIVE = (
    "negative neg notdetected nondetected nonedetected undetected nonreactive notreactive absent"
    " nonedetectable notpresent noneseen notseen nogrowth"
)
_POSITIVE = (
    "positive pos detected reactive present weaklypositive weaklyreactive abnormal positivehigh"
    " presumptivepositive repeatedlyreactive seen growth"
)
_GRADES = (
    "trace small moderate large few occasional many numerous equivocal borderline indeterminate"
    " inconclusive weak"
)
NO_VALUE, NEGATIVE, POSITIVE, GRADES = (
    frozenset(folded.split()) for folded in (_NO_VALUE, _NEGATIVE, _POSITIVE, _GRADES)
)
_NO_VALUE_BEGINS: Final = re.compile(
    r"(?:qns|tnp|dnr|unable to|not (?:calculated|performed|tested|done|reported|reportable"
    r"|available)|test (?:not|canceled|cancelled)|no (?:specimen|sample|result)|cannot|could not"
    r"|duplicate|quantity not|insufficient|see (?:note|comment|below|report)|pending"
    r"|(?:specimen|sample) (?:\w+ )?(?:ha?emolyzed|clotted|rejected|lost|insufficient|leaked"
    r"|not received))\b"
)
"""Beginnings of the sentences that a laboratory prints in place of a value."""
_GRADE: Final = re.compile(r"[1-4]\s*\+|\++")
_ASIDE: Final = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")


def _fold(text: str) -> str:
    plain = unicodedata.normalize("NFKC", _ASIDE.sub(" ", text)).casefold()
    return "".join(mark for mark in plain if mark.isalnum())


def is_a_value(text: str) -> bool:
    """Return whether a text contains a value: `QNS`, `---`, and `see note` do not."""
    folded = _fold(text) or _fold(text.translate(_BRACKETS))
    if not folded or folded in NO_VALUE:
        return False
    return _NO_VALUE_BEGINS.match(" ".join(_words(text))) is None


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", text).casefold())


_BRACKETS: Final = str.maketrans("()[]", "    ")


def contradicts(text: str | None, expected: str | None) -> bool:
    """Return whether a textual result is the opposite of its reference range.

    Examples: `Reactive` when `Non-Reactive` is expected, or `2+` when `Negative` is. Unknown words
    never contradict.
    """
    expected_text = _fold(expected or "")
    if expected_text in NEGATIVE:
        return _begins_with(text or "", POSITIVE | GRADES) or bool(
            _GRADE.match((text or "").strip())
        )
    return expected_text in POSITIVE and _begins_with(text or "", NEGATIVE)


def _begins_with(text: str, known: frozenset[str]) -> bool:
    """Return whether the text is one of these words, or begins with one.

    Example: `Positive for ...`.
    """
    begins = "".join(_words(text)[:1])
    return _fold(text) in known or begins in known
