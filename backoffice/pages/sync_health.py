"""How current the mirror is: what each walk over a list and each kind of look-up last did.

Every read costs the same however long the history: names are found by skipping along an index,
counts stop at a cap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import connection

from backoffice.models import SyncRun
from backoffice.pages.paging.counts import Count

CAP: Final = 10_000
GRACE: Final = timedelta(minutes=1)

_RUNS: Final = """
WITH RECURSIVE names AS (
    (SELECT resource FROM backoffice_syncrun ORDER BY resource LIMIT 1)
    UNION ALL
    SELECT (SELECT resource FROM backoffice_syncrun
            WHERE resource > names.resource ORDER BY resource LIMIT 1)
    FROM names WHERE names.resource IS NOT NULL
)
SELECT names.resource, scope.everything, latest.id, success.id, first.created_at
FROM names
CROSS JOIN (VALUES (false), (true)) AS scope (everything)
CROSS JOIN LATERAL (
    SELECT id FROM backoffice_syncrun
    WHERE resource = names.resource AND "full" = scope.everything
    ORDER BY created_at DESC LIMIT 1
) AS latest
CROSS JOIN LATERAL (
    SELECT created_at FROM backoffice_syncrun
    WHERE resource = names.resource AND "full" = scope.everything
    ORDER BY created_at LIMIT 1
) AS first
LEFT JOIN LATERAL (
    SELECT id FROM backoffice_syncrun
    WHERE resource = names.resource AND "full" = scope.everything AND state = 'done'
    ORDER BY created_at DESC LIMIT 1
) AS success ON true
ORDER BY names.resource, scope.everything
"""

_LOOKUPS: Final = """
WITH RECURSIVE kinds AS (
    (SELECT kind FROM backoffice_lookup ORDER BY kind LIMIT 1)
    UNION ALL
    SELECT (SELECT kind FROM backoffice_lookup WHERE kind > kinds.kind ORDER BY kind LIMIT 1)
    FROM kinds WHERE kinds.kind IS NOT NULL
)
SELECT kinds.kind,
    (SELECT count(*) FROM (SELECT 1 FROM backoffice_lookup
        WHERE kind = kinds.kind AND due_at <= now() LIMIT %(cap)s) AS few),
    (SELECT min(due_at) FROM backoffice_lookup
        WHERE kind = kinds.kind AND due_at <= now()),
    (SELECT count(*) FROM (SELECT 1 FROM backoffice_lookup
        WHERE kind = kinds.kind AND error <> '' LIMIT %(cap)s) AS few),
    (SELECT error FROM backoffice_lookup
        WHERE kind = kinds.kind AND error <> '' LIMIT 1)
FROM kinds WHERE kinds.kind IS NOT NULL
ORDER BY kinds.kind
"""


@dataclass(frozen=True, slots=True)
class Walk:
    """One way of walking one list (what changed, or everything): its latest run, and the latest
    that came to its end."""

    resource: str
    full: bool
    latest: SyncRun
    success: SyncRun | None
    asked_since: datetime
    """When the walk was first asked for."""

    @property
    def as_of(self) -> datetime | None:
        """What the walk reads is here as the service had it then."""
        if self.success is None:
            return None
        return self.success.started_at or self.success.created_at

    def late(self, now: datetime) -> bool:
        """Three rounds have passed since a run began that came to its end, whatever is open now:
        a run that keeps failing stays open."""
        return now - (self.as_of or self.asked_since) > 3 * self.every + GRACE

    @property
    def every(self) -> timedelta:
        """How often the walk is asked for: the `every` of the lists, which stand above this."""
        known = {
            ("orders", False): timedelta(seconds=settings.SYNC_ORDERS_SECONDS),
            ("orders", True): timedelta(hours=settings.SYNC_SWEEP_HOURS),
            ("users", True): timedelta(minutes=settings.SYNC_USERS_MINUTES),
            ("pulls", True): timedelta(minutes=settings.SYNC_PULLS_MINUTES),
            ("unmatched", True): timedelta(seconds=settings.SYNC_UNMATCHED_SECONDS),
        }
        catalogue = timedelta(hours=settings.SYNC_CATALOGUE_HOURS)
        return known.get((self.resource, self.full), catalogue)


@dataclass(frozen=True, slots=True)
class LookupHealth:
    """One kind of record that is read by its own call."""

    kind: str
    due: Count
    oldest_due: datetime | None
    failing: Count
    error: str


def walks() -> list[Walk]:
    """Every walk that was ever asked for: two queries."""
    with connection.cursor() as cursor:
        cursor.execute(_RUNS)
        found: list[tuple[str, bool, int, int | None, datetime]] = cursor.fetchall()
    ids = {pk for _, _, *two, _ in found for pk in two if pk is not None}
    runs = SyncRun.objects.in_bulk(ids)
    return [
        Walk(resource, full, runs[latest], runs.get(success or 0), since)
        for resource, full, latest, success, since in found
    ]


def lookups() -> list[LookupHealth]:
    """Every kind of look-up: one query."""
    with connection.cursor() as cursor:
        cursor.execute(_LOOKUPS, {"cap": CAP + 1})
        return [
            LookupHealth(kind, _capped(due), oldest, _capped(failing), error or "")
            for kind, due, oldest, failing, error in cursor.fetchall()
        ]


def data_as_of(found: Sequence[Walk]) -> datetime | None:
    """The mirror as a whole is as old as its oldest list; None while one was never complete."""
    known: dict[str, datetime | None] = {}
    for walk in found:
        before, moment = known.get(walk.resource), walk.as_of
        known[walk.resource] = max(before, moment) if before and moment else before or moment
    complete = [moment for moment in known.values() if moment is not None]
    return min(complete) if complete and len(complete) == len(known) else None


def state_of(run: SyncRun) -> tuple[str, str, str]:
    """Family, glyph and word of a run's state; waiting after a failure is not plain waiting."""
    if run.state == SyncRun.State.FAILED:
        return "needs-action", "warning", "Failed"
    if run.state == SyncRun.State.DONE:
        return "result-in", "tick", "Done"
    if run.attempts:
        return "abnormal", "repeat", "Retrying"
    if run.state == SyncRun.State.RUNNING:
        return "on-the-way", "chevron", "Running"
    return "preparing", "ring", "Due"


def took(run: SyncRun, now: datetime) -> timedelta | None:
    """How long a run took, or has been at it."""
    if run.started_at is None:
        return None
    return max((run.finished_at or now) - run.started_at, timedelta())


def rate(run: SyncRun, now: datetime) -> float | None:
    """Records a second."""
    length = took(run, now)
    if length is None or not run.fetched:
        return None
    return run.fetched / max(length.total_seconds(), 0.001)


def _capped(count: int) -> Count:
    return Count(min(count, CAP), capped=count > CAP)
