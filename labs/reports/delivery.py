"""The row goes to the service: claimed, sent with no transaction open, closed by who holds it.

No idempotency key exists for uploads. What certainly did not happen is tried again; a sending
whose outcome is unknown (a lost answer, a killed worker) becomes *uncertain* and is never sent
again by the machine: a person looks and decides.
"""

from __future__ import annotations

import hashlib
import logging
import time
import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError, connection, transaction
from django.db.models.functions import Now
from django.utils import timezone

from backoffice.core import heartbeats, request_ids, service_team, shutdown
from backoffice.core.encryption.cipher import DecryptionError
from backoffice.outbox.record_names import with_names
from backoffice.service import Record, errors
from backoffice.service.reports import ReportJob as ServiceJob
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
from labs.reports.sync import bring, file_strays, follow, state_of

logger = logging.getLogger(__name__)

LEASE: Final = timedelta(minutes=4)
"""Longer than any sending takes, its task limit included."""
LONGEST: Final = 200
"""Seconds a task may run: it starts no sending after its first 20, and one takes 120 at most."""
SLOWEST: Final = timedelta(minutes=10)
SEALED: Final = (
    "The file cannot be opened with the keys that are set (FIELD_KEYS). It is tried again until "
    "it can; nothing is lost."
)
KEY_WAIT: Final = timedelta(minutes=1)
LOST_FILE: Final = "The file is no longer on this server as it was uploaded. Upload it again."


@dataclass(frozen=True, slots=True)
class Claim:
    """A report to send, and the token that lets its holder close it."""

    report: Report
    token: UUID


def send_due(seconds: float = 20) -> int:
    """Send what is due, one after the other, for about so long; returns how many were tried."""
    lapse()
    ends = time.monotonic() + seconds
    done = 0
    while time.monotonic() < ends and not shutdown.is_requested():
        claim = claimed()
        if claim is None:
            break
        with request_ids.use_request_id(claim.report.request_id):
            send(claim)
        done += 1
    return done


def lapse() -> int:
    """Sendings whose worker is gone: whether the service has them, nobody here knows."""
    return Report.objects.filter(state=SENDING, lease_until__lt=Now()).update(
        state=UNCERTAIN, doubted=True
    )


def claimed() -> Claim | None:
    """Take the report that is longest due; None when there is none."""
    token = uuid.uuid4()
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE labs_report SET state = %s, lease_token = %s, refusal = '',"
            # What may be the answer of an unknown sending was made after the first of them.
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
    """Send one claimed report and close it with what came back."""
    report = claim.report
    with ExitStack() as stack:
        try:
            files = [_whole(file, stack) for file in report.files.order_by("position")]
        except DecryptionError as error:
            logger.error("a file of report %s cannot be opened: %s", report.pk, error)
            _put_back(claim, KEY_WAIT, SEALED)
            return
        except (OSError, ValueError):
            _close(claim, REFUSED, refusal=LOST_FILE)
            return
        if report.user_id is None or not files:
            _close(claim, REFUSED, refusal=LOST_FILE)
            return
        answer = _sent(claim, report.user_id, files)
    if answer is not None:
        _accept(claim, answer)


def _sent(claim: Claim, user_id: UUID, files: list[Upload]) -> Record[ServiceJob] | None:
    """The service's answer; None where the claim is closed without one."""
    report = claim.report
    try:
        service = service_team.verified_service()
    except service_team.AnotherTeam as error:
        logger.error("a report was not sent: %s", error)
        _put_back(claim, KEY_WAIT, service_team.ANOTHER_TEAM)
        return None
    except errors.ServiceError as error:
        _put_back(claim, _backoff(report, error))
        return None
    try:
        return service.reports.upload(user_id, files, report.needs_human_review)
    except errors.Uncertain:
        _close(claim, UNCERTAIN, doubted=True)
    except errors.Limited as error:
        _put_back(claim, timedelta(seconds=max(1.0, error.retry_after)))
    except errors.Unreachable as error:
        _put_back(claim, _backoff(report, error))
    except errors.ServiceError as error:
        # After a sending of unknown outcome a refusal proves nothing: a person decides.
        _close(claim, UNCERTAIN if report.doubted else REFUSED, refusal=_said(error))
    except BaseException as error:
        # A time limit or a fault of our own, at a moment when it may have been sent.
        logger.exception("a report was left uncertain", extra={"kind": type(error).__name__})
        _close(claim, UNCERTAIN, doubted=True)
        raise
    return None


def _backoff(report: Report, error: errors.ServiceError) -> timedelta:
    asked: float | None = getattr(error, "retry_after", None)
    if asked is not None:
        return timedelta(seconds=max(1.0, asked))
    return min(timedelta(seconds=5 * 2 ** min(report.attempts, 10)), SLOWEST)


def _whole(file: ReportFile, stack: ExitStack) -> Upload:
    """The file as it was uploaded; ValueError when it is another one."""
    content = stack.enter_context(storage.opened(file.stored_as))
    if hashlib.file_digest(content, "sha256").digest() != bytes(file.sha256):
        raise ValueError("changed on disk")
    content.seek(0)
    return Upload(content, file.kind)


def _accept(claim: Claim, job: Record[ServiceJob]) -> None:
    """The service has it: keep the job and tie it to the report."""
    for last in (False, False, True):
        try:
            return _tie(claim, job)
        except IntegrityError:
            # An event of this job made a report of it between our look and our word.
            if last:
                raise


def _tie(claim: Claim, job: Record[ServiceJob]) -> None:
    with transaction.atomic(durable=True):
        bring([(job, claim.report.user_id)])
        if _mine(claim).select_for_update().first() is None:
            logger.warning("an answer came after somebody had decided")
        else:
            _give_way(job.data.id, claim.report)
            # Where an event was faster than the answer, and did not say whose it is.
            ReportJob.objects.filter(pk=job.data.id, user=None).update(user=claim.report.user_id)
            _mine(claim).update(
                state=_state_now(job),
                job=job.data.id,
                lease_until=None,
                refusal="",
                doubted=False,
            )
        follow([job.data.id])
        file_strays(user_id=claim.report.user_id)


def _give_way(job_id: UUID, report: Report) -> None:
    """An event that did not say whose the job is made a report without files of it; what people
    said about its rows goes over to the true one."""
    stray = Report.objects.filter(job=job_id, files=None).exclude(pk=report.pk).first()
    if stray is not None:
        stray.checks.update(report=report)
        stray.delete()


def _state_now(job: Record[ServiceJob]) -> str:
    """What is known of the job by now: an event may have been faster than the answer."""
    known = ReportJob.objects.filter(pk=job.data.id).values_list("state", flat=True).first()
    return known or state_of(job.data)


def _close(claim: Claim, state: str, refusal: str = "", *, doubted: bool = False) -> None:
    doubt = {"doubted": True} if doubted else {}
    _mine(claim).update(state=state, lease_until=None, refusal=refusal, **doubt)


def _put_back(claim: Claim, wait: timedelta, words: str = "") -> None:
    """Certainly nothing happened: due again later."""
    due_at = timezone.now() + wait
    _mine(claim).update(state=STORED, lease_until=None, due_at=due_at, refusal=words)


def _mine(claim: Claim) -> Any:
    """The report while nobody else has taken or decided it. One found uncertain meanwhile is still
    ours to close: the answer is certain."""
    return Report.objects.filter(
        pk=claim.report.pk, lease_token=claim.token, state__in=[SENDING, UNCERTAIN], job=None
    )


def _said(error: errors.ServiceError) -> str:
    """The service's words for staff."""
    words = [error.message] if error.message else []
    words += [field.msg for field in getattr(error, "fields", ())]
    if words:
        return with_names([" ".join(words)])[0]
    if isinstance(error, errors.Denied):
        return "The service does not allow this team to upload reports."
    return f"The service refused it without a reason (answer {error.status})."


# What a person decides. Each names the attempt it was decided on: a second click, or a colleague
# who was faster, changes nothing. True when it was still open.


def send_again(report_id: UUID, attempt: int) -> bool:
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
        found = bool(cursor.rowcount)
        if found:
            _settled(report_id)
    return found


def arrived_as(report_id: UUID, attempt: int, job_id: UUID) -> bool:
    """The uncertain sending did arrive: as this job of the same patient, which nobody else has."""
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
        found = bool(cursor.rowcount)
        if found:
            follow([job_id])
            _settled(report_id)
    return found


def give_up(report_id: UUID, attempt: int) -> bool:
    """Do not send it any more."""
    with transaction.atomic(durable=True):
        closed = Report.objects.filter(
            pk=report_id, attempts=attempt, state__in=[UNCERTAIN, REFUSED]
        ).update(state=GIVEN_UP, lease_token=None, lease_until=None)
        if closed:
            _settled(report_id)
    return bool(closed)


def _settled(report_id: UUID) -> None:
    """Jobs that waited because they might have been this report's answer are on their own now."""
    file_strays(user_id=Report.objects.values_list("user_id", flat=True).get(pk=report_id))


def candidates(report: Report) -> list[ReportJob]:
    """Jobs of this patient heard of since it was sent, that belong to no other report."""
    if report.state != UNCERTAIN or report.sent_at is None:
        return []
    taken = Report.objects.filter(job__isnull=False).values("job")
    return list(
        ReportJob.objects.filter(user=report.user_id, as_of__gte=report.sent_at)
        .exclude(pk__in=taken)
        .exclude(pk__in=report.earlier_job_ids)
        .defer("record")
        .order_by("as_of")[:10]
    )
