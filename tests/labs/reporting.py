"""Reports and parsing jobs for tests."""

from __future__ import annotations

import json
import uuid
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import transaction
from django.utils import timezone

from backoffice.accounts.models import User
from backoffice.service import Record
from backoffice.service.events import ReceivedEvent
from backoffice.service.reports import JOB, ReportJobPayload
from labs.models import Report
from labs.reports import intake, sync
from patients.models import Patient
from tests.api.rows import demographics, patient, uid
from tests.labs.documents import pdf

TYPES = {"pdf": "application/pdf", "jpg": "image/jpeg", "png": "image/png"}


def person(n: int = 1, **values: Any) -> Patient:
    created = patient(n, **values)
    created.save()
    demographics(n, dob=date(1980, 3, 12)).save()
    return created


def file(content: bytes | None = None, name: str = "scan.pdf") -> SimpleUploadedFile:
    kind = TYPES.get(name.rpartition(".")[2], "")
    return SimpleUploadedFile(name, pdf() if content is None else content, kind)


def stored_report(by: User, n: int = 1, *files: SimpleUploadedFile, review: bool = False) -> Report:
    """Return an uploaded report that waits to be sent."""
    upload = intake.UploadRequest(
        patient=Patient.objects.get(pk=uid("patient", n)),
        by=by,
        form_id=uuid.uuid4(),
        files=files or (file(),),
        needs_human_review=review,
    )
    return intake.create_report(upload, uuid.uuid4())


GLUCOSE = {
    "test_name": "Glucose",
    "value": "5.40",
    "type": "numeric",
    "units": "mmol/L",
    "min_reference_range": 3.9,
    "max_reference_range": 5.6,
    "interpretation": "normal",
    "is_above_max_range": False,
    "is_below_min_range": False,
    "loinc_match_status": "auto_match",
    "loinc_matches": [
        {"loinc_code": "2345-7", "loinc_name": "Glucose in serum", "confidence_score": 0.97}
    ],
}
FRAGILITY = {
    "test_name": "Fragility",
    "value": "12",
    "type": "numeric",
    "units": "furlongs",
    "interpretation": "critical",
    "loinc_match_status": "no_match",
    "loinc_matches": None,
}
ADA = {"patient_first_name": "ADA1", "patient_last_name": "Testperson", "dob": "03/12/1980"}


def job_json(
    job_id: UUID,
    status: str = "completed",
    *,
    results: list[dict[str, Any]] | None = None,
    metadata: dict[str, Any] | None = None,
    **values: Any,
) -> bytes:
    """Return the JSON of a job as the service sends it."""
    data = None
    if status == "completed":
        data = {
            "metadata": ADA if metadata is None else metadata,
            "results": [GLUCOSE, FRAGILITY] if results is None else results,
        }
    fields: dict[str, Any] = {
        "id": str(job_id),
        "status": status,
        "failure_reason": None,
        "data": data,
    }
    fields |= {"needs_human_review": False, "is_reviewed": False, **values}
    return json.dumps(fields).encode()


def job_record(raw: bytes, at: datetime | None = None) -> Record[ReportJobPayload]:
    record = JOB.read(raw, at or timezone.now())
    assert isinstance(record, Record)
    return record


def attach_job(report: Report, *args: Any, **values: Any) -> UUID:
    """Attach a new job to a report, as sending it does."""
    job_id = uuid.uuid4()
    Report.objects.filter(pk=report.pk).update(
        job=job_id, attempts=1, sent_at=timezone.now() - timedelta(minutes=1)
    )
    with transaction.atomic():
        sync.store_jobs([(job_record(job_json(job_id, *args, **values)), report.user_id)])
    report.refresh_from_db()
    return job_id


def job_event(
    number: int, raw: bytes, user_id: UUID | None, kind: str = "updated"
) -> ReceivedEvent:
    return ReceivedEvent(
        number=number,
        message_id=f"msg_{number}",
        event_type=f"lab_report.parsing_job.{kind}",
        received_at=timezone.now() + timedelta(milliseconds=number),
        team_id=None,
        user_id=user_id,
        client_user_id=None,
        data=raw,
    )
