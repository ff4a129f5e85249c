"""Interpretations of results, in one place for the whole product (orders.md 8.2, 8.3).

A reading is `critical`, `abnormal`, `unknown` (not interpreted), `normal`, or empty when there is
nothing to interpret. All enumerations of the service are open, and laboratories use their own
spellings. A word is folded (case, spaces, dashes, punctuation) and looked up. A word that is still
unknown is never read as normal. An administrator may rank such a word (System > Unknown values).

Whether a whole result is critical follows from its lines: `orders/sync/result_versions.py`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from backoffice.core.vocabulary import decisions
from backoffice.core.vocabulary.measures import Interval, interval_of, range_of, same_unit, titer_of
from backoffice.core.vocabulary.qualitative import contradicts, is_a_value

CRITICAL: Final = "critical"
ABNORMAL: Final = "abnormal"
UNKNOWN: Final = "unknown"
NORMAL: Final = "normal"
NOTHING: Final = ""
HIGH: Final = "high"
LOW: Final = "low"

RANK: Final = {CRITICAL: 0, ABNORMAL: 1, UNKNOWN: 1, NOTHING: 2, NORMAL: 3}
"""The sort order of lines: lines that are not interpreted come with the abnormal ones."""
VOCABULARY: Final = "result.interpretation"
"""The vocabulary under which unknown words are counted, whatever their origin."""
VOCABULARIES: Final = frozenset({VOCABULARY, "order.interpretation"})
RANKS_TO_GIVE: Final = {NORMAL: "Normal", ABNORMAL: "Abnormal", CRITICAL: "Critical"}
"""The ranks that an administrator may give to a word."""

_WORST: Final = (CRITICAL, ABNORMAL, UNKNOWN, NORMAL)


@dataclass(frozen=True, slots=True)
class Reading:
    """The meaning of a word or a line; `side` is high, low, or empty when it is not stated."""

    interpretation: str
    side: str = ""


# HL7 table 0078 with its version 3 codes, and the words that laboratories print.
_KNOWN: Final[dict[str, Reading]] = {
    folded: Reading(interpretation, side)
    for interpretation, side, words in (
        (NORMAL, "", "n normal wnl nl withinnormallimits withinnormalrange withinrange inrange"
                     " withinreferencerange withinlimits withinreferenceinterval"
                     " withinreferencelimits normalrange normalresult innormalrange"),
        (ABNORMAL, "", "a abn abnl abnormal outofrange outsiderange outofnormalrange"
                       " outsidenormalrange outofreferencerange outsidereferencerange"
                       " outofreference outsidereferenceinterval outsidenormallimits"
                       " outofnormallimits outoflimits outsidelimits oor notnormal nonnormal"
                       " abnormalresult abnormalvalue abnormalflag * ! flagged"),
        (ABNORMAL, HIGH, "h hi high abovenormal aboverange abovehighnormal above abnormalhigh"
                         " highabnormal elevated increased raised toohigh hu h> hx >"
                         " abovereferencerange abovemax abovemaximum abovelimit abovelimits"
                         " abovehighthreshold abovenormalrange aboveupperlimit ah ↑"),
        (ABNORMAL, LOW, "l lo low belownormal belowrange belowlownormal below abnormallow"
                        " lowabnormal decreased reduced toolow lu l< lx <"
                        " belowreferencerange belowmin belowminimum belowlimit belowlimits"
                        " belowlowthreshold belownormalrange belowlowerlimit al ↓"),
        (CRITICAL, "", "aa c cr crit critical criticalvalue criticalresult criticalabnormal panic"
                       " panicvalue alert alertvalue lifethreatening veryabnormal"
                       " criticallyabnormal abnormalcritical abnormalalert stat !!"),
        (CRITICAL, HIGH, "hh hhh criticalhigh highcritical criticallyhigh panichigh highpanic"
                         " alerthigh highalert veryhigh extremelyhigh dangerouslyhigh ch hc h!"
                         " crithigh critcalhigh aboveupperpaniclimits abovepanic abovecritical ↑↑"),
        (CRITICAL, LOW, "ll lll criticallow lowcritical criticallylow paniclow lowpanic alertlow"
                        " lowalert verylow extremelylow dangerouslylow cl lc l! critlow"
                        " belowlowerpaniclimits belowpanic belowcritical ↓↓"),
        (UNKNOWN, "", "unknown unk notinterpreted inconclusive indeterminate"),
    )
    for folded in words.split()
}  # fmt: skip


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NEGATIONS: Final = _words(
    "no not non none never without neither nor un sub near noncritical nonpanic uncritical"
    " subcritical cannot isnt free ruled rule excluded"
)
_CRITICAL_WORDS: Final = _words("critical critically crit panic alert")
_ABNORMAL_WORDS: Final = _words(
    "abnormal abnormally high low elevated decreased increased reduced raised above below"
)
_FILLERS: Final = _words(
    "slightly mildly moderately markedly significantly borderline value result flag range limit"
    " limits reference the is very upper lower a of"
)
_HIGH_WORDS: Final = _words("high elevated increased raised above hh")
_LOW_WORDS: Final = _words("low decreased reduced below ll")
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_SEPARATORS: Final = re.compile(r"[,;|/&+]")
_SIGNS: Final = frozenset("<>*!?↑↓\N{REPLACEMENT CHARACTER}")
"""Signs that are part of a folded word.

The original of a replacement character is unknown, so a word that contains one is never read as
normal. The same is true of a question mark.
"""


@lru_cache(maxsize=4096)
def fold(word: str) -> str:
    """Return the letters, digits, and `_SIGNS` of a word in lower case.

    Spellings of one word have the same result.
    """
    plain = unicodedata.normalize("NFKC", word).casefold()
    return "".join(mark for mark in plain if mark.isalnum() or mark in _SIGNS)


def is_same(first: str, second: str) -> bool:
    """Return whether two words are spellings of the same word."""
    return _key(first) == _key(second)


@lru_cache(maxsize=4096)
def _known_reading(word: str) -> Reading | None:
    """Return the reading that this release has for a word, or None."""
    folded = fold(word)
    if not folded:
        return None
    reading = _KNOWN.get(folded) or _KNOWN.get(folded.strip("*!?"))
    if reading is not None and (folded in _KNOWN or reading.interpretation != NORMAL):
        return reading
    parts = [] if folded == "na" else [_KNOWN.get(fold(p)) for p in _SEPARATORS.split(word)]
    reading = worst([part for part in parts if part is not None])
    if reading.interpretation in (CRITICAL, ABNORMAL):
        return reading
    return _phrase(word)


def _phrase(word: str) -> Reading | None:
    """Return the reading of a phrase such as `Critical value, please call`, or None."""
    spaced = _CAMEL.sub(" ", unicodedata.normalize("NFKC", word)).casefold()
    words = re.findall(r"[^\W\d_]+", spaced)
    present = set(words)
    if present & _NEGATIONS:
        return None
    side = HIGH if present & _HIGH_WORDS else LOW if present & _LOW_WORDS else ""
    if present & _CRITICAL_WORDS:
        return Reading(CRITICAL, side)
    if present & _ABNORMAL_WORDS and present <= _ABNORMAL_WORDS | _FILLERS:
        return Reading(ABNORMAL, side)
    return None


def is_blank(word: str | None) -> bool:
    """Return whether a word is empty or only spaces."""
    return not word or not word.strip()


def is_known(word: str) -> bool:
    """Return whether this release knows the word; it does not know punctuation alone."""
    return _known_reading(word) is not None


def read_word(word: str | None) -> Reading | None:
    """Return the reading of an interpretation or a flag; None for a blank word."""
    if word is None or is_blank(word):
        return None
    return _known_reading(word) or _ranked(word) or Reading(UNKNOWN)


_ranks: tuple[object, dict[str, str]] = (None, {})


def _ranked(word: str) -> Reading | None:
    """Return the rank that an administrator gave to a word, in any of its spellings."""
    global _ranks
    decided = decisions.decided_terms()
    if _ranks[0] is not decided:
        ranks = {
            _key(value): term.family
            for (name, value), term in decided.items()
            if name in VOCABULARIES and term.family in RANKS_TO_GIVE
        }
        _ranks = (decided, ranks)
    rank = _ranks[1].get(_key(word))
    return Reading(rank) if rank else None


def _key(word: str) -> str:
    return fold(word) or word.strip()


def canonical(word: str) -> str:
    """Return the reading of a word, such as `critical` for `Critical_High`, or the unknown word."""
    reading = _known_reading(word) or _ranked(word)
    return reading.interpretation if reading else word


def worst(readings: Iterable[Reading]) -> Reading:
    """Return the most severe reading; empty when there is none."""
    interpreted = [reading for reading in readings if reading.interpretation]
    if not interpreted:
        return Reading(NOTHING)
    return min(interpreted, key=lambda r: (_WORST.index(r.interpretation), not r.side))


# Lines


def read_line(
    word: str | None,
    flag: str | None = None,
    *,
    type: str | None = "",
    text: str | None = "",
    value: float | None = None,
    unit: str | None = "",
    low: float | None = None,
    high: float | None = None,
    above: bool | None = None,
    below: bool | None = None,
    reference_range: str | None = "",
) -> Reading:
    """Return the reading of a result line: `word` is its interpretation, `flag` the lab's own.

    The most severe of both is used. A value outside its range is abnormal, whatever they are. A
    line is not interpreted when it must be a number and has none, or when it has neither word nor
    flag. A comment with neither word nor flag has nothing to interpret.
    """
    kind = fold(type or "")
    text = (text or "").strip()
    readings = [reading for reading in (read_word(word), read_word(flag)) if reading is not None]
    values, suffix = _values(kind, text, value, unit or "")
    if suffix and (printed := read_word(suffix)) is not None:
        readings.append(printed)
    if kind != "comment" and (named := _reading_in_text(text)) is not None:
        readings.append(named)
    ranges = [Interval(low, high), range_of(reference_range or "", unit or "")]
    pairs = [(r, v) for r in ranges for v in values]
    titers = titer_of(reference_range), titer_of(text)
    if titers[0] and titers[1]:
        pairs.append((titers[0], titers[1]))
    is_above = above is True or any(r.is_exceeded_by(v) for r, v in pairs)
    is_below = below is True or any(r.is_undercut_by(v) for r, v in pairs)
    if not (is_above or is_below) and kind != "comment" and contradicts(text, reference_range):
        readings.append(Reading(ABNORMAL))
    if is_above or is_below:
        side = "" if is_above and is_below else HIGH if is_above else LOW
        reading = worst([*readings, Reading(ABNORMAL, side)])
        return Reading(reading.interpretation, side or reading.side)
    if not readings:
        return Reading(NOTHING if kind == "comment" else UNKNOWN)
    reading = worst(readings)
    if (
        reading.interpretation == NORMAL
        and kind != "comment"
        and not _has_value(kind, text, values)
    ):
        return Reading(UNKNOWN)
    return reading


_NAMING: Final = ("abnormal", "critical", "panic", "outofrange", "outsiderange")
_LONGEST_NAMED: Final = 40


def _reading_in_text(text: str) -> Reading | None:
    """Return the reading that a textual result names, or None.

    `Abnormal` is the whole result of some lines.
    """
    if len(text) > _LONGEST_NAMED or not any(name in fold(text) for name in _NAMING):
        return None
    return _known_reading(text)


def _has_value(kind: str, text: str, values: list[Interval]) -> bool:
    """Return whether the line has a value that can be normal.

    The text decides; `value` is used only when there is no text.
    """
    if kind == "numeric":
        return bool(values) and (not text or interval_of(text)[0] is not None)
    return bool(values) if not text else is_a_value(text)


def _values(kind: str, text: str, value: float | None, unit: str) -> tuple[list[Interval], str]:
    """Return the measured values, printed and sent, and a flag printed after the number.

    The field `value` is deprecated, and is -1 for a line that is not a number.
    """
    printed, rest = interval_of(text)
    suffix = ""
    if printed is not None and rest and not same_unit(rest, unit):
        suffix = _flag_behind(rest, unit)
        printed = printed if suffix or kind == "numeric" else None
    intervals = [] if printed is None else [printed]
    if value is not None and kind in ("numeric", "") and value != -1:
        intervals.append(Interval(value, value))
    return intervals, suffix


def _flag_behind(rest: str, unit: str) -> str:
    """Return the flag printed after a number or after its unit: `410 mg/dL H`."""
    if is_known(rest):
        return rest
    before, _, last = rest.rpartition(" ")
    is_flag = last == last.upper() and is_known(last)
    return last if before and is_flag and same_unit(before, unit) else ""


def read_head(
    word: str | None,
    lines: Iterable[Reading],
    *,
    all_read: bool = True,
    is_partial: bool = False,
) -> Reading:
    """Return the reading of a result: its own word, which its lines can only make more severe.

    `all_read` means that every line could be read. `is_partial` means that more lines are expected.
    Any other result without lines has nothing that could be normal. The reading is empty when there
    is neither a word nor a line.
    """
    read = list(lines)
    own = read_word(word)
    reading = worst([*read, *([own] if own else []), *([] if all_read else [Reading(UNKNOWN)])])
    if not reading.interpretation and read:
        return Reading(UNKNOWN)
    if reading.interpretation == NORMAL and not read and not is_partial:
        return Reading(UNKNOWN)
    return reading


def as_received(word: str | None, reading: str) -> str | None:
    """Return the word to store next to the reading; None when both are equal or it is blank."""
    return None if word is None or is_blank(word) or word == reading else word


# Statuses of a result (HL7 table 0123, and the words of the interface)

PARTIAL: Final = "partial"
FINAL: Final = "final"
CORRECTED: Final = "corrected"
_STATUSES: Final[dict[str, str]] = {
    folded: status
    for status, words in (
        (PARTIAL, "partial p preliminary prelim interim incomplete partialresult partialresults"
                  " preliminaryresult preliminaryresults pending a inprogress"),
        (FINAL, "final f complete completed finalresult finalresults finalized finalised"),
        (CORRECTED, "corrected c amended revised correction correctedfinal finalcorrected"),
    )
    for folded in words.split()
}  # fmt: skip


def read_status(word: str) -> str:
    """Return `partial`, `final`, or `corrected`, or an unknown word unchanged."""
    return _STATUSES.get(fold(word), word)
