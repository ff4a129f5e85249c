"""Parsing jobs: submitted, started, completed or failed, and reviewed by people if requested."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from sandbox import event_queue
from sandbox.event_queue import Event
from sandbox.keyed_random import KeyedRandom
from sandbox.models import ReportJob, ReportSettings, User, World
from sandbox.reports import parsed_data
from sandbox.reports.files import Report, Upload

MOST_JOBS = 300  # not failed, per team
REASONS = ("invalid_input", "low_quality", "not_english", "too_many_pages", "processing_error")
OUTCOMES = ("completed", "failed", *REASONS)  # failed: without a reason
STEPS_PER_TICK = 20
WAITS = {"upload_pending": (4, 15), "started": (25, 150), "completed": (3600, 14_400)}  # seconds
_MARK = re.compile(rb"sandbox[:-](" + "|".join(OUTCOMES).encode() + rb")")

Record = dict[str, Any]


def settings() -> ReportSettings:
    return ReportSettings.objects.get_or_create(id=1)[0]


def record(job: ReportJob) -> Record:
    """Job record (errors-and-limits.md 7.2)."""
    return {
        "id": job.id,
        "status": job.status,
        "failure_reason": job.failure_reason,
        "data": job.data,
        "needs_human_review": job.needs_human_review,
        "is_reviewed": job.is_reviewed,
    }


def submit(
    user: User,
    uploads: Sequence[Upload],
    names: Sequence[str],
    report: Report,
    needs_human_review: bool,
    at: datetime,
) -> ReportJob:
    """Create a job. Its outcome is set by the control path, or by a mark in a file or its name."""
    digest = hashlib.blake2b(digest_size=32)
    for upload in uploads:
        digest.update(upload.content)
    with transaction.atomic():
        job = ReportJob(
            id=uuid.uuid4(),
            team_id=user.team_id,
            user=user,
            needs_human_review=needs_human_review,
            kind=report.kind,
            pages=report.pages,
            digest=digest.hexdigest(),
            outcome=_outcome(uploads, names),
            created_at=at,
            updated_at=at,
        )
        _wait(job, at)
        job.save(force_insert=True)
    return job


def _outcome(uploads: Sequence[Upload], names: Sequence[str]) -> str:
    chosen = ReportSettings.objects.select_for_update().filter(id=1).first()
    if chosen is not None and chosen.next_outcomes:
        outcome, *rest = chosen.next_outcomes
        chosen.next_outcomes = rest
        chosen.save(update_fields=["next_outcomes"])
        return str(outcome)
    for text in (*(name.encode() for name in names), *(upload.content for upload in uploads)):
        if mark := _MARK.search(text):
            return mark[1].decode()
    return "completed"


def tick(at: datetime, speed: float) -> None:
    """Move a few jobs that are due."""
    if speed:
        with transaction.atomic():
            ready = [job for job in _open() if job.since + (job.dwell or timedelta()) / speed <= at]
            for job in ready[:STEPS_PER_TICK]:
                advance_job(job, at)


def advance(keys: Sequence[str] | None, steps: int, at: datetime) -> list[ReportJob]:
    """Move open jobs, whether due or not; return them."""
    with transaction.atomic():
        jobs = list(_open() if keys is None else _open().filter(id__in=keys))
        for job in jobs:
            for _ in range(steps):
                if job.dwell is not None:
                    advance_job(job, at)
    return jobs


def _open() -> QuerySet[ReportJob]:
    """Jobs that will still change, oldest step first; locked."""
    found = ReportJob.objects.select_for_update(skip_locked=True, of=("self",))
    return found.filter(dwell__isnull=False).select_related("user").order_by("since")


def advance_job(job: ReportJob, at: datetime) -> None:
    """Move a job to its next step and announce it; needs a transaction."""
    verb = "updated"
    if job.status == "upload_pending":
        job.status, verb = "started", "created"
    elif job.status == "started" and job.outcome == "completed":
        seed = World.objects.values_list("seed", flat=True).get(id=1)
        job.status = "completed"
        job.data = parsed_data.parse_report(seed, job.digest, job.user, job.created_at)
    elif job.status == "started":
        job.status = "failed"
        job.failure_reason = None if job.outcome == "failed" else job.outcome
    else:
        job.is_reviewed, job.data = True, parsed_data.review(job.data or {})
    job.updated_at = at
    _wait(job, at)
    job.save()
    kind = f"lab_report.parsing_job.{verb}"
    event_queue.announce_all([Event(kind, job.user_id, record(job), at, str(job.team_id))])


def _wait(job: ReportJob, at: datetime) -> None:
    """Set the time until the next step. There is none after the end, except a requested review."""
    job.since, job.dwell = at, None
    ended = job.status == "failed" or (
        job.status == "completed" and (job.is_reviewed or not job.needs_human_review)
    )
    if not ended:
        seconds = KeyedRandom("report wait", job.id, job.status).uniform(*WAITS[job.status])
        job.dwell = timedelta(seconds=seconds)
