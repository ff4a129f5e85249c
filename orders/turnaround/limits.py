"""When an order is overdue: longer in its step than usual.

The sync asks for every row it writes, so limits are cached in memory. `refresh` is called before a
batch, never while rows are sent, because it may query.

| state | overdue |
|---|---|
| final, or unknown | never |
| needs action | at once, or after the default time of the vocabulary |
| visit booked | a while after the visit's start (set by the sync of appointments) |
| lab has the sample, and the service gave a date | when that day has ended |
| shipped on a future date | as if ordered on that day |
| any other | after the learned time of step, method and lab; else after the default time |
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Final

from backoffice.core import vocabulary
from backoffice.core.vocabulary import CLOSED, NEEDS_ACTION, RESULT_IN
from orders.models.usual_time import UsualTime

MIN_SAMPLES: Final = 30
"""Fewest samples from which a learned time is used."""
MIN_LIMIT: Final = timedelta(hours=1)
"""Shortest limit. Steps that usually take minutes are not reported as overdue earlier."""
BOOKED: Final = "appointment_scheduled"
VISIT_GRACE_PERIOD: Final = timedelta(hours=6)
END_OF_DAY_OFFSET: Final = timedelta(days=1, hours=10)
"""Time from 00:00 UTC of a date until that day has ended in every time zone of the country."""

StepKey = tuple[str, str, str]

_CACHE_SECONDS: Final = 60.0
_KIT_PAPERWORK_STATUSES: Final = frozenset({"requisition_created", "requisition_bypassed"})
_WEEK: Final = timedelta(days=7)
_WORKING_WEEK: Final = timedelta(days=5)
_WEEKEND_LENGTH: Final = timedelta(days=2)
_MAX_MOMENT: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""Later times are invalid: a sum with them would overflow `datetime`."""

_learned_limits: dict[StepKey, timedelta] = {}
_limit_cache: dict[tuple[str, str, str | None], timedelta | None] = {}
_read_at = -math.inf
_decision = 0


def refresh() -> None:
    """Read the learned times if the cache is older than a minute or than the latest decision.

    This runs at most one query.
    """
    global _read_at, _decision
    decided = vocabulary.decisions.last_decision()
    if decided != _decision or time.monotonic() - _read_at > _CACHE_SECONDS:
        _decision = decided
        _limit_cache.clear()
        use_measurements(UsualTime.objects.filter(samples__gte=MIN_SAMPLES))
        _read_at = time.monotonic()


def use_measurements(measured: Iterable[UsualTime]) -> None:
    """Replace all learned times by these."""
    limits = {
        (usual_time.low_level_status, usual_time.method, usual_time.lab_slug): round_up(
            timedelta(seconds=usual_time.p90_seconds)
        )
        for usual_time in measured
        if usual_time.samples >= MIN_SAMPLES and has_usual_time(usual_time.low_level_status)
    }
    if limits != _learned_limits:
        _learned_limits.clear()
        _learned_limits.update(limits)
        _limit_cache.clear()


def expire_cache() -> None:
    """Make the next `refresh` read the learned times."""
    global _read_at
    _read_at = -math.inf


def has_usual_time(low_level_status: str) -> bool:
    """Return whether a step has a usual time: it is not final, and needs neither us nor a visit."""
    family = vocabulary.term("order.low_level_status", low_level_status or "unknown").family
    return family not in (NEEDS_ACTION, RESULT_IN, CLOSED) and low_level_status != BOOKED


def round_up(length: timedelta) -> timedelta:
    """Round up to hours, above two days to days.

    So the limit is exactly the time that is shown. A new measurement that differs by minutes
    changes no order.
    """
    step = timedelta(days=1) if length > timedelta(days=2) else timedelta(hours=1)
    return max(step * math.ceil(length / step), MIN_LIMIT)


def default_limit(low_level_status: str, method: str) -> timedelta | None:
    """Return the default time of the vocabulary; None if the step is never overdue."""
    return vocabulary.order_term(low_level_status, method, ()).quiet_after


def counts_working_days(low_level_status: str, method: str) -> bool:
    """Return whether the default time excludes weekends. Kits are packed on working days."""
    return method == "testkit" and low_level_status in _KIT_PAPERWORK_STATUSES


def learned_limit(low_level_status: str, method: str, lab_slug: str | None) -> timedelta | None:
    return _learned_limits.get((low_level_status, method, lab_slug or ""))


def quiet_at(
    low: str,
    method: str,
    lab_slug: str | None,
    since: datetime | None,
    activate_by: date | None = None,
    expected: date | None = None,
) -> datetime | None:
    """Return when an order that entered a step at `since` becomes overdue; None: never.

    `expected` is the service's date for the result. Never raises, whatever the dates.
    """
    if since is None:
        return None
    try:
        limit = _limit_cache[low, method, lab_slug]
    except KeyError:
        limit = _cache_limit(low, method, lab_slug)
    if limit is None:
        return None
    if since > _MAX_MOMENT:
        return _MAX_MOMENT
    if low == "delivered_to_lab" and expected is not None:
        return max(since, _utc_midnight(expected) + END_OF_DAY_OFFSET)
    if low == "ordered" and activate_by is not None:
        since = max(since, _utc_midnight(activate_by))
    if (
        low in _KIT_PAPERWORK_STATUSES
        and method == "testkit"
        and not learned_limit(low, method, lab_slug)
    ):
        return add_working_time(since, limit)
    return since + limit


def booked_quiet_at(start: datetime | None) -> datetime | None:
    """Return when an order with a booked visit becomes overdue: when the draw should be done."""
    return None if start is None else min(start, _MAX_MOMENT) + VISIT_GRACE_PERIOD


def add_working_time(since: datetime, length: timedelta) -> datetime:
    """Return the time `length` after `since`, not counting Saturdays and Sundays (UTC)."""
    at = since if since.tzinfo is UTC else since.astimezone(UTC)
    weekday = at.weekday()
    passed = timedelta(days=weekday, hours=at.hour, minutes=at.minute, seconds=at.second,
                       microseconds=at.microsecond)  # fmt: skip
    if weekday >= 5:
        at += _WEEK - passed
        passed = timedelta(0)
    # Counted from Monday 00:00, every five working days include one weekend.
    weekends = -((passed + length) // -_WORKING_WEEK) - 1
    return at + length + max(weekends, 0) * _WEEKEND_LENGTH


def _utc_midnight(day: date) -> datetime:
    return min(datetime(day.year, day.month, day.day, tzinfo=UTC), _MAX_MOMENT)


def _cache_limit(low: str, method: str, lab_slug: str | None) -> timedelta | None:
    limit = learned_limit(low, method, lab_slug)
    if limit is None and low != BOOKED:
        limit = default_limit(low, method)
    if len(_limit_cache) < 10_000:  # Limit the memory, whatever the service sends.
        _limit_cache[low, method, lab_slug] = limit
    return limit
