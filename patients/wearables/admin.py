"""Admin of device data as received from the service. Samples are stored by day, not as records."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import ClassVar, Final

from django.contrib.admin import register
from django.utils.translation import gettext_noop

from backoffice.admin import site
from backoffice.admin.records import LookupKeys
from patients.admin import PatientRecordAdmin
from patients.models import Provider
from patients.wearables.backfills import BACKFILL, STREAM, BackfillRange
from patients.wearables.models import HistoricalPull, Summary, WorkoutStream
from patients.wearables.sync import PULL_LIST

_MARGIN: Final = timedelta(days=1)


@register(HistoricalPull, site=site)
class HistoricalPullAdmin(PatientRecordAdmin):
    words = gettext_noop("How each source’s history was fetched")
    topic = "pull"
    list_display = ("id", "user_id", "provider", "resource", "status", "missing_since")
    code_names: ClassVar = {"provider": Provider.names}
    synced_list = PULL_LIST


@register(Summary, site=site)
class SummaryAdmin(PatientRecordAdmin):
    words = gettext_noop("Daily, sleep and workout summaries")
    plural = gettext_noop("device summaries")
    topic = "device data"
    list_display = ("id", "user_id", "resource", "provider", "calendar_date", "missing_since")
    code_names: ClassVar = {"provider": Provider.names}

    def reasons(self, row: Summary) -> LookupKeys:
        """Return lookups of the days around the summary.

        The answer counts as received when the summary was, so that data from later events does not
        change.
        """
        start = row.starts_at
        if start is None and row.calendar_date is not None:
            start = datetime.combine(row.calendar_date, time.min, UTC)
        if start is None or row.user_id is None:
            return {}
        backfill = BackfillRange(
            row.number, row.user_id, row.resource, row.provider, start - _MARGIN, start + _MARGIN
        )
        return {BACKFILL: [backfill.key()]}


@register(WorkoutStream, site=site)
class WorkoutStreamAdmin(PatientRecordAdmin):
    words = gettext_noop("Data recorded during workouts")
    topic = "device data"
    list_display = ("id", "user_id", "as_of", "missing_since")

    def reasons(self, row: WorkoutStream) -> LookupKeys:
        return {STREAM: [f"{row.pk}:{row.user_id}"]}
