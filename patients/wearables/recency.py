"""When each source last sent data, whatever it was."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from uuid import UUID

from django.db import connection
from django.db.models import Max

from patients.wearables.models import Summary

_LAST: Final = """
    SELECT series.provider, max(newest.at)
    FROM wearables_series AS series, LATERAL (
        SELECT c.day + c.last_at * interval '1 microsecond' AS at
        FROM wearables_chunk AS c WHERE c.series_id = series.id ORDER BY c.day DESC LIMIT 1
    ) AS newest
    WHERE series.user_id = %s
    GROUP BY series.provider
"""


def last_data(patient_id: UUID) -> dict[str, datetime]:
    """By provider: the newest sample, or the end of the newest day that is summed up."""
    with connection.cursor() as cursor:
        cursor.execute(_LAST, [patient_id])
        found: dict[str, datetime] = {
            provider: at.replace(tzinfo=UTC) for provider, at in cursor.fetchall()
        }
    days = Summary.objects.filter(user_id=patient_id, missing_since=None).order_by()
    for provider, newest in days.values_list("provider").annotate(Max("calendar_date")):
        if newest is not None:
            at = _end_of(newest)
            found[provider] = max(found.get(provider, at), at)
    return found


def _end_of(day: date) -> datetime:
    """Not later than now: the day of a summary may not be over."""
    now = datetime.now(UTC)
    if day >= now.date():
        return now
    return datetime.combine(day, time(), UTC) + timedelta(days=1)
