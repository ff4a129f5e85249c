"""The read calls of wearable data."""

from __future__ import annotations

from backoffice.service.exchange import Chapter
from backoffice.service.payload import Page
from backoffice.service.wearables.providers import PROVIDER, Provider


class Wearables(Chapter):
    """Calls of wearables.md 1, 5 and 6."""

    def providers(self, source_type: str | None = None) -> Page[Provider]:
        """All providers in one answer; changes rarely, keep it for a day."""
        return self._call.page("/v2/providers", PROVIDER, query={"source_type": source_type})
