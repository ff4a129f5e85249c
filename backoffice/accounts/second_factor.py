"""Second factors: who must have one, the forms that check it, and the storage of its secrets.

`SECOND_FACTOR_ROLES` lists the roles that must have one. A session in which it was verified carries
a mark (`VERIFIED_KEY`). Without the mark, people with these roles can open only the pages on which
they set up a second factor (`refuse_without_second_factor`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from allauth.core import context
from allauth.core.internal.cryptokit import normalize_user_code
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.base.forms import AuthenticateForm, ReauthenticateForm
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.forms import ActivateTOTPForm
from allauth.mfa.totp.internal.auth import validate_totp_code
from allauth.mfa.utils import decrypt, is_mfa_enabled
from allauth.mfa.webauthn.forms import AddWebAuthnForm
from django import forms
from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy

from backoffice.accounts import access, recovery_codes, throttle
from backoffice.accounts.access import View
from backoffice.accounts.models import User
from backoffice.audit.recording import record_failed_sign_in
from backoffice.core.encryption import cipher

FACTOR_TYPES: Final = [Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN]
"""Types that are second factors by themselves; recovery codes replace one."""
VERIFIED_KEY: Final = "second_factor"
"""Session key: a second factor was verified."""
_ALLOW_BEFORE: Final = "before_second_factor"
ENCRYPTION_CONTEXT: Final = "second factor"
"""Context of the encryption of the secrets (`core/encryption/cipher.py`)."""


# Who must have a second factor


def is_required_for(user: User) -> bool:
    """Return whether one of the roles of `user` must have a second factor."""
    roles = settings.SECOND_FACTOR_ROLES
    return "all" in roles or not access.roles_of(user).isdisjoint(roles)


def mark_verified(request: HttpRequest) -> None:
    """Mark the session as verified. It may do more from now on, so it gets a new session key."""
    if not request.session.get(VERIFIED_KEY):
        request.session.cycle_key()
        request.session[VERIFIED_KEY] = True


def is_unverified(request: HttpRequest) -> bool:
    """Return whether the user has a second factor that was not verified in this session.

    Such a session began before the second factor was set up.
    """
    return not request.session.get(VERIFIED_KEY) and is_mfa_enabled(request.user, FACTOR_TYPES)


def includes_second_factor(records: Iterable[Mapping[str, object]]) -> bool:
    """Return whether one of the records of a sign-in is a second factor, ours or the provider's."""
    accepted_methods = {"mfa", "socialaccount"} if settings.OIDC_SECOND_FACTOR else {"mfa"}
    return any(record["method"] in accepted_methods for record in records)


def allow_before_second_factor(view: View) -> View:
    """Declare that people who must still set up a second factor may open a view."""
    setattr(view, _ALLOW_BEFORE, True)
    return view


def is_allowed_before(view: Callable[..., object]) -> bool:
    return bool(getattr(view, _ALLOW_BEFORE, False))


def is_missing(request: HttpRequest, user: User) -> bool:
    """Return whether `user` must have a second factor that was not verified in this session."""
    return not request.session.get(VERIFIED_KEY) and is_required_for(user)


def refuse_without_second_factor(
    request: HttpRequest, view: Callable[..., object]
) -> HttpResponse | None:
    """Return the response while the second factor is missing; None to allow `view`."""
    if not settings.SECOND_FACTOR_ROLES:
        return None
    user = request.user
    if not isinstance(user, User) or not is_missing(request, user):
        return None
    if is_allowed_before(view) or access.declared_permissions(view) == ():
        return None
    return redirect_or_refuse(request, "second-factor", gettext("Set up your second factor first."))


def redirect_or_refuse(request: HttpRequest, route: str, message: str) -> HttpResponse:
    """Redirect a page to `route`; refuse requests of scripts, and forms, with `message`."""
    if request.method == "GET" and request.headers.get("Sec-Fetch-Dest", "document") == "document":
        return HttpResponseRedirect(reverse(route))
    return JsonResponse({"detail": message}, status=403)


def second_factors_of(user: User) -> dict[str, object]:
    """Return the second factors of a user for the page "Your account".

    `app` is the authenticator app or None; `codes` is the number of unused recovery codes, or None
    if there are none.
    """
    authenticators = list(Authenticator.objects.filter(user=user).order_by("created_at"))
    by_type = {authenticator.type: authenticator for authenticator in authenticators}
    codes = by_type.get(Authenticator.Type.RECOVERY_CODES)
    return {
        "app": by_type.get(Authenticator.Type.TOTP),
        "passkeys": [row for row in authenticators if row.type == Authenticator.Type.WEBAUTHN],
        "codes": None if codes is None else len(codes.wrap().get_unused_codes()),
    }


# Codes


class _OneTimeInput(forms.PasswordInput):
    """A text input that is empty when the form is shown again: a refused code is of no use."""

    input_type = "text"


class _CodeFieldForm(forms.Form):
    code = forms.CharField(
        label=gettext_lazy("Code"),
        max_length=40,
        widget=_OneTimeInput(
            {"autocomplete": "one-time-code", "inputmode": "numeric", "spellcheck": "false"}
        ),
    )


class _VerifyCodeMixin(_CodeFieldForm):
    """Check a code of the app or a recovery code. Each is valid once; guesses are throttled."""

    user: User

    def clean_code(self) -> str:
        subject = str(self.user.pk)
        if not throttle.CODES.try_acquire(subject):
            raise forms.ValidationError(
                gettext("Too many wrong codes. Wait four minutes, then try again.")
            )
        code: str = self.cleaned_data["code"]
        for authenticator in Authenticator.objects.filter(user=self.user).exclude(
            type=Authenticator.Type.WEBAUTHN
        ):
            if _matches(authenticator, code):
                authenticator.user = self.user
                self.authenticator = authenticator
                throttle.CODES.release(subject)
                return code
        record_failed_sign_in(context.request, "second factor")
        raise forms.ValidationError(
            gettext("Wrong code, or already used. Wait for the next code in your app.")
        )


def _matches(authenticator: Authenticator, code: str) -> bool:
    if authenticator.type != Authenticator.Type.TOTP:
        return recovery_codes.use_code(authenticator, normalize_user_code(code))
    # allauth forgets used codes too early: codes are valid shortly before and after their time.
    is_valid = validate_totp_code(decrypt(authenticator.data["secret"]), code)
    return is_valid and throttle.USED_CODES.try_acquire(
        f"{authenticator.user_id}\n{normalize_user_code(code)}"
    )


class SignInCodeForm(_VerifyCodeMixin, AuthenticateForm):
    """The code at signing in."""


class ReauthenticateCodeForm(_VerifyCodeMixin, ReauthenticateForm):
    """The code that proves the identity again."""


class AuthenticatorAppForm(_CodeFieldForm, ActivateTOTPForm):
    """The first code of an authenticator app that was just set up."""


class PasskeyForm(AddWebAuthnForm):
    name = forms.CharField(
        label=gettext_lazy("Name"),
        required=False,
        max_length=60,
        help_text=gettext_lazy("A name for the device or security key, such as “Work laptop”."),
    )
    passwordless = forms.BooleanField(
        label=gettext_lazy("Sign in with this passkey only, without username and password"),
        required=False,
        initial=True,
        help_text=gettext_lazy("Your device asks for your fingerprint, face or PIN."),
    )


# Secrets


class SecondFactorAdapter(DefaultMFAAdapter):
    """`MFA_ADAPTER`. Encrypt secrets before they are stored."""

    error_messages = DefaultMFAAdapter.error_messages | {
        "incorrect_code": gettext_lazy("Wrong code. Wait for the next code in your app."),
    }

    def encrypt(self, text: str) -> str:
        return cipher.encrypt(text, ENCRYPTION_CONTEXT)

    def decrypt(self, encrypted_text: str) -> str:
        return cipher.decrypt(encrypted_text, ENCRYPTION_CONTEXT)

    def _get_user_identifier(self, user: AbstractBaseUser) -> str:
        return user.get_username()

    def generate_authenticator_name(self, user: AbstractBaseUser, type: Authenticator.Type) -> str:
        count = Authenticator.objects.filter(user_id=user.pk, type=type).count()
        return gettext("Passkey %(number)s") % {"number": count + 1}

    def get_public_key_credential_rp_entity(self) -> dict[str, str]:
        host = context.request.get_host().partition(":")[0]
        return {"id": host, "name": "Back office"}
