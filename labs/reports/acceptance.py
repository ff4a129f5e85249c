"""Acceptance of a report by a person. It covers the parsed rows and all corrections of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from uuid import UUID

from django.db import transaction
from django.db.models import Max
from django.db.models.functions import Now

from backoffice.accounts.models import User
from labs.reports.models import COMPLETED, Report, ReportJob, RowCheck


class ReportChanged(Exception):
    """A person or the service changed the report after the page was shown."""


def latest_checks(report: Report) -> dict[int, int]:
    """Return the id of the latest check of each row of the report's job, by position."""
    if report.job_id is None:
        return {}
    checks = RowCheck.objects.filter(report=report, job_id=report.job_id)
    latest = checks.order_by("position").values("position").annotate(latest=Max("id"))
    return dict(latest.values_list("position", "latest"))


def digest(job: ReportJob, checks: Mapping[int, int]) -> bytes:
    """Return a digest of what is accepted: the job and the latest check of each row."""
    ids = ",".join(f"{position}:{check}" for position, check in sorted(checks.items()))
    return hashlib.sha256(bytes(job.content_hash) + ids.encode()).digest()[:16]


def page_digest(report: Report) -> str:
    """Return the digest for a page.

    Call it before the rows are read, so that it never covers more than the page shows.
    """
    return digest(report.job, latest_checks(report)).hex() if report.job else ""


def update_changed_flags(job_ids: Sequence[UUID]) -> None:
    """Set `changed_since_accepted` of accepted reports after their jobs were stored again.

    Runs in the transaction of the caller, which has written the jobs.
    """
    accepted = Report.objects.select_for_update(of=("self",)).filter(
        job__in=job_ids, accepted_at__isnull=False
    )
    for report in accepted.with_job().order_by("pk"):
        assert report.job is not None
        is_changed = digest(report.job, latest_checks(report)) != bytes(report.accepted_hash or b"")
        if is_changed != report.changed_since_accepted:
            Report.objects.filter(pk=report.pk).update(changed_since_accepted=is_changed)


def accept(report_id: UUID, by: User, *, seen_hash: str) -> bool:
    """Accept the current rows with their corrections. Returns False if they are accepted already.

    Raises ReportChanged if the rows are not those that the person saw, or if the service has not
    finished its own review.
    """
    with transaction.atomic(durable=True):
        # Lock the job first, as the sync does, so that it cannot change during the acceptance.
        job = (
            ReportJob.objects.select_for_update(of=("self",))
            .filter(report=report_id)
            .defer("record")
            .first()
        )
        report = Report.objects.select_for_update().get(pk=report_id)
        if job is None or report.job_id != job.pk or job.state != COMPLETED:
            raise ReportChanged
        current = digest(job, latest_checks(report))
        if current.hex() != seen_hash:
            raise ReportChanged
        if report.accepted_at is not None and not report.changed_since_accepted:
            return False
        Report.objects.filter(pk=report_id).update(
            accepted_by=by, accepted_at=Now(), accepted_hash=current, changed_since_accepted=False
        )
    return True
