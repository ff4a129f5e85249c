"""Watch incremental syncs of orders: the service's clock, and runs that return nothing.

A run whose window begins in the future succeeds and returns nothing. A run in a quiet night also
returns nothing. In the first case, orders change meanwhile, or the pause is unusually long.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import connection

from backoffice.sync import server_clock
from orders.models import Order

MAX_CLOCK_OFFSET: Final = 60.0
"""Seconds by which the clocks may differ; a larger difference is reported. The limit for webhook
deliveries is the same."""
MIN_PAUSE: Final = timedelta(minutes=30)
"""The shortest pause that can mean missed changes: twice the default overlap. During the overlap,
runs read the last change again, so they return something."""
MIN_UNUSUAL_PAUSE: Final = timedelta(hours=6)
UNUSUAL_FACTOR: Final = 2
"""A pause is unusual if it is longer than this many times the longest earlier pause on record."""
MIN_AGE: Final = timedelta(days=1)
"""Pauses are judged only after this much history, so that it includes a day and a night."""

_CLOCKS: Final = """
SELECT offset_seconds, abs(offset_seconds - lag(offset_seconds) OVER (ORDER BY id))
FROM (
 SELECT id, (checkpoint->'clock'->>'offset_seconds')::float AS offset_seconds
 FROM sync_syncrun
 WHERE resource = 'orders' AND state = 'done' AND checkpoint->'clock' IS NOT NULL
  AND created_at > now() - interval '1 hour'
 ORDER BY created_at DESC LIMIT 200
) AS recent
ORDER BY id DESC
"""
"""The runs of the latest hour: how far the service's clock was ahead of ours, and the difference
from the previous run."""
_PAUSES: Final = """
WITH recent AS (
 SELECT id, started_at, server_date, sum((fetched > 0)::int) OVER (ORDER BY id) AS pause
 FROM (
  SELECT id, started_at, server_date, fetched FROM sync_syncrun
  WHERE resource = 'orders' AND NOT "full" AND state = 'done' AND started_at IS NOT NULL
   AND server_date IS NOT NULL
  ORDER BY created_at DESC LIMIT 20160
 ) AS latest
), pauses AS (
 SELECT pause, min(started_at) AS began, max(started_at) AS ended,
  min(server_date) AS changes_after, max(server_date) AS changes_before
 FROM recent GROUP BY pause
)
SELECT began, ended, changes_after, changes_before,
 coalesce(max(ended - began) OVER before, interval '0'), min(began) OVER (ORDER BY pause)
FROM pauses
WINDOW before AS (ORDER BY pause ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
ORDER BY pause DESC LIMIT 1
"""
"""The latest pause among 20,160 runs, which is a week of runs every 30 seconds. A pause is a run
that returned changes, with the later runs that returned none."""


@dataclass(frozen=True, slots=True)
class SyncWatch:
    offset_seconds: float | None
    jump_seconds: float
    without_changes: timedelta
    misses_changes: bool
    unusually_quiet: bool

    def figures(self) -> dict[str, float | bool | None]:
        return {
            "service_clock_offset_seconds": self.offset_seconds,
            "service_clock_jump_seconds": self.jump_seconds,
            "without_changes_seconds": self.without_changes.total_seconds(),
            "misses_changes": self.misses_changes,
            "unusually_quiet": self.unusually_quiet,
        }


@dataclass(frozen=True, slots=True)
class Pause:
    """A run that returned changes, with the later runs that returned none.

    `began` and `ended` are by our clock, `changes_after` and `changes_before` by the service's.
    `longest` is the longest earlier pause on record.
    """

    began: datetime
    ended: datetime
    changes_after: datetime
    changes_before: datetime
    longest: timedelta
    history_since: datetime

    @property
    def length(self) -> timedelta:
        return self.ended - self.began

    @property
    def is_unusual(self) -> bool:
        has_history = self.began - self.history_since >= MIN_AGE
        return has_history and self.length > max(MIN_UNUSUAL_PAUSE, UNUSUAL_FACTOR * self.longest)


def read() -> SyncWatch:
    """Return the state of the incremental syncs of orders.

    This takes three queries at most. Their cost does not depend on the length of the history.
    """
    offset, jump = _clock()
    pause = _pause()
    if pause is None:
        return SyncWatch(offset, jump, timedelta(), misses_changes=False, unusually_quiet=False)
    return SyncWatch(
        offset,
        jump,
        pause.length,
        misses_changes=pause.length > MIN_PAUSE and _has_changed_order(pause),
        unusually_quiet=pause.is_unusual,
    )


def _clock() -> tuple[float | None, float]:
    """Return how far the service's clock is ahead of ours, and its largest jump in the last hour.

    Both are in seconds. A jump within the allowed jitter counts as 0.
    """
    with connection.cursor() as cursor:
        cursor.execute(_CLOCKS)
        rows = cursor.fetchall()
    jump = max((change for _, change in rows if change is not None), default=0.0)
    limit = server_clock.MAX_JITTER.total_seconds()
    return (rows[0][0] if rows else None), (jump if jump > limit else 0.0)


def _pause() -> Pause | None:
    with connection.cursor() as cursor:
        cursor.execute(_PAUSES)
        row = cursor.fetchone()
    return Pause(*row) if row else None


def _has_changed_order(pause: Pause) -> bool:
    """Return whether an order changed in this pause and should have been read by its runs.

    The mirror has the change from an event or from a lookup of the order. Both times are by the
    service's clock.
    """
    after, before = (
        pause.changes_after + server_clock.MAX_AHEAD,
        pause.changes_before - server_clock.MAX_AHEAD,
    )
    steps = Order.objects.filter(updated_at__gt=after, last_event_at__gt=after)
    return steps.filter(last_event_at__lt=before, missing_since=None).exists()
