"""The day on which a sample was taken."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date
from typing import Final

from django import template

from backoffice.service.written_times import read_written_time
from orders.models import Appointment, Result

register = template.Library()

CANCELLED: Final = "cancelled"


@register.simple_tag
def collection_day(visits: Iterable[Appointment], result: Result | None) -> date | None:
    """Return the day on which a sample was taken: from the lab, else of the active visit."""
    active = [one for one in visits if one.superseded_at is None and one.event_status != CANCELLED]
    zone = active[0].visit_zone.zone if active else UTC
    taken = read_written_time(result.date_collected if result else None)
    if taken.instant is not None:
        return taken.instant.astimezone(zone).date()
    return taken.day or (active[0].draw_day if active else None)
