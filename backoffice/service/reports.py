"""Parsing of lab report files. Interface: errors and limits, chapter 7."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO
from uuid import UUID

from msgspec import field

from backoffice.service.call import BodyArguments
from backoffice.service.exchange import Calls
from backoffice.service.payload import Payload, Reader, Record, Word, as_text

UPLOAD_SECONDS = 120.0
_NAMES = {"application/pdf": "pdf", "image/jpeg": "jpg", "image/png": "png"}


class LoincMatchPayload(Payload):
    """A LOINC code that a parsed result may mean."""

    loinc_code: str = ""
    loinc_name: str = ""
    display_name: str | None = None
    aliases: list[str] = field(default_factory=list)
    confidence_score: float | None = None


class ParsedResult(Payload):
    """One line of a report.

    ``value`` is always text, as printed, in ``units``. ``type``: numeric, range, comment, boolean,
    duration, percentage, ratio. ``loinc_match_status`` (auto_match, needs_review, no_match) tells
    whether a person must review the match. There are at most five matches, best first.
    """

    test_name: str
    value_sent: str | int | float | bool | None = field(default=None, name="value")
    sample_type: str = "unknown"
    measurement_kind: str = "unknown"
    type: str | None = None
    units: str | None = None
    max_reference_range: float | None = None
    min_reference_range: float | None = None
    source_panel_name: str | None = None
    sensitivity: str = "unknown"
    loinc_matches: list[LoincMatchPayload] | None = None
    loinc_match_status: str | None = None
    interpretation: Word | None = None
    is_above_max_range: bool | None = None
    is_below_min_range: bool | None = None

    @property
    def value(self) -> str:
        sent = self.value_sent
        if isinstance(sent, bool):
            return "true" if sent else "false"
        return as_text(sent) or ""


class ReportMetadata(Payload):
    """The header of a report as printed.

    Dates are text in no fixed format, and ``gender`` may be a guess.
    """

    patient_first_name: str | None = None
    patient_last_name: str | None = None
    dob: str | None = None
    gender: str | None = None
    lab_name: str | None = None
    date_reported: str | None = None
    date_collected: str | None = None
    specimen_number: str | None = None


class ParsedReport(Payload):
    metadata: ReportMetadata = field(default_factory=ReportMetadata)
    results: list[ParsedResult] = field(default_factory=list)


class ReportJobPayload(Payload):
    """The parsing of one upload. The id is also sent as ``job_id``.

    ``status``: upload_pending, started, completed, failed. ``failure_reason`` may be None even for
    a failed job. ``data`` is None until the job is completed.
    """

    id_sent: UUID | None = field(default=None, name="id")
    job_id: UUID | None = None
    status: str = ""
    failure_reason: str | None = None
    data: ParsedReport | None = None
    needs_human_review: bool = False
    is_reviewed: bool = False

    def __post_init__(self) -> None:
        if self.id_sent is None and self.job_id is None:
            raise ValueError("Object missing required field `id`")

    @property
    def id(self) -> UUID:
        job_id = self.id_sent or self.job_id
        assert job_id is not None
        return job_id

    @property
    def in_review(self) -> bool:
        """Return whether staff of the service still review it (differences.md 45)."""
        waits = self.needs_human_review and not self.is_reviewed
        return self.status == "pending_review" or (
            waits and self.status in ("started", "completed")
        )


@dataclass(frozen=True, slots=True)
class Upload:
    """One file of a report.

    ``content_type`` is detected from the bytes, not from the file name. The file name is not sent.
    """

    content: BinaryIO
    content_type: str


JOB = Reader(ReportJobPayload)


class ReportCalls(Calls):
    """Calls of errors-and-limits.md 7."""

    def upload(
        self, user_id: UUID | str, files: Sequence[Upload], needs_human_review: bool = False
    ) -> Record[ReportJobPayload]:
        """Create a job for one PDF, or for the images of one report in their order.

        The request is sent once. The service has no idempotency key here, so a lost answer is
        Uncertain.
        """
        unknown = {file.content_type for file in files} - _NAMES.keys()
        if unknown or not files:
            raise ValueError("a report is a PDF, or JPEG or PNG images")
        body: BodyArguments = {
            "data": {
                "user_id": str(user_id),
                "needs_human_review": "true" if needs_human_review else "false",
            },
            "files": [
                ("file", (f"{number}.{_NAMES[file.content_type]}", file.content, file.content_type))
                for number, file in enumerate(files, 1)
            ],
        }
        return self._call.send(
            "POST", "/lab_report/v1/parser/job", JOB, body, seconds=UPLOAD_SECONDS
        )

    def job(self, job_id: UUID | str) -> Record[ReportJobPayload]:
        """Return a job and, when it is completed, its results.

        Raises Missing when the job is another team's.
        """
        return self._call.record("/lab_report/v1/parser/job/{job_id}", JOB, job_id=job_id)
