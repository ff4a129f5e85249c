"""Status of a deployment: figures, and the reasons why it is degraded or failing.

The figures contain no names and no ids, because monitors store them. They take about twenty
queries. The cost of each does not depend on the length of the history.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

import redis
from django.conf import settings
from django.db import connection
from django.utils import timezone

from backoffice.audit.models import AuditCheck
from backoffice.celery import QUEUES
from backoffice.core import heartbeats, service_team, vocabulary
from backoffice.operations import postgres, sync_watch
from backoffice.outbox.delivery import CANNOT_DECRYPT
from backoffice.outbox.models import CommandRecord
from backoffice.pages import sync_health
from backoffice.sync.models import SyncRun
from webhooks import event_log, silence
from webhooks.models import Event

Level = Literal["ok", "degraded", "failing"]
Figure = float | int | bool | None
Figures = dict[str, dict[str, Figure]]

INBOX_DELAYED_SECONDS: Final = 60.0
INBOX_STUCK_SECONDS: Final = 600.0
UNCERTAIN_SECONDS: Final = 600.0
UNDECIDED_SECONDS: Final = 1_800.0
LOOKUPS_DELAYED_SECONDS: Final = 1_800.0
QUEUE_SILENT: Final = 120.0
"""Seconds: eight heartbeats, one every `celery.HEARTBEAT_SECONDS`."""
MAY_BE_BUSY: Final = frozenset({"bulk"})
"""Queues whose workers may all be busy for a long time. That delays work but loses nothing."""
LONG_TRANSACTION_SECONDS: Final = 900.0
CLOCK_OFFSET_SECONDS: Final = 5.0
DISK_LOW_SHARE: Final = 0.10
DISK_FULL_SHARE: Final = 0.02
BACKUP_OLD_SECONDS: Final = 26 * 3_600.0
PING_SECONDS: Final = 0.5

_COMMANDS: Final = """
SELECT state, count(*), extract(epoch FROM now() - min(coalesce(sent_at, requested_at)))
FROM outbox_commandrecord
WHERE state IN ('waiting', 'sending', 'uncertain', 'undecided') GROUP BY state
"""
_UNREAD: Final = """
SELECT count(*), extract(epoch FROM now() - min(first_seen)) FROM (
 SELECT first_seen FROM mirror_unreadrecord WHERE NOT is_stored LIMIT %(cap)s
) AS unread
"""
_SESSIONS: Final = """
SELECT count(*), current_setting('max_connections')::int,
 extract(epoch FROM max(now() - xact_start) FILTER (WHERE pid <> pg_backend_pid())),
 extract(epoch FROM clock_timestamp())
FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'
"""


@dataclass(frozen=True, slots=True)
class Reason:
    """One problem, with a description for staff."""

    level: Level
    words: str


@dataclass(frozen=True, slots=True)
class Status:
    at: datetime
    figures: Figures
    reasons: list[Reason]

    @property
    def level(self) -> Level:
        """The worst level of the reasons."""
        levels = {reason.level for reason in self.reasons}
        if "failing" in levels:
            return "failing"
        return "degraded" if levels else "ok"


def read(longest_transaction: float = LONG_TRANSACTION_SECONDS) -> Status:
    """Read all figures and reasons. Raises DatabaseError if PostgreSQL does not answer.

    A transaction that is open for more than `longest_transaction` seconds is a reason.
    """
    now = timezone.now()
    lists = sync_health.list_health()
    health = silence.read(now)
    figures: Figures = {
        "inbox": _inbox(health, now),
        "commands": _commands(),
        "lookups": _lookups(now),
        "records": _records(),
        "sync": {**_sync(lists, now), **sync_watch.read().figures()},
        "queues": _queues(),
        "broker": {"ping_seconds": _ping()},
        "database": _database(),
        "disk": _disk(),
        "backup": {"age_seconds": _seconds(heartbeats.backup_age())},
        "audit": {"findings": _audit_findings()},
    }
    late = [
        f"{vocabulary.LISTS.get(synced_list.resource, synced_list.resource)} "
        f"({'everything' if synced_list.full else 'changes'})"
        for synced_list in lists
        if synced_list.is_late(now)
    ]
    reasons = _reasons(figures, late, postgres.unsafe_log_settings(), longest_transaction)
    return Status(now, figures, list(reasons))


def _audit_findings() -> int:
    """Return the number of findings of the last check of the audit trail."""
    latest = AuditCheck.objects.latest_finished()
    return len(latest.trouble) if latest else 0


def _inbox(health: silence.DeliveryHealth, now: datetime) -> dict[str, Figure]:
    counts = {state: count.value for state, count in event_log.state_counts().items()}
    waiting = counts[Event.State.PENDING] + counts[Event.State.RETRY]
    oldest = event_log.oldest_waiting()
    return {
        "waiting": waiting,
        "failed": counts[Event.State.DEAD],
        "quarantined": counts[Event.State.QUARANTINED],
        "oldest_seconds": (now - oldest).total_seconds() if oldest else 0.0,
        "last_event_seconds": _seconds(health.pause),
        "silent": health.is_silent,
        "clock_skew_seconds": health.skew.total_seconds(),
        "clocks_differ": health.clocks_differ,
        "flooded": silence.is_flooded(),
        "body_conflicts": silence.has_body_conflicts(now),
    }


def _commands() -> dict[str, Figure]:
    with connection.cursor() as cursor:
        cursor.execute(_COMMANDS)
        by_state = {state: (count, float(age)) for state, count, age in cursor.fetchall()}
    return {
        **{state: by_state.get(state, (0, 0.0))[0] for state in _OPEN_STATES},
        "oldest_uncertain_seconds": by_state.get("uncertain", (0, 0.0))[1],
        "oldest_undecided_seconds": by_state.get("undecided", (0, 0.0))[1],
        "on_hold": heartbeats.active_hold() is not None,
        "sealed": _count_undecryptable(),
    }


def _count_undecryptable() -> int:
    """Count the open commands that workers could not decrypt."""
    return CommandRecord.objects.open().filter(hindrance=CANNOT_DECRYPT).count()


_OPEN_STATES: Final = ("waiting", "sending", "uncertain", "undecided")


def _lookups(now: datetime) -> dict[str, Figure]:
    kinds = sync_health.lookups()
    oldest = min((kind.oldest_due for kind in kinds if kind.oldest_due), default=None)
    return {
        "due": sum(kind.due.value for kind in kinds),
        "failing": sum(kind.failing.value for kind in kinds),
        "oldest_seconds": (now - oldest).total_seconds() if oldest else 0.0,
    }


def _records() -> dict[str, Figure]:
    with connection.cursor() as cursor:
        cursor.execute(_UNREAD, {"cap": sync_health.CAP})
        unread, oldest = cursor.fetchone()
    return {"unread": unread, "oldest_unread_seconds": float(oldest or 0)}


def _sync(lists: list[sync_health.SyncedListHealth], now: datetime) -> dict[str, Figure]:
    as_of = sync_health.data_as_of(lists)
    return {
        "lists": len(lists),
        "late": sum(synced_list.is_late(now) for synced_list in lists),
        "another_team": any(
            synced_list.latest.error.startswith(service_team.ANOTHER_TEAM) for synced_list in lists
        ),
        "failed": sum(synced_list.latest.state == SyncRun.State.FAILED for synced_list in lists),
        "data_age_seconds": (now - as_of).total_seconds() if as_of else None,
    }


def _queues() -> dict[str, Figure]:
    """Return the seconds since the last heartbeat, by queue; None if there was none."""
    ages = heartbeats.heartbeat_ages()
    return {queue: ages.get(queue) for queue in QUEUES}


def _ping() -> float | None:
    began = time.perf_counter()
    try:
        with redis.Redis.from_url(
            settings.REDIS_URL, socket_timeout=PING_SECONDS, socket_connect_timeout=PING_SECONDS
        ) as server:
            server.ping()
    except redis.RedisError:
        return None
    return time.perf_counter() - began


def _database() -> dict[str, Figure]:
    before = time.time()
    with connection.cursor() as cursor:
        cursor.execute(_SESSIONS)
        sessions, most, oldest, clock = cursor.fetchone()
    local_clock = (before + time.time()) / 2
    return {
        "sessions": sessions,
        "sessions_allowed": most,
        "oldest_transaction_seconds": max(0.0, float(oldest or 0)),
        "clock_offset_seconds": local_clock - float(clock),
    }


def _disk() -> dict[str, Figure]:
    """Return the free space where uploaded reports are stored."""
    folder = settings.REPORT_FOLDER
    while not folder.exists():
        folder = folder.parent
    disk = shutil.disk_usage(folder)
    return {"free_bytes": disk.free, "free_share": disk.free / disk.total}


def _seconds(length: timedelta | None) -> float | None:
    return length.total_seconds() if length is not None else None


def _reasons(
    figures: Figures, late: list[str], unsafe_log_settings: list[str], longest_transaction: float
) -> Iterator[Reason]:
    yield from _inbox_reasons(figures["inbox"])
    yield from _command_reasons(figures["commands"])
    yield from _queue_reasons(figures["queues"])
    yield from _server_reasons(figures, unsafe_log_settings, longest_transaction)
    if late:
        yield Reason("degraded", f"Not read to the end for too long: {', '.join(late)}.")
    yield from _sync_reasons(figures["sync"])
    waited = figures["lookups"]["oldest_seconds"] or 0
    if waited > LOOKUPS_DELAYED_SECONDS:
        yield Reason("degraded", f"Single records wait {format_duration(waited)} to be read.")
    if figures["audit"]["findings"]:
        yield Reason("failing", "The audit trail was changed or cut: see System > Audit.")
    unread = figures["records"]["unread"]
    if unread:
        yield Reason(
            "degraded",
            f"Records that could not be read or stored: {unread}. They are tried again; see"
            " System, Records that do not fit.",
        )
    age = figures["backup"]["age_seconds"]
    if not settings.LOCAL and (age is None or age > BACKUP_OLD_SECONDS):
        age_text = (
            "none was ever made" if age is None else f"the last shows {format_duration(age)} ago"
        )
        yield Reason("degraded", f"There is no backup of today: {age_text}.")


def _sync_reasons(sync: dict[str, Figure]) -> Iterator[Reason]:
    if sync["another_team"]:
        yield Reason("failing", f"{service_team.ANOTHER_TEAM} Nothing is read, stored or sent.")
    jump, offset = sync["service_clock_jump_seconds"] or 0, sync["service_clock_offset_seconds"]
    if jump:
        words = (
            f"The service's clock jumped by {format_duration(jump)}."
            " Changes are read with wider windows."
        )
        yield Reason("degraded", words)
    elif offset is not None and abs(offset) > sync_watch.MAX_CLOCK_OFFSET:
        way = "ahead of" if offset > 0 else "behind"
        yield Reason(
            "degraded", f"The service's clock is {format_duration(abs(offset))} {way} ours."
        )
    quiet = sync["without_changes_seconds"] or 0
    if sync["misses_changes"]:
        words = (
            f"Orders change, but reading changes has brought nothing for {format_duration(quiet)}."
        )
        yield Reason("degraded", words)
    elif sync["unusually_quiet"]:
        words = (
            f"Reading changes of orders has brought nothing for {format_duration(quiet)},"
            " unusually long."
        )
        yield Reason("degraded", words)


def _inbox_reasons(inbox: dict[str, Figure]) -> Iterator[Reason]:
    waited = inbox["oldest_seconds"] or 0
    if waited > INBOX_DELAYED_SECONDS:
        level: Level = "failing" if waited > INBOX_STUCK_SECONDS else "degraded"
        yield Reason(level, f"Events wait {format_duration(waited)} to be applied.")
    if inbox["failed"]:
        yield Reason("degraded", f"Events that failed and wait for a person: {inbox['failed']}.")
    if inbox["silent"]:
        yield Reason("degraded", "The service has gone silent: no event tells of what changes.")
    if inbox["clocks_differ"]:
        skew = inbox["clock_skew_seconds"] or 0
        yield Reason(
            "degraded", f"Our clock and the service's differ by {format_duration(abs(skew))}."
        )
    if inbox["flooded"]:
        yield Reason("degraded", "Deliveries without a good signature flood in.")
    if inbox["body_conflicts"]:
        yield Reason("degraded", "A message came again with another body.")


def _command_reasons(commands: dict[str, Figure]) -> Iterator[Reason]:
    if commands["on_hold"]:
        yield Reason("degraded", heartbeats.ON_HOLD)
    if commands["sealed"]:
        words = f"Requests whose contents cannot be opened with FIELD_KEYS: {commands['sealed']}."
        yield Reason("degraded", words)
    unknown = commands["oldest_uncertain_seconds"] or 0
    if unknown > UNCERTAIN_SECONDS:
        yield Reason(
            "degraded", f"The outcome of a request is unknown for {format_duration(unknown)}."
        )
    undecided = commands["oldest_undecided_seconds"] or 0
    if undecided > UNDECIDED_SECONDS:
        yield Reason(
            "degraded", f"A request waits {format_duration(undecided)} for a person's decision."
        )


def _queue_reasons(queues: dict[str, Figure]) -> Iterator[Reason]:
    for queue, age in queues.items():
        if age is None or age > QUEUE_SILENT:
            silence = "yet" if age is None else f"for {format_duration(age)}"
            level: Level = "degraded" if queue in MAY_BE_BUSY else "failing"
            yield Reason(level, f"No worker has answered on the queue {queue} {silence}.")


def _server_reasons(
    figures: Figures, unsafe_log_settings: list[str], longest_transaction: float
) -> Iterator[Reason]:
    if figures["broker"]["ping_seconds"] is None:
        yield Reason("degraded", "Redis does not answer: work is delayed, nothing is lost.")
    database, free = figures["database"], figures["disk"]["free_share"] or 0
    open_seconds = database["oldest_transaction_seconds"] or 0
    if open_seconds > longest_transaction:
        yield Reason("degraded", f"A transaction is open for {format_duration(open_seconds)}.")
    if (database["sessions"] or 0) > 0.9 * (database["sessions_allowed"] or 1):
        yield Reason("degraded", "PostgreSQL is about to run out of connections.")
    if abs(database["clock_offset_seconds"] or 0) > CLOCK_OFFSET_SECONDS:
        yield Reason("degraded", "The clocks of this machine and of PostgreSQL differ.")
    if free < DISK_LOW_SHARE:
        level: Level = "failing" if free < DISK_FULL_SHARE else "degraded"
        yield Reason(level, f"The disk of the reports is {1 - free:.0%} full.")
    if unsafe_log_settings:
        names = ", ".join(unsafe_log_settings)
        yield Reason("degraded", f"PostgreSQL may write health data into its log: set {names}.")


def format_duration(seconds: float) -> str:
    """Return `30 s`, `5 min`, `3 h` or `2 d`, in whole units of which there are two or more."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
