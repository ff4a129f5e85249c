"""Log-in by OpenID Connect: at the provider of the clinic, by configuration.

Who comes back is found by the provider's own id of them; the first time, by their e-mail, which the
provider must have verified, among the addresses that administrators gave to accounts. Nobody else
gets in, unless `OIDC_CREATE` is on. `OIDC_ROLES_CLAIM` names the claim that holds their roles.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from allauth.account.utils import get_next_redirect_url
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter, get_adapter
from allauth.socialaccount.models import SocialLogin
from allauth.socialaccount.providers.openid_connect.views import callback
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import Group
from django.db import transaction
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseRedirect,
)
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from backoffice import audit
from backoffice.access import ROLES, SERVICE_ACCOUNT, public
from backoffice.accounts.adapter import refused
from backoffice.models import User

logger = logging.getLogger(__name__)

PROVIDER: Final = "oidc"
_SORRY: Final = "The log-in at {} did not work. Try again, or log in with your password."


class Adapter(DefaultSocialAccountAdapter):
    """`SOCIALACCOUNT_ADAPTER`."""

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Whose account this is; refused with a page where it is nobody's."""
        claims = _claims(sociallogin)
        if not sociallogin.is_existing:
            user = _found(claims) or _made(claims)
            if user is None:
                refused(request, "no account")
                context = {"provider": settings.OIDC_NAME, "email": claims.get("email", "")}
                page = render(request, "accounts/no_account.html", context, status=403)
                raise ImmediateHttpResponse(page)
            sociallogin.connect(request, user)
        if settings.OIDC_ROLES_CLAIM:
            assert isinstance(sociallogin.user, User)
            _give_roles(sociallogin.user, claims)

    def on_authentication_error(
        self, request: HttpRequest, provider: Any, exception: Any = None, **_: Any
    ) -> None:
        raise ImmediateHttpResponse(_sorry(request, exception))


def _claims(sociallogin: SocialLogin) -> dict[str, Any]:
    """What the provider says of the person. ValueError where it speaks of two people."""
    said = sociallogin.account.extra_data
    token, info = said.get("id_token", {}), said.get("userinfo", {})
    if token and info and token.get("sub") != info.get("sub"):
        raise ValueError("two subjects")
    return {**token, **info}


def _found(claims: dict[str, Any]) -> User | None:
    email = claims.get("email")
    if not email or claims.get("email_verified") is not True:
        return None
    found = list(User.objects.filter(email__iexact=email)[:2])
    return found[0] if len(found) == 1 else None


def _made(claims: dict[str, Any]) -> User | None:
    """A new account, where that is allowed; without a role, until somebody gives it one."""
    email = claims.get("email")
    if not settings.OIDC_CREATE or not email or claims.get("email_verified") is not True:
        return None
    if User.objects.filter(email__iexact=email).exists():
        return None
    name = str(claims.get("preferred_username") or email)[:150]
    return User.objects.create_user(
        username=email[:150] if User.objects.filter(username=name).exists() else name,
        email=email,
        first_name=str(claims.get("given_name") or "")[:150],
        last_name=str(claims.get("family_name") or "")[:150],
    )


def _give_roles(user: User, claims: dict[str, Any]) -> None:
    """The roles that the claim names, and no other; `a.b` is the claim b inside of a."""
    said: Any = claims
    for part in settings.OIDC_ROLES_CLAIM.split("."):
        said = said.get(part) if isinstance(said, dict) else None
    names = said.split(",") if isinstance(said, str) else said if isinstance(said, list) else []
    wanted = {str(name).strip() for name in names} & (ROLES.keys() - {SERVICE_ACCOUNT})
    with transaction.atomic():
        had = set(user.groups.filter(name__in=ROLES).values_list("name", flat=True))
        if had == wanted:
            return
        user.groups.remove(*Group.objects.filter(name__in=had - wanted))
        user.groups.add(*Group.objects.filter(name__in=wanted - had))
        audit.followed(user, "roles", [user.pk], [])


# The way there and back


@public
@require_POST
def begin(request: HttpRequest) -> HttpResponse:
    """To the provider, by a page of ours: browsers let no form of ours lead to another site."""
    if not settings.OIDC_SERVER_URL:
        raise Http404
    provider = get_adapter(request).get_provider(request, PROVIDER)
    try:
        answer = provider.redirect(
            request, process="login", next_url=get_next_redirect_url(request)
        )
    except (OSError, KeyError, ValueError) as error:
        return _sorry(request, error)
    return _led(request, answer["Location"])


@public
@require_safe
def back(request: HttpRequest, provider_id: str) -> HttpResponseBase:
    """From the provider."""
    if not settings.OIDC_SERVER_URL:
        raise Http404
    try:
        answer: HttpResponseBase = callback(request, provider_id=provider_id)
    except (OSError, KeyError, ValueError) as error:
        return _sorry(request, error)
    return answer


def _led(request: HttpRequest, to: str) -> HttpResponse:
    context = {"redirect_to": to, "provider": settings.OIDC_NAME}
    return render(request, "socialaccount/login_redirect.html", context)


def _sorry(request: HttpRequest, error: Exception | None) -> HttpResponse:
    logger.warning("single sign-on failed", exc_info=error)
    refused(request, "single sign-on")
    messages.error(request, _SORRY.format(settings.OIDC_NAME))
    return HttpResponseRedirect(reverse("login"))
