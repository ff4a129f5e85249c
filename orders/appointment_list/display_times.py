"""The two times of a visit: in the zone of the draw, and in the zone of the staff member."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, tzinfo

from backoffice.core.time_formats import hour, weekday, zone_name
from orders.appointment_zones import AppointmentZone


@dataclass(slots=True)
class AppointmentClocks:
    """The start of a visit as local time of the draw and of the staff member."""

    draw_time: datetime
    staff_time: datetime
    note: str = ""
    """How the zone of the draw was chosen, if the service did not send one."""

    @property
    def time(self) -> str:
        return hour(self.draw_time)

    @property
    def zone(self) -> str:
        return zone_name(self.draw_time)

    @property
    def are_different(self) -> bool:
        return self.draw_time.utcoffset() != self.staff_time.utcoffset()

    @property
    def staff_text(self) -> str:
        """Return "10:00 AM EST", with the weekday if the day differs; empty if both times agree."""
        if not self.are_different:
            return ""
        day = ""
        if self.staff_time.date() != self.draw_time.date():
            day = f"{weekday(self.staff_time)}, "
        return f"{day}{hour(self.staff_time)} {zone_name(self.staff_time)}"


def appointment_clocks(
    start: datetime, zone: AppointmentZone, staff_zone: tzinfo
) -> AppointmentClocks:
    """Return a start in the zone of the draw and in the zone of the staff member."""
    return AppointmentClocks(start.astimezone(zone.zone), start.astimezone(staff_zone), zone.note)
