"""Passwords: changed by whoever knows the old one, or set anew by a link in an e-mail.

The page that asks for a link says and takes the same whether there is such an account or not: it
leaves a row, in one statement, and a worker mails what is due (`mailing.py`). The link leads to
`SITE_URL`, is good once and for half an hour, and logs nobody in: the second factor is asked for as
always.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from allauth.account.adapter import get_adapter
from allauth.core import context
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.forms import PasswordChangeForm, SetPasswordForm
from django.contrib.auth.views import PasswordChangeView, PasswordResetConfirmView
from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse, reverse_lazy
from django.views.decorators.http import require_http_methods, require_safe

from backoffice import audit
from backoffice.accounts import emails, known_devices, throttle
from backoffice.accounts.first_passwords import allow_first_password
from backoffice.accounts.models import StaffSession
from backoffice.core.access import public, signed_in
from backoffice.core.request_ids import client_address
from backoffice.models import User

RULES: Final = "At least 12 characters. A few unrelated words work well."

# Changed


class _NewPasswordMixin:
    """A password by its owner, typed twice: kept together with the entry about it, the e-mail, and
    the end of their other sessions."""

    user: User
    fields: dict[str, forms.Field]
    way: ClassVar[str] = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["new_password1"].help_text = RULES
        self.fields["new_password2"].help_text = ""
        self.fields["new_password2"].label = "New password again"

    def save(self, commit: bool = True) -> User:
        request = context.request
        with transaction.atomic(durable=True):
            saved: User = super().save(commit)  # type: ignore[misc]
            other_sessions(saved.pk, request).delete()
            audit.record_action(request, "password", [saved.pk], (), self.way)
            emails.notify_owner(request, saved, "Your password was changed")
        return saved


class ChangePasswordForm(_NewPasswordMixin, PasswordChangeForm):
    def clean_old_password(self) -> str:
        """Guesses count and are on record like those at the log-in."""
        typed: str = self.cleaned_data["old_password"]
        if not get_adapter().reauthenticate(self.user, typed):
            raise ValidationError(self.error_messages["password_incorrect"], "password_incorrect")
        return typed

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or self.cleaned_data
        if given.get("old_password") and given.get("new_password1") == given["old_password"]:
            self.add_error("new_password2", "This is the one you have: choose another.")
        return given


class _ChangePassword(PasswordChangeView):
    """Other sessions of this person end; this one goes on."""

    form_class = ChangePasswordForm
    template_name = "accounts/password_change.html"
    success_url = reverse_lazy("account")

    def form_valid(self, form: Any) -> HttpResponse:
        response = super().form_valid(form)
        messages.success(self.request, "Password changed. You are logged out everywhere else.")
        return response


def other_sessions(user_id: int, request: HttpRequest) -> Any:
    """Sessions of this person but the one of this request."""
    rows = StaffSession.objects.filter(user_id=user_id)
    return rows.exclude(session_key=request.session.session_key or "")


# A link is asked for


class PasswordResetRequestForm(forms.Form):
    email = forms.EmailField(
        label="E-mail", max_length=254, widget=forms.EmailInput({"autocomplete": "email"})
    )


_QUEUE_RESET: Final = """
INSERT INTO backoffice_passwordreset (user_id)
SELECT id FROM backoffice_user
WHERE lower(email) = lower(%s) AND is_active AND password NOT LIKE '!%%'
ON CONFLICT (user_id) DO UPDATE SET asked_at = statement_timestamp(), due_at = statement_timestamp()
"""


@public
@require_http_methods(["GET", "HEAD", "POST"])
def request_reset(request: HttpRequest) -> HttpResponse:
    """Who asks too often is told the same, and nothing more is mailed."""
    context: dict[str, Any] = {
        "mails": bool(settings.EMAIL_URL),
        "form": PasswordResetRequestForm(),
    }
    if request.method != "POST" or not settings.EMAIL_URL:
        return render(request, "accounts/password_ask.html", context)
    form = PasswordResetRequestForm(request.POST)
    if not form.is_valid():
        return render(request, "accounts/password_ask.html", {**context, "form": form}, status=400)
    email = form.cleaned_data["email"]
    network = throttle.network_prefix(client_address(request) or "")
    if throttle.RESETS_FROM.take(network) and throttle.RESETS.take(email.lower()):
        with connection.cursor() as cursor:
            cursor.execute(_QUEUE_RESET, [email])
    return HttpResponseRedirect(reverse("password-asked"))


@public
@require_safe
def reset_requested(request: HttpRequest) -> HttpResponse:
    return render(request, "accounts/password_asked.html")


# A link is followed


class NewPasswordForm(_NewPasswordMixin, SetPasswordForm):  # type: ignore[type-arg]  # only in the stubs
    way = "by e-mail"


class _SetPassword(PasswordResetConfirmView):
    form_class = NewPasswordForm
    template_name = "accounts/password_new.html"
    success_url = reverse_lazy("login")
    post_reset_login = False

    def form_valid(self, form: Any) -> HttpResponse:
        response = super().form_valid(form)
        messages.success(self.request, "Your new password is set. Log in with it.")
        known_devices.remember_device(self.request, response, form.user.get_username())
        return response


change_password = allow_first_password(signed_in(_ChangePassword.as_view()))
set_password = public(_SetPassword.as_view())
