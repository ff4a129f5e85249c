"""Email about an account: links to set a password, and notices of changes to signing in.

Each email is a row, written in the transaction of the change that it is about. A worker claims one
row at a time and sends it. A failed email is retried until it is too old to be useful.
"""

from __future__ import annotations

import logging
import smtplib
from collections.abc import Callable
from datetime import UTC, timedelta
from typing import Final, TypeVar

from django.conf import settings
from django.contrib.auth.tokens import default_token_generator
from django.core.mail import EmailMessage
from django.core.mail.backends.smtp import EmailBackend
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode
from django.utils.translation import gettext, gettext_noop

from backoffice.accounts.models import AccountNews, PasswordReset, User
from backoffice.accounts.reader_formats import formats_of
from backoffice.core.request_ids import client_address
from backoffice.core.time_formats import calendar_day, hour

logger = logging.getLogger(__name__)

QueuedEmail = TypeVar("QueuedEmail", AccountNews, PasswordReset)

LEASE_SECONDS: Final = 120
NEWS_DAYS: Final = 2
VOIDED: Final = gettext_noop(
    "An administrator of your clinic reset your password. Your old password no longer works, and "
    "you are signed out everywhere."
)
UNEXPECTED: Final = gettext_noop(
    "If you did not request this link, ignore this email. Your password stays the same."
)
UNEXPECTED_VOID: Final = gettext_noop(
    "If you do not know why, ask an administrator of your clinic before you use the link."
)
_CLAIM: Final = """
UPDATE {table} SET due_at = statement_timestamp() + make_interval(secs => %s) WHERE {key} = (
 SELECT {key} FROM {table} WHERE due_at <= statement_timestamp()
 ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED
) RETURNING *
"""


def notify_owner(request: HttpRequest, user: User, what: str, *, email: str = "") -> None:
    """Queue a notice of a change for the owner of an account, in the caller's transaction.

    `email` is the address to use if the owner's address was changed. `what` is the subject.
    """
    email = email or user.email
    if settings.EMAIL_URL and email:
        AccountNews.objects.create(user=user, email=email, what=what, ip=client_address(request))


def send_due() -> int:
    """Send the emails that are due. Return how many were sent."""
    if not settings.EMAIL_URL:
        return 0
    half_an_hour = timedelta(seconds=settings.PASSWORD_RESET_TIMEOUT)
    return _send(PasswordReset, half_an_hour, _reset_message) + _send(
        AccountNews, timedelta(days=NEWS_DAYS), _change_message
    )


def _send(
    kind: type[QueuedEmail], max_age: timedelta, message: Callable[[QueuedEmail], EmailMessage]
) -> int:
    sent = 0
    while (row := _claim(kind)) is not None:
        # If the link is requested again meanwhile, the row with this key has a new `asked_at`.
        same_request = kind._default_manager.filter(pk=row.pk, asked_at=row.asked_at)
        if timezone.now() - row.asked_at > max_age:
            same_request.delete()
            continue
        try:
            with formats_of(row.user):
                email = message(row)
            email.send()
        except (OSError, smtplib.SMTPException, ValueError) as error:
            logger.warning("an email about an account failed: %s", type(error).__name__)
        else:
            same_request.delete()
            sent += 1
    return sent


def _claim(kind: type[QueuedEmail]) -> QueuedEmail | None:
    names = {"table": kind._meta.db_table, "key": kind._meta.pk.column}
    rows = kind._default_manager.raw(_CLAIM.format(**names), [LEASE_SECONDS])
    return next(iter(rows), None)


def _reset_message(row: PasswordReset) -> EmailMessage:
    user = row.user
    key = urlsafe_base64_encode(force_bytes(user.pk))
    path = reverse("password-new", args=[key, default_token_generator.make_token(user)])
    minutes = settings.PASSWORD_RESET_TIMEOUT // 60
    paragraphs = [
        gettext(
            "Use this link to set the password of the account %(username)s. It works once, for "
            "%(minutes)s minutes:"
        )
        % {"username": user.get_username(), "minutes": minutes},
        f"{settings.SITE_URL}{path}",
        gettext("Link expired? Request a new one: %(url)s")
        % {"url": f"{settings.SITE_URL}{reverse('password-forgotten')}"},
        gettext(UNEXPECTED_VOID if row.voided else UNEXPECTED),
    ]
    if row.voided:
        paragraphs.insert(0, gettext(VOIDED))
    return _message(user.email, gettext("Set your password"), "\n\n".join(paragraphs) + "\n")


def _change_message(row: AccountNews) -> EmailMessage:
    asked_at = row.asked_at.astimezone(UTC)
    what = gettext(row.what)
    paragraphs = [
        gettext("%(change)s.\nAccount: %(username)s\nTime: %(time)s\nIP address: %(address)s")
        % {
            "change": what,
            "username": row.user.get_username(),
            "time": f"{calendar_day(asked_at)}, {hour(asked_at)} UTC",
            "address": row.ip or gettext("unknown"),
        },
        gettext(
            "If you did not make or expect this change, tell an administrator of your clinic right "
            "away. See where you are signed in, and how:"
        ),
        f"{settings.SITE_URL}{reverse('account')}",
    ]
    # Rows of an earlier version have no address.
    return _message(row.email or row.user.email, what, "\n\n".join(paragraphs) + "\n")


def _message(to: str, subject: str, body: str) -> EmailMessage:
    return EmailMessage(
        subject=subject,
        body=body,
        from_email=settings.EMAIL_FROM,
        to=[to],
        headers={"Auto-Submitted": "auto-generated"},
        connection=EmailBackend(),
    )
