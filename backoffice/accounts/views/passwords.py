"""Pages to change a password, to request a link, and to set a password by the link."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.views import PasswordChangeView, PasswordResetConfirmView
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse, reverse_lazy
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_safe

from backoffice.accounts import known_devices, throttle
from backoffice.accounts.access import public, signed_in
from backoffice.accounts.first_passwords import allow_first_password
from backoffice.accounts.passwords import (
    ChangePasswordForm,
    NewPasswordForm,
    PasswordResetRequestForm,
    queue_reset,
)
from backoffice.core.request_ids import client_address


class _ChangePassword(PasswordChangeView):
    """Change the password. Other sessions of this person end; this one continues."""

    form_class = ChangePasswordForm
    template_name = "accounts/password_change.html"
    success_url = reverse_lazy("account")

    def form_valid(self, form: Any) -> HttpResponse:
        response = super().form_valid(form)
        messages.success(
            self.request, gettext("Password changed. You are signed out everywhere else.")
        )
        return response


class _SetPassword(PasswordResetConfirmView):
    form_class = NewPasswordForm
    template_name = "accounts/password_new.html"
    success_url = reverse_lazy("login")
    post_reset_login = False

    def form_valid(self, form: Any) -> HttpResponse:
        response = super().form_valid(form)
        messages.success(self.request, gettext("Your new password is set. Sign in with it."))
        known_devices.remember_device(self.request, response, form.user.get_username())
        return response


change_password = allow_first_password(signed_in(_ChangePassword.as_view()))
set_password = public(_SetPassword.as_view())


@public
@require_http_methods(["GET", "HEAD", "POST"])
def request_reset(request: HttpRequest) -> HttpResponse:
    """Request a link. Whoever asks too often sees the same page, but no link is mailed."""
    context: dict[str, object] = {
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
    if throttle.RESETS_FROM.try_acquire(network) and throttle.RESETS.try_acquire(email.lower()):
        queue_reset(email)
    return HttpResponseRedirect(reverse("password-asked"))


@public
@require_safe
def reset_requested(request: HttpRequest) -> HttpResponse:
    return render(request, "accounts/password_asked.html")
