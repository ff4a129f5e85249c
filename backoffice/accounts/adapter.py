"""The adapter of django-allauth for signing in."""

from __future__ import annotations

import time
from typing import Final

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.authentication import get_authentication_records
from allauth.core.exceptions import ImmediateHttpResponse
from django.contrib import messages
from django.contrib.auth import authenticate
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext, gettext_lazy, gettext_noop

from backoffice.accounts import (
    first_passwords,
    known_devices,
    recent_authentication,
    second_factor,
    throttle,
)
from backoffice.accounts.models import User
from backoffice.accounts.session_store import ORIGIN_KEY, STARTED_AT_KEY
from backoffice.audit.recording import AuditUnavailable, record_failed_sign_in, record_sign_in
from backoffice.core.request_ids import client_address

TOO_MANY_ATTEMPTS: Final = gettext_noop(
    "Too many attempts. Wait four minutes and try again, or sign in with a passkey."
)
MESSAGE_TEXTS: Final = {
    "mfa/messages/totp_activated.txt": gettext_noop("Authenticator app added"),
    "mfa/messages/totp_deactivated.txt": gettext_noop("Authenticator app removed"),
    "mfa/messages/webauthn_added.txt": gettext_noop("Passkey added"),
    "mfa/messages/webauthn_removed.txt": gettext_noop("Passkey removed"),
}


def record_refusal(request: HttpRequest, reason: str, subject: str = "") -> None:
    """Record a refusal at most once a minute for each `subject`, or else for each network address.

    Nobody can fill the audit trail with refusals.
    """
    subject = subject or f"{reason}\n{throttle.network_prefix(client_address(request) or '')}"
    if throttle.AUDITED_REFUSALS.try_acquire(subject):
        record_failed_sign_in(request, reason)


class TooManyAttempts(ValidationError):
    """The password was not checked: too many attempts came before."""

    def __init__(self) -> None:
        super().__init__(gettext(TOO_MANY_ATTEMPTS), code="too_many")


class AccountAdapter(DefaultAccountAdapter):
    """`ACCOUNT_ADAPTER`. Record every success and every refusal. Nobody can sign up."""

    error_messages = DefaultAccountAdapter.error_messages | {
        "username_password_mismatch": gettext_lazy(
            "Wrong username or password. Both are case-sensitive."
        ),
        "incorrect_password": gettext_lazy("Wrong password."),
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def is_safe_url(self, url: str) -> bool:
        """Allow redirects to pages of this host only."""
        request = self.request
        return url_has_allowed_host_and_scheme(url, {request.get_host()}, request.is_secure())

    def get_client_ip(self, request: HttpRequest) -> str:
        return client_address(request) or ""

    def is_reauthentication_required(self, *, app: str, **_: object) -> bool:
        return not recent_authentication.has_recent_authentication(self.request)

    def add_message(
        self,
        request: HttpRequest,
        level: int,
        message_template: str | None = None,
        message_context: dict[str, object] | None = None,
        extra_tags: str = "",
        message: str | None = None,
    ) -> None:
        text = MESSAGE_TEXTS.get(message_template or "")
        if message or text:
            messages.add_message(request, level, message or gettext(str(text)))

    # Passwords

    def authenticate(self, request: HttpRequest, **credentials: str) -> AbstractBaseUser | None:
        """Return the user, or None for a wrong name or password.

        A refusal has the same text and takes the same time whether the account exists or not. Raise
        TooManyAttempts if nothing was checked, ValidationError for an expired first password.
        """
        name = credentials["username"]
        buckets = [
            (throttle.PASSWORDS, known_devices.throttle_key(request, name)),
            (throttle.ADDRESSES, throttle.network_prefix(self.get_client_ip(request))),
        ]
        for number, (bucket, subject) in enumerate(buckets):
            if not bucket.try_acquire(subject):
                # An attempt that is not checked counts nowhere: one name cannot fill the bucket
                # of an address.
                for earlier, key in buckets[:number]:
                    earlier.release(key)
                record_refusal(request, "too many attempts", f"{bucket.name}\n{subject}")
                raise TooManyAttempts
        user = authenticate(request, **credentials)
        if user is None:
            record_failed_sign_in(request)
            return None
        for bucket, subject in buckets:
            bucket.release(subject)
        assert isinstance(user, User)
        if first_passwords.is_expired(user):
            record_failed_sign_in(request, "first password over")
            raise ValidationError(gettext(first_passwords.EXPIRED))
        return user

    # Signing in

    def respond_user_inactive(self, request: HttpRequest, user: AbstractBaseUser) -> HttpResponse:
        """Refuse a passkey or single sign-on of a closed account."""
        record_failed_sign_in(request)
        messages.error(
            request, gettext("Sign-in failed. Ask an administrator of your clinic for help.")
        )
        return HttpResponseRedirect(reverse("login"))

    def login(self, request: HttpRequest, user: AbstractBaseUser) -> None:
        super().login(request, user)
        request.session[STARTED_AT_KEY] = time.time()
        agent = request.headers.get("User-Agent", "")[:200]
        request.session[ORIGIN_KEY] = [client_address(request), agent]
        request.session.set_expiry(0)
        if second_factor.includes_second_factor(get_authentication_records(request, user)):
            request.session[second_factor.VERIFIED_KEY] = True
        try:
            record_sign_in(request)
        except AuditUnavailable as error:
            self.logout(request)
            raise ImmediateHttpResponse(render(request, "503.html", status=503)) from error

    def post_login(
        self, request: HttpRequest, user: AbstractBaseUser, **details: object
    ) -> HttpResponse:
        response: HttpResponse = super().post_login(request, user, **details)
        known_devices.remember_device(request, response, user.get_username())
        return response
