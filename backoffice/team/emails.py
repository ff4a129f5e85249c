"""Email notifications to staff: a short text and a link, with no data about patients.

`notifications.notify` decides who gets one.

All due notifications of one person go out as one message. The claim is committed before the message
is sent. If the worker dies, the lease expires and the message is sent again under the same
Message-ID, so a mail server can recognize a duplicate.
"""

from __future__ import annotations

import logging
import smtplib
import time
import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings
from django.core.mail import EmailMessage
from django.core.mail.backends.smtp import EmailBackend
from django.db import transaction
from django.db.models import F, Q
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop

from backoffice.accounts.models import User
from backoffice.accounts.reader_formats import formats_of
from backoffice.team.models import MailChoice, Notification
from backoffice.team.notification_texts import NOTIFICATION_KINDS

logger = logging.getLogger(__name__)

LEASE_DURATION: Final = timedelta(minutes=2)
"""Longer than sending one message can take (`EMAIL_TIMEOUT` for each step)."""
MAX_NOTIFICATIONS: Final = 5_000
"""Notifications in one message."""
MAX_LINES: Final = 50
"""Lines of one message; the rest is only counted."""
MAX_ATTEMPTS: Final = 20
MAX_RETRY_DELAY: Final = timedelta(hours=1)


def send_due(seconds: float = 20.0) -> int:
    """Send the due messages for about `seconds`. Return how many were sent."""
    if not settings.EMAIL_URL:
        return 0
    until, sent = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        claimed = _claim()
        if claimed is None:
            break
        user, rows = claimed
        sent += _send(user, rows) if rows else 0
    return sent


def _claim() -> tuple[User, list[Notification]] | None:
    """Claim the next message. Return its recipient and rows; no rows if none is wanted any more."""
    now = timezone.now()
    with transaction.atomic():
        due = Notification.objects.select_for_update(skip_locked=True).filter(
            Q(mail_lease_until=None) | Q(mail_lease_until__lt=now), mail_due_at__lte=now
        )
        first = due.order_by("mail_due_at", "pk").first()
        if first is None:
            return None
        # Rows that were claimed as one message stay one message.
        together = due.filter(user_id=first.user_id, mail_id=first.mail_id)
        rows = list(together.order_by("pk")[:MAX_NOTIFICATIONS])
        user = User.objects.get(pk=first.user_id)
        rows_to_mail = _rows_to_mail(user, rows)
        keys = {row.pk for row in rows_to_mail}
        unwanted = [row.pk for row in rows if row.pk not in keys]
        Notification.objects.filter(pk__in=unwanted).update(mail_due_at=None)
        mail_id = first.mail_id or uuid.uuid4()
        Notification.objects.filter(pk__in=keys).update(
            mail_id=mail_id,
            mail_lease_until=now + LEASE_DURATION,
            mail_attempts=F("mail_attempts") + 1,
        )
        for row in rows_to_mail:
            row.mail_id, row.mail_attempts = mail_id, row.mail_attempts + 1
    return user, rows_to_mail


def _rows_to_mail(user: User, rows: Sequence[Notification]) -> list[Notification]:
    """Return the rows still to be mailed: those not seen meanwhile, of kinds the user wants."""
    if not user.is_active or not user.email:
        return []
    unwanted_kinds = MailChoice.objects.unwanted_kinds(user)
    return [row for row in rows if row.seen_at is None and row.kind not in unwanted_kinds]


def _send(user: User, rows: Sequence[Notification]) -> int:
    own_rows = Notification.objects.filter(mail_id=rows[0].mail_id, mailed_at=None)
    try:
        with formats_of(user):
            email = build_message(user, rows)
        email.send()
    except smtplib.SMTPRecipientsRefused as error:
        codes = [code for code, _ in error.recipients.values()]
        final = all(code >= 500 for code in codes)
        _record_failure(rows, gettext_noop("The mail server rejected this address."), final=final)
    except ValueError:
        _record_failure(rows, gettext_noop("Email can’t be sent to this address."), final=True)
    except (OSError, smtplib.SMTPException) as error:
        logger.warning("an email could not be sent: %s", type(error).__name__)
        _record_failure(rows, gettext_noop("The mail server rejected the email."), final=False)
    else:
        own_rows.update(
            mailed_at=timezone.now(), mail_due_at=None, mail_lease_until=None, mail_error=""
        )
        return 1
    return 0


def _record_failure(rows: Sequence[Notification], words: str, *, final: bool) -> None:
    attempts = rows[0].mail_attempts
    wait = min(timedelta(minutes=2 ** min(attempts, 10)), MAX_RETRY_DELAY)
    over = final or attempts >= MAX_ATTEMPTS
    Notification.objects.filter(mail_id=rows[0].mail_id, mailed_at=None).update(
        mail_error=words,
        mail_due_at=None if over else timezone.now() + wait,
        mail_lease_until=None,
    )


def build_message(user: User, rows: Sequence[Notification]) -> EmailMessage:
    lines = [
        f"{gettext(NOTIFICATION_KINDS[row.kind].mail)}: "
        f"{settings.SITE_URL}{reverse('team:open', args=[row.pk])}"
        for row in rows[:MAX_LINES]
    ]
    if len(rows) > MAX_LINES:
        everything = settings.SITE_URL + reverse("team:notifications")
        more = {"count": f"{len(rows) - MAX_LINES:,}", "url": everything}
        lines.append(gettext("And %(count)s more: %(url)s") % more)
    subject = (
        gettext(NOTIFICATION_KINDS[rows[0].kind].mail)
        if len(rows) == 1
        else gettext("%(count)s new notifications") % {"count": f"{len(rows):,}"}
    )
    choices = gettext("Choose which emails you get: %(url)s") % {
        "url": settings.SITE_URL + reverse("team:choices")
    }
    host = urlsplit(settings.SITE_URL).hostname
    return EmailMessage(
        subject=subject,
        body="\n\n".join([*lines, choices]) + "\n",
        from_email=settings.EMAIL_FROM,
        to=[user.email],
        headers={
            "Message-ID": f"<{rows[0].mail_id}@{host}>",
            "Auto-Submitted": "auto-generated",
        },
        connection=EmailBackend(),
    )
