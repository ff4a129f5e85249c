"""Connections with their wearer, and the time span of the data that the service has of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db.models import QuerySet

from sandbox import specification_forms
from sandbox.keyed_random import keyed_uuid
from sandbox.models import Connection, HistoricalPull, World
from sandbox.wearables.resources import DATA_SOURCES, RESOURCES, DataSource
from sandbox.wearables.wearers import DAY, Wearer, make_wearer, millis

UNPULLED_DAYS = 30  # of history, for resources nobody counts the pull of
PAUSED_AFTER = timedelta(days=30)
LOGOS = "https://files.service.invalid/providers"
Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Link:
    """A connection. Its data is live from `created` until `until`.

    `pulled` has, by resource, when the pull of its history ended and how far it reached back; None
    where none succeeded yet.
    """

    key: int
    who: Wearer
    provider: str
    name: str
    created: int
    until: int | None
    pulled: dict[str, tuple[int, int] | None] = field(compare=False, hash=False)

    def since(self, event_resource: str, as_of: int) -> int:
        """Return the earliest moment with data of a resource."""
        if event_resource not in self.pulled:
            return self.created - UNPULLED_DAYS * DAY
        pull = self.pulled[event_resource]
        return self.created if pull is None or pull[0] > as_of else pull[1]

    def seen(self, as_of: int) -> int:
        """Return the latest moment with data: nothing arrives or changes after the connection's
        end."""
        return as_of if self.until is None else min(as_of, self.until)

    def offers(self, resource: str) -> list[tuple[int, DataSource]]:
        """Return the sources of a timeseries resource or a summary, with their indexes in
        DATA_SOURCES."""
        return [
            (place, offer)
            for place, offer in enumerate(DATA_SOURCES)
            if offer.provider == self.provider
            and (resource in offer.timeseries or resource in offer.summaries)
        ]

    def device_id(self, offer: DataSource) -> str | None:
        """Return the device id of a source."""
        if offer.device is None:
            return None
        key = (self.who.seed, "device", self.who.user_id, self.provider, offer.device)
        return keyed_uuid(*key)

    def source(self, offer: DataSource) -> Record:
        """Source (wearables.md 3); half of the providers still send the deprecated trio."""
        found: Record = {
            "provider": self.provider,
            "type": offer.source_type,
            "app_id": offer.app_id,
            "device_id": self.device_id(offer),
        }
        if self.provider in ("band-one", "phone-four"):
            logo = f"{LOGOS}/{self.provider}.png"
            found |= {"name": self.name, "slug": self.provider, "logo": logo}
        return specification_forms.source(found)


def links(connections: QuerySet[Connection]) -> list[Link]:
    """The links of these connections, in the order of providers and ids."""
    found = list(
        connections.select_related("provider", "user", "user__info").order_by("provider_id", "id")
    )
    seed = World.objects.values_list("seed", flat=True).get(id=1)
    pulls = _pulls(found)
    return [_link(seed, each, pulls.get((each.user_id, each.provider_id), {})) for each in found]


def _pulls(connections: Sequence[Connection]) -> dict[tuple[Any, str], dict[str, Any]]:
    users = {each.user_id for each in connections}
    wanted: Iterable[tuple[Any, ...]] = HistoricalPull.objects.filter(
        user_id__in=users
    ).values_list("user_id", "provider_id", "resource", "ended_at", "range_start", "days_with_data")
    found: dict[tuple[Any, str], dict[str, Any]] = {}
    for user, provider, resource, ended, start, days in wanted:
        # Data of an earlier pull stays while the history is pulled again.
        found.setdefault((user, provider), {})[resource] = (
            (millis(ended) if ended else 0, millis(start)) if days and start else None
        )
    return found


def _link(seed: int, connection: Connection, pulled: dict[str, Any]) -> Link:
    user = connection.user
    info = getattr(user, "info", None)
    until = None
    if connection.status == "error" and connection.errored_at is not None:
        until = millis(connection.errored_at)
    elif connection.status == "paused":
        until = millis(connection.created_on + PAUSED_AFTER)
    who = make_wearer(
        seed, str(user.pk), user.seq, user.fallback_time_zone, info.gender if info else None
    )
    provider = connection.provider
    created = millis(connection.created_on)
    return Link(connection.pk, who, provider.slug, provider.name, created, until, pulled)


def event_name(resource: str) -> str:
    """The name of a timeseries resource in events; of those without, their own."""
    return RESOURCES[resource].event or resource
