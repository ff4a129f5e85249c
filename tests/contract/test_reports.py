"""Report parsing against the sandbox: what is taken, what is refused, and how a job ends."""

from __future__ import annotations

import io
import time
from uuid import UUID

import pytest

from backoffice.service import Record, Service, errors
from backoffice.service.reports import ReportJobPayload, Upload
from tests.contract.test_orders import NOBODY, TEAM, one
from tests.labs.documents import jpeg, pdf, png
from tests.sandboxes import Sandbox, SandboxFactory

KNOWN: dict[str, set[str | None]] = {
    "type": {"numeric", "range", "comment", "boolean", "duration", "percentage", "ratio", None},
    "interpretation": {"normal", "abnormal", "critical", "unknown", None},
    "loinc_match_status": {"auto_match", "needs_review", "no_match", None},
    "sample_type": {
        "urine", "serum_plasma_blood", "capillary_blood", "stool", "saliva", "other", "unknown",
    },
    "measurement_kind": {"direct", "calculated", "ratio", "unknown"},
    "sensitivity": {"sensitive", "insensitive", "unknown"},
}  # fmt: skip
REASONS = {
    "invalid_input", "low_quality", "not_english", "too_many_pages", "processing_error", None,
}  # fmt: skip
PDF, JPEG, PNG = "application/pdf", "image/jpeg", "image/png"


@pytest.fixture(scope="module")
def parsing_sandbox(sandbox_factory: SandboxFactory, as_specified: bool) -> Sandbox:
    """One of its own: time passes in it."""
    return sandbox_factory(as_specified=as_specified, users=20, orders=20, seed=23, speed=1)


@pytest.fixture(scope="module")
def user_id(parsing_sandbox: Sandbox) -> UUID:
    key: UUID = one(
        parsing_sandbox,
        "SELECT id FROM sandbox_user WHERE team_id = %s AND deleted_at IS NULL ORDER BY seq",
        [TEAM],
    )
    return key


@pytest.fixture(scope="module")
def parsing(parsing_sandbox: Sandbox) -> Service:
    return parsing_sandbox.service()


def file(content: bytes, kind: str = PDF) -> Upload:
    return Upload(io.BytesIO(content), kind)


def ended(
    service: Service, sandbox: Sandbox, job_id: UUID
) -> tuple[Record[ReportJobPayload], list[str]]:
    """The job once it is over, and the statuses it was seen in."""
    statuses: list[str] = []
    give_up = time.monotonic() + 60
    while True:
        job = service.reports.job(job_id)
        if job.data.status not in statuses:
            statuses.append(job.data.status)
        if job.data.status in ("completed", "failed"):
            return job, statuses
        assert time.monotonic() < give_up, statuses
        sandbox.control("clock", {"advance_seconds": 10})
        time.sleep(0.1)


@pytest.mark.parametrize(
    "files",
    [
        [(pdf(), PDF)],
        [(png(), PNG)],
        [(jpeg(), JPEG)],
        [(png(), PNG), (jpeg(), JPEG), (png(50, 20), PNG)],
        [(jpeg(16 + n, 16), JPEG) for n in range(8)],
        [(pdf(30), PDF)],
    ],
    ids=["pdf", "png", "jpeg", "three images", "eight images", "thirty pages"],
)
def test_reports_upload(
    parsing: Service, parsing_sandbox: Sandbox, user_id: UUID, files: list[tuple[bytes, str]]
) -> None:
    made = parsing.reports.upload(user_id, [file(*one) for one in files]).data
    assert made.status in ("upload_pending", "started")
    assert (made.data, made.failure_reason, made.needs_human_review) == (None, None, False)
    job, statuses = ended(parsing, parsing_sandbox, made.id)
    order = ["upload_pending", "started", "completed", "failed"]
    assert statuses == sorted(statuses, key=order.index)
    assert job.data.id == made.id and not job.data.in_review
    assert job.data.failure_reason in REASONS
    assert (job.data.data is not None) == (job.data.status == "completed")


def test_reports_parsed_data(parsing: Service, parsing_sandbox: Sandbox, user_id: UUID) -> None:
    """A report that parses brings values as text, and at most five matches, best first."""
    for pages in range(1, 12):  # a report fails now and then, by its content
        made = parsing.reports.upload(user_id, [file(pdf(pages))]).data
        job, _ = ended(parsing, parsing_sandbox, made.id)
        if job.data.data is not None:
            break
    report = job.data.data
    assert report is not None and report.results
    assert report.metadata.gender in ("male", "female", "other", None)
    for result in report.results:
        assert result.test_name and isinstance(result.value_sent, str)
        for name, known in KNOWN.items():
            assert getattr(result, name) in known, name
        matches = result.loinc_matches or []
        scores = [match.confidence_score or 0 for match in matches]
        assert len(matches) <= 5 and scores == sorted(scores, reverse=True)
        assert all(match.loinc_code and match.loinc_name for match in matches)


def test_reports_human_review(parsing: Service, parsing_sandbox: Sandbox, user_id: UUID) -> None:
    made = parsing.reports.upload(user_id, [file(pdf())], needs_human_review=True).data
    assert made.needs_human_review and not made.is_reviewed
    job, _ = ended(parsing, parsing_sandbox, made.id)
    assert job.data.needs_human_review
    assert job.data.in_review == (job.data.status == "completed" and not job.data.is_reviewed)


@pytest.mark.parametrize(
    "files",
    [
        [(b"", PDF)],
        [(b"hello", PDF)],
        [(png(), PDF)],
        [(pdf(), PNG)],
        [(pdf()[:40], PDF)],
        [(png()[:40], PNG)],
        [(pdf(31), PDF)],
        [(pdf(), PDF), (png(), PNG)],
        [(png(16 + n, 16), PNG) for n in range(9)],
    ],
    ids=[
        "empty", "text", "png as pdf", "pdf as png", "broken pdf", "broken png", "31 pages",
        "pdf among several", "nine images",
    ],
)  # fmt: skip
def test_reports_upload_refused(
    parsing: Service, parsing_sandbox: Sandbox, user_id: UUID, files: list[tuple[bytes, str]]
) -> None:
    before = parsing_sandbox.query("SELECT count(*) FROM sandbox_reportjob")
    with pytest.raises(errors.Refused) as caught:
        parsing.reports.upload(user_id, [file(*one) for one in files])
    assert caught.value.status == 400 and caught.value.message
    assert parsing_sandbox.query("SELECT count(*) FROM sandbox_reportjob") == before


@pytest.mark.parametrize("count", [1, 2])
def test_reports_upload_too_large(parsing: Service, user_id: UUID, count: int) -> None:
    """Over 30 MiB, alone or together."""
    picture = png() + b"\0" * (31 * 1024 * 1024 // count)
    with pytest.raises((errors.Refused, errors.Uncertain)) as caught:
        parsing.reports.upload(user_id, [file(picture, PNG)] * count)
    assert caught.value.status in (413, None)


def test_reports_of_nobody_and_of_others(
    parsing: Service, parsing_sandbox: Sandbox, user_id: UUID
) -> None:
    with pytest.raises(errors.Missing):
        parsing.reports.job(NOBODY)
    other = one(
        parsing_sandbox, "SELECT id FROM sandbox_user WHERE team_id <> %s ORDER BY seq", [TEAM]
    )
    for key in (NOBODY, other):
        with pytest.raises(errors.ServiceError) as caught:
            parsing.reports.upload(key, [file(pdf())])
        assert caught.value.status in (400, 403, 404, 422)
