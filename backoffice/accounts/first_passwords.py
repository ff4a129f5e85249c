"""First passwords: temporary passwords, which their owners must replace.

When an administrator creates an account, or voids its password, they do not type a password. If
email is configured, the owner gets a link to set one, as for a forgotten password. Otherwise the
administrator is shown a random password once. It is valid for a day, and whoever signs in with it
sees no page until they have chosen their own.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from allauth.account.authentication import get_authentication_records
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop

from backoffice.accounts import access, second_factor
from backoffice.accounts.access import View
from backoffice.accounts.models import PasswordReset, User

HOURS: Final = 24
EXPIRED: Final = gettext_noop(
    "This temporary password has expired. Ask an administrator for a new one."
)
_LETTERS: Final = "abcdefghjkmnpqrstuvwxyz23456789"
"""Letters and digits that are not confused with one another when read aloud."""
_ALLOW_FIRST_PASSWORD: Final = "with_first_password"  # noqa: S105 - a name


def issue(user: User, *, voided: bool = False) -> str:
    """Replace the password of `user`, in the caller's transaction.

    Return the first password, or "" if a link is mailed instead. `voided` says that they had a
    password before; the email mentions it.
    """
    first = "-".join("".join(secrets.choice(_LETTERS) for _ in range(4)) for _ in range(4))
    mailed = bool(settings.EMAIL_URL and user.email)
    # With a link, the account has a password that nobody knows. Whoever is too late requests
    # another link.
    user.set_password(secrets.token_urlsafe(32) if mailed else first)
    user.first_password_until = None if mailed else timezone.now() + timedelta(hours=HOURS)
    user.save(update_fields=["password", "first_password_until"])
    if not mailed:
        return first
    now = timezone.now()
    link = {"voided": voided, "asked_at": now, "due_at": now}
    PasswordReset.objects.update_or_create(user=user, defaults=link)
    return ""


def is_expired(user: User) -> bool:
    return user.first_password_until is not None and user.first_password_until < timezone.now()


def allow_first_password(view: View) -> View:
    """Declare that people who must still choose a password may open a view."""
    setattr(view, _ALLOW_FIRST_PASSWORD, True)
    return view


def refuse_first_password(request: HttpRequest, view: Callable[..., object]) -> HttpResponse | None:
    """Return the response for somebody who used a first password; None to allow `view`."""
    user = request.user
    if not isinstance(user, User) or user.first_password_until is None:
        return None
    if (
        getattr(view, _ALLOW_FIRST_PASSWORD, False)
        or second_factor.is_allowed_before(view)
        or not access.declared_permissions(view)
    ):
        return None
    records = get_authentication_records(request, user)
    if all(record["method"] != "password" for record in records):
        return None
    return second_factor.redirect_or_refuse(
        request, "password-change", gettext("Choose your own password first.")
    )
