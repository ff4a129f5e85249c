"""Interpretation words, flags, ranges and values: never a false normal, never an exception."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backoffice.core import vocabulary
from backoffice.core.vocabulary.interpretations import (
    Reading,
    canonical,
    read_head,
    read_line,
    read_status,
    read_word,
)
from backoffice.core.vocabulary.measures import (
    fold_unit,
    interval_of,
    line_number,
    number_of,
    same_unit,
)

NORMAL_WORDS = ("normal", "N", "NORMAL", "Normal ", "within normal limits", "WNL", "w.n.l.", "NL")


@pytest.mark.parametrize(
    ("word", "reading"),
    [
        *((word, "normal") for word in NORMAL_WORDS),
        *((word, "abnormal") for word in ("A", "h", "L", "high", "Low", "abnormal_high", "(H)",
          "above", "Below", "*H*",
          "abn", "Abn.", "ABNORMAL_LOW", '["H", "A"]',
           "out of range", "OUT-OF-RANGE", "not normal", "H*", "Above range",
          "slightly elevated", "<", ">", "A,H")),
        *((word, "critical") for word in ("Critical", "critical_high", "critical low", "CRITICAL",
          "critical-low", "criticalHigh", "HH", "ll", "AA", "panic", "Panic High", "alert",
          "Critical value - please call",
          "*HH", "(LL)", "!!HH!!", "critical_h", '["HH"]',
           "ＨＨ", "H;HH", "HH, odd", "cri\u200btical")),
        *((word, "unknown") for word in ("unknown", "positive", "negative", "detected", "POS",
          "NEG", "reactive", "N/A", "see note", "-", "?", "non-critical", "not critical", "S", "I",
          "ominous", "kritisch", "crítico", "正常", "normaal", "null", "[]", "{}", "true", "1",
          "high-normal", "normal?!x", "Н", "no abnormality", "normalized", "0")),
    ],
)  # fmt: skip
def test_word_is_read_in_every_spelling(word: str, reading: str) -> None:
    found = read_word(word)
    assert found is not None and found.interpretation == reading


@pytest.mark.parametrize("word", ["normal*", "N*", "N!"])
def test_normal_with_a_mark_is_not_normal(word: str) -> None:
    found = read_word(word)
    assert found is not None and found.interpretation != "normal"


def test_every_unknown_word_renders_as_not_interpreted() -> None:
    term = vocabulary.term("result.interpretation", "ominous")
    assert (term.label, term.family) == ("Not interpreted: ominous", "unknown")
    assert vocabulary.term("order.interpretation", "Critical_High").label == "Critical"
    assert canonical("ominous") == "ominous"
    assert not vocabulary.is_known("order.interpretation", "ominous")
    assert vocabulary.is_known("order.interpretation", "HH")


def line(word: str | None = "normal", flag: str | None = "", **given: Any) -> Reading:
    return read_line(word, flag, **{"type": "numeric", "text": "80", "value": 80.0, **given})


@pytest.mark.parametrize(
    ("given", "reading"),
    [
        ({"above": True}, ("abnormal", "high")),
        ({"below": True}, ("abnormal", "low")),
        ({"high": 70}, ("abnormal", "high")),
        ({"low": 90}, ("abnormal", "low")),
        ({"high": 70, "above": False}, ("abnormal", "high")),
        ({"reference_range": "70-79"}, ("abnormal", "high")),
        ({"reference_range": "90 – 100"}, ("abnormal", "low")),
        ({"reference_range": "<80"}, ("abnormal", "high")),
        ({"reference_range": "< OR = 79 mg/dL", "unit": "mg/dl"}, ("abnormal", "high")),
        ({"reference_range": ">80"}, ("abnormal", "low")),
        ({"reference_range": "<=80"}, ("normal", "")),
        ({"reference_range": "70-80"}, ("normal", "")),
        ({"reference_range": "see note"}, ("normal", "")),
        ({"flag": "H"}, ("abnormal", "high")),
        ({"flag": "LL"}, ("critical", "low")),
        ({"flag": "odd"}, ("unknown", "")),
        ({"flag": "N"}, ("normal", "")),
        ({"word": None}, ("unknown", "")),
        ({"word": None, "flag": "N"}, ("normal", "")),
        ({"word": None, "type": "comment", "text": "Seen", "value": -1}, ("", "")),
        ({"word": "ominous"}, ("unknown", "")),
        ({"word": "ominous", "above": True}, ("abnormal", "high")),
        ({"word": "critical", "above": True}, ("critical", "high")),
        ({"text": "", "value": None}, ("unknown", "")),
        ({"text": "", "value": -1}, ("unknown", "")),
        ({"text": "QNS", "value": None}, ("unknown", "")),
        ({"text": "80 H"}, ("abnormal", "high")),
        ({"text": ">500", "type": "range", "value": -1, "high": 99}, ("abnormal", "high")),
        ({"text": "<5", "type": "range", "value": -1, "low": 70}, ("abnormal", "low")),
        ({"text": "<5", "type": "range", "value": -1, "high": 70}, ("normal", "")),
        ({"text": "410", "value": 80, "high": 99}, ("abnormal", "high")),
        ({"text": "1,410", "value": None, "high": 99}, ("abnormal", "high")),
        ({"text": "7,9", "value": None, "high": 5.3}, ("abnormal", "high")),
        ({"text": "QNS"}, ("unknown", "")),
        ({"text": "pending"}, ("unknown", "")),
        ({"text": "---", "type": "range", "value": None}, ("unknown", "")),
        ({"text": "QNS", "type": "coded_value", "value": -1}, ("unknown", "")),
        ({"text": "(see note)", "type": "", "value": None}, ("unknown", "")),
        ({"text": "NEGATIVE", "type": "coded_value", "value": -1}, ("normal", "")),
        (
            {"text": "Reactive", "type": "coded_value", "reference_range": "Non-Reactive"},
            ("abnormal", ""),
        ),
        (
            {"text": "NOT_DETECTED", "type": "coded_value", "reference_range": "Not Detected"},
            ("normal", ""),
        ),
        (
            {"text": "Positive (A)", "type": "range", "reference_range": "Negative"},
            ("abnormal", ""),
        ),
        ({"type": "NUMERIC", "text": "", "value": None}, ("unknown", "")),
        ({"type": "", "text": "", "value": None}, ("unknown", "")),
        ({"text": "80 mg/dL HH", "unit": "MG/DL"}, ("critical", "high")),
        ({"text": "80 mg/24 h", "unit": "mg/24 h"}, ("normal", "")),
        ({"text": "80 ↑"}, ("abnormal", "high")),
        ({"text": "1.8 E+3", "value": None, "high": 2}, ("unknown", "")),
        ({"flag": "↓↓"}, ("critical", "low")),
        ({"word": "normal?"}, ("unknown", "")),
        ({"text": "Abnormal", "type": "coded_value", "value": -1}, ("abnormal", "")),
        ({"text": "No abnormal cells", "type": "coded_value", "value": -1}, ("normal", "")),
        ({"text": "Critical", "type": "coded_value", "value": -1}, ("critical", "")),
        ({"text": "1:640", "type": "range", "reference_range": "<1:40"}, ("abnormal", "high")),
        ({"text": "1:20", "type": "range", "reference_range": "<1:40"}, ("normal", "")),
    ],
)
def test_line_reads_as_what_it_is(given: dict[str, Any], reading: tuple[str, str]) -> None:
    found = line(**given)
    assert (found.interpretation, found.side) == reading


@pytest.mark.parametrize(
    "printed",
    ["up to 40", "Up to 40 U/L", "Less than 40", "under 40", "40 or less", "<40 U/L (fasting)",
     "Adult: 10-40", "10 - 40 U/L (Fasting)", "10 thru 40", "10~40", "10…40", "maximum 40",
     "less than or equal to 40", "Normal range: 10-40", "10-40 u/l of serum", "at least 90",
     "Greater than 90", "90 or more", ">=90"],
)  # fmt: skip
def test_range_in_the_words_of_laboratories_is_read(printed: str) -> None:
    for unit in ("U/L", ""):
        text = printed.partition(" of ")[0] if not unit else printed
        found = line(text="80", unit=unit, reference_range=text)
        assert found == Reading("abnormal", "low" if "90" in printed else "high"), printed
        inside = "95" if "90" in printed else "20"
        assert line(text=inside, value=None, unit=unit, reference_range=text) == Reading("normal")


@pytest.mark.parametrize(
    "printed",
    ["Positive: >10", "Deficient: <20", "10-40 mmol/L", "10-40; 50-60", "M: 10-40 F: 20-50",
     "see note", "10/40"],
)  # fmt: skip
def test_range_that_may_mean_something_else_is_left(printed: str) -> None:
    assert line(text="80", unit="U/L", reference_range=printed) == Reading("normal")
    assert line(text="5", value=None, unit="U/L", reference_range=printed) == Reading("normal")


@pytest.mark.parametrize("printed", ["2+", "+++", "Trace", "Many", "LARGE", "Positive for E. coli",
                                     "Equivocal", "Detected (A)", "reactive, weak"])  # fmt: skip
@pytest.mark.parametrize("expected", ["Negative", "None seen", "NOT DETECTED"])
def test_grade_where_nothing_is_expected_is_abnormal(printed: str, expected: str) -> None:
    found = line(text=printed, type="coded_value", value=-1, reference_range=expected)
    assert found == Reading("abnormal")
    found = line(text=expected, type="coded_value", value=-1, reference_range=expected)
    assert found == Reading("normal")


def test_head_is_raised_by_its_lines_and_never_lowered() -> None:
    def head(word: str | None, *lines: str, **more: bool) -> str:
        return read_head(word, [Reading(one) for one in lines], **more).interpretation

    assert head("normal", "normal", "critical") == "critical"
    assert head("normal", "unknown", "normal") == "unknown"
    assert head("critical", "normal") == "critical"
    assert head("ominous", "normal") == "unknown"
    assert head("ominous", "abnormal") == "abnormal"
    assert head(None, "normal") == "normal"
    assert head(None, "") == "unknown"
    assert head(None) == ""
    assert head("normal", all_read=False) == "unknown"
    assert head("normal") == "unknown", "nothing was measured"
    assert head("normal", is_partial=True) == "normal"
    assert head("critical") == "critical"


@pytest.mark.parametrize(
    ("sent", "status"),
    [("final", "final"), ("Final", "final"), ("F", "final"), ("PARTIAL", "partial"),
     ("preliminary", "partial"), ("P", "partial"), ("Corrected", "corrected"), ("odd", "odd")],
)  # fmt: skip
def test_status_is_read_in_every_spelling(sent: str, status: str) -> None:
    assert read_status(sent) == status


# Properties

words = st.one_of(
    st.none(),
    st.text(max_size=20),
    st.sampled_from([*NORMAL_WORDS, "H", "LL", "critical", "abnormal", "odd", "", "A,H", "N N"]),
    st.sampled_from(["normal", "critical", "high", "low"]).flatmap(
        lambda word: st.sampled_from([word.upper(), f" {word} ", f"{word}_x", f"not {word}"])
    ),
)
numbers = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False), st.integers(-9, 9))
texts = st.one_of(
    st.text(max_size=12),
    st.floats(-1000, 1000).map(str),
    st.integers(-50, 500).map(str),
    st.sampled_from(["", "410 H", "<1.2", "3-7", "1,234", "7,9", "QNS", "1:40", "≥5", "1e400"]),
)
flags = st.one_of(st.none(), st.booleans())
lines = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["numeric", "range", "comment", "coded_value", "", "Odd"]),
        "text": texts,
        "value": numbers,
        "unit": st.sampled_from(["mg/dL", "%", "", None]),
        "low": numbers,
        "high": numbers,
        "above": flags,
        "below": flags,
        "reference_range": st.one_of(st.none(), texts, st.sampled_from(["70-99", "<5", ">60"])),
    }
)


@given(words, words, lines)
def test_no_line_is_ever_falsely_normal(word: Any, flag: Any, given: dict[str, Any]) -> None:
    found = read_line(word, flag, **given)
    assert found.interpretation in {"critical", "abnormal", "unknown", "normal", ""}
    if found.interpretation not in ("normal", ""):
        return
    assert given["above"] is not True and given["below"] is not True
    own = [one for one in (read_word(word), read_word(flag)) if one is not None]
    assert all(one.interpretation == "normal" for one in own)
    number = line_number(given["type"], given["text"], given["value"])
    if number is not None:
        assert given["high"] is None or number <= given["high"]
        assert given["low"] is None or number >= given["low"]
    if found.interpretation == "":
        assert given["type"] == "comment" and not own
    elif given["type"] == "numeric":
        assert interval_of(given["text"])[0] is not None or given["value"] not in (None, -1)


@given(st.data())
def test_value_outside_its_range_is_never_normal(data: st.DataObject) -> None:
    """In any spelling of range, value and unit, and with any words."""
    low = data.draw(st.integers(1, 500))
    high = low + data.draw(st.integers(1, 500))
    is_above = data.draw(st.booleans())
    number = (
        high + data.draw(st.integers(1, 99)) if is_above else data.draw(st.integers(0, low - 1))
    )
    unit = data.draw(st.sampled_from(["", "mg/dL", "µg/dL", "K/uL", "%"]))
    tail = data.draw(st.sampled_from(["", f" {unit}".rstrip(), f" {unit.upper()}".rstrip()]))
    as_text = data.draw(st.booleans())
    ranges = [f"{low}-{high}{tail}", f"{low} – {high}{tail}", f"({low} to {high})"]
    ranges += [f"<{high}{tail}", f"<={high}", f"≤ {high}", f"< OR = {high}{tail}"] * is_above
    ranges += [f">{low}{tail}", f">={low}", f"≥ {low}", f"> or = {low}{tail}"] * (not is_above)
    printed = data.draw(st.sampled_from(ranges))
    texts = [str(number), f"{number}.0", f"{number}{tail}", f" {number} "]
    texts += [f">{number}"] * is_above + [f"<{number}"] * (not is_above and number > 0)
    found = read_line(
        data.draw(st.sampled_from(["normal", "N", " Normal ", "WNL"])),
        data.draw(st.sampled_from(["", None, "N"])),
        type=data.draw(st.sampled_from(["numeric", "range", "Numeric", ""])),
        text=data.draw(st.sampled_from(texts)),
        value=data.draw(st.sampled_from([number, None, -1])),
        unit=unit,
        low=None if as_text else low,
        high=None if as_text else high,
        above=data.draw(st.sampled_from([None, False])),
        reference_range=printed if as_text else data.draw(st.sampled_from([None, "", printed])),
    )
    assert found == Reading("abnormal", "high" if is_above else "low")


@given(st.data())
def test_value_inside_its_range_stays_normal(data: st.DataObject) -> None:
    low = data.draw(st.integers(1, 500))
    high = low + data.draw(st.integers(1, 500))
    number = data.draw(st.one_of(st.sampled_from([low, high]), st.integers(low, high)))
    ranges = [f"{low}-{high}", f"{low} – {high} mg/dl", f"<={high}", f">= {low} MG/DL", "see note"]
    found = read_line(
        "normal",
        "",
        type="numeric",
        text=str(number),
        value=number,
        unit="mg/dL",
        low=low,
        high=high,
        reference_range=data.draw(st.sampled_from(ranges)),
    )
    assert found == Reading("normal")


@given(
    st.sampled_from(
        [
            "",
            "QNS",
            "qns.",
            "---",
            "(pending)",
            "TNP",
            "*",
            "see note",
            "N/A",
            "QNS - redraw",
            "Specimen hemolyzed",
            "No specimen received",
            "Unable to calculate",
            "Duplicate order",
            "Not calculated.",
        ]
    )
)
def test_text_without_a_value_is_never_normal(text: str) -> None:
    for kind in ("numeric", "range", "coded_value", "", "Odd"):
        assert read_line("normal", "N", type=kind, text=text).interpretation == "unknown"


@given(words)
def test_only_words_for_normal_read_as_normal(word: str | None) -> None:
    found = read_word(word)
    if found is not None and found.interpretation == "normal":
        letters = "".join(mark for mark in (word or "").casefold() if mark.isalnum())
        assert letters in {"n", "nl", "wnl", "nn"} or "normal" in letters or "within" in letters


@given(words, st.lists(st.sampled_from(["critical", "abnormal", "unknown", "normal", ""])))
def test_no_head_is_below_its_lines(word: str | None, read: list[str]) -> None:
    ranks = ["critical", "abnormal", "unknown", "normal", ""]
    found = read_head(word, [Reading(one) for one in read]).interpretation
    own = read_word(word)
    for one in [*read, *([own.interpretation] if own else [])]:
        assert ranks.index(found) <= ranks.index(one)


@given(st.text(max_size=30), st.text(max_size=10))
def test_text_of_any_kind_is_read_without_an_exception(text: str, unit: str) -> None:
    number_of(text)
    interval_of(text)
    assert same_unit(unit, unit)


@pytest.mark.parametrize(
    "spellings",
    [
        ("mmol/L", "mmol/l", "MMOL/L", " mmol / L "),
        ("mg/dL", "mg/dl", "MG/DL"),
        ("µg/dL", "μg/dL", "ug/dL", "mcg/dL"),
        ("10^3/uL", "x10E3/uL", "K/uL", "K/µL", "10*3/uL", "x10^3/uL", "10³/µL", "Thousand/uL"),
        ("10^6/uL", "x10E6/uL", "M/uL", "Million/uL"),
        ("10^9/L", "x10E9/L", "10*9/L"),
        ("mm/hr", "mm/h"),
    ],
)
def test_spellings_of_one_unit_are_one(spellings: tuple[str, ...]) -> None:
    assert len({fold_unit(one) for one in spellings}) == 1


def test_different_units_stay_apart() -> None:
    units = ["mmol/L", "mg/dL", "g/dL", "ug/dL", "ng/dL", "umol/L", "K/uL", "M/uL", "10^9/L", "%",
             "U/L", "IU/L", "mIU/L", "uIU/mL", "mg", "m", "K", ""]  # fmt: skip
    assert len({fold_unit(one) for one in units}) == len(units)
