"""Dates at the ends of the calendar: PostgreSQL stores them, but Python cannot read them back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

MARGIN = timedelta(days=1)
"""More than the offset of any time zone, so that accepted times can be shown in all zones."""


def check_datetime_range(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Raise OverflowError if a value of these columns could not be read back from PostgreSQL.

    The values are datetimes or their ISO text. All rows of a sync are checked, so only the years
    are compared first.
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
    """Return the same time in UTC; raise OverflowError if Python has no such date."""
    if moment is None:
        return None
    moment = moment.astimezone(UTC)
    _ = moment - MARGIN, moment + MARGIN
    return moment
