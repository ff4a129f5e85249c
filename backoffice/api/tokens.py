"""Tokens of the JSON API: `bo_<key id>_<secret>`.

The text is shown once. The database stores `HMAC(pepper, SHA-256(text))`. The secret has 256 random
bits, so the digest alone reveals nothing. The pepper comes from SECRET_KEY and is not in the
database, so somebody who can write rows cannot create a token. While a secret key is being replaced
(SECRET_KEY_FALLBACKS), a token that is used gets the new pepper. A token that is not used before
the old key is removed stops working.

The key id identifies the row in lookups, pages, logs and the audit trail. The prefix lets secret
scanners find a token that somebody left in the wrong place.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import string
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import Group
from django.contrib.postgres.expressions import ArraySubquery
from django.core.exceptions import ValidationError
from django.db.models import OuterRef
from django.utils import timezone
from django.utils.crypto import constant_time_compare, salted_hmac
from django.utils.translation import gettext

from backoffice.accounts.access import SERVICE_ACCOUNT
from backoffice.accounts.models import User
from backoffice.api.models import ApiToken

SCOPES: Final = (
    *("orders.view", "patients.view", "appointments.view", "results.view", "labs.view"),
    *("reports.view", "records.view", "system.view", "events.view", "commands.view"),
)
"""Permissions that a token may have: those that the resources of the API require."""
DAYS: Final = 365
DAYS_MAX: Final = 3650
PEPPER: Final = "backoffice.api.tokens"
_USE_INTERVAL: Final = timedelta(minutes=1)
_SHAPE: Final = re.compile(r"bo_([0-9a-z]{12})_[0-9A-Za-z]{43}", re.ASCII)
_SECRET: Final = string.ascii_letters + string.digits


class TokenRefused(Exception):
    """A rejected token: the reason, and its row if there is one."""

    def __init__(self, words: str, token: ApiToken | None = None) -> None:
        super().__init__(words)
        self.token = token


def issue(
    account: User,
    *,
    name: str = "",
    scopes: Sequence[str] = SCOPES,
    days: int | None = DAYS,
    by: User | None = None,
    form_id: UUID | None = None,
) -> tuple[ApiToken, str]:
    """Create a token. Return it and its text, which is not stored.

    With `days` None the token is valid until it is revoked.
    """
    key_id = "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(12))
    text = f"bo_{key_id}_{''.join(secrets.choice(_SECRET) for _ in range(43))}"
    token = ApiToken.objects.create(
        user=account,
        key_id=key_id,
        digest=_digest(text, settings.SECRET_KEY),
        name=name,
        scopes=[scope for scope in SCOPES if scope in scopes],
        expires_at=timezone.now() + timedelta(days=days) if days is not None else None,
        created_by=by,
        form_id=form_id,
    )
    return token, text


def get_token(text: str) -> ApiToken:
    """Return the token of this text, with its account and the account's groups.

    Raises TokenRefused.
    """
    groups = Group.objects.filter(user=OuterRef("user_id")).values("name")
    rows = ApiToken.objects.select_related("user").annotate(group_names=ArraySubquery(groups))
    shape = _SHAPE.fullmatch(text)
    token = rows.filter(key_id=shape[1]).first() if shape else None
    peppers = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    digests = [_digest(text, pepper) for pepper in peppers]
    if token is None or not any(constant_time_compare(token.digest, digest) for digest in digests):
        raise TokenRefused("This token is not known.")
    now = timezone.now()
    if (state := token.state(now)) != "good":
        at = token.revoked_at or token.expires_at or now
        was = "was revoked" if state == "revoked" else "expired"
        raise TokenRefused(
            f"This token {was} on {at.astimezone(UTC):%Y-%m-%d at %H:%M} UTC.", token
        )
    if not token.user.is_active:
        raise TokenRefused("The account of this token is switched off.", token)
    _record_use(token, digests[0], now)
    token.user.group_names = token.group_names
    return token


def revoke(token: ApiToken) -> None:
    """Revoke a token at once. A second call changes nothing."""
    now = timezone.now()
    if ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=now):
        token.revoked_at = now


def account_of(name: str) -> tuple[User, bool]:
    """Return the service account of this name, and whether this call created it.

    Must run in a transaction. Raises ValidationError, with a message for staff, if the name is
    invalid, or if the account of this name is not a service account or is inactive.
    """
    account = User.objects.select_for_update().filter(username=name).first()
    if account is None:
        if not (1 <= len(name) <= 150 and name.isprintable()):
            raise ValidationError(
                gettext("The name of an account must be one line of at most 150 characters.")
            )
        account = User(username=name)
        account.set_unusable_password()
        account.save()
        account.groups.add(Group.objects.get(name=SERVICE_ACCOUNT))
        return account, True
    if not account.groups.filter(name=SERVICE_ACCOUNT).exists():
        words = gettext("%(name)s is a staff member, not a service account.")
        raise ValidationError(words % {"name": name})
    if not account.is_active:
        words = gettext("The service account %(name)s is turned off.")
        raise ValidationError(words % {"name": name})
    return account, False


def _record_use(token: ApiToken, digest: bytes, now: datetime) -> None:
    """Store the time of use, at most once a minute, and the digest with the current pepper."""
    changed: dict[str, object] = {}
    if token.last_used_at is None or now - token.last_used_at >= _USE_INTERVAL:
        changed["last_used_at"] = now
    if bytes(token.digest) != digest:
        changed["digest"] = digest
    if changed:
        ApiToken.objects.filter(pk=token.pk).update(**changed)


def _digest(text: str, pepper: str) -> bytes:
    inner = hashlib.sha256(text.encode()).digest()
    return salted_hmac(PEPPER, inner, secret=pepper, algorithm="sha256").digest()
