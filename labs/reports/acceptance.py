"""Acceptance by a person: of what was read together with every correction, and of nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from uuid import UUID

from django.db import transaction
from django.db.models import Max
from django.db.models.functions import Now

from backoffice.models import User
from labs.reports.models import COMPLETED, Report, ReportJob, RowCheck


class Overtaken(Exception):
    """Somebody, or the service, changed it since the page was shown."""


def last_words(report: Report) -> dict[int, int]:
    """The latest word of a person about each row of the report's job, by position."""
    if report.job_id is None:
        return {}
    checks = RowCheck.objects.filter(report=report, job_id=report.job_id)
    latest = checks.order_by("position").values("position").annotate(latest=Max("id"))
    return {one["position"]: one["latest"] for one in latest}


def digest(job: ReportJob, words: Mapping[int, int]) -> bytes:
    """What a person who accepts has before them: the reading, and the last word about each row."""
    said = ",".join(f"{position}:{check}" for position, check in sorted(words.items()))
    return hashlib.sha256(bytes(job.content_hash) + said.encode()).digest()[:16]


def seen(report: Report) -> str:
    """The digest for a page. Asked for before the rows are, so that it never covers more than the
    page shows."""
    return digest(report.job, last_words(report)).hex() if report.job else ""


def note_changes(job_ids: Sequence[UUID]) -> None:
    """After jobs were read anew: do their acceptances still hold? In the caller's transaction,
    which has written the jobs."""
    accepted = Report.objects.select_for_update(of=("self",)).filter(
        job__in=job_ids, accepted_at__isnull=False
    )
    for report in accepted.select_related("job").defer("job__record").order_by("pk"):
        assert report.job is not None
        changed = digest(report.job, last_words(report)) != bytes(report.accepted_hash or b"")
        if changed != report.changed_since_accepted:
            Report.objects.filter(pk=report.pk).update(changed_since_accepted=changed)


def accept(report_id: UUID, by: User, *, seen_hash: str) -> bool:
    """Accept what was read and corrected as it now stands; False when it is already, Overtaken
    when it is not what the person saw, or the service's own review is still out."""
    with transaction.atomic(durable=True):
        # The job first, as whoever reads it anew does: it cannot change under the acceptance.
        job = (
            ReportJob.objects.select_for_update(of=("self",))
            .filter(report=report_id)
            .defer("record")
            .first()
        )
        report = Report.objects.select_for_update().get(pk=report_id)
        if job is None or report.job_id != job.pk or job.state != COMPLETED:
            raise Overtaken
        standing = digest(job, last_words(report))
        if standing.hex() != seen_hash:
            raise Overtaken
        if report.accepted_at is not None and not report.changed_since_accepted:
            return False
        Report.objects.filter(pk=report_id).update(
            accepted_by=by, accepted_at=Now(), accepted_hash=standing, changed_since_accepted=False
        )
    return True
