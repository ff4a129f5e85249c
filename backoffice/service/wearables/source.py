"""The source of wearable data. Interface: wearables, chapter 3."""

from __future__ import annotations

from uuid import UUID

from msgspec import field

from backoffice.service.payload import Payload, either


class SourcePayload(Payload):
    """The source of a summary, or of a group of samples.

    ``provider`` is a slug; older senders send it as ``slug``. ``name``, ``slug`` and ``logo`` are
    deprecated. Only the timeseries of a workout have ``sport`` and ``workout_id``.
    """

    provider_sent: str | None = field(default=None, name="provider")
    type_sent: str | None = field(default=None, name="type")
    app_id: str | None = None
    device_id: UUID | None = None
    sport: str | None = None
    workout_id: UUID | None = None
    name: str | None = None
    slug: str | None = None
    logo: str | None = None

    @property
    def provider(self) -> str:
        return either(self.provider_sent, self.slug) or ""

    @property
    def type(self) -> str:
        """Return the kind of device or app; ``unknown`` when none was sent."""
        return self.type_sent or "unknown"
