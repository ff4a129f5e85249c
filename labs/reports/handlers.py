"""Handlers of events about parsing jobs (webhooks, chapter 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from backoffice.service import Record
from backoffice.service import reports as service_reports
from backoffice.service.events import ReceivedEvent
from backoffice.service.payload import Unreadable
from labs.reports.sync import create_missing_reports, schedule_job_lookups, store_jobs


def handle_report_jobs(events: Sequence[ReceivedEvent]) -> Mapping[str, str] | None:
    """Apply the events and schedule a lookup of each job.

    Events may come late, twice and out of order. The record with more progress is the newer one, so
    a completed or failed job never goes back. Raises ValueError for a job that cannot be read.
    """
    records = [_record(event) for event in events]
    outcome = store_jobs(
        [(record, event.user_id) for record, event in zip(records, events, strict=True)]
    )
    if outcome.unreadable:
        raise ValueError("a parsing job does not fit its columns")
    job_ids = {record.data.id for record in records}
    create_missing_reports(job_ids=sorted(job_ids))
    schedule_job_lookups(job_ids)
    touched = {record.key[0]: record.as_of for record in outcome.touched}
    return {
        event.message_id: "stale"
        for event, record in zip(events, records, strict=True)
        if touched.get(record.data.id) != event.received_at
    }


def _record(event: ReceivedEvent) -> Record[service_reports.ReportJobPayload]:
    read = service_reports.JOB.read(event.data, event.received_at)
    if isinstance(read, Unreadable):
        raise ValueError(f"{read.reason} at {read.path}")
    return read
