"""The progress of an order: past steps, the current step, future steps, and who acts next."""

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
"""Planned steps by method (orders.md 4.1). An unlisted method shows only its own history."""

UNANNOUNCED_STEPS: Final = {"walk_in_test": frozenset({"draw_completed", "delivered_to_lab"})}
"""Steps that the service does not announce for a method (orders.md 4).

They count as done once the lab has sent its first status, and not earlier.
"""

_LAB_STATUSES: Final = frozenset(
    {"partial_results", "completed", "corrected", "redraw_available", "sample_error"}
)
"""Statuses that prove that a lab had the sample."""

MOMENTARY_STATUSES: Final = frozenset(
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
"""Statuses of a point in time. For these the page says "3 d ago", not "for 3 d"."""

DONE, NOW, SKIPPED, DETOUR, TO_COME = "done", "now", "skipped", "detour", "to-come"
STATE_LABELS: Final = {
    DONE: "done",
    NOW: "current",
    SKIPPED: "skipped",
    DETOUR: "detour",
    TO_COME: "to come",
}

_NO_RESULT: Final = frozenset({"redraw_available", "sample_error"})
"""Statuses after which this order has no result, whatever its high-level status is."""


@dataclass(slots=True)
class ProgressStep:
    """One step on the progress line of an order."""

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
    def state_label(self) -> str:
        return STATE_LABELS[self.state]


@dataclass(frozen=True, slots=True)
class CurrentStep:
    """The current step of an order, its start, its usual time, and who acts next.

    `usual_text` states the usual time as a sentence, and is empty if nothing is expected. `source`
    is the source of the usual time. `is_handled`: staff have done their part, so it is not our turn
    until the order changes. `is_signed`: the result was signed.
    """

    term: Term
    since: datetime | None
    time_in_step: timedelta | None
    overdue_by: timedelta | None
    usual_text: str
    source: str = ""
    usual_limit: timedelta | None = None
    is_handled: bool = False
    is_signed: bool = False

    @property
    def time_in_step_text(self) -> str:
        """Return "9 d, usual 6 d", shown beside the current step."""
        if self.time_in_step is None or not (self.term.turn or self.usual_text):
            return ""
        return format_duration(self.time_in_step) + (
            f", usual {format_duration(self.usual_limit)}" if self.usual_limit else ""
        )

    @property
    def turn_text(self) -> str:
        if self.is_handled and self.term.turn == vocabulary.US:
            return ""
        if self.is_signed and self.term.family == vocabulary.RESULT_IN:
            return "Signed: nothing is left to do."
        return {
            vocabulary.US: "Our turn.",
            vocabulary.PATIENT: "The patient’s turn.",
            "": "" if self.term.family == vocabulary.UNKNOWN else "Nothing is left to do.",
        }.get(self.term.turn, f"Waiting for {self.term.turn}.")

    @property
    def sentence(self) -> str:
        """Return "Kit with patient for 9 d. Usual up to 6 d for this kit. 3 d over. Our turn."."""
        is_waiting = self.term.turn or self.term.family == vocabulary.UNKNOWN
        words = self.term.label
        if self.time_in_step is not None and is_waiting:
            past = (
                self.term.family == vocabulary.NEEDS_ACTION or self.term.value in MOMENTARY_STATUSES
            )
            if self.time_in_step < timedelta(minutes=1):
                words += ", just now"
            else:
                words += (
                    f", {format_duration(self.time_in_step)} ago"
                    if past
                    else f" for {format_duration(self.time_in_step)}"
                )
        # A step that needs action at once is overdue from its start.
        late = (
            f"{format_duration(self.overdue_by)} over."
            if self.overdue_by and self.overdue_by != self.time_in_step
            else ""
        )
        return " ".join(
            part for part in (f"{words}.", self.usual_text, late, self.turn_text) if part
        )


def format_duration(length: timedelta) -> str:
    """Return a length of time as "3 d", "5 h" or "12 min"."""
    minutes = int(length.total_seconds() // 60)
    if minutes >= 2 * 24 * 60:
        return f"{minutes // (24 * 60)} d"
    if minutes >= 120:
        return f"{minutes // 60} h"
    return f"{max(minutes, 0)} min"


def current_step(
    order: Order, events: Sequence[OrderEvent], now: datetime, measured: UsualTime | None = None
) -> CurrentStep:
    """Return the current step. `events`: oldest first; `measured`: the usual time of this step."""
    history = [event.low_level_status for event in events]
    term = vocabulary.order_term(order.low_level_status, order.method, history)
    since = order.last_event_at
    if since is None:
        return CurrentStep(term, None, None, None, "")
    time_in_step = max(now - since, timedelta(0))
    if order.activate_by and order.low_level_status == "ordered" and order.activate_by > now.date():
        return CurrentStep(term, since, None, None, "")
    quiet = order_quiet_at(order)
    overdue_by = now - quiet if quiet and now > quiet else None
    return CurrentStep(term, since, time_in_step, overdue_by, *_usual_time(order, term, measured))


def order_quiet_at(order: Order) -> datetime | None:
    """Return `quiet_at` of the row. Compute it for rows stored before the column existed."""
    return order.quiet_at or limits.quiet_at(
        order.low_level_status,
        order.method,
        order.lab_slug,
        order.last_event_at,
        order.activate_by,
        order.expected_result_by_date,
    )


def _usual_time(
    order: Order, term: Term, measured: UsualTime | None
) -> tuple[str, str, timedelta | None]:
    """Return the usual time of this step as a sentence, its source, and the time."""
    low = order.low_level_status
    if low == limits.BOOKED or (low == "delivered_to_lab" and order.expected_result_by_date):
        return "", "", None
    samples = measured.samples if measured is not None else 0
    if measured is not None and samples >= limits.MIN_SAMPLES and limits.has_usual_time(low):
        usual_limit = limits.round_up(timedelta(seconds=measured.p90_seconds))
        half = limits.round_up(timedelta(seconds=measured.p50_seconds))
        source = f"Learned from {samples:,} of our orders: half took up to {format_duration(half)}."
        return (
            f"Usual up to {format_duration(usual_limit)} {_comparison_text(order, term)}.",
            source,
            usual_limit,
        )
    fixed = term.quiet_after
    if fixed:
        working = " of working time" if limits.counts_working_days(low, order.method) else ""
        if not limits.has_usual_time(low):
            return f"Usual up to {format_duration(fixed)}{working}.", "", fixed
        return (
            f"Usual up to {format_duration(fixed)}{working} (default).",
            f"No history yet: {samples} of the {limits.MIN_SAMPLES} orders it takes to learn from.",
            fixed,
        )
    if term.family == vocabulary.UNKNOWN:
        return "No history yet.", "", None
    return "", "", None


def _comparison_text(order: Order, term: Term) -> str:
    if term.family == vocabulary.AT_LAB:
        return "at this lab"
    return "for this kit" if order.method == "testkit" else "for orders like this"


def progress_steps(
    order: Order, events: Sequence[OrderEvent], booked: bool = False
) -> list[ProgressStep]:
    """Return the steps of an order. `events`: oldest first; `booked`: a visit is booked."""
    history = [
        vocabulary.canonical("order.low_level_status", event.low_level_status) for event in events
    ]
    steps = _planned_steps(order.method, history, booked)
    last = len(events) - 1
    latest = {status: index for index, status in enumerate(history)}
    first_by_lab = next(
        (index for index, status in enumerate(history) if status in _LAB_STATUSES), None
    )
    unannounced: frozenset[str] = frozenset()
    if first_by_lab is not None:
        unannounced = UNANNOUNCED_STEPS.get(order.method, unannounced)
    last_reached = max(
        (steps.index(status) for status in {*latest, *unannounced} if status in steps), default=-1
    )

    nodes: list[ProgressStep] = []
    last_shown = -1
    for position, status in enumerate(steps):
        index = latest.get(status)
        if index is not None:
            nodes += _detour_steps(order, events, history, steps, last_shown + 1, index)
            last_shown = max(last_shown, index)
            nodes.append(_event_step(order, events, history, index, NOW if index == last else DONE))
        elif first_by_lab is not None and status in unannounced:
            nodes += _detour_steps(order, events, history, steps, last_shown + 1, first_by_lab)
            last_shown = max(last_shown, first_by_lab - 1)
            nodes.append(ProgressStep(status, DONE, _term(status, order, history)))
        elif position < last_reached:
            nodes.append(ProgressStep(status, SKIPPED, _term(status, order, history)))
    nodes += _detour_steps(order, events, history, steps, last_shown + 1, len(events))
    if not is_finished(order):
        nodes += [
            ProgressStep(status, TO_COME, _term(status, order, history))
            for status in steps[last_reached + 1 :]
            if status not in latest
        ]
        if nodes and nodes[-1].status == "completed":
            nodes[-1].expected = order.expected_result_by_date
    return nodes


def _planned_steps(method: str, history: Sequence[str], booked: bool) -> tuple[str, ...]:
    if method == "testkit" and {"awaiting_registration", "registered"} & set(history):
        return _REGISTRABLE_KIT
    steps = STEPS.get(method, ())
    if method == "walk_in_test" and not (booked or _has_booking(history)):
        steps = tuple(step for step in steps if step != "appointment_scheduled")
    if "requisition_bypassed" in history:
        return tuple(
            "requisition_bypassed" if step == "requisition_created" else step for step in steps
        )
    return steps


def _has_booking(history: Sequence[str]) -> bool:
    """Return whether an appointment was booked or requested. A walk-in needs none."""
    return "appointment_scheduled" in history or history[-1:] == ["appointment_pending"]


def _term(status: str, order: Order, history: Sequence[str]) -> Term:
    return vocabulary.order_term(status, order.method, history)


def _event_step(
    order: Order, events: Sequence[OrderEvent], history: Sequence[str], index: int, state: str
) -> ProgressStep:
    status = history[index]
    earlier = history[: index + 1]
    event = events[index]
    return ProgressStep(
        status, state, _term(status, order, earlier), at=event.created_at, event_id=event.event_id
    )


def _detour_steps(
    order: Order,
    events: Sequence[OrderEvent],
    history: Sequence[str],
    steps: Sequence[str],
    start: int,
    end: int,
) -> list[ProgressStep]:
    """Return the events between two planned steps that are not planned steps themselves."""
    last = len(events) - 1
    return [
        _event_step(order, events, history, index, NOW if index == last else DETOUR)
        for index in range(start, end)
        if history[index] not in steps
    ]


def is_finished(order: Order) -> bool:
    """Return whether no planned step can follow: closed, result received, or failed for good."""
    if order.bucket in (CLOSED, RESULT_IN):
        return True
    failed = order.status == "failed" or order.low_level_status in _NO_RESULT
    return order.bucket == NEEDS_ACTION and failed
