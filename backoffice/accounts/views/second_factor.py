"""Pages of the second factor: at signing in, to set one up, to remove it, to verify it again.

These are views of django-allauth with our templates. Each change is recorded.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from allauth.account.views import ReauthenticateView
from allauth.mfa.base.views import AuthenticateView
from allauth.mfa.base.views import ReauthenticateView as CodeReauthenticateView
from allauth.mfa.recovery_codes.views import GenerateRecoveryCodesView, ViewRecoveryCodesView
from allauth.mfa.totp.views import ActivateTOTPView, DeactivateTOTPView
from allauth.mfa.utils import is_mfa_enabled
from allauth.mfa.webauthn.views import (
    AddWebAuthnView,
    LoginWebAuthnView,
    ReauthenticateWebAuthnView,
    RemoveWebAuthnView,
)
from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.http import require_safe

from backoffice.accounts import emails, recovery_codes, second_factor
from backoffice.accounts.access import public, signed_in, staff_user
from backoffice.accounts.adapter import record_refusal
from backoffice.accounts.second_factor import allow_before_second_factor
from backoffice.audit.recording import record_action

_PASSKEY_FAILED: Final = gettext_noop("The passkey didn’t work. Try again, or use another method.")


@allow_before_second_factor
@signed_in
@require_safe
def set_up(request: HttpRequest) -> HttpResponse:
    """Show how to set up a second factor to people who must have one."""
    user = staff_user(request)
    if second_factor.is_unverified(request):
        return redirect(f"{reverse('mfa_reauthenticate')}?next=/")
    return render(
        request, "accounts/set_up.html", {"demanded": second_factor.is_required_for(user)}
    )


# At signing in


class _VerifyAtSignIn(AuthenticateView):
    form_class = second_factor.SignInCodeForm
    template_name = "accounts/second_factor.html"


class _PasskeySignIn(LoginWebAuthnView):
    def form_invalid(self, form: Any) -> HttpResponse:
        record_refusal(self.request, "passkey")
        messages.error(self.request, gettext(_PASSKEY_FAILED))
        return HttpResponseRedirect(reverse("login"))


# To verify it again


class _MarkVerifiedMixin:
    """Mark the session as verified by a second factor."""

    request: HttpRequest

    def form_valid(self, form: Any) -> HttpResponse:
        second_factor.mark_verified(self.request)
        response: HttpResponse = super().form_valid(form)  # type: ignore[misc]
        return response


class _ReauthenticateByPassword(ReauthenticateView):
    template_name = "accounts/prove.html"

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        user = staff_user(request)
        if not user.has_usable_password() and not is_mfa_enabled(user):
            context = {"provider": settings.OIDC_NAME, "next": self.get_next_url() or "/"}
            return render(request, "accounts/prove_at_provider.html", context)
        response: HttpResponseBase = super().dispatch(request, *args, **kwargs)
        return response


class _ReauthenticateByCode(_MarkVerifiedMixin, CodeReauthenticateView):
    form_class = second_factor.ReauthenticateCodeForm
    template_name = "accounts/prove.html"


class _ReauthenticateByPasskey(_MarkVerifiedMixin, ReauthenticateWebAuthnView):
    template_name = "accounts/prove_by_passkey.html"

    def form_invalid(self, form: Any) -> HttpResponse:
        messages.error(self.request, gettext(_PASSKEY_FAILED))
        return HttpResponseRedirect(self.request.get_full_path())


# To set one up, and to remove it


class _FactorChangeMixin:
    """Save a change with its audit entry and notice, and update the mark of the session.

    A user who has a second factor after the change has just verified it.
    """

    request: HttpRequest
    change_label: ClassVar[str]

    def form_valid(self, form: Any) -> HttpResponse:
        request, user = self.request, staff_user(self.request)
        with transaction.atomic(durable=True):
            response: HttpResponse = super().form_valid(form)  # type: ignore[misc]
            record_action(request, "second factor", [user.pk], (), self.change_label.lower())
            emails.notify_owner(request, user, self.change_label)
        if is_mfa_enabled(user, second_factor.FACTOR_TYPES):
            second_factor.mark_verified(request)
        else:
            request.session.pop(second_factor.VERIFIED_KEY, None)
        return response


class _FactorAdditionMixin(_FactorChangeMixin):
    """Require that an existing second factor was verified first."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if second_factor.is_unverified(request):
            return redirect(f"{reverse('mfa_reauthenticate')}?next={request.path}")
        response: HttpResponseBase = super().dispatch(  # type: ignore[misc]
            request, *args, **kwargs
        )
        return response


class _AddAuthenticatorApp(_FactorAdditionMixin, ActivateTOTPView):
    form_class = second_factor.AuthenticatorAppForm
    template_name = "accounts/app_add.html"
    change_label = gettext_noop("Authenticator app added")


class _RemoveAuthenticatorApp(_FactorChangeMixin, DeactivateTOTPView):
    template_name = "accounts/factor_remove.html"
    change_label = gettext_noop("Authenticator app removed")


class _AddPasskey(_FactorAdditionMixin, AddWebAuthnView):
    form_class = second_factor.PasskeyForm
    template_name = "accounts/passkey_add.html"
    change_label = gettext_noop("Passkey added")

    def get_context_data(self, **more: Any) -> dict[str, Any]:
        # allauth leaves out the refused form, and with it the typed text.
        return {**super().get_context_data(**more), **more}


class _RemovePasskey(_FactorChangeMixin, RemoveWebAuthnView):
    template_name = "accounts/factor_remove.html"
    change_label = gettext_noop("Passkey removed")


class _GenerateRecoveryCodes(_FactorChangeMixin, GenerateRecoveryCodesView):
    template_name = "accounts/codes_new.html"
    change_label = gettext_noop("Recovery codes replaced")


class _ShowRecoveryCodes(ViewRecoveryCodesView):
    """Show the recovery codes once. Whoever has lost them generates new ones."""

    template_name = "accounts/codes.html"

    def get_context_data(self, **more: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**more)
        if context["can_view_codes"]:
            recovery_codes.store_hashes(self.request.user)
        return context


verify_at_sign_in = public(_VerifyAtSignIn.as_view())
sign_in_with_passkey = public(_PasskeySignIn.as_view())
reauthenticate_by_password = allow_before_second_factor(
    signed_in(_ReauthenticateByPassword.as_view())
)
reauthenticate_by_code = allow_before_second_factor(signed_in(_ReauthenticateByCode.as_view()))
reauthenticate_by_passkey = allow_before_second_factor(
    signed_in(_ReauthenticateByPasskey.as_view())
)
add_app = allow_before_second_factor(signed_in(_AddAuthenticatorApp.as_view()))
remove_app = signed_in(_RemoveAuthenticatorApp.as_view())
add_passkey = allow_before_second_factor(signed_in(_AddPasskey.as_view()))
remove_passkey = signed_in(_RemovePasskey.as_view())
generate_recovery_codes = signed_in(_GenerateRecoveryCodes.as_view())
show_recovery_codes = allow_before_second_factor(signed_in(_ShowRecoveryCodes.as_view()))
