"""The progress of an order: past steps, the current step, future steps, and who acts next."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final

from django.utils.translation import gettext, gettext_noop, ngettext

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
"""Statuses of a point in time. For these the page says "3 days ago", not "for 3 days"."""

_WAITING_SENTENCES: Final = {
    "awaiting_registration": gettext_noop("Kit has not been registered for %(time)s"),
    "transit_customer": gettext_noop("Kit has been on its way to the patient %(time)s"),
    "out_for_delivery": gettext_noop("Kit has been out for delivery %(time)s"),
    "with_customer": gettext_noop("Kit has been with the patient %(time)s"),
    "registered": gettext_noop("Kit was registered %(time)s ago"),
    "transit_lab": gettext_noop("Sample has been on its way to the lab %(time)s"),
    "delivered_to_lab": gettext_noop("Lab has had the sample for %(time)s"),
}
"""How long an order has been in a status, as a sentence without its period.

A status that is not listed uses its label.
"""
_TURN_SENTENCES: Final = {
    vocabulary.US: gettext_noop("Waiting on the clinic."),
    vocabulary.PATIENT: gettext_noop("Waiting on the patient."),
    vocabulary.SERVICE: gettext_noop("Waiting on the lab service."),
    vocabulary.COURIER: gettext_noop("Waiting on the courier."),
    vocabulary.LAB: gettext_noop("Waiting on the lab."),
}

DONE, NOW, SKIPPED, DETOUR, TO_COME = "done", "now", "skipped", "detour", "to-come"
STATE_LABELS: Final = {
    DONE: gettext_noop("done"),
    NOW: gettext_noop("current"),
    SKIPPED: gettext_noop("skipped"),
    DETOUR: gettext_noop("extra step"),
    TO_COME: gettext_noop("upcoming"),
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
        return gettext(STATE_LABELS[self.state])


@dataclass(frozen=True, slots=True)
class CurrentStep:
    """The current step of an order, its start, its usual time, and who acts next.

    `usual_text` is the usual time with its unit, and is empty if there is none. `source` is the
    source of the usual time. `is_handled`: staff have done their part, so it is not our turn
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
        """Return "9 d (usually 6 d)", shown beside the current step."""
        if self.time_in_step is None or not self._is_waiting:
            return ""
        step_time = format_duration(self.time_in_step)
        if not self.usual_limit:
            return step_time
        return gettext("%(time)s (usually %(usual)s)") % {
            "time": step_time,
            "usual": format_duration(self.usual_limit),
        }

    @property
    def _is_waiting(self) -> bool:
        return bool(self.term.turn) or self.term.family == vocabulary.UNKNOWN

    @property
    def turn_text(self) -> str:
        if self.is_handled and self.term.turn == vocabulary.US:
            return ""
        if self.is_signed and self.term.family == vocabulary.RESULT_IN:
            return gettext("Signed. Nothing left to do.")
        if not self.term.turn:
            is_unknown = self.term.family == vocabulary.UNKNOWN
            return "" if is_unknown else gettext("Nothing left to do.")
        return gettext(_TURN_SENTENCES.get(self.term.turn, ""))

    @property
    def sentence(self) -> str:
        """Return "Kit has been with the patient 9 days (usually 6). 3 days overdue. …"."""
        step = self._step_words()
        if self.usual_text and self._is_waiting:
            step = gettext("%(step)s (usually %(usual)s)") % {
                "step": step,
                "usual": self._usual_words(),
            }
        no_history = (
            gettext("No usual time yet.")
            if self.time_in_step is not None
            and self.term.family == vocabulary.UNKNOWN
            and not self.usual_text
            else ""
        )
        # A step that needs action at once is overdue from its start.
        late = (
            gettext("%(time)s overdue.") % {"time": duration_words(self.overdue_by)}
            if self.overdue_by and self.overdue_by != self.time_in_step
            else ""
        )
        return " ".join(part for part in (f"{step}.", no_history, late, self.turn_text) if part)

    def _step_words(self) -> str:
        """Return the status and how long the order has had it."""
        label = gettext(self.term.label)
        if self.time_in_step is None or not self._is_waiting:
            return label
        if self.time_in_step < timedelta(minutes=1):
            return gettext("%(status)s, just now") % {"status": label}
        words = {"status": label, "time": duration_words(self.time_in_step)}
        if self.term.family == vocabulary.NEEDS_ACTION or self.term.value in MOMENTARY_STATUSES:
            return gettext("%(status)s, %(time)s ago") % words
        sentence = _WAITING_SENTENCES.get(self.term.value)
        return (gettext(sentence) if sentence else gettext("%(status)s for %(time)s")) % words

    def _usual_words(self) -> str:
        """Return the usual time, without its unit if the time before it has the same one."""
        if self.usual_limit is None or self.time_in_step is None:
            return self.usual_text
        number, unit = _number_and_unit(self.usual_limit)
        is_plain = self.usual_text == duration_words(self.usual_limit)
        same_unit = unit == _number_and_unit(self.time_in_step)[1]
        shows_time = self.time_in_step >= timedelta(minutes=1)
        return str(number) if is_plain and same_unit and shows_time else self.usual_text


def _number_and_unit(length: timedelta) -> tuple[int, str]:
    """Return a length of time in the unit that it is shown in: `d`, `h` or `min`."""
    minutes = int(length.total_seconds() // 60)
    if minutes >= 2 * 24 * 60:
        return minutes // (24 * 60), "d"
    if minutes >= 120:
        return minutes // 60, "h"
    return max(minutes, 0), "min"


def format_duration(length: timedelta) -> str:
    """Return a length of time as "3 d", "5 h" or "12 min"."""
    number, unit = _number_and_unit(length)
    return f"{number} {unit}"


def duration_words(length: timedelta) -> str:
    """Return a length of time as "3 days", "5 hours" or "12 minutes"."""
    number, unit = _number_and_unit(length)
    if unit == "d":
        words = ngettext("%(count)s day", "%(count)s days", number)
    elif unit == "h":
        words = ngettext("%(count)s hour", "%(count)s hours", number)
    else:
        words = ngettext("%(count)s minute", "%(count)s minutes", number)
    return words % {"count": number}


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
    """Return the usual time of this step with its unit, its source, and the time."""
    low = order.low_level_status
    if low == limits.BOOKED or (low == "delivered_to_lab" and order.expected_result_by_date):
        return "", "", None
    samples = measured.samples if measured is not None else 0
    if measured is not None and samples >= limits.MIN_SAMPLES and limits.has_usual_time(low):
        usual_limit = limits.round_up(timedelta(seconds=measured.p90_seconds))
        half = limits.round_up(timedelta(seconds=measured.p50_seconds))
        source = _source_text(order, term) % {
            "count": f"{samples:,}",
            "half": duration_words(half),
            "most": duration_words(usual_limit),
        }
        return duration_words(usual_limit), source, usual_limit
    fixed = term.quiet_after
    if fixed:
        usual_text = duration_words(fixed)
        if limits.counts_working_days(low, order.method):
            days = math.ceil(fixed / timedelta(days=1))
            business_days = ngettext("%(count)s business day", "%(count)s business days", days)
            usual_text = business_days % {"count": days}
        if not limits.has_usual_time(low):
            return usual_text, "", fixed
        source = gettext(
            "The usual time is a default. It will be learned from %(needed)s of our orders "
            "(%(count)s so far)."
        )
        return usual_text, source % {"needed": limits.MIN_SAMPLES, "count": samples}, fixed
    return "", "", None


def _source_text(order: Order, term: Term) -> str:
    """Return the sentence about the orders that a usual time was learned from."""
    if term.family == vocabulary.AT_LAB:
        return gettext(
            "Based on %(count)s of our orders at this lab: half took up to %(half)s, 9 in 10 up to "
            "%(most)s."
        )
    if order.method == "testkit":
        return gettext(
            "Based on %(count)s of our kit orders: half took up to %(half)s, 9 in 10 up to "
            "%(most)s."
        )
    return gettext(
        "Based on %(count)s of our orders like this one: half took up to %(half)s, 9 in 10 up to "
        "%(most)s."
    )


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
