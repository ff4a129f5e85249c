"""Passwords: forms to change one or to set one by a link, and requests for such a link.

The page that requests a link shows the same text and takes the same time whether the account exists
or not: one statement writes a row, and a worker mails what is due (`emails.py`). The link leads to
`SITE_URL` and is valid once, for half an hour. It does not sign in: the second factor is still
required.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from allauth.account.adapter import get_adapter
from allauth.core import context
from django import forms
from django.contrib.auth.forms import PasswordChangeForm, SetPasswordForm
from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext, gettext_lazy, gettext_noop

from backoffice.accounts import emails
from backoffice.accounts.models import StaffSession, User
from backoffice.audit.recording import record_action

RULES: Final = gettext_noop("At least 12 characters. A few unrelated words work well.")

_QUEUE_RESET: Final = """
INSERT INTO accounts_passwordreset (user_id)
SELECT id FROM accounts_user
WHERE lower(email) = lower(%s) AND is_active AND password NOT LIKE '!%%'
ON CONFLICT (user_id) DO UPDATE SET asked_at = statement_timestamp(), due_at = statement_timestamp()
"""


def queue_reset(email: str) -> None:
    """Queue a link for the account with this email address, if there is one."""
    with connection.cursor() as cursor:
        cursor.execute(_QUEUE_RESET, [email])


def other_sessions(user_id: int, request: HttpRequest) -> QuerySet[StaffSession]:
    """Return the sessions of this person, without the session of the request."""
    rows = StaffSession.objects.filter(user_id=user_id)
    return rows.exclude(session_key=request.session.session_key or "")


class _NewPasswordMixin:
    """Save a new password, which its owner typed twice.

    One transaction saves the password and the audit entry, queues the notice, and ends the other
    sessions of the owner.
    """

    user: User
    fields: dict[str, forms.Field]
    reason: ClassVar[str] = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["new_password1"].help_text = gettext(RULES)
        self.fields["new_password2"].help_text = ""
        self.fields["new_password2"].label = gettext("New password again")

    def save(self, commit: bool = True) -> User:
        request = context.request
        with transaction.atomic(durable=True):
            saved: User = super().save(commit)  # type: ignore[misc]
            other_sessions(saved.pk, request).delete()
            record_action(request, "password", [saved.pk], (), self.reason)
            emails.notify_owner(request, saved, gettext_noop("Your password was changed"))
        return saved


class ChangePasswordForm(_NewPasswordMixin, PasswordChangeForm):
    def clean_old_password(self) -> str:
        """Check the old password. Guesses are throttled and recorded as at signing in."""
        typed: str = self.cleaned_data["old_password"]
        if not get_adapter().reauthenticate(self.user, typed):
            raise ValidationError(self.error_messages["password_incorrect"], "password_incorrect")
        return typed

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if cleaned.get("old_password") and cleaned.get("new_password1") == cleaned["old_password"]:
            self.add_error(
                "new_password2", gettext("This is your current password. Choose another one.")
            )
        return cleaned


class NewPasswordForm(_NewPasswordMixin, SetPasswordForm):  # type: ignore[type-arg]  # only in the stubs
    reason = "by email"


class PasswordResetRequestForm(forms.Form):
    email = forms.EmailField(
        label=gettext_lazy("Email"),
        max_length=254,
        widget=forms.EmailInput({"autocomplete": "email"}),
    )
