"""The two clocks of a visit: that of the draw first, the staff member's beside it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, tzinfo

from backoffice.templatetags.ages import hour, weekday, zone_name
from orders.visit_zones import VisitZone


@dataclass(slots=True)
class Clocks:
    """A start as the wall says it there and here."""

    there: datetime
    here: datetime
    note: str = ""
    """Where the zone of the draw was not given: how it was chosen."""

    @property
    def time(self) -> str:
        return hour(self.there)

    @property
    def zone(self) -> str:
        return zone_name(self.there)

    @property
    def differ(self) -> bool:
        return self.there.utcoffset() != self.here.utcoffset()

    @property
    def yours(self) -> str:
        """`10:00 EST`, with the day where it is another one; empty where both say the same."""
        if not self.differ:
            return ""
        day = ""
        if self.here.date() != self.there.date():
            day = f"{weekday(self.here)}, "
        return f"{day}{hour(self.here)} {zone_name(self.here)}"


def clocks(start: datetime, zone: VisitZone, here: tzinfo) -> Clocks:
    """A start in the draw's zone, and in the one of the staff member who asks."""
    return Clocks(start.astimezone(zone.zone), start.astimezone(here), zone.note)
