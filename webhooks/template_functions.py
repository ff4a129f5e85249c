"""Functions for templates about the inbox: failed events in the navigation, silence on System."""

from __future__ import annotations

from typing import Any, Final

from backoffice.pages.nav_badges import badge_number, declare
from backoffice.pages.paging.counts import Count
from webhooks import event_log, silence
from webhooks.models import Event

FAILED_CAP: Final = 99
declare(
    "events.view",
    "SELECT count(*) AS failed_events FROM (SELECT FROM webhooks_event"
    f" WHERE state = '{Event.State.DEAD.value}' LIMIT {FAILED_CAP + 1}) AS capped",
)


def failed_events(user: Any) -> Count | None:
    """Return the number of failed events; None for staff who may not see events."""
    failed = badge_number(user, "failed_events")
    return None if failed is None else Count(min(failed, FAILED_CAP), failed > FAILED_CAP)


def delivery_health() -> silence.DeliveryHealth:
    """Return the state of the deliveries of the service."""
    return silence.read()


def refused_deliveries() -> list[silence.RefusalCount]:
    """Return recently refused deliveries, by reason."""
    return silence.recent_refusals()


def is_flooded() -> bool:
    """Return whether many deliveries recently had no valid signature."""
    return silence.is_flooded()


def body_conflicts() -> bool:
    """Return whether a message was recently repeated with another body."""
    return silence.has_body_conflicts()


def oldest_waiting() -> Any:
    """Return when the event that has waited longest was received."""
    return event_log.oldest_waiting()


def lapse(length: Any) -> str:
    """Return a duration in one unit: `0.4 s`, `12 s`, `3 min`, `5 h`, `9 d`."""
    if length is None:
        return "—"
    seconds = length.total_seconds()
    sign, size = ("−" if seconds < 0 else ""), abs(seconds)
    for unit, of in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if size >= of:
            return f"{sign}{size / of:.0f} {unit}"
    return f"{sign}{size:.1f} s" if size < 10 else f"{sign}{size:.0f} s"
