"""Connections that are made or break, and their events (users.md 7, webhooks.md 4)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction

from sandbox import event_queue
from sandbox.deliveries import sample_events
from sandbox.event_queue import Event
from sandbox.keyed_random import KeyedRandom
from sandbox.models import Connection, HistoricalPull, Provider, User
from sandbox.people import CONNECTION_ERRORS, STOCK_USERS

POOL = 2_000
HISTORY = timedelta(days=30)


def connect(count: int, seed: object, at: datetime) -> list[str]:
    """Connect up to `count` users to a provider new to them; return their ids.

    The history of each resource is scheduled to be pulled.
    """
    providers = list(Provider.objects.order_by("slug"))
    team = User.objects.filter(team_id=settings.TEAM_ID, deleted_at__isnull=True)
    users = list(team.filter(seq__gt=STOCK_USERS).order_by("-seq")[:POOL])
    rng = KeyedRandom("connect", seed)
    events: list[Event] = []
    with transaction.atomic():
        for user in rng.sample(users, min(count, len(users))):
            taken = set(user.connections.values_list("provider_id", flat=True))
            free = [provider for provider in providers if provider.slug not in taken]
            if not free:
                continue
            link = _connect(user, rng.choice(free), rng, at)
            data = sample_events.connection_created(
                str(user.id), link.provider, link.external_user_id, link.resource_availability
            )
            events.append(Event("provider.connection.created", user.id, data, at))
        event_queue.announce_all(events)
    return [str(event.user_id) for event in events]


def _connect(user: User, provider: Provider, rng: KeyedRandom, at: datetime) -> Connection:
    granted: dict[str, Any] = {
        name: {
            "status": "available",
            "scope_requirements": {
                "user_granted": {"required": [f"read_{name}"], "optional": []},
                "user_denied": {"required": [], "optional": []},
            },
        }
        for name in provider.supported_resources
    }
    for name in provider.supported_resources:
        # Pulls stay when a connection ends: of one that comes back they begin anew.
        HistoricalPull.objects.update_or_create(
            user=user,
            provider=provider,
            resource=name,
            defaults={
                "status": "scheduled",
                "release": f"{at:%Y-%m}.1",
                "range_start": at - HISTORY,
                "range_end": at,
                "scheduled_at": at,
                "started_at": None,
                "ended_at": None,
                "days_with_data": 0,
                "error_details": None,
                "trace_id": f"trace-{rng.integer64():016x}",
            },
        )
    return Connection.objects.create(
        user=user,
        provider=provider,
        created_on=at,
        status="connected",
        external_user_id=None
        if provider.auth_type == "sdk"
        else f"{provider.slug}-{rng.digits(8)}",
        resource_availability=granted,
    )


def fail(count: int, seed: object, at: datetime) -> list[str]:
    """Break up to `count` working connections; return the ids of their users."""
    rng = KeyedRandom("fail", seed)
    working = Connection.objects.filter(status="connected", user__team_id=settings.TEAM_ID)
    events: list[Event] = []
    with transaction.atomic():
        found = list(working.select_for_update(of=("self",)).order_by("-id")[:POOL])
        for link in rng.sample(found, min(count, len(found))):
            error = rng.choice(CONNECTION_ERRORS)
            link.status, link.error_type, link.errored_at = "error", error, at
            link.error_message = f"The provider answered: {error.replace('_', ' ')}"
            link.save(update_fields=["status", "error_type", "error_message", "errored_at"])
            data = sample_events.connection_error(str(link.user_id), link.provider_id, error)
            events.append(Event("provider.connection.error", link.user_id, data, at))
        event_queue.announce_all(events)
    return [str(event.user_id) for event in events]
