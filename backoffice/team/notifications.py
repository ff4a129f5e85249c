"""Decide who is notified, on pages and by email; notify people of the outcomes of their commands.

`emails.py` sends the messages that are due.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from django.conf import settings
from django.db.models import CharField, Exists, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Cast, Concat
from django.utils import timezone

from backoffice.accounts.models import User
from backoffice.outbox import late_outcomes
from backoffice.outbox.models import CommandRecord
from backoffice.team.models import MailChoice, Notification
from backoffice.team.notification_texts import NOTIFICATION_KINDS
from backoffice.team.subjects import make_subject

NEWS_PERIOD: Final = timedelta(days=3)
"""Nobody is notified of older refusals."""
BATCH_SIZE: Final = 200
MAIL_AFTER: Final = timedelta(minutes=1)
"""People who see the notification within this time get no email."""
KIND_BY_STATE: Final = {
    CommandRecord.State.REFUSED: "refused",
    CommandRecord.State.UNDECIDED: "undecided",
}


def notify(
    users: Iterable[User],
    kind: str,
    subject_type: str,
    subject_id: object,
    *,
    about: str = "",
) -> int:
    """Notify people, each of them once for each `about`. Return the number of new notifications.

    `about` names the occurrence; without it, the call is an occurrence of its own. People who want
    email of this kind get one later, unless they have seen the notification by then.
    """
    if kind not in NOTIFICATION_KINDS:
        raise LookupError(f"not a kind of notification: {kind}")
    record = make_subject(subject_type, subject_id)
    people = {user.pk: user for user in users}
    mail_at = timezone.now() + MAIL_AFTER
    mailed = {pk for pk, user in people.items() if settings.EMAIL_URL and user.email}
    if mailed:
        unwanted = MailChoice.objects.filter(user__in=mailed, kind=kind, wanted=False)
        mailed -= set(unwanted.values_list("user_id", flat=True))
    about = about or uuid.uuid4().hex
    rows = [
        Notification(
            user_id=pk,
            kind=kind,
            subject_type=record.type,
            subject_id=record.id,
            about=about,
            at=timezone.now(),
            mail_due_at=mail_at if pk in mailed else None,
        )
        for pk in people
    ]
    return len(Notification.objects.bulk_create(rows, ignore_conflicts=True))


def notify_request_outcomes() -> int:
    """Notify people of commands that were refused or need a decision, once for each attempt.

    Return the number of new notifications.
    """
    count = 0
    for kind, rows in commands_to_notify().items():
        for row in rows.select_related("requested_by")[:BATCH_SIZE]:
            occurrence = f"attempt {row.attempts}"
            count += notify([row.requested_by], kind, "command", row.pk, about=occurrence)
    return count + _notify_of_late_successes()


def _notify_of_late_successes() -> int:
    """Notify the people of commands that were carried out after they had been given up.

    These are the people who requested the command or decided on it. People who requested the same
    again are warned with a link to their own command.
    """
    since = timezone.now() - NEWS_PERIOD
    rows = CommandRecord.objects.filter(finished_at__gt=since).exclude(late_after="")
    count = 0
    for row in rows.select_related("requested_by", "decided_by")[:BATCH_SIZE]:
        people = {user.pk: user for user in (row.requested_by, row.decided_by) if user is not None}
        about = f"after {row.late_after}"
        count += notify(people.values(), "happened-late", "command", row.pk, about=about)
        repeats = late_outcomes.later_commands(row).exclude(state__in=late_outcomes.WITHOUT_EFFECT)
        for other in repeats.select_related("requested_by"):
            about = f"repeats {row.pk}"
            count += notify([other.requested_by], "repeats", "command", other.pk, about=about)
    return count


def commands_to_notify() -> dict[str, QuerySet[CommandRecord]]:
    """Return the commands without a notification yet, by the kind of notification."""
    by_kind: dict[str, QuerySet[CommandRecord]] = {}
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
        by_kind[kind] = CommandRecord.objects.filter(recent, ~Exists(already), state=state)
    return by_kind
