"""Sync of unmatched results: the list of the open ones, and lookups of single ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.conf import settings

from backoffice.mirror.applying import apply_batch, flag_missing
from backoffice.mirror.tables import (
    ApplyOutcome,
    ChildTable,
    MirrorRecord,
    MirrorTable,
    RecordKey,
    RowValues,
)
from backoffice.service import Record, Service, errors
from backoffice.service import events as service_events
from backoffice.service import unmatched as service_unmatched
from backoffice.service.events import ReceivedEvent, parse_event_data
from backoffice.sync.lookups import LookupType, schedule_lookups
from backoffice.sync.missing_records import UnsortedListComparison
from backoffice.sync.models import SyncRun
from backoffice.sync.pagination import Batch, batches_by_cursor
from backoffice.sync.runs import SyncedList
from orders.models.unmatched_result import RESOLVED, Candidate, UnmatchedResult

RESOURCE: Final = "unmatched"
PAGE_SIZE: Final = 50
NO_SUCH_QUEUE: Final = (400, 403, 404)
"""HTTP statuses with which the service answers a team that does not have the queue."""

Item = Record[service_unmatched.UnmatchedResultPayload]


def _promote(record: MirrorRecord) -> RowValues:
    item: service_unmatched.UnmatchedResultPayload = record.data
    patient = item.patient or service_unmatched.ReviewedPatient()
    lab = item.lab or service_unmatched.ReviewedLab()
    return {
        "status": item.status,
        "decision_code": item.decision_code,
        "sub_reason_codes": item.sub_reason_codes,
        "reason": item.reason,
        "first_name": patient.first_name or "",
        "last_name": patient.last_name or "",
        "dob": patient.dob,
        "gender": patient.gender or "",
        "lab_slug": lab.slug,
        "lab_name": lab.name,
        "markers": [marker.name for marker in item.markers],
        "interpretation": item.interpretation,
        "result_status": item.result_status,
        "note": item.note,
        "resolution_action": item.resolution_action,
        "resolved_user_id": item.resolved_user_id,
        "resolved_order_id": item.resolved_order_id,
        "allowed_actions": item.allowed_actions,
        "created_at": item.created_at or record.as_of,
        "updated_at": item.updated_at or record.as_of,
        "reviewed_at": item.reviewed_at,
    }


def _candidates(record: MirrorRecord) -> Iterator[RowValues]:
    pairs = [
        (group.user_id, candidate)
        for group in record.data.candidate_groups
        for candidate in group.candidates
    ]
    for position, (user_id, candidate) in enumerate(pairs):
        yield {
            "result_id": record.key[0],
            "position": position,
            "user_id": user_id,
            "order_id": candidate.order_id,
            "order_transaction_id": candidate.order_transaction_id,
            "candidate_type": candidate.candidate_type,
            "last_status": candidate.last_status,
            "confidence_level": candidate.confidence_level,
            "reasons": candidate.reasons,
        }


UNMATCHED: Final = MirrorTable(
    model=UnmatchedResult,
    key=("id",),
    promote=_promote,
    children=(
        ChildTable(
            model=Candidate,
            parent="result_id",
            key=("result_id", "position"),
            rows=_candidates,
            vocabularies={
                "candidate_type": "unmatched.candidate",
                "confidence_level": "unmatched.confidence",
            },
        ),
    ),
    vocabularies={
        "status": "unmatched.status",
        "decision_code": "unmatched.decision",
        "interpretation": "result.interpretation",
        "result_status": "result.status",
        "resolution_action": "unmatched.action",
    },
)


def store_unmatched(records: Sequence[Item]) -> ApplyOutcome:
    """Store records, and schedule lookups of their orders."""
    outcome = apply_batch(
        UNMATCHED, [MirrorRecord.from_service(record, record.data.id) for record in records]
    )
    schedule_lookups(
        "orders",
        {order for mirror_record in outcome.touched for order in _orders(mirror_record.data)},
    )
    return outcome


def _orders(item: service_unmatched.UnmatchedResultPayload) -> set[UUID]:
    """Return the orders that a record names. They have changed, or they are new."""
    order_ids = {
        candidate.order_id for group in item.candidate_groups for candidate in group.candidates
    }
    return {order for order in order_ids | {item.resolved_order_id} if order is not None}


def _fetch_batches(
    service: Service, run: SyncRun
) -> Iterator[Batch[service_unmatched.UnmatchedResultPayload]]:
    """Yield all open records. A team without the queue is a valid answer, not an error."""
    try:
        yield from batches_by_cursor(lambda cursor: service.unmatched.list(PAGE_SIZE, cursor))
    except (errors.Refused, errors.Missing) as error:
        if error.status not in NO_SUCH_QUEUE:
            raise
        yield Batch(checkpoint={"enabled": False})


def is_enabled() -> bool:
    """Whether the team has the queue, according to the latest sync run."""
    finished_runs = SyncRun.objects.filter(resource=RESOURCE, state=SyncRun.State.DONE)
    latest = finished_runs.order_by("-created_at").values_list("checkpoint", flat=True).first()
    return latest is None or latest.get("enabled", True)


class _OpenResultComparison(UnsortedListComparison):
    """Looks up records that are open in the mirror but not in the list: somebody decided them."""

    def __init__(self, run: SyncRun) -> None:
        super().__init__(
            run, UNMATCHED, keys=lambda record: [(record.data.id,)], handle_suspects=self._look_up
        )
        self.is_disabled = False

    def __call__(self, batch: Batch[Any], is_last: bool) -> list[str]:
        self.is_disabled = self.is_disabled or batch.checkpoint.get("enabled") is False
        return super().__call__(batch, is_last)

    def _look_up(self, keys: list[RecordKey], asked_at: datetime) -> list[RecordKey]:
        if self.is_disabled:
            return []
        ids = [key[0] for key in keys]
        open_results = UnmatchedResult.objects.filter(pk__in=ids).exclude(status__in=RESOLVED)
        schedule_lookups(RESOURCE, list(open_results.values_list("pk", flat=True)))
        return []


SYNCED_LIST: Final = SyncedList(
    resource=RESOURCE,
    batches=_fetch_batches,
    store=store_unmatched,
    interval=lambda: timedelta(seconds=settings.SYNC_UNMATCHED_SECONDS),
    find_missing=_OpenResultComparison,
    lookup_kind=RESOURCE,
)


class _NoQueue:
    """The answer to a team that does not have the queue. Such a lookup is done, not repeated."""


def _fetch(service: Service, key: str) -> Item | _NoQueue:
    try:
        return service.unmatched.get(key)
    except errors.Refused as error:
        if error.status not in NO_SUCH_QUEUE:
            raise
        return _NoQueue()


def _store(answers: Mapping[str, Item | _NoQueue]) -> dict[str, timedelta | None]:
    store_unmatched([answer for answer in answers.values() if isinstance(answer, Record)])
    return {}


def _flag_missing(keys: Sequence[str], asked_at: datetime) -> None:
    flag_missing(UNMATCHED, [(UUID(key),) for key in keys], asked_at)


LOOKUP: Final = LookupType(kind=RESOURCE, fetch=_fetch, store=_store, on_missing=_flag_missing)


def handle_match_reviews(events: Sequence[ReceivedEvent]) -> Mapping[str, str]:
    """Schedule lookups, because an event has less than the whole record (webhooks.md 4.2)."""
    schedule_lookups(
        RESOURCE, [parse_event_data(service_events.MATCH_REVIEW, event).id for event in events]
    )
    return {event.message_id: "looked up" for event in events}
