"""Answers to questions of labs are compared with the hint that the lab gives."""

from __future__ import annotations

import pytest

from orders.placing.questions import Question, answer_warning


def numeric_question(hint: str, answers: tuple[tuple[str, str], ...] = ()) -> Question:
    return Question(1, 2, "Cortisol", "Hour of waking", "numeric", True, hint, answers=answers)


@pytest.mark.parametrize(
    ("hint", "answer"),
    [("0-23", "25"), ("0-23", "-1"), ("0-23", "seven"), ("0-23", "7:30"), ("YYYYMMDD", "20261301"),
     ("YYYYMMDD", "11/26/2026"), ("yyyymmdd", "2026-11-26"), ("up to 300", "310")],
)  # fmt: skip
def test_answer_that_differs_from_hint_gets_warning(hint: str, answer: str) -> None:
    words = answer_warning(numeric_question(hint), answer)
    assert f"“{answer}”" in words and hint in words.replace("YYYYMMDD", hint)


@pytest.mark.parametrize(
    ("hint", "answer"),
    [("0-23", "0"), ("0-23", " 23 "), ("YYYYMMDD", "20261126"), ("", "anything"), ("0-23", ""),
     ("in pounds", "-5"), ("one of the codes", "7")],
)  # fmt: skip
def test_other_answers_get_no_warning(hint: str, answer: str) -> None:
    assert answer_warning(numeric_question(hint), answer) == ""
    assert answer_warning(numeric_question("0-23", (("X", "Other"),)), "X") == ""
