"""First passwords: nobody goes on with a password that somebody else has chosen.

An administrator makes an account, or voids its password; they type none. Where mail goes out, the
owner gets a link to set one, as with a forgotten password. Elsewhere the administrator is shown a
random one, once. It is good for a day, and whoever logs in with it sees no page before they have
chosen their own.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, TypeVar

from allauth.account.authentication import get_authentication_records
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from backoffice.accounts import second_factor
from backoffice.accounts.models import PasswordReset
from backoffice.core import access
from backoffice.models import User

View = TypeVar("View", bound=Callable[..., Any])

HOURS: Final = 24
EXPIRED: Final = "This first password was good for a day. Ask an administrator for another one."
_LETTERS: Final = "abcdefghjkmnpqrstuvwxyz23456789"
"""None of them is taken for another when it is read out."""
_ALLOW_FIRST_PASSWORD: Final = "with_first_password"  # noqa: S105 - a name


def issue(user: User, *, voided: bool = False) -> str:
    """Void the password of `user`. What to tell them as their first one; empty where a link is
    mailed, which says so where theirs was `voided`. In the caller's transaction."""
    first = "-".join("".join(secrets.choice(_LETTERS) for _ in range(4)) for _ in range(4))
    mailed = bool(settings.EMAIL_URL and user.email)
    # Behind a link stands a password that nobody knows: who is too late asks for another link.
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
    """Declare that a view is also for people who still have to choose a password."""
    setattr(view, _ALLOW_FIRST_PASSWORD, True)
    return view


def refuse_first_password(request: HttpRequest, view: Callable[..., Any]) -> HttpResponse | None:
    """What to answer instead of `view` to somebody who came in by a first password."""
    user = request.user
    if not isinstance(user, User) or user.first_password_until is None:
        return None
    if (
        getattr(view, _ALLOW_FIRST_PASSWORD, False)
        or second_factor.is_allowed_before(view)
        or not access.declared_permissions(view)
    ):
        return None
    if all(one["method"] != "password" for one in get_authentication_records(request, user)):
        return None
    return second_factor.redirect_or_refuse(
        request, "password-change", "Choose your own password first."
    )
