"""Questions that labs ask at order entry (catalogue.md 5, orders.md 2.8)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from labs.models import Marker


@dataclass(frozen=True, slots=True)
class Question:
    """`answers` are pairs of code and words; none for text and numbers."""

    marker_id: int
    question_id: int
    marker: str
    words: str
    type: str
    required: bool
    hint: str = ""
    default: str = ""
    answers: Sequence[tuple[str, str]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Of the form's field."""
        return f"q-{self.marker_id}-{self.question_id}"

    @property
    def label(self) -> str:
        return self.words or self.marker

    @property
    def is_choice(self) -> bool:
        return bool(self.answers)


def questions_of(markers: Iterable[Marker]) -> list[Question]:
    """Of all markers in their order; what a marker is asked, in the lab's order."""
    return [
        _question(marker, sent)
        for marker in markers
        if marker.has_questions
        for sent in sorted(
            _dicts(marker.said("aoe").get("questions")), key=lambda one: one.get("sequence") or 0
        )
        if isinstance(sent.get("id"), int)
    ]


def _question(marker: Marker, sent: dict[str, Any]) -> Question:
    words = str(sent.get("value") or "")
    fasting = "fasting" in f"{words} {sent.get('code')}".lower()
    return Question(
        marker_id=marker.pk,
        question_id=sent["id"],
        marker=marker.name,
        words=words,
        type=str(sent.get("type") or ""),
        # What the test itself says of fasting is used where nobody answers.
        required=sent.get("required") is True and not fasting,
        hint=str(sent.get("constraint") or ""),
        default=str(sent.get("default") or ""),
        answers=[
            (str(one.get("code") or ""), str(one.get("value") or one.get("code") or ""))
            for one in _dicts(sent.get("answers"))
        ],
    )


def _dicts(sent: Any) -> list[dict[str, Any]]:
    return [one for one in sent if isinstance(one, dict)] if isinstance(sent, list) else []
