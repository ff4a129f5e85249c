"""An upload becomes a report: files checked and kept, then one row that is the work."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import unicodedata
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import (
    FileUploadHandler,
    MemoryFileUploadHandler,
    StopUpload,
)
from django.db import IntegrityError, transaction
from django.db.models import Sum
from django.utils import timezone

from backoffice.core import request_ids
from backoffice.models import User
from labs.reports import storage
from labs.reports.models import Report, ReportFile
from patients.models import Patient

logger = logging.getLogger(__name__)

FILES: Final = 8
NAME_SHOWN: Final = 200
DAY: Final = timedelta(days=1)
DAY_UPLOADS: Final = 50
"""How many times the size limit one person may upload in a day."""


class NotTaken(Exception):
    """An upload that was refused; `problems` are sentences for staff, `status` for HTTP.

    `before` is when this patient got the same file, which staff may override; `form_id` the new id
    of a form that was used for another upload.
    """

    def __init__(
        self,
        *problems: str,
        status: int = 400,
        before: datetime | None = None,
        form_id: UUID | None = None,
    ) -> None:
        super().__init__()
        self.problems = problems
        self.status = status
        self.before = before
        self.form_id = form_id


class Ceiling(FileUploadHandler):
    """Stops taking file data once all files together pass the limit; the rest is thrown away.

    Stands before the handlers that keep data, and counts what passes by.
    """

    def __init__(self, request: Any = None) -> None:
        super().__init__(request)
        self.seen = 0
        self.passed = False

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes:
        self.seen += len(raw_data)
        if self.seen > settings.REPORT_MAX_BYTES:
            self.passed = True
            raise StopUpload(connection_reset=False)
        return raw_data

    def file_complete(self, file_size: int) -> None:
        return None


class InMemory(MemoryFileUploadHandler):
    """Keeps all that `Ceiling` lets pass: a temporary file would lie there unsealed."""

    def handle_raw_input(self, *args: Any, **options: Any) -> None:
        self.activated = True


@dataclass(frozen=True, slots=True)
class Upload:
    """What a person chose in the form."""

    patient: Patient
    by: User
    form_id: UUID
    files: Sequence[UploadedFile[Any]]
    needs_human_review: bool
    again: bool = False


def too_large() -> NotTaken:
    return NotTaken(
        f"This is more than {limit_words()}, the most that may be sent at once. Scan at a lower "
        "resolution, or send fewer pages.",
        status=413,
    )


def limit_words() -> str:
    """`10 MB`: the limit as people know it, counted in units of 1,048,576 bytes."""
    size = settings.REPORT_MAX_BYTES
    if size >= 1024 * 1024:
        return f"{size / 1024 / 1024:.4g} MB"
    return f"{size:,} bytes"


def new_report_id() -> UUID:
    return uuid.uuid4()


def already_taken(upload: Upload) -> Report | None:
    """The report that this very form has made before of the same files.

    Raises NotTaken when it has made another one, as after the browser's Back: what is sent now is
    no second send, and would be lost.
    """
    report = Report.objects.filter(form_id=upload.form_id).first()
    if report is None:
        return None
    if (report.user_id, report.uploaded_by_id) == (upload.patient.pk, upload.by.pk):
        kept = report.files.order_by("position").values_list("sha256", flat=True)
        if [bytes(one) for one in kept] == [_digest(file) for file in upload.files]:
            return report
    raise NotTaken(
        "This form was already used for another upload, so nothing was taken now. It has been "
        "made new: look at what is chosen, and send it again.",
        status=409,
        form_id=uuid.uuid4(),
    )


def _digest(file: UploadedFile[Any]) -> bytes:
    """Of the file as it would be kept."""
    content = b"".join(file.chunks())
    with contextlib.suppress(storage.Unsound):
        content = storage.examined(content).content
    return hashlib.sha256(content).digest()


def take(upload: Upload, report_id: UUID) -> Report:
    """Keep the files and make the report; raises NotTaken, and then nothing is kept.

    The same form sent twice, also at the same time, makes one report.
    """
    _check_before_reading(upload)
    kept: list[storage.Kept] = []
    try:
        kept = _kept(upload.files)
        _check_together(kept, upload)
        with transaction.atomic(durable=True):
            report = _recorded(upload, kept, report_id)
    except BaseException as error:
        storage.forget(one.stored_as for one in kept)
        if isinstance(error, IntegrityError | NotTaken):
            # The other of two sends may have been recorded while this one was checked.
            other = already_taken(upload)
            if other is not None:
                return other
        raise
    return report


def _check_before_reading(upload: Upload) -> None:
    files = upload.files
    if not files:
        raise NotTaken("Choose the report: a PDF, or pictures of its pages.")
    if len(files) > FILES:
        raise NotTaken(f"At most {FILES} pictures make one report; these are {len(files)}.")
    if sum(file.size or 0 for file in files) > settings.REPORT_MAX_BYTES:
        raise too_large()
    recent = Report.objects.filter(uploaded_by=upload.by, uploaded_at__gt=timezone.now() - DAY)
    used = recent.aggregate(total=Sum("files__size"))["total"] or 0
    if used > DAY_UPLOADS * settings.REPORT_MAX_BYTES:
        raise NotTaken("You have uploaded very much today. Go on tomorrow, or ask a colleague.")


def _kept(files: Sequence[UploadedFile[Any]]) -> list[storage.Kept]:
    """Every file examined and written; on any problem none, and all problems told."""
    kept: list[storage.Kept] = []
    problems: list[str] = []
    try:
        for file in files:
            content = b"".join(file.chunks())
            try:
                found = storage.examined(content)
                _check_name(file, found.kind)
            except storage.Unsound as unsound:
                problems.append(f"“{shown_name(file.name)}” {unsound}")
            else:
                kept.append(storage.keep(found.content, found.kind, found.pages))
        if problems:
            raise NotTaken(*problems)
    except OSError as error:
        storage.forget(one.stored_as for one in kept)
        logger.exception("a report could not be kept")
        raise NotTaken(
            "The report could not be kept: this server’s disk refused it. Nothing was sent. Tell "
            "whoever runs this back office, and try again later.",
            status=507,
        ) from error
    except BaseException:
        storage.forget(one.stored_as for one in kept)
        raise
    return kept


def _check_name(file: UploadedFile[Any], kind: str) -> None:
    """The name's ending and the declared type must say what the content is."""
    ending = PurePosixPath((file.name or "").lower()).suffix
    meant = storage.EXTENSIONS.get(ending)
    true_ending = storage.ENDINGS[kind]
    if meant is None:
        raise storage.Unsound(f"must end in {true_ending}: that is what it holds. Rename it.")
    if meant != kind:
        raise storage.Unsound(
            f"holds another kind of file than its name says. Name it {true_ending}."
        )
    declared = (file.content_type or "").lower()
    if declared not in ("", "application/octet-stream", "image/jpg", "image/pjpeg", kind):
        raise storage.Unsound(f"was sent as {declared[:40]}, but holds something else.")


def _check_together(kept: Sequence[storage.Kept], upload: Upload) -> None:
    if len(kept) > 1 and any(one.kind == "application/pdf" for one in kept):
        raise NotTaken("A PDF is sent by itself; only pictures are put together into one report.")
    if len({one.sha256 for one in kept}) < len(kept):
        raise NotTaken("The same picture is in the list twice. Remove one of them.")
    if upload.again:
        return
    before = (
        ReportFile.objects.filter(
            sha256__in=[one.sha256 for one in kept], report__user=upload.patient
        )
        .order_by("-report__uploaded_at")
        .values_list("report__uploaded_at", flat=True)
        .first()
    )
    if before is not None:
        raise NotTaken(status=409, before=before)


def _recorded(upload: Upload, kept: Sequence[storage.Kept], report_id: UUID) -> Report:
    report = Report(
        id=report_id,
        user=upload.patient,
        form_id=upload.form_id,
        uploaded_by=upload.by,
        needs_human_review=upload.needs_human_review,
        request_id=request_ids.current.get(),
    )
    report.save(force_insert=True)
    ReportFile.objects.bulk_create(
        ReportFile(
            report=report,
            position=position,
            stored_as=one.stored_as,
            given_name=shown_name(file.name),
            kind=one.kind,
            size=one.size,
            sha256=one.sha256,
            pages=one.pages,
        )
        for position, (file, one) in enumerate(zip(upload.files, kept, strict=True))
    )
    return report


def shown_name(name: str | None) -> str:
    """A file's name as text to show: no controls, no marks that turn the reading direction."""
    plain = unicodedata.normalize("NFC", name or "")
    kept = "".join(
        mark
        for mark in plain
        if unicodedata.category(mark) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    )
    return kept.strip()[:NAME_SHOWN] or "unnamed"


def tidy(now: datetime) -> int:
    """Remove files that an interrupted upload left without a row, a day later."""
    lost = storage.left_behind(
        ReportFile.objects.values_list("stored_as", flat=True).iterator(),
        (now - DAY).timestamp(),
    )
    storage.forget(lost)
    return len(lost)
