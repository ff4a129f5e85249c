"""Results in words as laboratories print them: what says nothing, and what is not as expected."""

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
"""What a laboratory prints where it has no value; folded."""
_NEGATIVE = (
    "negative neg notdetected nondetected nonedetected undetected nonreactive notreactive absent"
    " nonedetectable notpresent noneseen notseen nogrowth"
)
_POSITIVE = (
    "positive pos detected reactive present weaklypositive weaklyreactive abnormal positivehigh"
    " presumptivepositive repeatedlyreactive seen growth"
)
NO_VALUE, NEGATIVE, POSITIVE = (
    frozenset(folded.split()) for folded in (_NO_VALUE, _NEGATIVE, _POSITIVE)
)
_ASIDE: Final = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")


def _fold(text: str) -> str:
    plain = unicodedata.normalize("NFKC", _ASIDE.sub(" ", text)).casefold()
    return "".join(mark for mark in plain if mark.isalnum())


def is_a_value(text: str) -> bool:
    """Whether a text says anything of what was measured: `QNS`, `---` and `see note` do not."""
    folded = _fold(text) or _fold(text.translate(_BRACKETS))
    return bool(folded) and folded not in NO_VALUE


_BRACKETS: Final = str.maketrans("()[]", "    ")


def contradicts(text: str | None, expected: str | None) -> bool:
    """Whether a result in words is the opposite of the one its reference range names: `Reactive`
    where `Non-Reactive` is expected. Words that nobody knows contradict nothing."""
    found, wanted = _fold(text or ""), _fold(expected or "")
    return (found in POSITIVE and wanted in NEGATIVE) or (found in NEGATIVE and wanted in POSITIVE)
