"""Commands that a person or a lookup closed as not done, and that the service carries out later.

A slow service may carry out a request after a person gave it up. Such a command is looked up for
some more time: soon if the mirror records a related change, else at growing intervals. If it was
carried out, it is closed as done. Its requester is notified, and so is everybody who requested the
same again (`team.notifications` reads `late_after`).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from django.db import connection
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_noop

from backoffice.outbox.models import CommandRecord, CommandRecords

State = CommandRecord.State

LOOKUP_PERIOD: Final = timedelta(days=14)
"""How long after its end a command is looked up. Its contents are erased only after that."""
FIRST_LOOKUP_SECONDS: Final = 60
"""Seconds from the end to the first lookup."""
EARLIER_HAPPENED: Final = gettext_noop(
    "An earlier request for the same thing, closed without an answer, was carried out after all."
)

WITHOUT_EFFECT: Final = (State.REFUSED, State.WITHDRAWN)
"""Final states of a command that had no effect."""

MAY_HAVE_HAPPENED: Final = "(state = 'given_up' OR state = 'refused' AND doubted)"
"""Ended commands that may have been carried out: the condition of the index command_followed."""
# One lookup per change: the change must be newer than the last lookup.
_MAKE_CHANGED_DUE: Final = f"""
UPDATE outbox_commandrecord AS command SET due_at = now()
WHERE {MAY_HAVE_HAPPENED} AND due_at > now() AND finished_at > now() - make_interval(secs => %s)
 AND EXISTS (
  SELECT FROM core_change AS change
  WHERE change.at > coalesce(command.looked_at, command.finished_at)
   AND (change.subjects && array_remove(ARRAY[command.patient_id], NULL)
        OR command.subject_id = ANY(change.subjects::text[])))
"""


def may_have_happened(row: CommandRecord) -> bool:
    """Return whether an ended command may have been carried out by the service."""
    return row.state == State.GIVEN_UP or (row.state == State.REFUSED and row.doubted)


def make_changed_due() -> None:
    """Make ended commands due if the mirror has recorded a related change since their lookup."""
    with connection.cursor() as cursor:
        cursor.execute(_MAKE_CHANGED_DUE, [LOOKUP_PERIOD.total_seconds()])


def next_lookup_delay(row: CommandRecord, at: datetime) -> float:
    """Return seconds to the next lookup: a quarter of the time since the end, at least 600."""
    since = (at - (row.finished_at or at)).total_seconds()
    return max(600.0, since / 4)


def later_commands(row: CommandRecord) -> CommandRecords:
    """Return later commands with the same kind and lock (or subject) as `row`."""
    return _same_kind_and_lock(row).filter(requested_at__gt=row.requested_at)


def _same_kind_and_lock(row: CommandRecord) -> CommandRecords:
    """Return commands with the kind and lock of `row`; without a lock, with its subject."""
    commands = CommandRecord.objects.filter(kind=row.kind)
    if row.lock:
        return commands.filter(lock=row.lock)
    return commands.filter(subject_type=row.subject_type, subject_id=row.subject_id)


def is_of_later_command(row: CommandRecord, remote_id: str) -> bool:
    """Return whether the record found is, or may be, the work of a later command."""
    sent = Q(state__in=CommandRecord.OPEN) & ~Q(first_sent_at=None)
    done = Q(state=State.DONE, remote_id=remote_id)
    return later_commands(row).filter(sent | done).exists()


def suspend_repeats(row: CommandRecord) -> None:
    """Stop later commands for the same that were not sent yet: a person decides on them.

    Runs in the transaction that closes `row`.
    """
    matches = [{"id": row.remote_id, "words": EARLIER_HAPPENED}]
    later_commands(row).filter(state=State.WAITING, first_sent_at=None).update(
        state=State.UNDECIDED,
        found=matches,
        # A worker that is preparing one loses its lease, so it does not send it.
        lease_token=None,
        lease_until=None,
        due_at=timezone.now() + timedelta(seconds=600),
    )


def earlier_late_command(row: CommandRecord) -> CommandRecord | None:
    """Return the earlier command for the same that happened after its end, if there is one."""
    if row.state in WITHOUT_EFFECT:
        return None
    earlier = _same_kind_and_lock(row).filter(requested_at__lt=row.requested_at)
    return earlier.exclude(late_after="").order_by("-requested_at").first()
