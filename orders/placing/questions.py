"""Questions that labs ask at order entry (catalogue.md 5, orders.md 2.8)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.utils.translation import gettext

from backoffice.core.vocabulary.measures import Interval, number_of, range_of
from backoffice.service.json_text import JsonObject
from labs.models import Marker


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a lab. `answers` are pairs of code and text; empty for texts and numbers."""

    marker_id: int
    question_id: int
    marker: str
    words: str
    type: str
    required: bool
    hint: str = ""
    default: str = ""
    code: str = ""
    answers: Sequence[tuple[str, str]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Return the name of the form field."""
        return f"q-{self.marker_id}-{self.question_id}"

    @property
    def label(self) -> str:
        return self.words or self.marker

    @property
    def is_choice(self) -> bool:
        return bool(self.answers)


def questions_of(markers: Iterable[Marker]) -> list[Question]:
    """Return the questions of the markers, in the order of the markers.

    Questions of one marker are in the lab's order.
    """
    return [
        _question(marker, data)
        for marker in markers
        if marker.has_questions
        for data in sorted(
            _dicts(marker.record_at("aoe").get("questions")),
            key=lambda question: question.get("sequence") or 0,
        )
        if isinstance(data.get("id"), int)
    ]


def _question(marker: Marker, data: JsonObject) -> Question:
    words = str(data.get("value") or "")
    fasting = "fasting" in f"{words} {data.get('code')}".lower()
    return Question(
        marker_id=marker.pk,
        question_id=data["id"],
        marker=marker.name,
        words=words,
        type=str(data.get("type") or ""),
        # If nobody answers, the fasting default of the test is used.
        required=data.get("required") is True and not fasting,
        hint=str(data.get("constraint") or ""),
        default=str(data.get("default") or ""),
        code=str(data.get("code") or ""),
        answers=[
            (str(answer.get("code") or ""), str(answer.get("value") or answer.get("code") or ""))
            for answer in _dicts(data.get("answers"))
        ],
    )


def answer_warning(question: Question, answer: str) -> str:
    """Return why staff should check an answer, or an empty text.

    The hint of the lab is free text. Only its clear statements are used.
    """
    answer, hint = answer.strip(), question.hint.strip()
    if not answer or question.is_choice:
        return ""
    if hint.upper() == "YYYYMMDD":
        if _is_day(answer):
            return ""
        return gettext("“%(answer)s” is not a date in YYYYMMDD format.") % {"answer": answer}
    expected = range_of(hint)
    if expected == Interval():
        return ""
    number = number_of(answer)
    answered = Interval(number, number)
    if number is None or expected.is_exceeded_by(answered) or expected.is_undercut_by(answered):
        return gettext("“%(answer)s” is not within %(range)s.") % {"answer": answer, "range": hint}
    return ""


def _is_day(text: str) -> bool:
    if len(text) != 8 or not (text.isascii() and text.isdigit()):
        return False
    try:
        datetime.strptime(text, "%Y%m%d")  # noqa: DTZ007 - a calendar date
    except ValueError:
        return False
    return True


def _dicts(values: object) -> list[JsonObject]:
    return (
        [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []
    )
