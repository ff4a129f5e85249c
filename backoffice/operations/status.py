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
from django.utils.translation import gettext, ngettext

from backoffice.audit.models import AuditCheck
from backoffice.celery import QUEUES
from backoffice.core import heartbeats, service_team
from backoffice.operations import postgres, sync_watch
from backoffice.outbox.delivery import CANNOT_DECRYPT
from backoffice.outbox.models import CommandRecord
from backoffice.pages import sync_health
from backoffice.pages.formats import list_name
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
        f"{list_name(synced_list.resource)} ({_scope(synced_list)})"
        for synced_list in lists
        if synced_list.is_late(now)
    ]
    reasons = _reasons(figures, late, postgres.unsafe_log_settings(), longest_transaction)
    return Status(now, figures, list(reasons))


def _scope(synced_list: sync_health.SyncedListHealth) -> str:
    return gettext("everything") if synced_list.full else gettext("changes")


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
        words = gettext("Lists not read completely in time: %(lists)s.")
        yield Reason("degraded", words % {"lists": ", ".join(late)})
    yield from _sync_reasons(figures["sync"])
    waited = figures["lookups"]["oldest_seconds"] or 0
    if waited > LOOKUPS_DELAYED_SECONDS:
        words = gettext("Single records have been waiting %(duration)s to be read.")
        yield Reason("degraded", words % {"duration": format_duration(waited)})
    if figures["audit"]["findings"]:
        yield Reason("failing", gettext("The audit trail was changed or cut. See System > Audit."))
    unread = figures["records"]["unread"]
    if unread:
        words = ngettext(
            "%(count)s record could not be read or stored and is retried."
            " See System > Unread records.",
            "%(count)s records could not be read or stored and are retried."
            " See System > Unread records.",
            int(unread),
        )
        yield Reason("degraded", words % {"count": unread})
    age = figures["backup"]["age_seconds"]
    if not settings.LOCAL and age is None:
        yield Reason("degraded", gettext("No backup has been made yet."))
    elif not settings.LOCAL and age is not None and age > BACKUP_OLD_SECONDS:
        words = gettext("There is no backup from today. The last one is %(duration)s old.")
        yield Reason("degraded", words % {"duration": format_duration(age)})


def _sync_reasons(sync: dict[str, Figure]) -> Iterator[Reason]:
    if sync["another_team"]:
        words = gettext("%(problem)s Nothing is read, stored or sent.")
        yield Reason("failing", words % {"problem": gettext(service_team.ANOTHER_TEAM)})
    jump, offset = sync["service_clock_jump_seconds"] or 0, sync["service_clock_offset_seconds"]
    if jump:
        words = gettext(
            "The service's clock jumped by %(duration)s. Changes are read with wider time windows."
        )
        yield Reason("degraded", words % {"duration": format_duration(jump)})
    elif offset is not None and abs(offset) > sync_watch.MAX_CLOCK_OFFSET:
        words = (
            gettext("The service's clock is %(duration)s ahead of ours.")
            if offset > 0
            else gettext("The service's clock is %(duration)s behind ours.")
        )
        yield Reason("degraded", words % {"duration": format_duration(abs(offset))})
    quiet = sync["without_changes_seconds"] or 0
    if sync["misses_changes"]:
        words = gettext("Orders are changing, but sync has read no changes for %(duration)s.")
        yield Reason("degraded", words % {"duration": format_duration(quiet)})
    elif sync["unusually_quiet"]:
        words = gettext(
            "Sync has read no changes of orders for %(duration)s, which is unusually long."
        )
        yield Reason("degraded", words % {"duration": format_duration(quiet)})


def _inbox_reasons(inbox: dict[str, Figure]) -> Iterator[Reason]:
    waited = inbox["oldest_seconds"] or 0
    if waited > INBOX_DELAYED_SECONDS:
        level: Level = "failing" if waited > INBOX_STUCK_SECONDS else "degraded"
        words = gettext("Events have been waiting %(duration)s to be applied.")
        yield Reason(level, words % {"duration": format_duration(waited)})
    if inbox["failed"]:
        words = ngettext(
            "%(count)s event failed and needs a person to decide.",
            "%(count)s events failed and need a person to decide.",
            int(inbox["failed"]),
        )
        yield Reason("degraded", words % {"count": inbox["failed"]})
    if inbox["silent"]:
        yield Reason("degraded", gettext("Records are changing, but the service sends no events."))
    if inbox["clocks_differ"]:
        words = gettext("Our clock and the service's differ by %(duration)s.")
        skew = format_duration(abs(inbox["clock_skew_seconds"] or 0))
        yield Reason("degraded", words % {"duration": skew})
    if inbox["flooded"]:
        yield Reason("degraded", gettext("Many deliveries without a valid signature are arriving."))
    if inbox["body_conflicts"]:
        yield Reason("degraded", gettext("A message was received again with different content."))


def _command_reasons(commands: dict[str, Figure]) -> Iterator[Reason]:
    if commands["on_hold"]:
        yield Reason("degraded", gettext(heartbeats.ON_HOLD))
    if commands["sealed"]:
        words = ngettext(
            "%(count)s request cannot be decrypted with FIELD_KEYS.",
            "%(count)s requests cannot be decrypted with FIELD_KEYS.",
            int(commands["sealed"]),
        )
        yield Reason("degraded", words % {"count": commands["sealed"]})
    unknown = commands["oldest_uncertain_seconds"] or 0
    if unknown > UNCERTAIN_SECONDS:
        words = gettext("The outcome of a request has been unknown for %(duration)s.")
        yield Reason("degraded", words % {"duration": format_duration(unknown)})
    undecided = commands["oldest_undecided_seconds"] or 0
    if undecided > UNDECIDED_SECONDS:
        words = gettext("A request has been waiting %(duration)s for a person to decide.")
        yield Reason("degraded", words % {"duration": format_duration(undecided)})


def _queue_reasons(queues: dict[str, Figure]) -> Iterator[Reason]:
    for queue, age in queues.items():
        level: Level = "degraded" if queue in MAY_BE_BUSY else "failing"
        if age is None:
            words = gettext("No worker has answered on the queue %(queue)s yet.")
            yield Reason(level, words % {"queue": queue})
        elif age > QUEUE_SILENT:
            words = gettext("No worker has answered on the queue %(queue)s for %(duration)s.")
            yield Reason(level, words % {"queue": queue, "duration": format_duration(age)})


def _server_reasons(
    figures: Figures, unsafe_log_settings: list[str], longest_transaction: float
) -> Iterator[Reason]:
    if figures["broker"]["ping_seconds"] is None:
        yield Reason(
            "degraded", gettext("Redis does not answer. Work is delayed, but nothing is lost.")
        )
    database, free = figures["database"], figures["disk"]["free_share"] or 0
    open_seconds = database["oldest_transaction_seconds"] or 0
    if open_seconds > longest_transaction:
        words = gettext("A transaction has been open for %(duration)s.")
        yield Reason("degraded", words % {"duration": format_duration(open_seconds)})
    if (database["sessions"] or 0) > 0.9 * (database["sessions_allowed"] or 1):
        yield Reason("degraded", gettext("PostgreSQL is about to run out of connections."))
    if abs(database["clock_offset_seconds"] or 0) > CLOCK_OFFSET_SECONDS:
        yield Reason("degraded", gettext("The clocks of this machine and of PostgreSQL differ."))
    if free < DISK_LOW_SHARE:
        level: Level = "failing" if free < DISK_FULL_SHARE else "degraded"
        words = gettext("The disk for reports is %(share)s full.")
        yield Reason(level, words % {"share": f"{1 - free:.0%}"})
    if unsafe_log_settings:
        words = gettext("PostgreSQL may write health data into its log. Set %(settings)s.")
        yield Reason("degraded", words % {"settings": ", ".join(unsafe_log_settings)})


def format_duration(seconds: float) -> str:
    """Return `30 s`, `5 min`, `3 h` or `2 d`, in whole units of which there are two or more."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
