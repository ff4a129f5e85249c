"""Answers to a lab's questions that were given with a canceled order, for the one instead of it.

An order does not show them (orders.md 3): they are known where the order was requested from here,
as long as the contents of that request are stored.
"""

from __future__ import annotations

from labs.models import Marker
from orders.placing.order_request import Wish
from orders.placing.questions import Question, questions_of
from orders.placing.requested_accounts import OrderSource


def former_answers(source: OrderSource | None, wish: Wish) -> dict[str, list[str]]:
    """Return what was answered then, by the name of the field, for each question of the wish that
    is the same one, or has the same code. `source` is None where the request is not known."""
    if source is None or not source.answers:
        return {}
    questions = wish.questions
    marker_ids = {marker_id for marker_id, _ in source.answers}
    markers = Marker.objects.filter(pk__in=marker_ids)
    by_code: dict[str, set[str]] = {}
    for asked in questions_of(markers):
        answer = source.answers.get((asked.marker_id, asked.question_id))
        if answer and asked.code:
            by_code.setdefault(asked.code, set()).add(answer)
    found: dict[str, list[str]] = {}
    for question in questions:
        answer = source.answers.get((question.marker_id, question.question_id))
        of_code = by_code.get(question.code, set())
        if answer is None and len(of_code) == 1:
            (answer,) = of_code
        if answer and _is_possible(question, answer):
            found[question.name] = [answer]
    return found


def _is_possible(question: Question, answer: str) -> bool:
    return not question.is_choice or answer in dict(question.answers)
