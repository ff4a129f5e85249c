"""Parsing jobs told by webhook events (webhooks, chapter 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from backoffice.service import Record
from backoffice.service import reports as service_reports
from backoffice.service.events import Heard
from backoffice.service.payload import Unreadable
from labs.reports.sync import bring, file_strays, follow


def handle_report_jobs(events: Sequence[Heard]) -> Mapping[str, str] | None:
    """Apply what the events say and ask the service for the job itself.

    Events come late, twice and out of order: the farther a job is, the newer the word about it,
    so that a completed or failed job never goes back. Raises ValueError for a job that cannot be
    read.
    """
    records = [_record(event) for event in events]
    outcome = bring(
        [(record, event.user_id) for record, event in zip(records, events, strict=True)]
    )
    if outcome.unreadable:
        raise ValueError("a parsing job does not fit its columns")
    job_ids = {record.data.id for record in records}
    file_strays(job_ids=sorted(job_ids))
    follow(job_ids)
    touched = {fact.key[0]: fact.as_of for fact in outcome.touched}
    return {
        event.message_id: "stale"
        for event, record in zip(events, records, strict=True)
        if touched.get(record.data.id) != event.received_at
    }


def _record(event: Heard) -> Record[service_reports.ReportJob]:
    read = service_reports.JOB.read(event.data, event.received_at)
    if isinstance(read, Unreadable):
        raise ValueError(f"{read.reason} at {read.path}")
    return read
