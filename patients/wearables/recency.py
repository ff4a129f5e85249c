"""The time of the newest data of each source."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from uuid import UUID

from django.db import connection
from django.db.models import Max

from patients.wearables.models import Summary

_NEWEST_SAMPLES: Final = """
    SELECT series.provider, max(newest.at)
    FROM wearables_series AS series, LATERAL (
        SELECT c.day + c.last_at * interval '1 microsecond' AS at
        FROM wearables_chunk AS c WHERE c.series_id = series.id ORDER BY c.day DESC LIMIT 1
    ) AS newest
    WHERE series.user_id = %s
    GROUP BY series.provider
"""


def newest_data_by_provider(patient_id: UUID) -> dict[str, datetime]:
    """Return the time of the newest sample, or the end of the day of the newest summary."""
    with connection.cursor() as cursor:
        cursor.execute(_NEWEST_SAMPLES, [patient_id])
        by_provider: dict[str, datetime] = {
            provider: at.replace(tzinfo=UTC) for provider, at in cursor.fetchall()
        }
    days = Summary.objects.filter(user_id=patient_id, missing_since=None).order_by()
    for provider, newest in days.values_list("provider").annotate(Max("calendar_date")):
        if newest is not None:
            at = _end_of(newest)
            by_provider[provider] = max(by_provider.get(provider, at), at)
    return by_provider


def _end_of(day: date) -> datetime:
    """Return the end of the day, or now if the day is not over."""
    now = datetime.now(UTC)
    if day >= now.date():
        return now
    return datetime.combine(day, time(), UTC) + timedelta(days=1)
