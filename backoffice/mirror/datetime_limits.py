"""Moments at the ends of the calendar: PostgreSQL keeps them, but Python cannot read them back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

MARGIN = timedelta(days=1)
"""More than any time zone is ahead or behind: what is left can be shown in all of them."""


def keep_readable(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Raises OverflowError where one of these columns holds a moment that could not be read back.

    Moments, or their text. All rows of a sync pass here: only the years are looked at first.
    """
    for column in columns:
        for row in rows:
            moment: Any = row.get(column)
            if moment.__class__ is str:
                if not "0002" <= moment < "9999":
                    to_utc_in_range(datetime.fromisoformat(moment))
            elif moment is not None and not 1 < moment.year < 9999:
                to_utc_in_range(moment)


def to_utc_in_range(moment: datetime | None) -> datetime | None:
    """The same moment in UTC; raises OverflowError where the calendar has no such day."""
    if moment is None:
        return None
    moment = moment.astimezone(UTC)
    _ = moment - MARGIN, moment + MARGIN
    return moment
