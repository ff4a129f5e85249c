"""How current the mirror is: the latest sync runs of each list, and the lookups of each kind.

The cost of the queries does not depend on the length of the history: they find the distinct names
with a skip scan over an index, and counts stop at a cap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from django.conf import settings
from django.db import connection
from django.utils.translation import gettext

from backoffice.pages.paging.counts import Count
from backoffice.sync.models import SyncRun

CAP: Final = 10_000
GRACE: Final = timedelta(minutes=1)

_RUNS: Final = """
WITH RECURSIVE names AS (
    (SELECT resource FROM sync_syncrun ORDER BY resource LIMIT 1)
    UNION ALL
    SELECT (SELECT resource FROM sync_syncrun
            WHERE resource > names.resource ORDER BY resource LIMIT 1)
    FROM names WHERE names.resource IS NOT NULL
)
SELECT names.resource, scope.everything, latest.id, success.id, first.created_at
FROM names
CROSS JOIN (VALUES (false), (true)) AS scope (everything)
CROSS JOIN LATERAL (
    SELECT id FROM sync_syncrun
    WHERE resource = names.resource AND "full" = scope.everything
    ORDER BY created_at DESC LIMIT 1
) AS latest
CROSS JOIN LATERAL (
    SELECT created_at FROM sync_syncrun
    WHERE resource = names.resource AND "full" = scope.everything
    ORDER BY created_at LIMIT 1
) AS first
LEFT JOIN LATERAL (
    SELECT id FROM sync_syncrun
    WHERE resource = names.resource AND "full" = scope.everything AND state = 'done'
    ORDER BY created_at DESC LIMIT 1
) AS success ON true
ORDER BY names.resource, scope.everything
"""

_LOOKUPS: Final = """
WITH RECURSIVE kinds AS (
    (SELECT kind FROM sync_lookup ORDER BY kind LIMIT 1)
    UNION ALL
    SELECT (SELECT kind FROM sync_lookup WHERE kind > kinds.kind ORDER BY kind LIMIT 1)
    FROM kinds WHERE kinds.kind IS NOT NULL
)
SELECT kinds.kind,
    (SELECT count(*) FROM (SELECT 1 FROM sync_lookup
        WHERE kind = kinds.kind AND due_at <= now() LIMIT %(cap)s) AS few),
    (SELECT min(due_at) FROM sync_lookup
        WHERE kind = kinds.kind AND due_at <= now()),
    (SELECT count(*) FROM (SELECT 1 FROM sync_lookup
        WHERE kind = kinds.kind AND error <> '' LIMIT %(cap)s) AS few),
    (SELECT error FROM sync_lookup
        WHERE kind = kinds.kind AND error <> '' LIMIT 1)
FROM kinds WHERE kinds.kind IS NOT NULL
ORDER BY kinds.kind
"""


@dataclass(frozen=True, slots=True)
class SyncedListHealth:
    """The sync runs of one list and one scope: the latest run, and the latest completed run.

    The scope is either the changed records, or everything (`full`).
    """

    resource: str
    full: bool
    latest: SyncRun
    latest_done: SyncRun | None
    expected_since: datetime
    """When the first of these runs was created."""

    @property
    def as_of(self) -> datetime | None:
        """The time as of which these records are current; None without a completed run."""
        if self.latest_done is None:
            return None
        return self.latest_done.started_at or self.latest_done.created_at

    def is_late(self, now: datetime) -> bool:
        """Return whether three intervals have passed since the latest completed run began.

        An open run makes no difference, because a run that keeps failing stays open.
        """
        return now - (self.as_of or self.expected_since) > 3 * self.interval + GRACE

    @property
    def interval(self) -> timedelta:
        """The interval between two runs.

        It repeats that of the synced lists, because this module may not import their apps.
        """
        intervals = {
            ("orders", False): timedelta(seconds=settings.SYNC_ORDERS_SECONDS),
            ("orders", True): timedelta(hours=settings.SYNC_SWEEP_HOURS),
            ("users", True): timedelta(minutes=settings.SYNC_USERS_MINUTES),
            ("pulls", True): timedelta(minutes=settings.SYNC_PULLS_MINUTES),
            ("unmatched", True): timedelta(seconds=settings.SYNC_UNMATCHED_SECONDS),
        }
        catalog = timedelta(hours=settings.SYNC_CATALOGUE_HOURS)
        return intervals.get((self.resource, self.full), catalog)


@dataclass(frozen=True, slots=True)
class LookupHealth:
    """The lookups of one kind of record: how many are due, and how many fail."""

    kind: str
    due: Count
    oldest_due: datetime | None
    failing: Count
    error: str


def list_health() -> list[SyncedListHealth]:
    """Return the sync runs of each list and scope. Two queries."""
    with connection.cursor() as cursor:
        cursor.execute(_RUNS)
        rows: list[tuple[str, bool, int, int | None, datetime]] = cursor.fetchall()
    ids = {pk for _, _, *run_ids, _ in rows for pk in run_ids if pk is not None}
    runs = SyncRun.objects.in_bulk(ids)
    return [
        SyncedListHealth(resource, full, runs[latest], runs.get(latest_done or 0), since)
        for resource, full, latest, latest_done, since in rows
    ]


def lookups() -> list[LookupHealth]:
    """Return the state of each kind of lookup. One query."""
    with connection.cursor() as cursor:
        cursor.execute(_LOOKUPS, {"cap": CAP + 1})
        return [
            LookupHealth(kind, _capped(due), oldest, _capped(failing), error or "")
            for kind, due, oldest, failing, error in cursor.fetchall()
        ]


def data_as_of(lists: Sequence[SyncedListHealth]) -> datetime | None:
    """Return the time as of which the whole mirror is current: that of its oldest list.

    None if one of the lists was never read completely.
    """
    by_resource: dict[str, datetime | None] = {}
    for synced_list in lists:
        resource, moment = synced_list.resource, synced_list.as_of
        before = by_resource.get(resource)
        by_resource[resource] = max(before, moment) if before and moment else before or moment
    complete = [moment for moment in by_resource.values() if moment is not None]
    return min(complete) if complete and len(complete) == len(by_resource) else None


class RunState(NamedTuple):
    """The state of a sync run, as pages show it."""

    family: str
    glyph: str
    label: str


def state_of(run: SyncRun) -> RunState:
    """Return the state of a run. One that waits after a failure has a state of its own here."""
    if run.state == SyncRun.State.FAILED:
        return RunState("needs-action", "warning", gettext("Failed"))
    if run.state == SyncRun.State.DONE:
        return RunState("result-in", "tick", gettext("Done"))
    if run.attempts:
        return RunState("abnormal", "repeat", gettext("Retrying"))
    if run.state == SyncRun.State.RUNNING:
        return RunState("on-the-way", "chevron", gettext("Running"))
    return RunState("preparing", "ring", gettext("Due"))


def duration(run: SyncRun, now: datetime) -> timedelta | None:
    """Return how long a run took, or how long it has been running; None before its start."""
    if run.started_at is None:
        return None
    return max((run.finished_at or now) - run.started_at, timedelta())


def rate(run: SyncRun, now: datetime) -> float | None:
    """Return the records per second; None if the run has read nothing yet."""
    length = duration(run, now)
    if length is None or not run.fetched:
        return None
    return run.fetched / max(length.total_seconds(), 0.001)


def _capped(count: int) -> Count:
    return Count(min(count, CAP), capped=count > CAP)
