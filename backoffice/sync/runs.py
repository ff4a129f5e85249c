"""Runs: one walk over one list, as a row that outlives the worker that walks.

    request ──▶ due ──claim──▶ running ──finish──▶ done
                 ▲                │
                 └── service unreachable or limited, worker killed, time slice over
                                  └── cannot be walked ──▶ failed

A claim takes a lease by the database's clock and raises the run's fence. Every write of a run
carries the fence, in the transaction of the rows it brought: a holder that was paused and lost its
lease cannot write. A batch that changed nothing writes nothing but, once a second, the checkpoint.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

import stamina
from django.conf import settings
from django.db import IntegrityError, InterfaceError, OperationalError, connection, transaction
from django.db.models import F, Q
from django.db.models.functions import Least, Now

from backoffice import mirror
from backoffice.core import service_team, shutdown
from backoffice.models import Drift, SyncRun, UnreadRecord
from backoffice.service import Record, Service, Unreadable, errors
from backoffice.sync import clocks
from backoffice.sync.clocks import latest_window
from backoffice.sync.lookups import mark, under_way
from backoffice.sync.pagination import Batch, WalkError, in_background

logger = logging.getLogger(__name__)

SLICE = 30.0
"""Seconds a task works before it leaves the rest of a resumable walk to the next tick."""
LONGEST = 3_600
"""Seconds until a task is stopped: lists without checkpoints, and slow services, take longer."""
CHECKPOINT_SECONDS = 1.0
BACKOFF = (2, 5, 15, 30, 60, 120, 300)
"""Seconds until a run is due again after the service failed it once, twice, …"""
FIRST_WINDOW = timedelta(days=1)
"""What the first incremental run reads: today's work is on the screen before the sweep is done."""
AFTER_FAILURE = timedelta(minutes=15)
DRIFT_KEPT = 1_000
"""Differences listed one by one per run; all are counted."""


@dataclass(frozen=True)
class Listing:
    """A list of the service, and what to do with it.

    `walk(service, run)` yields batches; `store(records)` makes them rows, in the caller's
    transaction. `full`: it reads everything, so that `unseen(run)` can find what the mirror has
    and the list has not. `stamp(data)` is the record's own time of change where it has one: a
    full run that brings a change older than the last run's window has found drift.
    """

    resource: str
    walk: Callable[[Service, SyncRun], Iterator[Batch[Any]]]
    store: Callable[[Sequence[Record[Any]]], mirror.ApplyOutcome]
    every: Callable[[], timedelta]
    full: bool = True
    unseen: Callable[[SyncRun], Unseen] | None = None
    stamp: Callable[[Any], datetime] | None = None
    lookup: str = ""
    """Kind of the look-up by which one record of the list is read again, where there is one."""
    team: Callable[[Any], UUID] | None = None
    """The team that a record says it is of, where it does."""


class Unseen(Protocol):
    """Finds, batch by batch, the keys of rows that a full list does not have, and acts on them."""

    def __call__(self, batch: Batch[Any], last: bool) -> list[str]: ...


class Fenced(Exception):
    """Another worker holds this run now."""


def tick(listing: Listing, seconds: float) -> None:
    """What beat rings for: ask for a run when the latest is old enough, and carry on the open one.

    The schedule is in the rows, so ticks may be lost, late or doubled.
    """
    latest = (
        SyncRun.objects.filter(resource=listing.resource, full=listing.full)
        .order_by("-created_at")
        .values_list("state", "created_at")
        .annotate(now=Now())
        .first()
    )
    if latest is not None:
        state, created_at, now = latest
        every = listing.every()
        if state == SyncRun.State.FAILED:
            every = min(every, AFTER_FAILURE)
    if latest is None or now - created_at >= every:
        request(listing)
    work(listing, seconds=seconds)


def request(listing: Listing) -> SyncRun | None:
    """Ask for a run; None when one is open already."""
    window = latest_window(listing.resource)
    run = SyncRun(resource=listing.resource, full=listing.full)
    if not listing.full:
        run.window_start = window or _first_window()
    elif window is not None and _swept(listing.resource):
        run.checkpoint = {"expected_until": window.isoformat()}
    try:
        with transaction.atomic():
            run.save()
    except IntegrityError:
        return None
    return run


def _first_window() -> datetime:
    return datetime.now(UTC) - FIRST_WINDOW


def _swept(resource: str) -> bool:
    """Before the first sweep nothing that is older than the first window is expected to be here."""
    swept = SyncRun.objects.filter(resource=resource, full=True, state=SyncRun.State.DONE)
    return swept.exists()


def work(
    listing: Listing,
    *,
    seconds: float | None = None,
    progress: Callable[[SyncRun], None] = lambda run: None,
) -> SyncRun | None:
    """Carry the list's open run on, to its end or for about `seconds`.

    Returns the run as it stands, or None when there is none to work on now. Errors of the service
    and of the database put the run back; only a list that cannot be walked fails it.
    """
    run = _claim(listing)
    if run is None:
        return None
    try:
        return _walk(listing, run, seconds, progress)
    except Fenced:
        logger.warning("run taken over", extra={"run": run.pk})
    except errors.ServiceError as error:
        asked = getattr(error, "retry_after", None)
        _put_back(run, error=str(error), wait=max(1, asked) if asked else _backoff(run))
    except service_team.AnotherTeam as error:
        logger.error("a run was refused: %s", error)
        _put_back(run, error=str(error), wait=_backoff(run))
    except WalkError as error:
        _close(run, SyncRun.State.FAILED, error=str(error))
    except (OperationalError, InterfaceError) as error:
        logger.warning("database lost during a run", extra={"run": run.pk})
        _put_back(run, error=type(error).__name__, wait=BACKOFF[0])
    except Exception as error:
        # Ours to mend, and visible until it is: the run waits longer each time and says why.
        logger.exception("a run failed", extra={"run": run.pk})
        _put_back(run, error=f"internal error: {type(error).__name__}", wait=_backoff(run))
    run.refresh_from_db()
    return run


def _walk(
    listing: Listing,
    run: SyncRun,
    seconds: float | None,
    progress: Callable[[SyncRun], None],
) -> SyncRun:
    service = service_team.verified()
    our_team = service_team.mirror_team() if listing.team else None
    if our_team is not None:
        service_team.remember([our_team])
    ends = None if seconds is None else time.monotonic() + seconds
    written = time.monotonic()
    counts = _Counts()
    unread = set(UnreadRecord.objects.filter(resource=run.resource).values_list("key", flat=True))
    unseen = listing.unseen(run) if listing.unseen is not None else None
    walk = in_background(listing.walk(service, run), waiting=lambda: _held(run, **_lease()))
    with closing(walk) as batches:
        batch = next(batches, None)
        while batch is not None:
            following, stopped = _next(batches)
            last = following is None and stopped is None
            teams: set[UUID] = set()
            if listing.team is not None:
                teams = {listing.team(record.data) for record in batch.records}
                service_team.refuse_others(teams, our_team)
            with transaction.atomic():
                if listing.team is not None and our_team is None:
                    our_team = service_team.remember(teams)
                outcome = listing.store(batch.records)
                for item in batch.unreadable:
                    _keep_unreadable(run, item)
                _look_up_unread(listing, batch, outcome)
                if unread:
                    mirror.clear_unreadable(run.resource, unread & _keys(outcome))
                absent = unseen(batch, last) if unseen is not None else []
                counts.add(run, batch, outcome, len(absent))
                wrote = bool(outcome.touched or outcome.unread or batch.unreadable or absent)
                if wrote:
                    _report_drift(listing, run, outcome, counts)
                # A walk without checkpoints would start anew after each slice: it goes to its end.
                late = ends is not None and time.monotonic() > ends
                over = bool(batch.checkpoint) and (late or shutdown.asked())
                due = time.monotonic() - written > CHECKPOINT_SECONDS
                if wrote or over or due or following is None:
                    _advance(run, batch, counts)
                    written = time.monotonic()
            progress(run)
            if stopped is not None:
                raise stopped
            batch = following
            if over and batch is not None:
                _put_back(run, error="", wait=0)
                return run
    _close(run, SyncRun.State.DONE)
    return run


def _keys(outcome: mirror.ApplyOutcome) -> set[str]:
    return {mirror.key_text(fact.key) for fact in outcome.touched}


def _next(batches: Iterator[Batch[Any]]) -> tuple[Batch[Any] | None, Exception | None]:
    """The next batch, or what kept the service from giving it: what came before is stored first."""
    try:
        return next(batches, None), None
    except (errors.ServiceError, WalkError) as error:
        return None, error


def _backoff(run: SyncRun) -> float:
    return BACKOFF[min(run.attempts, len(BACKOFF) - 1)]


def _claim(listing: Listing) -> SyncRun | None:
    claimable = Q(state=SyncRun.State.DUE, due_at__lte=Now()) | Q(
        state=SyncRun.State.RUNNING, lease_until__lt=Now()
    )
    with transaction.atomic():
        run = (
            SyncRun.objects.select_for_update(skip_locked=True)
            .filter(claimable, resource=listing.resource, full=listing.full)
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
    if run.window_start is not None and run.window_start > datetime.now(UTC) + clocks.AHEAD:
        # Asked for while a clock was wrong: it would find nothing, now or later.
        run.window_start = latest_window(run.resource) or _first_window()
        run.checkpoint = {}
        _held(run, window_start=run.window_start, checkpoint={})
    return run


def _lease() -> dict[str, Any]:
    return {"lease_until": Now() + timedelta(seconds=settings.SYNC_LEASE_SECONDS)}


def _held(run: SyncRun, **changes: Any) -> None:
    """Write to the run if it is still ours."""
    if not SyncRun.objects.filter(pk=run.pk, fence=run.fence, state=SyncRun.State.RUNNING).update(
        **changes
    ):
        raise Fenced


class _Counts:
    """What this worker has done since it last wrote the run."""

    NAMES = ("fetched", "created", "changed", "unchanged", "older", "unseen", "unreadable")

    def __init__(self) -> None:
        self.since = dict.fromkeys((*self.NAMES, "drifted"), 0)

    def add(
        self, run: SyncRun, batch: Batch[Any], outcome: mirror.ApplyOutcome, unseen: int
    ) -> None:
        for name, count in {
            "fetched": len(batch),
            "created": len(outcome.created),
            "changed": len(outcome.changed),
            "unchanged": outcome.unchanged,
            "older": outcome.older,
            "unseen": unseen,
            "unreadable": len(batch.unreadable) + outcome.unread,
        }.items():
            self.count(run, name, count)

    def count(self, run: SyncRun, name: str, count: int) -> None:
        self.since[name] += count
        setattr(run, name, getattr(run, name) + count)


def _advance(run: SyncRun, batch: Batch[Any], counts: _Counts) -> None:
    run.total = batch.total if batch.total is not None else run.total
    clocks.note(run, batch.clock)
    run.checkpoint = {**run.checkpoint, **batch.checkpoint}
    _held(
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
    _held(run, state=state, finished_at=Now(), lease_until=None, error=error[:300])
    run.refresh_from_db()


@stamina.retry(on=(OperationalError, InterfaceError), attempts=None, timeout=40, wait_max=1.0)
def _put_back(run: SyncRun, *, error: str, wait: float) -> None:
    """Leave the run for the next tick, without a lease to wait out."""
    connection.close_if_unusable_or_obsolete()
    try:
        _held(
            run,
            state=SyncRun.State.DUE,
            due_at=Now() + timedelta(seconds=wait),
            lease_until=None,
            attempts=Least(F("attempts") + (1 if error else 0), 1_000),
            error=error[:300],
        )
    except Fenced:
        return
    run.refresh_from_db()


def _keep_unreadable(run: SyncRun, item: Unreadable) -> None:
    key = mirror.key_from_raw(item.raw)
    new = mirror.save_unreadable(run.resource, key, item.path, item.reason, item.raw)
    if new and run.unreadable < DRIFT_KEPT:
        Drift.objects.create(
            run=run,
            resource=run.resource,
            key=key,
            kind=Drift.Kind.SCHEMA,
            detail=f"{item.path}: {item.reason}",
        )


def _look_up_unread(listing: Listing, batch: Batch[Any], outcome: mirror.ApplyOutcome) -> None:
    """What the list could not bring is tried again by itself, ever more seldom, until it can be
    read: a list of what changed would not bring it again."""
    if not listing.lookup:
        return
    keys = [mirror.key_from_raw(item.raw) for item in batch.unreadable] + outcome.unread_keys
    wanted = {key for key in keys if _is_id(key)}
    if wanted:
        mark(listing.lookup, wanted - under_way(listing.lookup, wanted))


def _is_id(key: str) -> bool:
    try:
        UUID(key)
    except ValueError:
        return False
    return True


def _report_drift(
    listing: Listing,
    run: SyncRun,
    outcome: mirror.ApplyOutcome,
    counts: _Counts,
) -> None:
    """What a sweep found different although earlier runs should have brought it."""
    expected = run.checkpoint.get("expected_until")
    if not listing.full or listing.stamp is None or expected is None:
        return
    limit = datetime.fromisoformat(expected)
    found = [
        (mirror.key_text(fact.key), kind)
        for facts, kind in (
            (outcome.created, Drift.Kind.MISSING_LOCAL),
            (outcome.changed, Drift.Kind.STALE),
        )
        for fact in facts
        if listing.stamp(fact.data) < limit
    ]
    counts.count(run, "drifted", len(found))
    room = max(0, DRIFT_KEPT - run.drifted + len(found))
    Drift.objects.bulk_create(
        Drift(run=run, resource=run.resource, key=key, kind=kind) for key, kind in found[:room]
    )


def prune() -> None:
    """Forget runs nobody will ask about: what changed after a week, all else after a quarter."""
    now = datetime.now(UTC)
    ended = SyncRun.objects.filter(state__in=[SyncRun.State.DONE, SyncRun.State.FAILED])
    ended.filter(full=False, drifts=None, created_at__lt=now - timedelta(days=7)).delete()
    ended.filter(created_at__lt=now - timedelta(days=90)).delete()
    Drift.objects.filter(run=None, found_at__lt=now - timedelta(days=90)).delete()
