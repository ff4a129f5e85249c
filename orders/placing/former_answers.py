"""Answers to a lab's questions on a canceled order, for the order that replaces it.

An order does not have them (orders.md 3). They are known if the order was requested here, as long
as the contents of that request are stored.
"""

from __future__ import annotations

from labs.models import Marker
from orders.placing.order_request import OrderRequest
from orders.placing.questions import Question, questions_of
from orders.placing.requested_accounts import OrderSource


def former_answers(source: OrderSource | None, order_request: OrderRequest) -> dict[str, list[str]]:
    """Return the former answers by field name, for questions with the same text or the same code.

    `source` is None if the former request is not known.
    """
    if source is None or not source.answers:
        return {}
    questions = order_request.questions
    marker_ids = {marker_id for marker_id, _ in source.answers}
    markers = Marker.objects.filter(pk__in=marker_ids)
    by_code: dict[str, set[str]] = {}
    for former_question in questions_of(markers):
        answer = source.answers.get((former_question.marker_id, former_question.question_id))
        if answer and former_question.code:
            by_code.setdefault(former_question.code, set()).add(answer)
    answers: dict[str, list[str]] = {}
    for question in questions:
        answer = source.answers.get((question.marker_id, question.question_id))
        of_code = by_code.get(question.code, set())
        if answer is None and len(of_code) == 1:
            (answer,) = of_code
        if answer and _is_possible(question, answer):
            answers[question.name] = [answer]
    return answers


def _is_possible(question: Question, answer: str) -> bool:
    return not question.is_choice or answer in dict(question.answers)
