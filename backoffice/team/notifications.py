"""Telling people how requests of theirs ended: found by what stands in the rows, each told once."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.db.models import CharField, Exists, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Cast, Concat
from django.utils import timezone

from backoffice.models import CommandRecord, Notification
from backoffice.outbox import late_outcomes
from backoffice.team.actions import notify

NEWS_PERIOD: Final = timedelta(days=3)
"""Older refusals are no news."""
BATCH_SIZE: Final = 200
KIND_BY_STATE: Final = {
    CommandRecord.State.REFUSED: "refused",
    CommandRecord.State.UNDECIDED: "undecided",
}


def notify_request_outcomes() -> int:
    """Whose request was refused, or waits for a decision, is told; once for each sending of it."""
    told = 0
    for kind, rows in commands_to_notify().items():
        for row in rows.select_related("requested_by")[:BATCH_SIZE]:
            occurrence = f"attempt {row.attempts}"
            told += notify([row.requested_by], kind, "command", row.pk, about=occurrence)
    return told + _notify_of_late_successes()


def _notify_of_late_successes() -> int:
    """Whoever asked for, or decided on, what happened after its end is notified; whoever asked for
    the same again is warned, at the page of their own request."""
    since = timezone.now() - NEWS_PERIOD
    rows = CommandRecord.objects.filter(finished_at__gt=since).exclude(late_after="")
    told = 0
    for row in rows.select_related("requested_by", "decided_by")[:BATCH_SIZE]:
        people = {user.pk: user for user in (row.requested_by, row.decided_by) if user is not None}
        about = f"after {row.late_after}"
        told += notify(people.values(), "happened-late", "command", row.pk, about=about)
        repeats = late_outcomes.later_commands(row).exclude(state__in=late_outcomes.WITHOUT_EFFECT)
        for other in repeats.select_related("requested_by"):
            about = f"repeats {row.pk}"
            told += notify([other.requested_by], "repeats", "command", other.pk, about=about)
    return told


def commands_to_notify() -> dict[str, QuerySet[CommandRecord]]:
    """By the kind of notification, what nobody was told of yet."""
    found: dict[str, QuerySet[CommandRecord]] = {}
    since = timezone.now() - NEWS_PERIOD
    for state, kind in KIND_BY_STATE.items():
        about = Concat(Value("attempt "), Cast(OuterRef("attempts"), CharField()))
        already = Notification.objects.filter(
            user=OuterRef("requested_by"),
            kind=kind,
            subject_type="command",
            subject_id=Cast(OuterRef("pk"), CharField()),
            about=about,
        )
        recent = Q(finished_at__gt=since) if kind == "refused" else Q()
        found[kind] = CommandRecord.objects.filter(recent, ~Exists(already), state=state)
    return found
