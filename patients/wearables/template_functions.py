"""Functions of device data for templates."""

from __future__ import annotations


def hours_minutes(seconds: int) -> str:
    """Return a duration such as `6 h 12 min`."""
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02} min"
