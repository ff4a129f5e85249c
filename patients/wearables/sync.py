"""Sync of historical pulls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

import msgspec
from django.conf import settings

from backoffice.mirror.applying import apply_batch
from backoffice.mirror.tables import (
    ApplyOutcome,
    MirrorRecord,
    MirrorTable,
    RecordKey,
    RowValues,
    key_text,
)
from backoffice.mirror.unreadable_records import save_unreadable
from backoffice.service import Record
from backoffice.service.users import HistoricalPullReport, Pull, PullTimeline
from backoffice.sync.missing_records import UnsortedListComparison, flag_suspects
from backoffice.sync.pagination import batches_by_cursor
from backoffice.sync.runs import SyncedList
from patients.wearables.models import HistoricalPull

NOT_PULLED = "not_pulled"


def _pull(record: MirrorRecord) -> RowValues:
    pull: Pull = record.data
    timeline = pull.timeline or PullTimeline()
    return {
        "status": pull.status,
        "error_details": pull.error_details,
        "days_with_data": pull.days_with_data,
        "range_start": pull.range_start,
        "range_end": pull.range_end,
        "scheduled_at": timeline.scheduled_at,
        "started_at": timeline.started_at,
        "ended_at": timeline.ended_at,
        "release": pull.release,
        "trace_id": pull.trace_id,
    }


PULLS = MirrorTable(
    model=HistoricalPull,
    key=("user_id", "provider", "resource"),
    promote=_pull,
    vocabularies={
        "status": "historical_pull.status",
        "error_details": "historical_pull.error_details",
    },
)


def _records(record: Record[HistoricalPullReport]) -> Iterable[MirrorRecord]:
    """Yield one record per provider and resource of a report, also for those never pulled."""
    user_id, asked_at = record.data.user_id, record.asked_at
    for entry in record.data.entries():
        key = (user_id, entry.provider, entry.resource)
        if entry.pull is not None:
            yield MirrorRecord(key, entry.raw, asked_at, entry.pull)
        elif entry.unreadable is not None:
            name = key_text(key)
            save_unreadable(
                "pulls", name, entry.unreadable.path, entry.unreadable.reason, entry.raw
            )
    for provider, pulls in record.data.provider.items():
        for resource in pulls.not_pulled:
            raw = msgspec.json.encode(resource)
            yield MirrorRecord(
                (user_id, provider, resource), raw, asked_at, Pull(status=NOT_PULLED)
            )


def _keys(record: Record[HistoricalPullReport]) -> list[RecordKey]:
    return [
        (record.data.user_id, provider, resource)
        for provider, pulls in record.data.provider.items()
        for resource in (*pulls.pulled, *pulls.not_pulled)
    ]


def store_pulls(records: Sequence[Record[HistoricalPullReport]]) -> ApplyOutcome:
    return apply_batch(
        PULLS, [mirror_record for record in records for mirror_record in _records(record)]
    )


PULL_LIST = SyncedList(
    resource="pulls",
    batches=lambda service, run: batches_by_cursor(
        lambda cursor: service.users.historical_pulls(next_cursor=cursor)
    ),
    store=store_pulls,
    interval=lambda: timedelta(minutes=settings.SYNC_PULLS_MINUTES),
    find_missing=lambda run: UnsortedListComparison(
        run, PULLS, keys=_keys, handle_suspects=flag_suspects(PULLS)
    ),
)

SYNCED_LISTS = (PULL_LIST,)
