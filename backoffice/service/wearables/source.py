"""Where a piece of wearable data comes from. Interface: wearables, chapter 3."""

from __future__ import annotations

from uuid import UUID

from msgspec import field

from backoffice.service.payload import Payload, either


class Source(Payload):
    """The source of a summary, or of a group of samples.

    ``provider`` is a slug, also sent as ``slug`` by older senders; ``name``, ``slug`` and ``logo``
    are deprecated. ``sport`` and ``workout_id`` come with the timeseries of a workout.
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
        """What kind of device or app it is; ``unknown`` where nothing was sent."""
        return self.type_sent or "unknown"
