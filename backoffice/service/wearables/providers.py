"""Wearable providers. Interface: wearables, chapter 6."""

from __future__ import annotations

from msgspec import field

from backoffice.service.payload import Payload, Reader


class WearableProvider(Payload):
    """A provider a user can connect; its slug is the key everywhere else."""

    slug: str
    name: str = ""
    description: str = ""
    logo: str | None = None
    auth_type: str | None = None
    supported_resources: list[str] = field(default_factory=list)


PROVIDER = Reader(WearableProvider)
