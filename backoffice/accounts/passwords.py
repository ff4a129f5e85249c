"""Passwords: changed by whoever knows the old one, or set anew by a link in an e-mail.

The page that asks for a link says and takes the same whether there is such an account or not: it
leaves a row, in one statement, and a worker mails what is due. The link leads to `SITE_URL`, is
good once and for half an hour, and logs nobody in: the second factor is asked for as always.
"""

from __future__ import annotations

import logging
import smtplib
from datetime import timedelta
from typing import Any, Final

from allauth.account.adapter import get_adapter
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.forms import PasswordChangeForm, SetPasswordForm
from django.contrib.auth.tokens import default_token_generator
from django.contrib.auth.views import PasswordChangeView, PasswordResetConfirmView
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage
from django.core.mail.backends.smtp import EmailBackend
from django.db import connection
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse, reverse_lazy
from django.utils import timezone
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode
from django.views.decorators.http import require_http_methods, require_safe

from backoffice import audit
from backoffice.access import public, signed_in
from backoffice.accounts import known_devices, throttle
from backoffice.accounts.models import PasswordReset, StaffSession
from backoffice.models import User
from backoffice.requests import address_of

logger = logging.getLogger(__name__)

RULES: Final = "12 characters or more. Words that belong together only for you are best."

# Changed


class ChangeForm(PasswordChangeForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["new_password1"].help_text = RULES
        self.fields["new_password2"].help_text = ""
        self.fields["new_password2"].label = "The same again"

    def clean_old_password(self) -> str:
        """Guesses count and are on record like those at the log-in."""
        typed: str = self.cleaned_data["old_password"]
        if not get_adapter().reauthenticate(self.user, typed):
            raise ValidationError(self.error_messages["password_incorrect"], "password_incorrect")
        return typed


class _Change(PasswordChangeView):
    """Other sessions of this person end; this one goes on."""

    form_class = ChangeForm
    template_name = "accounts/password_change.html"
    success_url = reverse_lazy("account")

    def form_valid(self, form: Any) -> HttpResponse:
        response = super().form_valid(form)
        user = form.user
        audit.record(self.request, "change", "password", ids=[user.pk])
        others_of(user.pk, self.request).delete()
        messages.success(self.request, "Password changed. You are logged out everywhere else.")
        return response


def others_of(user_id: int, request: HttpRequest) -> Any:
    """Sessions of this person but the one of this request."""
    rows = StaffSession.objects.filter(user_id=user_id)
    return rows.exclude(session_key=request.session.session_key or "")


# A link is asked for


class AskForm(forms.Form):
    email = forms.EmailField(
        label="E-mail", max_length=254, widget=forms.EmailInput({"autocomplete": "email"})
    )


_ASK: Final = """
INSERT INTO backoffice_passwordreset (user_id)
SELECT id FROM backoffice_user
WHERE lower(email) = lower(%s) AND is_active AND password NOT LIKE '!%%'
ON CONFLICT (user_id) DO UPDATE SET asked_at = statement_timestamp(), due_at = statement_timestamp()
"""


@public
@require_http_methods(["GET", "HEAD", "POST"])
def ask(request: HttpRequest) -> HttpResponse:
    """Who asks too often is told the same, and nothing more is mailed."""
    context: dict[str, Any] = {"mails": bool(settings.EMAIL_URL), "form": AskForm()}
    if request.method != "POST" or not settings.EMAIL_URL:
        return render(request, "accounts/password_ask.html", context)
    form = AskForm(request.POST)
    if not form.is_valid():
        return render(request, "accounts/password_ask.html", {**context, "form": form}, status=400)
    email = form.cleaned_data["email"]
    network = throttle.network_of(address_of(request) or "")
    if throttle.RESETS_FROM.take(network) and throttle.RESETS.take(email.lower()):
        with connection.cursor() as cursor:
            cursor.execute(_ASK, [email])
    return HttpResponseRedirect(reverse("password-asked"))


@public
@require_safe
def asked(request: HttpRequest) -> HttpResponse:
    return render(request, "accounts/password_asked.html")


# A link is followed


class NewPasswordForm(SetPasswordForm):  # type: ignore[type-arg]  # generic only in the stubs
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["new_password1"].help_text = RULES
        self.fields["new_password2"].help_text = ""
        self.fields["new_password2"].label = "The same again"


class _SetAnew(PasswordResetConfirmView):
    form_class = NewPasswordForm
    template_name = "accounts/password_new.html"
    success_url = reverse_lazy("login")
    post_reset_login = False

    def form_valid(self, form: Any) -> HttpResponse:
        response = super().form_valid(form)
        user = form.user
        others_of(user.pk, self.request).delete()
        audit.record(self.request, "change", "password", ids=[user.pk], reason="by e-mail")
        messages.success(self.request, "Your new password is set. Log in with it.")
        known_devices.remember(self.request, response, user.get_username())
        return response


change = signed_in(_Change.as_view())
set_anew = public(_SetAnew.as_view())


# A link is mailed

LEASE_SECONDS: Final = 120
_CLAIM: Final = """
UPDATE backoffice_passwordreset
SET due_at = statement_timestamp() + make_interval(secs => %s) WHERE user_id = (
 SELECT user_id FROM backoffice_passwordreset WHERE due_at <= statement_timestamp()
 ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED
) RETURNING user_id, asked_at
"""


def send_due() -> int:
    """Mail the links that were asked for; how many. What cannot be sent is tried again until
    nobody waits for it any more."""
    sent = 0
    while settings.EMAIL_URL and (claimed := _claimed()):
        user_id, asked_at = claimed
        row = PasswordReset.objects.filter(user_id=user_id, asked_at=asked_at)
        if timezone.now() - asked_at > timedelta(seconds=settings.PASSWORD_RESET_TIMEOUT):
            row.delete()
            continue
        try:
            _message(User.objects.get(pk=user_id)).send()
        except (OSError, smtplib.SMTPException, ValueError) as error:
            logger.warning("a link could not be mailed: %s", type(error).__name__)
        else:
            row.delete()
            sent += 1
    return sent


def _claimed() -> tuple[int, Any] | None:
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, [LEASE_SECONDS])
        found: tuple[int, Any] | None = cursor.fetchone()
    return found


def _message(user: User) -> EmailMessage:
    key = urlsafe_base64_encode(force_bytes(user.pk))
    way = reverse("password-new", args=[key, default_token_generator.make_token(user)])
    minutes = settings.PASSWORD_RESET_TIMEOUT // 60
    return EmailMessage(
        subject="Set a new password",
        body=f"Somebody asked to set a new password for the account {user.get_username()}.\n\n"
        f"This link does it, once and within {minutes} minutes:\n\n{settings.SITE_URL}{way}\n\n"
        "If it was not you, do nothing: your password stays as it is.\n",
        from_email=settings.EMAIL_FROM,
        to=[user.email],
        headers={"Auto-Submitted": "auto-generated"},
        connection=EmailBackend(),
    )
