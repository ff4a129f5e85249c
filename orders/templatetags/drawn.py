"""The day of a draw, for what stands beside it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Final

from django import template

from backoffice.templatetags.spoken import zone_of
from orders.models import Appointment, Result

register = template.Library()

CANCELLED: Final = "cancelled"


@register.simple_tag
def drawn_on(visits: Iterable[Appointment], result: Result | None) -> date | None:
    """When the sample was taken, as the lab says, or else the day of the visit that stands."""
    standing = [
        one for one in visits if one.superseded_at is None and one.event_status != CANCELLED
    ]
    zone = zone_of(standing[0].iana_timezone) if standing else None
    try:
        taken = datetime.fromisoformat((result and result.date_collected) or "")
    except ValueError:
        return standing[0].draw_day if standing else None
    return (taken.astimezone(zone or UTC) if taken.tzinfo else taken).date()
