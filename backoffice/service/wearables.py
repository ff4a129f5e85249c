"""Wearable providers. Interface: wearables, chapter 6."""

from __future__ import annotations

from msgspec import field

from backoffice.service.exchange import Chapter
from backoffice.service.payload import Page, Payload, Reader


class Provider(Payload):
    """A provider a user can connect; its slug is the key everywhere else."""

    slug: str
    name: str = ""
    description: str = ""
    logo: str | None = None
    auth_type: str | None = None
    supported_resources: list[str] = field(default_factory=list)


_PROVIDER = Reader(Provider)


class Wearables(Chapter):
    """Calls of wearables.md 6."""

    def providers(self, source_type: str | None = None) -> Page[Provider]:
        """All providers in one answer; changes rarely, keep it for a day."""
        return self._call.page("/v2/providers", _PROVIDER, query={"source_type": source_type})
