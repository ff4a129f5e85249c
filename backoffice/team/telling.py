"""Telling people how requests of theirs ended: found by what stands in the rows, each told once."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.db.models import CharField, Exists, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Cast, Concat
from django.utils import timezone

from backoffice.models import CommandRecord, Notification
from backoffice.team.writing import notify

BACK: Final = timedelta(days=3)
"""Older refusals are no news."""
AT_ONCE: Final = 200
KIND_OF: Final = {
    CommandRecord.State.REFUSED: "refused",
    CommandRecord.State.UNDECIDED: "undecided",
}


def tell_of_requests() -> int:
    """Whose request was refused, or waits for a decision, is told; once for each sending of it."""
    told = 0
    for kind, rows in untold().items():
        for row in rows.select_related("requested_by")[:AT_ONCE]:
            occurrence = f"attempt {row.attempts}"
            told += notify([row.requested_by], kind, "command", row.pk, about=occurrence)
    return told


def untold() -> dict[str, QuerySet[CommandRecord]]:
    """By the kind of notification, what nobody was told of yet."""
    found: dict[str, QuerySet[CommandRecord]] = {}
    since = timezone.now() - BACK
    for state, kind in KIND_OF.items():
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
