"""Delivery of reports to the service: claim a row, send it outside a transaction, close it.

The service has no idempotency key for uploads. An attempt that certainly failed is repeated. An
attempt with an unknown outcome (a lost answer, a killed worker) becomes *uncertain* and is never
repeated automatically: a person decides.
"""

from __future__ import annotations

import hashlib
import logging
import time
import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from django.db import IntegrityError, connection, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext_noop

from backoffice.core import heartbeats, request_ids, service_team, shutdown
from backoffice.core.encryption.cipher import DecryptionError
from backoffice.outbox.record_names import with_names
from backoffice.service import Record, errors
from backoffice.service.reports import ReportJobPayload as ServiceJob
from backoffice.service.reports import Upload
from labs.reports import storage
from labs.reports.models import (
    FAILED,
    GIVEN_UP,
    REFUSED,
    SENDING,
    STORED,
    UNCERTAIN,
    Report,
    ReportFile,
    ReportJob,
)
from labs.reports.sync import create_missing_reports, job_state, schedule_job_lookups, store_jobs

logger = logging.getLogger(__name__)

LEASE: Final = timedelta(minutes=4)
"""Duration of a lease: longer than any attempt takes, including the time limit of the task."""
MAX_TASK_SECONDS: Final = 200
"""Seconds a task may run. It starts no attempt after the first 20, and one takes at most 120."""
MAX_BACKOFF: Final = timedelta(minutes=10)
CANNOT_DECRYPT: Final = gettext_noop(
    "The file cannot be opened with the current encryption keys (setting FIELD_KEYS). Nothing is "
    "lost, and sending is retried automatically."
)
KEY_WAIT: Final = timedelta(minutes=1)
LOST_FILE: Final = gettext_noop(
    "The file on this server is missing or damaged. Upload the report again."
)
NOT_ALLOWED: Final = gettext_noop("The lab service does not allow our team to upload reports.")


@dataclass(frozen=True, slots=True)
class Claim:
    """A report to send, and the token with which the worker can close it."""

    report: Report
    token: UUID


def send_due(seconds: float = 20) -> int:
    """Send due reports one after another for about this long. Returns the number of attempts."""
    expire_leases()
    ends_at = time.monotonic() + seconds
    count = 0
    while time.monotonic() < ends_at and not shutdown.is_requested():
        claim = claim_next()
        if claim is None:
            break
        with request_ids.use_request_id(claim.report.request_id):
            send(claim)
        count += 1
    return count


def expire_leases() -> int:
    """Mark reports of lost workers as uncertain and return their number.

    Nobody knows whether the service has received them.
    """
    return Report.objects.filter(state=SENDING, lease_until__lt=Now()).update(
        state=UNCERTAIN, doubted=True
    )


def claim_next() -> Claim | None:
    """Claim the report that has been due the longest, or return None."""
    token = uuid.uuid4()
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE labs_report SET state = %s, lease_token = %s, refusal = '',"
            # A job can answer an uncertain attempt only if it was made after the first such
            # attempt.
            " sent_at = CASE WHEN doubted THEN sent_at ELSE now() END,"
            " lease_until = now() + make_interval(secs => %s), attempts = attempts + 1"
            " WHERE id = (SELECT id FROM labs_report WHERE state = %s AND due_at <= now()"
            f"  AND {heartbeats.NOT_ON_HOLD}"
            "  ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id",
            [SENDING, token, LEASE.total_seconds(), STORED],
        )
        row = cursor.fetchone()
    return Claim(Report.objects.get(pk=row[0]), token) if row else None


def send(claim: Claim) -> None:
    """Send one claimed report and close it with the answer."""
    report = claim.report
    with ExitStack() as stack:
        try:
            files = [_open_unchanged(file, stack) for file in report.files.order_by("position")]
        except DecryptionError as error:
            logger.error("a file of report %s cannot be opened: %s", report.pk, error)
            _postpone(claim, KEY_WAIT, CANNOT_DECRYPT)
            return
        except (OSError, ValueError):
            _close(claim, REFUSED, refusal=LOST_FILE)
            return
        if report.user_id is None or not files:
            _close(claim, REFUSED, refusal=LOST_FILE)
            return
        answer = _upload(claim, report.user_id, files)
    if answer is not None:
        _store_answer(claim, answer)


def _upload(claim: Claim, user_id: UUID, files: list[Upload]) -> Record[ServiceJob] | None:
    """Return the answer of the service, or close the claim and return None."""
    report = claim.report
    try:
        service = service_team.verified_service()
    except service_team.AnotherTeam as error:
        logger.error("a report was not sent: %s", error)
        _postpone(claim, KEY_WAIT, service_team.ANOTHER_TEAM)
        return None
    except errors.ServiceError as error:
        _postpone(claim, _backoff(report, error))
        return None
    try:
        return service.reports.upload(user_id, files, report.needs_human_review)
    except errors.Uncertain:
        _close(claim, UNCERTAIN, doubted=True)
    except errors.Limited as error:
        _postpone(claim, timedelta(seconds=max(1.0, error.retry_after)))
    except errors.Unreachable as error:
        _postpone(claim, _backoff(report, error))
    except errors.ServiceError as error:
        # After an uncertain attempt a refusal proves nothing: a person decides.
        _close(claim, UNCERTAIN if report.doubted else REFUSED, refusal=_refusal_text(error))
    except BaseException as error:
        # This is a time limit or a bug. The request may have been sent already.
        logger.exception("a report was left uncertain", extra={"kind": type(error).__name__})
        _close(claim, UNCERTAIN, doubted=True)
        raise
    return None


def _backoff(report: Report, error: errors.ServiceError) -> timedelta:
    retry_after: float | None = getattr(error, "retry_after", None)
    if retry_after is not None:
        return timedelta(seconds=max(1.0, retry_after))
    return min(timedelta(seconds=5 * 2 ** min(report.attempts, 10)), MAX_BACKOFF)


def _open_unchanged(file: ReportFile, stack: ExitStack) -> Upload:
    """Open a file as it was uploaded. Raises ValueError if its content changed."""
    content = stack.enter_context(storage.open_file(file.stored_as))
    if hashlib.file_digest(content, "sha256").digest() != bytes(file.sha256):
        raise ValueError("changed on disk")
    content.seek(0)
    return Upload(content, file.kind)


def _store_answer(claim: Claim, job: Record[ServiceJob]) -> None:
    """Store the job and link it to the report."""
    for is_last in (False, False, True):
        try:
            return _link_job(claim, job)
        except IntegrityError:
            # Between our read and our write, an event of this job has created a report.
            if is_last:
                raise


def _link_job(claim: Claim, job: Record[ServiceJob]) -> None:
    with transaction.atomic(durable=True):
        store_jobs([(job, claim.report.user_id)])
        if _claimed_rows(claim).select_for_update().first() is None:
            logger.warning("the answer came after a person had decided about the report")
        else:
            _merge_report_of_event(job.data.id, claim.report)
            # An event that came before the answer may not have named the patient.
            ReportJob.objects.filter(pk=job.data.id, user=None).update(user=claim.report.user_id)
            _claimed_rows(claim).update(
                state=_current_state(job),
                job=job.data.id,
                lease_until=None,
                refusal="",
                doubted=False,
            )
        schedule_job_lookups([job.data.id])
        create_missing_reports(user_id=claim.report.user_id)


def _merge_report_of_event(job_id: UUID, report: Report) -> None:
    """Move the checks of a report that an event created to the uploaded one, and delete it.

    An event that does not name the patient creates a report without files.
    """
    other = Report.objects.filter(job=job_id, files=None).exclude(pk=report.pk).first()
    if other is not None:
        other.checks.update(report=report)
        other.delete()


def _current_state(job: Record[ServiceJob]) -> str:
    """Return the stored state of the job. An event may have come before the answer."""
    stored = ReportJob.objects.filter(pk=job.data.id).values_list("state", flat=True).first()
    return stored or job_state(job.data)


def _close(claim: Claim, state: str, refusal: str = "", *, doubted: bool = False) -> None:
    doubt = {"doubted": True} if doubted else {}
    _claimed_rows(claim).update(state=state, lease_until=None, refusal=refusal, **doubt)


def _postpone(claim: Claim, wait: timedelta, words: str = "") -> None:
    """Make the report due again later, after an attempt that certainly failed."""
    due_at = timezone.now() + wait
    _claimed_rows(claim).update(state=STORED, lease_until=None, due_at=due_at, refusal=words)


def _claimed_rows(claim: Claim) -> QuerySet[Report]:
    """Return the report if nobody else has claimed or decided it since.

    A report that became uncertain meanwhile is included, because the answer is certain.
    """
    return Report.objects.filter(
        pk=claim.report.pk, lease_token=claim.token, state__in=[SENDING, UNCERTAIN], job=None
    )


def _refusal_text(error: errors.ServiceError) -> str:
    """Return the error message of the service for staff."""
    words = [error.message] if error.message else []
    words += [field.msg for field in getattr(error, "fields", ())]
    if words:
        return with_names([" ".join(words)])[0]
    if isinstance(error, errors.Denied):
        return NOT_ALLOWED
    return f"The lab service rejected the report without a reason (status {error.status})."


# Decisions of a person. Each names the attempt that the person saw. So a second click, or a
# decision after a colleague's, changes nothing. They return whether the report was still open.


def resend(report_id: UUID, attempt: int) -> bool:
    """Send the same files once more: a new job at the service."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE labs_report SET state = %s, due_at = now(), refusal = '', lease_token = NULL,"
            " lease_until = NULL, job_id = NULL, accepted_by_id = NULL, accepted_at = NULL,"
            " accepted_hash = NULL, changed_since_accepted = false, request_id = %s,"
            " earlier_job_ids = CASE WHEN job_id IS NULL"
            "  THEN earlier_job_ids ELSE earlier_job_ids || job_id END"
            " WHERE id = %s AND attempts = %s AND state = ANY(%s)"
            " AND EXISTS (SELECT FROM labs_reportfile WHERE report_id = labs_report.id)",
            [
                STORED,
                request_ids.current.get(),
                report_id,
                attempt,
                [UNCERTAIN, REFUSED, FAILED, GIVEN_UP],
            ],
        )
        was_open = bool(cursor.rowcount)
        if was_open:
            _create_waiting_reports(report_id)
    return was_open


def link_to_job(report_id: UUID, attempt: int, job_id: UUID) -> bool:
    """Link an uncertain report to a job of the same patient that no other report has."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE labs_report AS report SET job_id = job.id, state = job.state,"
            " doubted = false, refusal = '',"
            " lease_token = NULL, lease_until = NULL FROM labs_reportjob AS job"
            " WHERE report.id = %s AND report.attempts = %s AND report.state = %s"
            " AND job.id = %s AND job.user_id = report.user_id"
            " AND NOT EXISTS (SELECT FROM labs_report AS other WHERE other.job_id = job.id"
            "  OR job.id = ANY(other.earlier_job_ids))",
            [report_id, attempt, UNCERTAIN, job_id],
        )
        was_open = bool(cursor.rowcount)
        if was_open:
            schedule_job_lookups([job_id])
            _create_waiting_reports(report_id)
    return was_open


def give_up(report_id: UUID, attempt: int) -> bool:
    """Stop sending the report."""
    with transaction.atomic(durable=True):
        closed = Report.objects.filter(
            pk=report_id, attempts=attempt, state__in=[UNCERTAIN, REFUSED]
        ).update(state=GIVEN_UP, lease_token=None, lease_until=None)
        if closed:
            _create_waiting_reports(report_id)
    return bool(closed)


def _create_waiting_reports(report_id: UUID) -> None:
    """Create the reports of jobs that could have been the answer to this report."""
    create_missing_reports(
        user_id=Report.objects.values_list("user_id", flat=True).get(pk=report_id)
    )


def candidate_jobs(report: Report) -> list[ReportJob]:
    """Return jobs of this patient that were received since the report was sent and are unlinked."""
    if report.state != UNCERTAIN or report.sent_at is None:
        return []
    linked_jobs = Report.objects.filter(job__isnull=False).values("job")
    return list(
        ReportJob.objects.filter(user=report.user_id, as_of__gte=report.sent_at)
        .exclude(pk__in=linked_jobs)
        .exclude(pk__in=report.earlier_job_ids)
        .defer("record")
        .order_by("as_of")[:10]
    )
