"""The day on which a sample was taken."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date
from typing import Final

from backoffice.service.written_times import read_written_time
from orders.models import Appointment, Result

CANCELLED: Final = "cancelled"


def collection_day(visits: Iterable[Appointment], result: Result | None) -> date | None:
    """Return the day on which a sample was taken: from the lab, else of the active visit."""
    active = [one for one in visits if one.superseded_at is None and one.event_status != CANCELLED]
    zone = active[0].visit_zone.zone if active else UTC
    draw_time = read_written_time(result.date_collected if result else None)
    if draw_time.instant is not None:
        return draw_time.instant.astimezone(zone).date()
    return draw_time.day or (active[0].draw_day if active else None)
