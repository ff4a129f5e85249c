"""Sign in by OpenID Connect, at the provider of the clinic.

The account is found by the provider's id of the person. The first time, it is found by their email
address, which the provider must have verified, among the addresses of accounts. Nobody else gets
in, unless `OIDC_CREATE` is on. An account that is linked to one id is never linked to a second one:
an administrator unlinks it first. `OIDC_ROLES_CLAIM` names the claim with all roles of the person:
an administrator who is not one according to the claim loses that role.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialAccount, SocialLogin
from django.conf import settings
from django.contrib import messages
from django.db import IntegrityError, connection, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext, gettext_noop
from jwt import PyJWTError

from backoffice.accounts import emails, staff_changes
from backoffice.accounts.access import ROLES, SERVICE_ACCOUNT
from backoffice.accounts.adapter import record_refusal
from backoffice.accounts.models import User
from backoffice.audit.recording import record_change
from backoffice.service.json_text import JsonObject

logger = logging.getLogger(__name__)

PROVIDER: Final = "oidc"
_FAILURE_MESSAGE: Final = gettext_noop(
    "Sign-in with %(provider)s failed. Try again, or sign in with your password."
)
TOPIC: Final = "single sign-on"
"""Object type of audit entries about links; the object id is that of the account."""
LINKED: Final = gettext_noop("Your account was linked to single sign-on")
UNLINKED: Final = gettext_noop("Your account was unlinked from single sign-on")
_PROVIDER_REASON: Final = "reported by single sign-on"
FAILURES: Final = (OSError, KeyError, ValueError, PyJWTError, IntegrityError)
"""Errors of the provider, of its tokens, and of two sign-ins of one new person at once."""


class SocialAccountAdapter(DefaultSocialAccountAdapter):
    """`SOCIALACCOUNT_ADAPTER`."""

    def get_requests_session(self) -> Any:
        """Follow no redirects: the secret and the code go to the provider's address only."""
        session = super().get_requests_session()
        session.max_redirects = 0
        return session

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Find or create the account, and link it. Answer with a page if there is none."""
        claims = _claims(sociallogin)
        reason = "no account"
        with transaction.atomic():
            if not sociallogin.is_existing:
                _lock_email(claims)
                user = _find_account(claims) or _create_account(request, claims)
                if user is not None and is_linked(user):
                    # Another tab linked it meanwhile, or it belongs to another identity.
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
        self,
        request: HttpRequest,
        provider: object,
        exception: Exception | None = None,
        **_: object,
    ) -> None:
        raise ImmediateHttpResponse(failure_response(request, exception))


def _claims(sociallogin: SocialLogin) -> JsonObject:
    """Return the provider's claims about the person.

    Raise KeyError without an ID token; ValueError if it answers another request, or if token and
    user info are about two people.
    """
    data = sociallogin.account.extra_data
    token, info = data["id_token"], data["userinfo"]
    if token.get("nonce") != sociallogin.state["nonce"]:
        raise ValueError("not the token that was asked for")
    if token["sub"] != info.get("sub"):
        raise ValueError("two subjects")
    return {**token, **info}


def _verified_email(claims: JsonObject) -> str:
    """Return the email address that the provider has verified, or ""."""
    return str(claims.get("email") or "") if claims.get("email_verified") is True else ""


def _lock_email(claims: JsonObject) -> None:
    """Lock the email address until the transaction ends.

    Of two sign-ins with one address, the second sees the account and the link of the first.
    """
    key = f"single sign-on {_verified_email(claims).lower()}"
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [key])


def _find_account(claims: JsonObject) -> User | None:
    """Return the account with the verified address, if there is exactly one."""
    email = _verified_email(claims)
    accounts = list(User.objects.filter(email__iexact=email).order_by("pk")[:2]) if email else []
    return accounts[0] if len(accounts) == 1 else None


def is_linked(user: User) -> bool:
    """Return whether an identity of the provider is linked to this account."""
    return bool(SocialAccount.objects.filter(user=user).exists())


def _link(request: HttpRequest, sociallogin: SocialLogin, user: User) -> None:
    """Link the identity of the provider to the account, record it, and notify the owner."""
    sociallogin.connect(request, user)
    record_change(
        request,
        TOPIC,
        [user.pk],
        before={"single sign-on": "not linked"},
        after={"single sign-on": f"linked to {sociallogin.account.uid[:100]}"},
        reason=_PROVIDER_REASON,
    )
    emails.notify_owner(request, user, LINKED)


def unlink(request: HttpRequest, user: User) -> bool:
    """Unlink an account, so that another identity can be linked at the next sign-in.

    Return False if none was linked. Runs in the caller's transaction.
    """
    linked = SocialAccount.objects.filter(user=user)
    uids = list(linked.values_list("uid", flat=True))
    if not uids:
        return False
    linked.delete()
    before = {"single sign-on": ", ".join(f"linked to {uid[:100]}" for uid in uids)}
    after = {"single sign-on": "not linked"}
    record_change(request, TOPIC, [user.pk], before=before, after=after)
    emails.notify_owner(request, user, UNLINKED)
    return True


def _create_account(request: HttpRequest, claims: JsonObject) -> User | None:
    """Create an account without a role, if that is allowed."""
    email = _verified_email(claims)
    if not settings.OIDC_CREATE or not email or User.objects.filter(email__iexact=email).exists():
        return None
    names = [str(claims.get("preferred_username") or email)[:150], email[:150]]
    free = [name for name in names if not User.objects.filter(username__iexact=name).exists()]
    if not free:
        return None
    user = User.objects.create_user(
        username=free[0],
        email=email,
        first_name=str(claims.get("given_name") or "")[:150],
        last_name=str(claims.get("family_name") or "")[:150],
    )
    after = staff_changes.account_snapshot(user)
    record_change(
        request, staff_changes.TOPIC, [user.pk], before={}, after=after, reason=_PROVIDER_REASON
    )
    return user


def _set_roles(request: HttpRequest, user: User, claims: JsonObject) -> None:
    """Give `user` the roles in the claim and no others; `a.b` is the claim b inside of a."""
    value: object = claims
    for part in settings.OIDC_ROLES_CLAIM.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    names = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
    role_names = {str(name).strip() for name in names} & (ROLES.keys() - {SERVICE_ACCOUNT})
    before = staff_changes.account_snapshot(User.objects.select_for_update().get(pk=user.pk))
    staff_changes.set_roles(user, role_names)
    after = staff_changes.account_snapshot(user)
    if before != after:
        record_change(
            request,
            staff_changes.TOPIC,
            [user.pk],
            before=before,
            after=after,
            reason=_PROVIDER_REASON,
        )


def failure_response(request: HttpRequest, error: Exception | None) -> HttpResponse:
    """Log and record the failure, and redirect to the sign-in page."""
    logger.warning("single sign-on failed", exc_info=error)
    record_refusal(request, "single sign-on")
    messages.error(request, gettext(_FAILURE_MESSAGE) % {"provider": settings.OIDC_NAME})
    return HttpResponseRedirect(reverse("login"))
