"""Answers to the questions of labs, compared with the hint that the lab gives."""

from __future__ import annotations

import pytest

from orders.placing.questions import Question, answer_warning


def asked(hint: str, answers: tuple[tuple[str, str], ...] = ()) -> Question:
    return Question(1, 2, "Cortisol", "Hour of waking", "numeric", True, hint, answers=answers)


@pytest.mark.parametrize(
    ("hint", "answer"),
    [("0-23", "25"), ("0-23", "-1"), ("0-23", "seven"), ("0-23", "7:30"), ("YYYYMMDD", "20261301"),
     ("YYYYMMDD", "11/26/2026"), ("yyyymmdd", "2026-11-26"), ("up to 300", "310")],
)  # fmt: skip
def test_answer_beside_the_hint_is_doubted(hint: str, answer: str) -> None:
    words = answer_warning(asked(hint), answer)
    assert f"“{answer}”" in words and hint in words.replace("YYYYMMDD", hint)


@pytest.mark.parametrize(
    ("hint", "answer"),
    [("0-23", "0"), ("0-23", " 23 "), ("YYYYMMDD", "20261126"), ("", "anything"), ("0-23", ""),
     ("in pounds", "-5"), ("one of the codes", "7")],
)  # fmt: skip
def test_other_answers_are_not_judged(hint: str, answer: str) -> None:
    assert answer_warning(asked(hint), answer) == ""
    assert answer_warning(asked("0-23", (("X", "Other"),)), "X") == ""
