"""The zone in which the times of an appointment are shown.

It is the appointment's own zone, else that of its state, marked as assumed, else UTC. It is never
the zone of the staff member, because that does not show the time of day of the draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from django.utils.translation import gettext, gettext_noop

from backoffice.core.time_formats import zone_of

_ZONES: Final[dict[str, str]] = {
    "America/New_York": "CT DC DE FL GA IN KY MA MD ME MI NC NH NJ NY OH PA RI SC VA VT WV",
    "America/Chicago": "AL AR IA IL KS LA MN MO MS ND NE OK SD TN TX WI",
    "America/Denver": "CO ID MT NM UT WY",
    "America/Los_Angeles": "CA NV OR WA",
    "America/Phoenix": "AZ",
    "America/Anchorage": "AK",
    "Pacific/Honolulu": "HI",
    "America/Puerto_Rico": "PR",
    "America/St_Thomas": "VI",
    "Pacific/Guam": "GU MP",
    "Pacific/Pago_Pago": "AS",
}
STATE_NAMES: Final[dict[str, str]] = {
    "AL": "Alabama", "AK": "Alaska", "AS": "American Samoa", "AZ": "Arizona", "AR": "Arkansas",
    "CA": "California", "CO": "Colorado", "CT": "Connecticut", "DE": "Delaware",
    "DC": "District of Columbia", "FL": "Florida", "GA": "Georgia", "GU": "Guam", "HI": "Hawaii",
    "ID": "Idaho", "IL": "Illinois", "IN": "Indiana", "IA": "Iowa", "KS": "Kansas",
    "KY": "Kentucky", "LA": "Louisiana", "ME": "Maine", "MD": "Maryland", "MA": "Massachusetts",
    "MI": "Michigan", "MN": "Minnesota", "MS": "Mississippi", "MO": "Missouri", "MT": "Montana",
    "NE": "Nebraska", "NV": "Nevada", "NH": "New Hampshire", "NJ": "New Jersey",
    "NM": "New Mexico", "NY": "New York", "NC": "North Carolina", "ND": "North Dakota",
    "MP": "Northern Mariana Islands", "OH": "Ohio", "OK": "Oklahoma", "OR": "Oregon",
    "PA": "Pennsylvania", "PR": "Puerto Rico", "RI": "Rhode Island", "SC": "South Carolina",
    "SD": "South Dakota", "TN": "Tennessee", "TX": "Texas", "UT": "Utah", "VT": "Vermont",
    "VI": "Virgin Islands", "VA": "Virginia", "WA": "Washington", "WV": "West Virginia",
    "WI": "Wisconsin", "WY": "Wyoming",
}  # fmt: skip
_BY_STATE: Final = {state: zone for zone, states in _ZONES.items() for state in states.split()}
"""The zone of most people in a state, by the state's two letters and by its name."""
_BY_STATE.update((name.upper(), _BY_STATE[code]) for code, name in STATE_NAMES.items())
STATES_WITH_TWO_ZONES: Final = frozenset(
    ("AK", "FL", "ID", "IN", "KS", "KY", "MI", "ND", "NE", "OR", "SD", "TN", "TX")
)


class Basis(StrEnum):
    """The way in which the zone of an appointment is known."""

    GIVEN = "given"
    STATE = "assumed from the state"
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class AppointmentZone:
    zone: ZoneInfo
    basis: Basis

    @property
    def name(self) -> str:
        return self.zone.key

    @property
    def is_given(self) -> bool:
        return self.basis is Basis.GIVEN

    @property
    def note(self) -> str:
        """Return the note for every time in this zone; empty if the service sent the zone."""
        return gettext(_NOTES[self.basis])

    @property
    def basis_label(self) -> str:
        """Return how the zone is known, for exports."""
        return gettext(_BASIS_LABELS[self.basis])


_NOTES: Final = {
    Basis.GIVEN: "",
    Basis.STATE: gettext_noop("time zone assumed from the state"),
    Basis.UNKNOWN: gettext_noop("time zone unknown, shown in UTC"),
}
_BASIS_LABELS: Final = {
    Basis.GIVEN: gettext_noop("given"),
    Basis.STATE: gettext_noop("assumed from the state"),
    Basis.UNKNOWN: gettext_noop("unknown"),
}


def state_zone(state: str | None) -> ZoneInfo | None:
    """Return the zone of a state of the United States, by code or name; None for anything else."""
    name = _BY_STATE.get(" ".join((state or "").split()).upper())
    return ZoneInfo(name) if name else None


@lru_cache(maxsize=4096)
def visit_zone(iana_timezone: str | None, state: str | None) -> AppointmentZone:
    """Return the zone of an appointment by its own time zone and the state of its address."""
    if (own_zone := zone_of(iana_timezone)) is not None:
        return AppointmentZone(own_zone, Basis.GIVEN)
    if (assumed := state_zone(state)) is not None:
        return AppointmentZone(assumed, Basis.STATE)
    return AppointmentZone(ZoneInfo("UTC"), Basis.UNKNOWN)
