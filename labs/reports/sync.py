"""Store parsing jobs of the service, from answers, events and lookups."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import orjson
from django.db import connection
from django.utils import timezone
from msgspec import to_builtins

from backoffice.core import vocabulary
from backoffice.core.vocabulary.interpretations import read_line
from backoffice.mirror.applying import apply_batch, flag_missing
from backoffice.mirror.tables import ApplyOutcome, ChildTable, MirrorRecord, MirrorTable, RowValues
from backoffice.service import Record
from backoffice.service import reports as service_reports
from backoffice.sync.lookups import LookupType, schedule_lookups
from labs.reports.acceptance import update_changed_flags
from labs.reports.models import (
    COMPLETED,
    FAILED,
    PENDING_REVIEW,
    SENDING,
    UNCERTAIN,
    Report,
    ReportJob,
    ReportResult,
)

LOOKUP_KIND: Final = "report-jobs"
FINAL_STATES: Final = (COMPLETED, FAILED)
PROGRESS: Final = {"upload_pending": 0, "started": 1, PENDING_REVIEW: 2, COMPLETED: 3, FAILED: 3}
REVIEWED_PROGRESS: Final = 4


@dataclass(frozen=True, slots=True)
class _JobOfPatient:
    """A job and its patient, if known."""

    job: service_reports.ReportJobPayload
    user_id: UUID | None


def job_state(job: service_reports.ReportJobPayload) -> str:
    """Return the status, or `pending_review` if two flags say so (differences.md 45)."""
    return PENDING_REVIEW if job.in_review else job.status


def job_progress(job: service_reports.ReportJobPayload) -> int:
    """Return the progress of a job. Jobs only go forward: more progress means a newer record."""
    step = PROGRESS.get(job.status, PROGRESS["started"])
    return step + (REVIEWED_PROGRESS if job.is_reviewed else 0)


def _job(record: MirrorRecord) -> RowValues:
    job_of_patient: _JobOfPatient = record.data
    job = job_of_patient.job
    metadata = job.data.metadata if job.data else None
    return {
        "user_id": job_of_patient.user_id,
        "status": job.status,
        "state": job_state(job),
        "failure_reason": job.failure_reason,
        "needs_human_review": job.needs_human_review,
        "is_reviewed": job.is_reviewed,
        "progress": record.version[0],
        "patient_first_name": metadata.patient_first_name if metadata else None,
        "patient_last_name": metadata.patient_last_name if metadata else None,
        "dob": metadata.dob if metadata else None,
        "gender": metadata.gender if metadata else None,
        "lab_name": metadata.lab_name if metadata else None,
        "date_reported": metadata.date_reported if metadata else None,
        "date_collected": metadata.date_collected if metadata else None,
        "specimen_number": metadata.specimen_number if metadata else None,
    }


def _results(record: MirrorRecord) -> Iterator[RowValues]:
    job: service_reports.ReportJobPayload = record.data.job
    for position, line in enumerate(job.data.results if job.data else ()):
        matches = to_builtins(line.loinc_matches or [])
        row = {
            "test_name": line.test_name,
            "value": line.value,
            "type": line.type,
            "units": line.units,
            "min_reference_range": line.min_reference_range,
            "max_reference_range": line.max_reference_range,
            "interpretation": line.interpretation,
            "is_above_max_range": line.is_above_max_range,
            "is_below_min_range": line.is_below_min_range,
            "sample_type": line.sample_type,
            "measurement_kind": line.measurement_kind,
            "sensitivity": line.sensitivity,
            "source_panel_name": line.source_panel_name,
            "loinc_match_status": line.loinc_match_status,
            "loinc_matches": orjson.dumps(matches).decode(),
        }
        reading = read_line(
            line.interpretation,
            type=line.type,
            text=line.value,
            unit=line.units,
            low=line.min_reference_range,
            high=line.max_reference_range,
            above=line.is_above_max_range,
            below=line.is_below_min_range,
        ).interpretation
        digest = hashlib.sha256(orjson.dumps(row)).digest()[:16]
        row["interpretation"] = reading
        row["interpretation_received"] = line.interpretation
        yield {"job_id": record.key[0], "position": position, **row, "reading": digest}


JOBS = MirrorTable(
    model=ReportJob,
    key=("id",),
    promote=_job,
    version=("progress",),
    children=(
        ChildTable(
            model=ReportResult,
            parent="job_id",
            key=("job_id", "position"),
            rows=_results,
            vocabularies={
                "type": "report.type",
                "interpretation_received": "result.interpretation",
                "loinc_match_status": "report.loinc_match",
                "sample_type": "report.sample_type",
            },
        ),
    ),
    vocabularies={"status": "report.state", "failure_reason": "report.failure_reason"},
)


def store_jobs(
    jobs: Iterable[tuple[Record[service_reports.ReportJobPayload], UUID | None]],
) -> ApplyOutcome:
    """Store jobs with their patients (None: unknown), inside the caller's transaction.

    A known patient, from our upload or an earlier event, is never replaced.
    """
    vocabulary.decisions.refresh_if_stale()
    jobs = list(jobs)
    users: dict[UUID, UUID | None] = {}
    ids = [record.data.id for record, _ in jobs]
    for rows in (
        ReportJob.objects.filter(pk__in=ids).values_list("pk", "user_id"),
        Report.objects.filter(job__in=ids).values_list("job_id", "user_id"),
    ):
        users.update({key: user for key, user in rows if user is not None})
    records = [
        MirrorRecord(
            key=(record.data.id,),
            raw=record.raw,
            as_of=record.asked_at,
            data=_JobOfPatient(record.data, users.get(record.data.id, user)),
            version=(job_progress(record.data),),
        )
        for record, user in jobs
    ]
    outcome = apply_batch(JOBS, records)
    _update_report_states(ids)
    update_changed_flags(ids)
    return outcome


def _update_report_states(job_ids: Sequence[UUID]) -> None:
    """Copy the states of jobs to their reports."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE labs_report AS report SET state = job.state FROM labs_reportjob AS job"
            " WHERE report.job_id = job.id AND job.id = ANY(%s)"
            " AND report.state IS DISTINCT FROM job.state",
            [list(job_ids)],
        )


def create_missing_reports(
    *, job_ids: Sequence[UUID] | None = None, user_id: UUID | None = None
) -> int:
    """Create reports for jobs without one: for these jobs, this patient, or all. Returns how many.

    While an upload of the same patient is being sent or is uncertain, a job may be its answer. Such
    jobs wait until the upload is settled; then this is called again.
    """
    condition = ""
    values: list[Any] = []
    if job_ids is not None:
        condition, values = " AND job.id = ANY(%s)", [list(job_ids)]
    elif user_id is not None:
        condition, values = " AND job.user_id = %s", [user_id]
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO labs_report (id, user_id, form_id, uploaded_at, needs_human_review, state,"
            " due_at, attempts, refusal, job_id, earlier_job_ids, changed_since_accepted)"
            " SELECT gen_random_uuid(), job.user_id, gen_random_uuid(), job.as_of,"
            "  job.needs_human_review, job.state, now(), 0, '', job.id, '{}', false"
            " FROM labs_reportjob AS job"
            " WHERE NOT EXISTS (SELECT FROM labs_report AS linked WHERE linked.job_id = job.id)"
            " AND NOT EXISTS (SELECT FROM labs_report AS other WHERE other.user_id = job.user_id"
            "  AND (other.state IN (%s, %s) OR job.id = ANY(other.earlier_job_ids)))"
            f"{condition} ON CONFLICT DO NOTHING",
            [SENDING, UNCERTAIN, *values],
        )
        return int(cursor.rowcount)


def schedule_job_lookups(job_ids: Iterable[UUID]) -> None:
    """Look up these jobs now and until they are final."""
    schedule_lookups(LOOKUP_KIND, job_ids)


def _store(
    answers: Mapping[str, Record[service_reports.ReportJobPayload]],
) -> dict[str, timedelta | None]:
    store_jobs([(record, None) for record in answers.values()])
    reports = Report.objects.filter(job__in=[UUID(key) for key in answers])
    uploaded_at = dict(reports.values_list("job_id", "uploaded_at"))
    now = timezone.now()
    return {
        key: _next_lookup(job_state(record.data), now - uploaded_at.get(UUID(key), now))
        for key, record in answers.items()
    }


def _next_lookup(state: str, age: timedelta) -> timedelta | None:
    """Return when to look up a job again, or None.

    Soon while a staff member probably waits, rarely while people at the service review it.
    """
    if state in FINAL_STATES:
        return None
    if state == PENDING_REVIEW:
        return timedelta(minutes=15)
    if age < timedelta(minutes=5):
        return timedelta(seconds=5)
    return timedelta(minutes=1) if age < timedelta(hours=2) else timedelta(hours=1)


def _flag_missing(keys: Sequence[str], asked_at: datetime) -> None:
    flag_missing(JOBS, [(UUID(key),) for key in keys], asked_at)


JOB_LOOKUP: Final = LookupType(
    kind=LOOKUP_KIND,
    fetch=lambda service, key: service.reports.job(key),
    store=_store,
    on_missing=_flag_missing,
    retry_missing_after=lambda key: timedelta(hours=1),
)
