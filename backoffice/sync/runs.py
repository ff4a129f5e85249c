"""Sync runs: each reads one list of the service. Its state is a row, so any worker can continue.

    request ──▶ due ──claim──▶ running ──finish──▶ done
                 ▲                │
                 └── service unreachable or limited, worker killed, time slice over
                                  └── the list cannot be paged ──▶ failed

A claim takes a lease, timed by the database's clock, and increments the run's fence. Every write
to a run compares the fence, in the same transaction as the mirrored rows: a worker that was paused
and lost its lease cannot write. A batch that changed nothing writes only the checkpoint, at most
once a second.

The list makes the checkpoint with each batch, and begins at it when a run is resumed
(`pagination.py`, `orders/sync/orders.py`).

How often a list is read stands beside the list, from the `SYNC_…` settings: `ALL_ORDERS` in
`orders/sync/orders.py`, and so on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar
from uuid import UUID

import stamina
from django.conf import settings
from django.db import IntegrityError, InterfaceError, OperationalError, connection, transaction
from django.db.models import F, Q
from django.db.models.functions import Least, Now

from backoffice.core import service_team, shutdown
from backoffice.core.urls import parse_uuid
from backoffice.mirror.models import Drift, UnreadRecord
from backoffice.mirror.tables import ApplyOutcome, key_text
from backoffice.mirror.unreadable_records import clear_unreadable, key_from_raw, save_unreadable
from backoffice.service import Record, Service, Unreadable, errors
from backoffice.sync import server_clock
from backoffice.sync.lookups import failing_keys, schedule_lookups
from backoffice.sync.models import SyncRun
from backoffice.sync.pagination import Batch, PaginationError, in_background
from backoffice.sync.server_clock import latest_window

logger = logging.getLogger(__name__)

T = TypeVar("T")

TIME_SLICE_SECONDS = 30.0
"""Seconds a task works before it leaves the rest of a resumable run to the next tick."""
MAX_TASK_SECONDS = 3_600
"""Seconds until a task is stopped. Lists without checkpoints and slow services need more than a
slice."""
CHECKPOINT_SECONDS = 1.0
RETRY_DELAYS = (2, 5, 15, 30, 60, 120, 300)
"""Seconds until a run is due again after the service failed once, twice, …"""
FIRST_WINDOW = timedelta(days=1)
"""What the first incremental run reads: today's work is visible before the first full run ends."""
RETRY_FAILED_AFTER = timedelta(minutes=15)
MAX_DRIFTS = 1_000
"""Drift rows stored per run; all differences are counted."""


@dataclass(frozen=True)
class SyncedList:
    """A list of the service and how it is mirrored.

    `batches(service, run)` yields batches; `store(records)` writes them as rows in the caller's
    transaction. If `full`, the list is read completely, and `find_missing(run)` can find rows that
    the list does not contain. `updated_at(data)` returns the record's own time of change, if it
    has one. If a full run reads a change that is older than the last run's window, that is drift.
    """

    resource: str
    batches: Callable[[Service, SyncRun], Iterator[Batch[Any]]]
    store: Callable[[Sequence[Record[Any]]], ApplyOutcome]
    interval: Callable[[], timedelta]
    full: bool = True
    find_missing: Callable[[SyncRun], MissingRecordFinder] | None = None
    updated_at: Callable[[Any], datetime] | None = None
    lookup_kind: str = ""
    """Kind of the lookup that reads one record of this list again; empty if there is none."""
    team_of: Callable[[Any], UUID] | None = None
    """Returns the team named in a record; None if records do not name their team."""


class MissingRecordFinder(Protocol):
    """Finds and handles, batch by batch, the rows that a full list does not contain.

    Returns their keys.
    """

    def __call__(self, batch: Batch[Any], is_last: bool) -> list[str]: ...


class LeaseLost(Exception):
    """Another worker has claimed this run."""


def sync_when_due(synced_list: SyncedList, seconds: float) -> None:
    """Request a run if the latest one is old enough, then work on the open run. Called by beat.

    The schedule is in the rows, so ticks may be lost, late or repeated.
    """
    latest = (
        SyncRun.objects.filter(resource=synced_list.resource, full=synced_list.full)
        .order_by("-created_at")
        .values_list("state", "created_at")
        .annotate(now=Now())
        .first()
    )
    if latest is not None:
        state, created_at, now = latest
        interval = synced_list.interval()
        if state == SyncRun.State.FAILED:
            interval = min(interval, RETRY_FAILED_AFTER)
    if latest is None or now - created_at >= interval:
        request_run(synced_list)
    work_on_run(synced_list, seconds=seconds)


def request_run(synced_list: SyncedList) -> SyncRun | None:
    """Create a run and return it; None if one is open already."""
    window = latest_window(synced_list.resource)
    run = SyncRun(resource=synced_list.resource, full=synced_list.full)
    if not synced_list.full:
        run.window_start = window or _first_window()
    elif window is not None and _has_completed_full_run(synced_list.resource):
        run.checkpoint = {"expected_until": window.isoformat()}
    try:
        with transaction.atomic():
            run.save()
    except IntegrityError:
        return None
    return run


def _first_window() -> datetime:
    return datetime.now(UTC) - FIRST_WINDOW


def _has_completed_full_run(resource: str) -> bool:
    """Return whether a full run has completed: only then are older records expected here."""
    full_runs = SyncRun.objects.filter(resource=resource, full=True, state=SyncRun.State.DONE)
    return full_runs.exists()


def work_on_run(
    synced_list: SyncedList,
    *,
    seconds: float | None = None,
    progress: Callable[[SyncRun], None] = lambda run: None,
) -> SyncRun | None:
    """Work on the list's open run, to its end or for about `seconds`.

    Return the run in its current state, or None if no run can be claimed now. After an error of
    the service or the database the run is due again later; it fails only if the list cannot be
    paged.
    """
    run = _claim(synced_list)
    if run is None:
        return None
    try:
        return _process_batches(synced_list, run, seconds, progress)
    except LeaseLost:
        logger.warning("another worker took over the run", extra={"run": run.pk})
    except errors.ServiceError as error:
        retry_after = getattr(error, "retry_after", None)
        wait = max(1, retry_after) if retry_after else _backoff(run)
        _reschedule(run, error=str(error), wait=wait)
    except service_team.AnotherTeam as error:
        logger.error("a run was refused: %s", error)
        _reschedule(run, error=str(error), wait=_backoff(run))
    except PaginationError as error:
        _close(run, SyncRun.State.FAILED, error=str(error))
    except (OperationalError, InterfaceError) as error:
        logger.warning("database connection lost during a run", extra={"run": run.pk})
        _reschedule(run, error=type(error).__name__, wait=RETRY_DELAYS[0])
    except Exception as error:
        # A bug in the back office: the run waits longer each time, and its error stays visible.
        logger.exception("a run failed", extra={"run": run.pk})
        _reschedule(run, error=f"internal error: {type(error).__name__}", wait=_backoff(run))
    run.refresh_from_db()
    return run


def _process_batches(
    synced_list: SyncedList,
    run: SyncRun,
    seconds: float | None,
    progress: Callable[[SyncRun], None],
) -> SyncRun:
    service = service_team.verified_service()
    our_team = service_team.mirror_team() if synced_list.team_of else None
    if our_team is not None:
        service_team.remember_team([our_team])
    ends = None if seconds is None else time.monotonic() + seconds
    written_at = time.monotonic()
    counts = _RunCounts()
    unreadable_keys = set(
        UnreadRecord.objects.filter(resource=run.resource).values_list("key", flat=True)
    )
    find_missing = synced_list.find_missing(run) if synced_list.find_missing else None
    fetched = in_background(
        synced_list.batches(service, run), waiting=lambda: _update_held(run, **_lease())
    )
    with closing(fetched) as batches:
        batch = next(batches, None)
        while batch is not None:
            next_batch, error = _next(batches)
            is_last = next_batch is None and error is None
            teams: set[UUID] = set()
            if synced_list.team_of is not None:
                teams = {synced_list.team_of(record.data) for record in batch.records}
                service_team.check_teams(teams, our_team)
            with transaction.atomic():
                if synced_list.team_of is not None and our_team is None:
                    our_team = service_team.remember_team(teams)
                outcome = synced_list.store(batch.records)
                for item in batch.unreadable:
                    _save_unreadable(run, item)
                _schedule_unreadable(synced_list, batch, outcome)
                if unreadable_keys:
                    clear_unreadable(run.resource, unreadable_keys & _touched_keys(outcome))
                missing = find_missing(batch, is_last) if find_missing is not None else []
                counts.add(run, batch, outcome, len(missing))
                has_changes = bool(
                    outcome.touched or outcome.unreadable or batch.unreadable or missing
                )
                if has_changes:
                    _report_drift(synced_list, run, outcome, counts)
                # Without checkpoints a run would start again after each slice: go to the end.
                is_late = ends is not None and time.monotonic() > ends
                is_over = bool(batch.checkpoint) and (is_late or shutdown.is_requested())
                is_due = time.monotonic() - written_at > CHECKPOINT_SECONDS
                if has_changes or is_over or is_due or next_batch is None:
                    _save_progress(run, batch, counts)
                    written_at = time.monotonic()
            progress(run)
            if error is not None:
                raise error
            batch = next_batch
            if is_over and batch is not None:
                _reschedule(run, error="", wait=0)
                return run
    _close(run, SyncRun.State.DONE)
    return run


def _touched_keys(outcome: ApplyOutcome) -> set[str]:
    return {key_text(record.key) for record in outcome.touched}


def _next(batches: Iterator[Batch[T]]) -> tuple[Batch[T] | None, Exception | None]:
    """Return the next batch, or the error: the batches before it are stored first."""
    try:
        return next(batches, None), None
    except (errors.ServiceError, PaginationError) as error:
        return None, error


def _backoff(run: SyncRun) -> float:
    return RETRY_DELAYS[min(run.attempts, len(RETRY_DELAYS) - 1)]


def _claim(synced_list: SyncedList) -> SyncRun | None:
    claimable = Q(state=SyncRun.State.DUE, due_at__lte=Now()) | Q(
        state=SyncRun.State.RUNNING, lease_until__lt=Now()
    )
    with transaction.atomic():
        run = (
            SyncRun.objects.select_for_update(skip_locked=True)
            .filter(claimable, resource=synced_list.resource, full=synced_list.full)
            .first()
        )
        if run is None:
            return None
        SyncRun.objects.filter(pk=run.pk).update(
            state=SyncRun.State.RUNNING,
            fence=F("fence") + 1,
            started_at=run.started_at or Now(),
            **_lease(),
        )
    run.refresh_from_db()
    if (
        run.window_start is not None
        and run.window_start > datetime.now(UTC) + server_clock.MAX_AHEAD
    ):
        # Requested while a clock was wrong: this window would find nothing, now or later.
        run.window_start = latest_window(run.resource) or _first_window()
        run.checkpoint = {}
        _update_held(run, window_start=run.window_start, checkpoint={})
    return run


def _lease() -> dict[str, object]:
    return {"lease_until": Now() + timedelta(seconds=settings.SYNC_LEASE_SECONDS)}


def _update_held(run: SyncRun, **changes: object) -> None:
    """Update the run if this worker still holds it; else raise LeaseLost."""
    if not SyncRun.objects.filter(pk=run.pk, fence=run.fence, state=SyncRun.State.RUNNING).update(
        **changes
    ):
        raise LeaseLost


class _RunCounts:
    """Counts of this worker since it last wrote the run."""

    NAMES = ("fetched", "created", "changed", "unchanged", "older", "unseen", "unreadable")

    def __init__(self) -> None:
        self.since = dict.fromkeys((*self.NAMES, "drifted"), 0)

    def add(self, run: SyncRun, batch: Batch[T], outcome: ApplyOutcome, unseen: int) -> None:
        for name, count in {
            "fetched": len(batch),
            "created": len(outcome.created),
            "changed": len(outcome.changed),
            "unchanged": outcome.unchanged,
            "older": outcome.older,
            "unseen": unseen,
            "unreadable": len(batch.unreadable) + outcome.unreadable,
        }.items():
            self.count(run, name, count)

    def count(self, run: SyncRun, name: str, count: int) -> None:
        self.since[name] += count
        setattr(run, name, getattr(run, name) + count)


def _save_progress(run: SyncRun, batch: Batch[T], counts: _RunCounts) -> None:
    run.total = batch.total if batch.total is not None else run.total
    server_clock.set_server_date(run, batch.clock)
    run.checkpoint = {**run.checkpoint, **batch.checkpoint}
    _update_held(
        run,
        checkpoint=run.checkpoint,
        total=run.total,
        server_date=run.server_date,
        attempts=0,
        error="",
        **_lease(),
        **{name: F(name) + count for name, count in counts.since.items() if count},
    )
    counts.since = dict.fromkeys(counts.since, 0)


def _close(run: SyncRun, state: SyncRun.State, error: str = "") -> None:
    _update_held(run, state=state, finished_at=Now(), lease_until=None, error=error[:300])
    run.refresh_from_db()


@stamina.retry(on=(OperationalError, InterfaceError), attempts=None, timeout=40, wait_max=1.0)
def _reschedule(run: SyncRun, *, error: str, wait: float) -> None:
    """Leave the run to a later tick, without a lease that would have to expire."""
    connection.close_if_unusable_or_obsolete()
    try:
        _update_held(
            run,
            state=SyncRun.State.DUE,
            due_at=Now() + timedelta(seconds=wait),
            lease_until=None,
            attempts=Least(F("attempts") + (1 if error else 0), 1_000),
            error=error[:300],
        )
    except LeaseLost:
        return
    run.refresh_from_db()


def _save_unreadable(run: SyncRun, item: Unreadable) -> None:
    key = key_from_raw(item.raw)
    is_new = save_unreadable(run.resource, key, item.path, item.reason, item.raw)
    if is_new and run.unreadable < MAX_DRIFTS:
        Drift.objects.create(
            run=run,
            resource=run.resource,
            key=key,
            kind=Drift.Kind.SCHEMA,
            detail=f"{item.path}: {item.reason}",
        )


def _schedule_unreadable(synced_list: SyncedList, batch: Batch[T], outcome: ApplyOutcome) -> None:
    """Schedule lookups of the records that could not be read from the list.

    A list of changes would not return them again. The lookups are retried at growing intervals.
    """
    if not synced_list.lookup_kind:
        return
    keys = [key_from_raw(item.raw) for item in batch.unreadable] + outcome.unreadable_keys
    ids = {key for key in keys if parse_uuid(key) is not None}
    if ids:
        schedule_lookups(synced_list.lookup_kind, ids - failing_keys(synced_list.lookup_kind, ids))


def _report_drift(
    synced_list: SyncedList,
    run: SyncRun,
    outcome: ApplyOutcome,
    counts: _RunCounts,
) -> None:
    """Record drift: changes that earlier runs should have read already."""
    expected = run.checkpoint.get("expected_until")
    if not synced_list.full or synced_list.updated_at is None or expected is None:
        return
    limit = datetime.fromisoformat(expected)
    drifts = [
        (key_text(record.key), kind)
        for records, kind in (
            (outcome.created, Drift.Kind.MISSING_LOCAL),
            (outcome.changed, Drift.Kind.STALE),
        )
        for record in records
        if synced_list.updated_at(record.data) < limit
    ]
    counts.count(run, "drifted", len(drifts))
    room = max(0, MAX_DRIFTS - run.drifted + len(drifts))
    Drift.objects.bulk_create(
        Drift(run=run, resource=run.resource, key=key, kind=kind) for key, kind in drifts[:room]
    )


def delete_old_runs() -> None:
    """Delete incremental runs without drift after a week, and all other runs after 90 days."""
    now = datetime.now(UTC)
    ended = SyncRun.objects.filter(state__in=[SyncRun.State.DONE, SyncRun.State.FAILED])
    ended.filter(full=False, drifts=None, created_at__lt=now - timedelta(days=7)).delete()
    ended.filter(created_at__lt=now - timedelta(days=90)).delete()
    Drift.objects.filter(run=None, found_at__lt=now - timedelta(days=90)).delete()
