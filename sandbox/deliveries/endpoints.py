"""Endpoints: the one of the settings, secrets, and disabling after failures."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from sandbox import clock
from sandbox.deliveries import signing
from sandbox.event_queue import ALPHABET
from sandbox.models import WebhookEndpoint

CONFIGURED = "ep_of_the_settings"
OVERLAP = timedelta(hours=24)
"""How long a replaced secret still signs."""
SEVERAL_FAILURES = timedelta(hours=12)
SAME_RUN = timedelta(hours=24)
DISABLE_AFTER = timedelta(days=5)


def configure(url: str | None, secret: str = settings.WEBHOOK_SECRET) -> WebhookEndpoint | None:
    """Create or change the endpoint of the settings; without `url`, delete it and its messages.

    Raises ValueError for an invalid secret.
    """
    signing.key_of(secret)
    if not url:
        delete(CONFIGURED)
        return None
    now = clock.real_now()
    endpoint, _ = WebhookEndpoint.objects.update_or_create(
        id=CONFIGURED,
        defaults={
            "url": url,
            "secret": secret,
            "former_secret": None,
            "disabled": False,
            "first_failure_at": None,
            "failing_since": None,
            "updated_at": now,
        },
        create_defaults={
            "team_id": settings.TEAM_ID,
            "url": url,
            "secret": secret,
            "created_at": now,
            "updated_at": now,
        },
    )
    return endpoint


def delete(endpoint_id: str) -> None:
    """Delete an endpoint, if it exists, with its messages.

    The endpoint is locked before its messages, as the deliverer does: otherwise each could wait
    for the other.
    """
    with transaction.atomic():
        for endpoint in WebhookEndpoint.objects.select_for_update().filter(id=endpoint_id):
            endpoint.delete()


def new_id() -> str:
    return "ep_" + "".join(secrets.choice(ALPHABET) for _ in range(27))


def rotate(endpoint: WebhookEndpoint, key: str | None) -> None:
    """Set a new secret; the former one signs too for a while."""
    endpoint.former_secret = endpoint.secret
    endpoint.former_until = clock.real_now() + OVERLAP
    endpoint.secret = key or signing.new_secret()
    endpoint.save(update_fields=["secret", "former_secret", "former_until"])


def signing_keys(endpoint: WebhookEndpoint, now: datetime) -> list[bytes]:
    """Return the keys that sign, newest first."""
    found = [signing.key_of(endpoint.secret)]
    if endpoint.former_secret and endpoint.former_until and now < endpoint.former_until:
        found.append(signing.key_of(endpoint.former_secret))
    return found


def record_outcomes(
    endpoint: WebhookEndpoint, succeeded: bool, failed: bool, now: datetime, retry_speed: float
) -> None:
    """Update the run of failures, and disable the endpoint if it lasts too long.

    The clock toward disabling starts when failures at least 12 h apart have come within 24 h
    (webhooks.md 1).
    """
    first, since = endpoint.first_failure_at, endpoint.failing_since
    if succeeded:
        first = since = None
    elif failed:
        if first is None or (since is None and now - first > SAME_RUN / retry_speed):
            first = now
        elif since is None and now - first >= SEVERAL_FAILURES / retry_speed:
            since = now
    disabled = since is not None and now - since >= DISABLE_AFTER / retry_speed
    if (first, since) == (endpoint.first_failure_at, endpoint.failing_since) and not disabled:
        return
    endpoint.first_failure_at, endpoint.failing_since = first, since
    endpoint.disabled = endpoint.disabled or disabled
    endpoint.save(update_fields=["first_failure_at", "failing_since", "disabled"])
