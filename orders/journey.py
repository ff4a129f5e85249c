"""The way of an order, told for staff: steps done, the present one, steps to come, whose turn."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final

from backoffice import vocabulary
from backoffice.vocabulary import CLOSED, NEEDS_ACTION, RESULT_IN, Term
from orders.models import Order, OrderEvent

_KIT: Final = (
    "ordered",
    "requisition_created",
    "transit_customer",
    "out_for_delivery",
    "with_customer",
    "transit_lab",
    "delivered_to_lab",
    "completed",
)
_REGISTRABLE_KIT: Final = (
    "ordered",
    "awaiting_registration",
    "transit_customer",
    "out_for_delivery",
    "with_customer",
    "registered",
    "requisition_created",
    "transit_lab",
    "delivered_to_lab",
    "completed",
)
STEPS: Final[dict[str, tuple[str, ...]]] = {
    "testkit": _KIT,
    "walk_in_test": ("ordered", "requisition_created", "appointment_scheduled", "completed"),
    "at_home_phlebotomy": (
        "ordered",
        "requisition_created",
        "appointment_pending",
        "appointment_scheduled",
        "draw_completed",
        "completed",
    ),
    "on_site_collection": ("ordered", "requisition_created", "draw_completed", "completed"),
}
"""Planned steps per method (orders.md 4.1); a method not listed has only its own history."""

DONE, NOW, SKIPPED, DETOUR, TO_COME = "done", "now", "skipped", "detour", "to-come"
SPOKEN: Final = {
    DONE: "done",
    NOW: "current",
    SKIPPED: "skipped",
    DETOUR: "detour",
    TO_COME: "to come",
}

_NO_RESULT: Final = frozenset({"redraw_available", "sample_error"})
"""Statuses after which this order brings no result, whatever its rough status says."""


@dataclass(slots=True)
class Node:
    """One step on the journey line."""

    status: str
    state: str
    term: Term
    at: datetime | None = None
    expected: date | None = None

    @property
    def glyph(self) -> str:
        if self.state in (NOW, DETOUR):
            return self.term.glyph
        return {DONE: "tick", SKIPPED: "dot"}.get(self.state, "ring")

    @property
    def spoken(self) -> str:
        return SPOKEN[self.state]


@dataclass(frozen=True, slots=True)
class Turn:
    """The answer to "where is it?": what is, since when, whether that is usual, who is next."""

    term: Term
    since: datetime | None
    rested: timedelta | None
    over: timedelta | None

    @property
    def whose(self) -> str:
        return {
            vocabulary.US: "Our turn.",
            vocabulary.PATIENT: "The patient’s turn.",
            "": "Nothing is left to do.",
        }.get(self.term.turn, f"Waiting for {self.term.turn}.")

    @property
    def dwell(self) -> str:
        """`9 d here, usual up to 6 d: 3 d over`; empty for states that rest for good."""
        if self.rested is None or not self.term.turn:
            return ""
        text = f"{span(self.rested)} in this step"
        usual = self.term.quiet_after
        if usual:
            text += f", usual up to {span(usual)}"
        if self.over and usual:
            text += f": {span(self.over)} over"
        return text


def span(length: timedelta) -> str:
    """`3 d`, `5 h`, `12 min`."""
    minutes = int(length.total_seconds() // 60)
    if minutes >= 2 * 24 * 60:
        return f"{minutes // (24 * 60)} d"
    if minutes >= 120:
        return f"{minutes // 60} h"
    return f"{max(minutes, 0)} min"


def turn_of(order: Order, events: Sequence[OrderEvent], now: datetime) -> Turn:
    """Whose turn it is; `events` oldest first."""
    history = [event.low_level_status for event in events]
    item = vocabulary.order_term(order.low_level_status, order.method, history)
    since = order.last_event_at
    rested = now - since if since else None
    if order.activate_by and order.low_level_status == "ordered" and order.activate_by > now.date():
        return Turn(item, since, None, None)
    usual = item.quiet_after
    over = rested - usual if rested and usual and rested > usual else None
    return Turn(item, since, rested, over)


def journey(order: Order, events: Sequence[OrderEvent]) -> list[Node]:
    """The steps of an order; `events` oldest first."""
    history = [vocabulary.canonical("order.low_level_status", e.low_level_status) for e in events]
    steps = _plan(order.method, history)
    last = len(events) - 1
    latest = {status: index for index, status in enumerate(history)}
    reached = max((steps.index(status) for status in latest if status in steps), default=-1)

    nodes: list[Node] = []
    told = -1
    for position, status in enumerate(steps):
        index = latest.get(status)
        if index is not None:
            nodes += _detours(order, events, history, steps, told + 1, index)
            told = max(told, index)
            nodes.append(_node(order, events, history, index, NOW if index == last else DONE))
        elif position < reached:
            nodes.append(Node(status, SKIPPED, _term(status, order, history)))
    nodes += _detours(order, events, history, steps, told + 1, len(events))
    if not is_over(order):
        nodes += [
            Node(status, TO_COME, _term(status, order, history))
            for status in steps[reached + 1 :]
            if status not in latest
        ]
        if nodes and nodes[-1].status == "completed":
            nodes[-1].expected = order.expected_result_by_date
    return nodes


def _plan(method: str, history: Sequence[str]) -> tuple[str, ...]:
    if method == "testkit" and {"awaiting_registration", "registered"} & set(history):
        return _REGISTRABLE_KIT
    steps = STEPS.get(method, ())
    if "requisition_bypassed" in history:
        return tuple("requisition_bypassed" if s == "requisition_created" else s for s in steps)
    return steps


def _term(status: str, order: Order, history: Sequence[str]) -> Term:
    return vocabulary.order_term(status, order.method, history)


def _node(
    order: Order, events: Sequence[OrderEvent], history: Sequence[str], index: int, state: str
) -> Node:
    status = history[index]
    seen = history[: index + 1]
    return Node(status, state, _term(status, order, seen), at=events[index].created_at)


def _detours(
    order: Order,
    events: Sequence[OrderEvent],
    history: Sequence[str],
    steps: Sequence[str],
    start: int,
    end: int,
) -> list[Node]:
    """Events between two planned steps that are no planned steps themselves."""
    last = len(events) - 1
    return [
        _node(order, events, history, index, NOW if index == last else DETOUR)
        for index in range(start, end)
        if history[index] not in steps
    ]


def is_over(order: Order) -> bool:
    """True when no planned step can follow: closed, result in, or failed for good."""
    if order.bucket in (CLOSED, RESULT_IN):
        return True
    failed = order.status == "failed" or order.low_level_status in _NO_RESULT
    return order.bucket == NEEDS_ACTION and failed
