"""Pages of the second factor: at the log-in, to set one up, to take it away, to prove it again.

django-allauth's views; ours is how they look, and that each change is recorded.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from allauth.account.views import ReauthenticateView
from allauth.mfa.base.views import AuthenticateView
from allauth.mfa.base.views import ReauthenticateView as CodeReauthenticateView
from allauth.mfa.models import Authenticator
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
from django.views.decorators.http import require_safe

from backoffice import audit
from backoffice.accounts import emails, recovery_codes, second_factor
from backoffice.accounts.adapter import refused
from backoffice.accounts.second_factor import before_second_factor
from backoffice.core.access import public, signed_in
from backoffice.models import User

_SORRY: Final = "That did not work. Try again, or use another way."


@before_second_factor
@signed_in
@require_safe
def set_up(request: HttpRequest) -> HttpResponse:
    """Where people are led who must have a second factor and have not shown one yet."""
    user = request.user
    assert isinstance(user, User)
    if second_factor.missing_in(request):
        return redirect(f"{reverse('mfa_reauthenticate')}?next=/")
    return render(request, "accounts/set_up.html", {"demanded": second_factor.demanded_of(user)})


# At the log-in


class _CodeOrPasskey(AuthenticateView):
    form_class = second_factor.CodeForm
    template_name = "accounts/second_factor.html"


class _PasskeyLogIn(LoginWebAuthnView):
    def form_invalid(self, form: Any) -> HttpResponse:
        refused(self.request, "passkey")
        messages.error(self.request, _SORRY)
        return HttpResponseRedirect(reverse("login"))


# To prove it again


class _FactorProof:
    """A second factor was shown, whatever the log-in was."""

    request: HttpRequest

    def form_valid(self, form: Any) -> HttpResponse:
        second_factor.mark(self.request)
        response: HttpResponse = super().form_valid(form)  # type: ignore[misc]
        return response


class _ByPassword(ReauthenticateView):
    template_name = "accounts/prove.html"

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        user = request.user
        assert isinstance(user, User)
        if not user.has_usable_password() and not is_mfa_enabled(user):
            context = {"provider": settings.OIDC_NAME, "next": self.get_next_url() or "/"}
            return render(request, "accounts/prove_at_provider.html", context)
        response: HttpResponseBase = super().dispatch(request, *args, **kwargs)
        return response


class _ByCode(_FactorProof, CodeReauthenticateView):
    form_class = second_factor.ProofForm
    template_name = "accounts/prove.html"


class _ByPasskey(_FactorProof, ReauthenticateWebAuthnView):
    template_name = "accounts/prove_by_passkey.html"

    def form_invalid(self, form: Any) -> HttpResponse:
        messages.error(self.request, _SORRY)
        return HttpResponseRedirect(self.request.get_full_path())


# To set one up, and to take it away


class _Changing:
    """Kept with the entry and the e-mail about it. Whoever has a second factor now has shown it,
    too."""

    request: HttpRequest
    what: ClassVar[str]

    def form_valid(self, form: Any) -> HttpResponse:
        request, user = self.request, self.request.user
        assert isinstance(user, User)
        with transaction.atomic(durable=True):
            response: HttpResponse = super().form_valid(form)  # type: ignore[misc]
            audit.asked(request, "second factor", [user.pk], (), self.what)
            emails.tell(request, user, self.what.capitalize())
        if is_mfa_enabled(user, second_factor.TYPES):
            second_factor.mark(request)
        else:
            request.session.pop(second_factor.MARK, None)
        return response


class _Adding(_Changing):
    """Not past the one that is there already."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if second_factor.missing_in(request):
            return redirect(f"{reverse('mfa_reauthenticate')}?next={request.path}")
        response: HttpResponseBase = super().dispatch(  # type: ignore[misc]
            request, *args, **kwargs
        )
        return response


class _AddApp(_Adding, ActivateTOTPView):
    form_class = second_factor.AppForm
    template_name = "accounts/app_add.html"
    what = "authenticator app added"


class _RemoveApp(_Changing, DeactivateTOTPView):
    template_name = "accounts/factor_remove.html"
    what = "authenticator app removed"


class _AddPasskey(_Adding, AddWebAuthnView):
    form_class = second_factor.PasskeyForm
    template_name = "accounts/passkey_add.html"
    what = "passkey added"

    def get_context_data(self, **more: Any) -> dict[str, Any]:
        # allauth's own leaves out the form that was refused, and with it what was typed.
        return {**super().get_context_data(**more), **more}


class _RemovePasskey(_Changing, RemoveWebAuthnView):
    template_name = "accounts/factor_remove.html"
    what = "passkey removed"


class _NewCodes(_Changing, GenerateRecoveryCodesView):
    template_name = "accounts/codes_new.html"
    what = "recovery codes made anew"


class _ShowCodes(ViewRecoveryCodesView):
    """Once; whoever has lost them makes new ones."""

    template_name = "accounts/codes.html"

    def get_context_data(self, **more: Any) -> dict[str, Any]:
        shown: dict[str, Any] = super().get_context_data(**more)
        if shown["can_view_codes"]:
            recovery_codes.keep_hashes(self.request.user)
        return shown


code_or_passkey = public(_CodeOrPasskey.as_view())
passkey_log_in = public(_PasskeyLogIn.as_view())
prove_by_password = before_second_factor(signed_in(_ByPassword.as_view()))
prove_by_code = before_second_factor(signed_in(_ByCode.as_view()))
prove_by_passkey = before_second_factor(signed_in(_ByPasskey.as_view()))
add_app = before_second_factor(signed_in(_AddApp.as_view()))
remove_app = signed_in(_RemoveApp.as_view())
add_passkey = before_second_factor(signed_in(_AddPasskey.as_view()))
remove_passkey = signed_in(_RemovePasskey.as_view())
new_codes = signed_in(_NewCodes.as_view())
show_codes = before_second_factor(signed_in(_ShowCodes.as_view()))


def factors_of(user: User) -> dict[str, Any]:
    """`app` (or None), `passkeys`, and how many recovery `codes` are unused (None: there are none),
    for the page "Your account"."""
    kept = list(Authenticator.objects.filter(user=user).order_by("created_at"))
    by_type = {one.type: one for one in kept}
    codes = by_type.get(Authenticator.Type.RECOVERY_CODES)
    return {
        "app": by_type.get(Authenticator.Type.TOTP),
        "passkeys": [one for one in kept if one.type == Authenticator.Type.WEBAUTHN],
        "codes": None if codes is None else len(codes.wrap().get_unused_codes()),
    }
