"""Log-in by OpenID Connect: at the provider of the clinic, by configuration.

Who comes back is found by the provider's own id of them; the first time, by their e-mail, which the
provider must have verified, among the addresses that administrators gave to accounts. Nobody else
gets in, unless `OIDC_CREATE` is on. An account that is linked to one id is never linked to a
second: an administrator unlinks it first. `OIDC_ROLES_CLAIM` names the claim that holds their
roles, all of them: an administrator by other means who is not named one there is none from then on.
"""

from __future__ import annotations

import logging
import secrets
from typing import Any, Final

from allauth.account.utils import get_next_redirect_url
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter, get_adapter
from allauth.socialaccount.models import SocialAccount, SocialLogin
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from django.conf import settings
from django.contrib import messages
from django.db import IntegrityError, connection, transaction
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
from jwt import PyJWTError

from backoffice import audit
from backoffice.accounts import emails, staff_changes
from backoffice.accounts.adapter import record_refusal
from backoffice.accounts.id_tokens import VerifyingOIDCAdapter
from backoffice.core.access import ROLES, SERVICE_ACCOUNT, public
from backoffice.models import User

logger = logging.getLogger(__name__)

PROVIDER: Final = "oidc"
_FAILURE_MESSAGE: Final = "The log-in at {} did not work. Try again, or log in with your password."
TOPIC: Final = "single sign-on"
"""What audit entries about links call them; their object is the account."""
LINKED: Final = "Your account was linked to single sign-on"
UNLINKED: Final = "Your account was unlinked from single sign-on"
_PROVIDER_REASON: Final = "said at the single sign-on"
_FAILURES: Final = (OSError, KeyError, ValueError, PyJWTError, IntegrityError)
"""Of the way there and back: the provider, its tokens, and two log-ins of one new person at once.
"""


class SocialAccountAdapter(DefaultSocialAccountAdapter):
    """`SOCIALACCOUNT_ADAPTER`."""

    def get_requests_session(self) -> Any:
        """What the provider is told (a secret, a code) is told at no other address."""
        session = super().get_requests_session()
        session.max_redirects = 0
        return session

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Whose account this is; refused with a page where it is nobody's."""
        claims = _claims(sociallogin)
        reason = "no account"
        with transaction.atomic():
            if not sociallogin.is_existing:
                _lock_email(claims)
                user = _find_account(claims) or _create_account(request, claims)
                if user is not None and is_linked(user):
                    # Linked meanwhile by another tab, or for good to somebody else.
                    sociallogin.lookup()
                    reason = "linked to another identity"
                elif user is not None:
                    _link(request, sociallogin, user)
            if sociallogin.is_existing and settings.OIDC_ROLES_CLAIM:
                assert isinstance(sociallogin.user, User)
                _set_roles(request, sociallogin.user, claims)
        if not sociallogin.is_existing:
            record_refusal(request, reason)
            context = {
                "provider": settings.OIDC_NAME,
                "email": claims.get("email", ""),
                "is_linked_to_another": reason != "no account",
            }
            page = render(request, "accounts/no_account.html", context, status=403)
            raise ImmediateHttpResponse(page)

    def on_authentication_error(
        self, request: HttpRequest, provider: Any, exception: Any = None, **_: Any
    ) -> None:
        raise ImmediateHttpResponse(failure_response(request, exception))


def _claims(sociallogin: SocialLogin) -> dict[str, Any]:
    """What the provider says of the person. KeyError without an ID token; ValueError where it
    answers somebody else's request, or speaks of two people."""
    said = sociallogin.account.extra_data
    token, info = said["id_token"], said["userinfo"]
    if token.get("nonce") != sociallogin.state["nonce"]:
        raise ValueError("not the token that was asked for")
    if token["sub"] != info.get("sub"):
        raise ValueError("two subjects")
    return {**token, **info}


def _verified_email(claims: dict[str, Any]) -> str:
    """The address that the provider has verified; empty for none."""
    return str(claims.get("email") or "") if claims.get("email_verified") is True else ""


def _lock_email(claims: dict[str, Any]) -> None:
    """Of two log-ins with one address, the second sees the account and the link that the first
    has made. Until the transaction ends."""
    key = f"single sign-on {_verified_email(claims).lower()}"
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [key])


def _find_account(claims: dict[str, Any]) -> User | None:
    """The one account with the verified address."""
    email = _verified_email(claims)
    found = list(User.objects.filter(email__iexact=email).order_by("pk")[:2]) if email else []
    return found[0] if len(found) == 1 else None


def is_linked(user: User) -> bool:
    """Whether some identity of the provider opens this account: no second one ever does."""
    return bool(SocialAccount.objects.filter(user=user).exists())


def _link(request: HttpRequest, sociallogin: SocialLogin, user: User) -> None:
    """From now on this identity of the provider opens the account; recorded, and mailed."""
    sociallogin.connect(request, user)
    audit.record_change(
        request,
        TOPIC,
        [user.pk],
        before={"single sign-on": "not linked"},
        after={"single sign-on": f"linked to {sociallogin.account.uid[:100]}"},
        reason=_PROVIDER_REASON,
    )
    emails.notify_owner(request, user, LINKED)


def unlink(request: HttpRequest, user: User) -> bool:
    """Take the identity away from an account, so that another one can be linked at the next
    sign-in. False where none was linked. In the caller's transaction."""
    linked = SocialAccount.objects.filter(user=user)
    uids = list(linked.values_list("uid", flat=True))
    if not uids:
        return False
    linked.delete()
    before = {"single sign-on": ", ".join(f"linked to {uid[:100]}" for uid in uids)}
    after = {"single sign-on": "not linked"}
    audit.record_change(request, TOPIC, [user.pk], before=before, after=after)
    emails.notify_owner(request, user, UNLINKED)
    return True


def _create_account(request: HttpRequest, claims: dict[str, Any]) -> User | None:
    """A new account, where that is allowed; without a role, until somebody gives it one."""
    email = _verified_email(claims)
    if not settings.OIDC_CREATE or not email or User.objects.filter(email__iexact=email).exists():
        return None
    names = [str(claims.get("preferred_username") or email)[:150], email[:150]]
    free = [one for one in names if not User.objects.filter(username__iexact=one).exists()]
    if not free:
        return None
    user = User.objects.create_user(
        username=free[0],
        email=email,
        first_name=str(claims.get("given_name") or "")[:150],
        last_name=str(claims.get("family_name") or "")[:150],
    )
    after = staff_changes.account_snapshot(user)
    audit.record_change(
        request, staff_changes.TOPIC, [user.pk], before={}, after=after, reason=_PROVIDER_REASON
    )
    return user


def _set_roles(request: HttpRequest, user: User, claims: dict[str, Any]) -> None:
    """The roles that the claim names, and no other; `a.b` is the claim b inside of a."""
    said: Any = claims
    for part in settings.OIDC_ROLES_CLAIM.split("."):
        said = said.get(part) if isinstance(said, dict) else None
    names = said.split(",") if isinstance(said, str) else said if isinstance(said, list) else []
    wanted = {str(name).strip() for name in names} & (ROLES.keys() - {SERVICE_ACCOUNT})
    before = staff_changes.account_snapshot(User.objects.select_for_update().get(pk=user.pk))
    staff_changes.set_roles(user, wanted)
    after = staff_changes.account_snapshot(user)
    if before != after:
        audit.record_change(
            request,
            staff_changes.TOPIC,
            [user.pk],
            before=before,
            after=after,
            reason=_PROVIDER_REASON,
        )


# The way there and back


@public
@require_POST
def start(request: HttpRequest) -> HttpResponse:
    """To the provider, by a page of ours: browsers let no form of ours lead to another site."""
    if not settings.OIDC_SERVER_URL:
        raise Http404
    provider = get_adapter(request).get_provider(request, PROVIDER)
    provider.oauth2_adapter_class = VerifyingOIDCAdapter
    nonce = secrets.token_urlsafe()
    try:
        answer = provider.redirect(
            request,
            process="login",
            next_url=get_next_redirect_url(request),
            auth_params={"nonce": nonce},
            nonce=nonce,
        )
    except _FAILURES as error:
        return failure_response(request, error)
    return _redirect_page(request, answer["Location"])


@public
@require_safe
def callback(request: HttpRequest, provider_id: str) -> HttpResponseBase:
    """From the provider."""
    if not settings.OIDC_SERVER_URL:
        raise Http404
    try:
        view = OAuth2CallbackView.adapter_view(VerifyingOIDCAdapter(request, provider_id))
        answer: HttpResponseBase = view(request)
    except _FAILURES as error:
        return failure_response(request, error)
    return answer


def _redirect_page(request: HttpRequest, to: str) -> HttpResponse:
    context = {"redirect_to": to, "provider": settings.OIDC_NAME}
    return render(request, "socialaccount/login_redirect.html", context)


def failure_response(request: HttpRequest, error: Exception | None) -> HttpResponse:
    logger.warning("single sign-on failed", exc_info=error)
    record_refusal(request, "single sign-on")
    messages.error(request, _FAILURE_MESSAGE.format(settings.OIDC_NAME))
    return HttpResponseRedirect(reverse("login"))
