"""Devices of the connections (users.md 7): one per model, with a software update now and then."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sandbox.keyed_random import KeyedRandom
from sandbox.wearables.links import Link
from sandbox.wearables.resources import DATA_SOURCES
from sandbox.wearables.wearers import DAY, moment

Record = dict[str, Any]
RENEWAL = 60 * DAY  # between two versions of a device's software


def placed(link: Link, as_of: int) -> list[tuple[int, Record]]:
    """Return the devices of a connection, each with the index of its source in DATA_SOURCES."""
    found: dict[str, tuple[int, Record]] = {}
    for place, offer in enumerate(DATA_SOURCES):
        key = link.device_id(offer) if offer.provider == link.provider else None
        if key is None or key in found:
            continue
        found[key] = (
            place,
            {
                "id": key,
                "user_id": link.who.user_id,
                "provider": link.provider,
                "source_type": offer.source_type,
                "app_id": offer.app_id,
                "device_manufacturer": "Made-up Devices",
                "device_model": offer.device,
                "device_version": f"{1 + _renewals(link, as_of)}.0",
                "device_id": KeyedRandom("device", key).digits(8),
            },
        )
    return list(found.values())


def _renewals(link: Link, as_of: int) -> int:
    return max(0, link.seen(as_of) - link.created) // RENEWAL


def created(link: Link) -> datetime:
    return moment(link.created)


def changed(link: Link, as_of: int) -> datetime:
    """When its software was last renewed, or it was connected."""
    return moment(link.created + _renewals(link, as_of) * RENEWAL)
