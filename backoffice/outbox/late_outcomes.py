"""Commands that a person or a look-up closed as not done, and that happen after all.

A slow service may carry out a request after somebody has given it up. Such a command is looked up
for some time longer: soon where the mirror sees something about it change, else at growing
intervals. Where it is found, it is closed as done, whoever asked is notified, and whoever asked
for the same again is warned (`team.telling` reads `late_after`).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from django.db import connection
from django.db.models import Q
from django.utils import timezone

from backoffice.models import CommandRecord, CommandRecords

State = CommandRecord.State

FOLLOWED: Final = timedelta(days=14)
"""How long after its end a command is looked up. Its contents are forgotten later than that."""
FIRST_LOOK: Final = 60
"""Seconds from the end to the first look-up."""
EARLIER_HAPPENED: Final = "An earlier request for the same, which was given up, was carried out."

WITHOUT_EFFECT: Final = (State.REFUSED, State.WITHDRAWN)
"""Ends of a command that repeats nothing."""

FOLLOWED_ROWS: Final = "(state = 'given_up' OR state = 'refused' AND doubted)"
"""Ended commands that may have been carried out: the condition of the index command_followed."""
# One look-up per change: the change has to be newer than the last look.
_WAKE: Final = f"""
UPDATE backoffice_commandrecord AS command SET due_at = now()
WHERE {FOLLOWED_ROWS} AND due_at > now() AND finished_at > now() - make_interval(secs => %s)
 AND EXISTS (
  SELECT FROM backoffice_change AS change
  WHERE change.at > coalesce(command.looked_at, command.finished_at)
   AND (change.subjects && array_remove(ARRAY[command.patient_id], NULL)
        OR command.subject_id = ANY(change.subjects::text[])))
"""


def is_followed(row: CommandRecord) -> bool:
    """Whether an ended command may still turn out to have happened."""
    return row.state == State.GIVEN_UP or (row.state == State.REFUSED and row.doubted)


def wake_by_changes() -> None:
    """Make due what the mirror saw something change about since the last look-up."""
    with connection.cursor() as cursor:
        cursor.execute(_WAKE, [FOLLOWED.total_seconds()])


def next_look(row: CommandRecord, at: datetime) -> float:
    """Seconds until the next look-up: a quarter of the time since the end, ten minutes at least."""
    since = (at - (row.finished_at or at)).total_seconds()
    return max(600.0, since / 4)


def later_commands(row: CommandRecord) -> CommandRecords:
    """Later commands for the same thing as `row`."""
    later = CommandRecord.objects.filter(kind=row.kind, requested_at__gt=row.requested_at)
    if row.lock:
        return later.filter(lock=row.lock)
    return later.filter(subject_type=row.subject_type, subject_id=row.subject_id)


def belongs_to_another(row: CommandRecord, remote_id: str) -> bool:
    """Whether what was found is, or may be, the work of a later command for the same thing."""
    sent = Q(state__in=CommandRecord.OPEN) & ~Q(first_sent_at=None)
    done = Q(state=State.DONE, remote_id=remote_id)
    return later_commands(row).filter(sent | done).exists()


def hold_repeats(row: CommandRecord) -> None:
    """What was asked again and not sent yet is not sent: a person decides whether it is still
    wanted. In the transaction that closes `row`."""
    found = [{"id": row.remote_id, "words": EARLIER_HAPPENED}]
    later_commands(row).filter(state=State.WAITING, first_sent_at=None).update(
        state=State.UNDECIDED,
        found=found,
        # A worker that is preparing it loses its lease, and so does not send it.
        lease_token=None,
        lease_until=None,
        due_at=timezone.now() + timedelta(seconds=600),
    )


def earlier_that_happened(row: CommandRecord) -> CommandRecord | None:
    """The earlier command for the same thing that happened after it had ended, if there is one."""
    if row.state in WITHOUT_EFFECT:
        return None
    earlier = CommandRecord.objects.filter(kind=row.kind, requested_at__lt=row.requested_at)
    if row.lock:
        earlier = earlier.filter(lock=row.lock)
    else:
        earlier = earlier.filter(subject_type=row.subject_type, subject_id=row.subject_id)
    return earlier.exclude(late_after="").order_by("-requested_at").first()
