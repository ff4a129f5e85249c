"""When an order is over its usual time.

The sync asks for every row it writes, so limits are kept in memory and `refresh` is called before a
batch, never while rows are sent: it may query.

| state | over |
|---|---|
| rests for good, or nobody knows it | never |
| needs action | at once, or after the fixed time of the vocabulary |
| visit booked | a while after the visit's start (known to the sync of appointments) |
| lab has the sample, and the service gave a date | when that day has ended |
| sent out on a date to come | as if ordered on that day |
| any other | after the learned time of step, method and lab; else after the fixed one |
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Final

from backoffice.core import vocabulary
from backoffice.core.vocabulary import CLOSED, NEEDS_ACTION, RESULT_IN
from orders.turnaround.models import UsualTime

ENOUGH: Final = 30
"""Samples from which on the learned time is believed."""
LEAST: Final = timedelta(hours=1)
"""Steps that are usually over in minutes are not worth a look before this."""
BOOKED: Final = "appointment_scheduled"
AFTER_VISIT: Final = timedelta(hours=6)
DAY_ENDS: Final = timedelta(days=1, hours=10)
"""From 00:00 UTC of a date until that day has ended everywhere in the country."""

Key = tuple[str, str, str]

_REMEMBERED_SECONDS: Final = 60.0
_KIT_PAPERS: Final = frozenset({"requisition_created", "requisition_bypassed"})
_WEEK: Final = timedelta(days=7)
_WORKING_WEEK: Final = timedelta(days=5)
_WEEKEND: Final = timedelta(days=2)
_LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""Moments beyond are nonsense, and adding to them would leave Python's calendar."""

_learned: dict[Key, timedelta] = {}
_limits: dict[tuple[str, str, str | None], timedelta | None] = {}
_asked_at = -math.inf
_decision = 0


def refresh() -> None:
    """Read the learned times where they were read more than a minute ago, or values were given
    other words since: at most one query."""
    global _asked_at, _decision
    decided = vocabulary.given.decision()
    if decided != _decision or time.monotonic() - _asked_at > _REMEMBERED_SECONDS:
        _decision = decided
        _limits.clear()
        believe(UsualTime.objects.filter(samples__gte=ENOUGH))
        _asked_at = time.monotonic()


def believe(measured: Iterable[UsualTime]) -> None:
    """Use these times, and no other."""
    found = {
        (one.low_level_status, one.method, one.lab_slug): whole(timedelta(seconds=one.p90_seconds))
        for one in measured
        if one.samples >= ENOUGH and is_learned(one.low_level_status)
    }
    if found != _learned:
        _learned.clear()
        _learned.update(found)
        _limits.clear()


def forget() -> None:
    """The next `refresh` reads."""
    global _asked_at
    _asked_at = -math.inf


def is_learned(low_level_status: str) -> bool:
    """Whether resting there can be usual: not for good, not until we act, not until a visit."""
    family = vocabulary.term("order.low_level_status", low_level_status or "unknown").family
    return family not in (NEEDS_ACTION, RESULT_IN, CLOSED) and low_level_status != BOOKED


def whole(length: timedelta) -> timedelta:
    """Rounded up to hours, from two days on to days: what is shown is what holds, and a measure
    that moves by minutes moves no order."""
    step = timedelta(days=1) if length > timedelta(days=2) else timedelta(hours=1)
    return max(step * math.ceil(length / step), LEAST)


def fixed(low_level_status: str, method: str) -> timedelta | None:
    """The default of the vocabulary; None where resting is no reason to look."""
    return vocabulary.order_term(low_level_status, method, ()).quiet_after


def in_working_days(low_level_status: str, method: str) -> bool:
    """Whether the fixed time leaves weekends out: kits are packed on working days."""
    return method == "testkit" and low_level_status in _KIT_PAPERS


def learned(low_level_status: str, method: str, lab_slug: str | None) -> timedelta | None:
    return _learned.get((low_level_status, method, lab_slug or ""))


def quiet_at(
    low: str,
    method: str,
    lab_slug: str | None,
    since: datetime | None,
    activate_by: date | None = None,
    expected: date | None = None,
) -> datetime | None:
    """The moment an order that came into a step at `since` is over its usual time; None: never.

    `expected` is the service's date for the result. Never raises, whatever the dates.
    """
    if since is None:
        return None
    try:
        limit = _limits[low, method, lab_slug]
    except KeyError:
        limit = _remember(low, method, lab_slug)
    if limit is None:
        return None
    if since > _LATEST:
        return _LATEST
    if low == "delivered_to_lab" and expected is not None:
        return max(since, _midnight(expected) + DAY_ENDS)
    if low == "ordered" and activate_by is not None:
        since = max(since, _midnight(activate_by))
    if low in _KIT_PAPERS and method == "testkit" and not learned(low, method, lab_slug):
        return after_working_time(since, limit)
    return since + limit


def after_visit(start: datetime | None) -> datetime | None:
    """When a booked visit should have led to a draw."""
    return None if start is None else min(start, _LATEST) + AFTER_VISIT


def after_working_time(since: datetime, length: timedelta) -> datetime:
    """`since` and `length` later, where Saturdays and Sundays (UTC) do not count."""
    at = since if since.tzinfo is UTC else since.astimezone(UTC)
    weekday = at.weekday()
    passed = timedelta(days=weekday, hours=at.hour, minutes=at.minute, seconds=at.second,
                       microseconds=at.microsecond)  # fmt: skip
    if weekday >= 5:
        at += _WEEK - passed
        passed = timedelta(0)
    # Counted from Monday 00:00, each five days of work take a weekend along.
    weekends = -((passed + length) // -_WORKING_WEEK) - 1
    return at + length + max(weekends, 0) * _WEEKEND


def _midnight(day: date) -> datetime:
    return min(datetime(day.year, day.month, day.day, tzinfo=UTC), _LATEST)


def _remember(low: str, method: str, lab_slug: str | None) -> timedelta | None:
    limit = learned(low, method, lab_slug)
    if limit is None and low != BOOKED:
        limit = fixed(low, method)
    if len(_limits) < 10_000:  # Whatever the service sends, memory stays small.
        _limits[low, method, lab_slug] = limit
    return limit
