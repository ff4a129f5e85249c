"""The way of an order, told for staff: steps done, the present one, steps to come, whose turn."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final

from backoffice.core import vocabulary
from backoffice.core.vocabulary import CLOSED, NEEDS_ACTION, RESULT_IN, Term
from orders.models import Order, OrderEvent, UsualTime
from orders.turnaround import limits

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
    "walk_in_test": (
        "ordered",
        "requisition_created",
        "appointment_scheduled",
        "draw_completed",
        "delivered_to_lab",
        "completed",
    ),
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

SILENT: Final = {"walk_in_test": frozenset({"draw_completed", "delivered_to_lab"})}
"""Steps an order takes that the service does not announce for its method (orders.md 4): known to be
done from the first word of the lab, and no earlier."""

_LAB_SPOKE: Final = frozenset(
    {"partial_results", "completed", "corrected", "redraw_available", "sample_error"}
)
"""Statuses that say that a lab had the sample."""

MOMENTS: Final = frozenset(
    {
        "ordered",
        "appointment_pending",
        "appointment_scheduled",
        "draw_completed",
        "partial_results",
        "completed",
        "corrected",
    }
)
"""What happened once and does not last: so long ago, not for so long."""

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
    event_id: int | None = None

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
    """The answer to "where is it?": what is, since when, whether that is usual, who is next.

    `usual` says what is usual and how we know, as a sentence; empty where nothing is expected.
    `handled`: somebody did our part, so it is not our turn until there is news. `signed`: somebody
    signed the result that is in.
    """

    term: Term
    since: datetime | None
    rested: timedelta | None
    over: timedelta | None
    usual: str
    source: str = ""
    most: timedelta | None = None
    handled: bool = False
    signed: bool = False

    @property
    def dwell(self) -> str:
        """`9 d, usual 6 d`: beside the present step of the journey."""
        if self.rested is None or not (self.term.turn or self.usual):
            return ""
        return span(self.rested) + (f", usual {span(self.most)}" if self.most else "")

    @property
    def whose(self) -> str:
        if self.handled and self.term.turn == vocabulary.US:
            return ""
        if self.signed and self.term.family == vocabulary.RESULT_IN:
            return "Signed: nothing is left to do."
        return {
            vocabulary.US: "Our turn.",
            vocabulary.PATIENT: "The patient’s turn.",
            "": "" if self.term.family == vocabulary.UNKNOWN else "Nothing is left to do.",
        }.get(self.term.turn, f"Waiting for {self.term.turn}.")

    @property
    def sentence(self) -> str:
        """`Kit with patient for 9 d. Usual up to 6 d for this kit. 3 d over. Our turn.`"""
        resting = self.term.turn or self.term.family == vocabulary.UNKNOWN
        told = self.term.label
        if self.rested is not None and resting:
            past = self.term.family == vocabulary.NEEDS_ACTION or self.term.value in MOMENTS
            if self.rested < timedelta(minutes=1):
                told += ", just now"
            else:
                told += f", {span(self.rested)} ago" if past else f" for {span(self.rested)}"
        # What wants somebody at once is over as long as it is there.
        late = f"{span(self.over)} over." if self.over and self.over != self.rested else ""
        return " ".join(part for part in (f"{told}.", self.usual, late, self.whose) if part)


def span(length: timedelta) -> str:
    """`3 d`, `5 h`, `12 min`."""
    minutes = int(length.total_seconds() // 60)
    if minutes >= 2 * 24 * 60:
        return f"{minutes // (24 * 60)} d"
    if minutes >= 120:
        return f"{minutes // 60} h"
    return f"{max(minutes, 0)} min"


def turn_of(
    order: Order, events: Sequence[OrderEvent], now: datetime, measured: UsualTime | None = None
) -> Turn:
    """Whose turn it is; `events` oldest first, `measured` what is known of this step here."""
    history = [event.low_level_status for event in events]
    item = vocabulary.order_term(order.low_level_status, order.method, history)
    since = order.last_event_at
    if since is None:
        return Turn(item, None, None, None, "")
    rested = max(now - since, timedelta(0))
    if order.activate_by and order.low_level_status == "ordered" and order.activate_by > now.date():
        return Turn(item, since, None, None, "")
    quiet = quiet_at_of(order)
    over = now - quiet if quiet and now > quiet else None
    return Turn(item, since, rested, over, *_usual(order, item, measured))


def quiet_at_of(order: Order) -> datetime | None:
    """As it stands on the row; told anew for a row that is older than the column."""
    return order.quiet_at or limits.quiet_at(
        order.low_level_status,
        order.method,
        order.lab_slug,
        order.last_event_at,
        order.activate_by,
        order.expected_result_by_date,
    )


def _usual(
    order: Order, item: Term, measured: UsualTime | None
) -> tuple[str, str, timedelta | None]:
    """What is usual in this step, where we have that from, and the time itself."""
    low = order.low_level_status
    if low == limits.BOOKED or (low == "delivered_to_lab" and order.expected_result_by_date):
        return "", "", None
    samples = measured.samples if measured is not None else 0
    if measured is not None and samples >= limits.ENOUGH and limits.is_learned(low):
        most = limits.whole(timedelta(seconds=measured.p90_seconds))
        half = limits.whole(timedelta(seconds=measured.p50_seconds))
        source = f"Learned from {samples:,} of our orders: half took up to {span(half)}."
        return f"Usual up to {span(most)} {_like(order, item)}.", source, most
    fixed = item.quiet_after
    if fixed:
        working = " of working time" if limits.in_working_days(low, order.method) else ""
        if not limits.is_learned(low):
            return f"Usual up to {span(fixed)}{working}.", "", fixed
        return (
            f"Usual up to {span(fixed)}{working} (default).",
            f"No history yet: {samples} of the {limits.ENOUGH} orders it takes to learn from.",
            fixed,
        )
    if item.family == vocabulary.UNKNOWN:
        return "No history yet.", "", None
    return "", "", None


def _like(order: Order, item: Term) -> str:
    if item.family == vocabulary.AT_LAB:
        return "at this lab"
    return "for this kit" if order.method == "testkit" else "for orders like this"


def journey(order: Order, events: Sequence[OrderEvent], booked: bool = False) -> list[Node]:
    """The steps of an order; `events` oldest first. `booked`: a visit stands."""
    history = [vocabulary.canonical("order.low_level_status", e.low_level_status) for e in events]
    steps = _plan(order.method, history, booked)
    last = len(events) - 1
    latest = {status: index for index, status in enumerate(history)}
    spoke = next((index for index, status in enumerate(history) if status in _LAB_SPOKE), None)
    silent = SILENT.get(order.method, frozenset()) if spoke is not None else frozenset()
    reached = max(
        (steps.index(status) for status in {*latest, *silent} if status in steps), default=-1
    )

    nodes: list[Node] = []
    told = -1
    for position, status in enumerate(steps):
        index = latest.get(status)
        if index is not None:
            nodes += _detours(order, events, history, steps, told + 1, index)
            told = max(told, index)
            nodes.append(_node(order, events, history, index, NOW if index == last else DONE))
        elif spoke is not None and status in silent:
            nodes += _detours(order, events, history, steps, told + 1, spoke)
            told = max(told, spoke - 1)
            nodes.append(Node(status, DONE, _term(status, order, history)))
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


def _plan(method: str, history: Sequence[str], booked: bool) -> tuple[str, ...]:
    if method == "testkit" and {"awaiting_registration", "registered"} & set(history):
        return _REGISTRABLE_KIT
    steps = STEPS.get(method, ())
    if method == "walk_in_test" and not (booked or _booking(history)):
        steps = tuple(step for step in steps if step != "appointment_scheduled")
    if "requisition_bypassed" in history:
        return tuple("requisition_bypassed" if s == "requisition_created" else s for s in steps)
    return steps


def _booking(history: Sequence[str]) -> bool:
    """Whether an appointment was made, or is being made: a walk-in needs none."""
    return "appointment_scheduled" in history or history[-1:] == ["appointment_pending"]


def _term(status: str, order: Order, history: Sequence[str]) -> Term:
    return vocabulary.order_term(status, order.method, history)


def _node(
    order: Order, events: Sequence[OrderEvent], history: Sequence[str], index: int, state: str
) -> Node:
    status = history[index]
    seen = history[: index + 1]
    event = events[index]
    return Node(
        status, state, _term(status, order, seen), at=event.created_at, event_id=event.event_id
    )


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
