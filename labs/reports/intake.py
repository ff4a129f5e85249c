"""Intake of uploads: check and store the files, then create the report row to be sent."""

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
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop, ngettext

from backoffice.accounts.models import User
from backoffice.core import request_ids
from labs.reports import file_checks, storage
from labs.reports.models import Report, ReportFile
from patients.models import Patient

logger = logging.getLogger(__name__)

MAX_FILES: Final = 8
MAX_NAME_LENGTH: Final = 200
DAY: Final = timedelta(days=1)
MAX_DAILY_UPLOADS: Final = 50
"""Daily limit of one person's uploads, as a multiple of the size limit."""


class UploadRejected(Exception):
    """A rejected upload. `problems` are sentences for staff, `status` is the HTTP status.

    `before`: when the same file was uploaded for this patient. Staff may upload it again anyway.
    `form_id`: the new id of a form that was used for another upload.
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


class SizeLimitHandler(FileUploadHandler):
    """An upload handler that counts the bytes of all files and stops above the limit.

    It must come before the handlers that keep the data.
    """

    def __init__(self, request: HttpRequest | None = None) -> None:
        super().__init__(request)
        self.received = 0
        self.is_exceeded = False

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes:
        self.received += len(raw_data)
        if self.received > settings.REPORT_MAX_BYTES:
            self.is_exceeded = True
            raise StopUpload(connection_reset=False)
        return raw_data

    def file_complete(self, file_size: int) -> None:
        return None


class MemoryOnlyHandler(MemoryFileUploadHandler):
    """An upload handler that keeps all data in memory: temporary files are not encrypted."""

    def handle_raw_input(self, *args: Any, **options: Any) -> None:
        self.activated = True


@dataclass(frozen=True, slots=True)
class UploadRequest:
    """The upload of a person: patient, files and choices of the form."""

    patient: Patient
    by: User
    form_id: UUID
    files: Sequence[UploadedFile[bytes]]
    needs_human_review: bool
    again: bool = False


def too_large() -> UploadRejected:
    return UploadRejected(
        gettext(
            "The files are larger than %(limit)s, the limit for one report. Scan at a lower "
            "resolution, or upload fewer pages."
        )
        % {"limit": size_limit_text()},
        status=413,
    )


def size_limit_text() -> str:
    """Return the size limit as text, such as `10 MB`, in units of 1,048,576 bytes."""
    size = settings.REPORT_MAX_BYTES
    if size >= 1024 * 1024:
        return f"{size / 1024 / 1024:.4g} MB"
    return ngettext("%(count)s byte", "%(count)s bytes", size) % {"count": f"{size:,}"}


def new_report_id() -> UUID:
    return uuid.uuid4()


def find_report_of_form(upload: UploadRequest) -> Report | None:
    """Return the report that this form has created from the same files, or None.

    Raises UploadRejected if the form created another report, for example after the browser's Back
    button. Otherwise the new upload would be lost.
    """
    report = Report.objects.filter(form_id=upload.form_id).first()
    if report is None:
        return None
    if (report.user_id, report.uploaded_by_id) == (upload.patient.pk, upload.by.pk):
        stored_hashes = report.files.order_by("position").values_list("sha256", flat=True)
        if [bytes(sha256) for sha256 in stored_hashes] == [_digest(file) for file in upload.files]:
            return report
    raise UploadRejected(
        gettext(
            "Nothing was uploaded, because this form was already used for another upload. Check "
            "the chosen files and upload again."
        ),
        status=409,
        form_id=uuid.uuid4(),
    )


def _digest(file: UploadedFile[bytes]) -> bytes:
    """Return the digest of the file as it would be stored."""
    content = b"".join(file.chunks())
    with contextlib.suppress(file_checks.FileRejected):
        content = file_checks.check_file(content).content
    return hashlib.sha256(content).digest()


def create_report(upload: UploadRequest, report_id: UUID) -> Report:
    """Store the files and create the report. Raises UploadRejected and then stores nothing.

    A form that is sent twice, also at the same time, makes one report.
    """
    _check_before_reading(upload)
    stored: list[storage.StoredFile] = []
    try:
        stored = _store_files(upload.files)
        _check_files_together(stored, upload)
        with transaction.atomic(durable=True):
            report = _create_rows(upload, stored, report_id)
    except BaseException as error:
        storage.delete(file.stored_as for file in stored)
        if isinstance(error, IntegrityError | UploadRejected):
            # Another submission may have been stored while this one was checked.
            other = find_report_of_form(upload)
            if other is not None:
                return other
        raise
    return report


def _check_before_reading(upload: UploadRequest) -> None:
    files = upload.files
    if not files:
        raise UploadRejected(gettext("Choose a file: one PDF, or pictures of the pages."))
    if len(files) > MAX_FILES:
        raise UploadRejected(
            gettext("A report can have up to %(limit)s pictures. You chose %(count)s.")
            % {"limit": MAX_FILES, "count": len(files)}
        )
    if sum(file.size or 0 for file in files) > settings.REPORT_MAX_BYTES:
        raise too_large()
    recent = Report.objects.filter(uploaded_by=upload.by, uploaded_at__gt=timezone.now() - DAY)
    used = recent.aggregate(total=Sum("files__size"))["total"] or 0
    if used > MAX_DAILY_UPLOADS * settings.REPORT_MAX_BYTES:
        raise UploadRejected(
            gettext(
                "You have reached the daily upload limit. Continue tomorrow, or ask a coworker."
            )
        )


def _store_files(files: Sequence[UploadedFile[bytes]]) -> list[storage.StoredFile]:
    """Check and store all files. If any file has a problem, store none and raise all problems."""
    stored: list[storage.StoredFile] = []
    problems: list[str] = []
    try:
        for file in files:
            content = b"".join(file.chunks())
            try:
                checked_file = file_checks.check_file(content)
                _check_name(file, checked_file.kind)
            except file_checks.FileRejected as rejected:
                problems.append(rejected.describe(display_file_name(file.name)))
            else:
                stored.append(
                    storage.store(checked_file.content, checked_file.kind, checked_file.pages)
                )
        if problems:
            raise UploadRejected(*problems)
    except OSError as error:
        storage.delete(file.stored_as for file in stored)
        logger.exception("could not store the files of a report")
        raise UploadRejected(
            gettext(
                "The report could not be saved because of a disk problem on this server. Nothing "
                "was sent. Tell your administrator, and try again later."
            ),
            status=507,
        ) from error
    except BaseException:
        storage.delete(file.stored_as for file in stored)
        raise
    return stored


def _check_name(file: UploadedFile[bytes], kind: str) -> None:
    """Check that the extension and the declared type match the content."""
    ending = PurePosixPath((file.name or "").lower()).suffix
    named_kind = storage.EXTENSIONS.get(ending)
    true_ending = storage.ENDINGS[kind]
    if named_kind is None:
        raise file_checks.FileRejected(
            gettext_noop("The name of “%(name)s” must end in %(ending)s. Rename the file."),
            ending=true_ending,
        )
    if named_kind != kind:
        raise file_checks.FileRejected(
            gettext_noop(
                "“%(name)s” is not the type of file that its name says. Change the end of its name "
                "to %(ending)s."
            ),
            ending=true_ending,
        )
    declared = (file.content_type or "").lower()
    if declared not in ("", "application/octet-stream", "image/jpg", "image/pjpeg", kind):
        raise file_checks.FileRejected(
            gettext_noop("“%(name)s” was sent as %(declared)s, but contains something else."),
            declared=declared[:40],
        )


def _check_files_together(stored: Sequence[storage.StoredFile], upload: UploadRequest) -> None:
    if len(stored) > 1 and any(file.kind == "application/pdf" for file in stored):
        raise UploadRejected(
            gettext("Upload a PDF on its own. Only pictures can be combined into one report.")
        )
    if len({file.sha256 for file in stored}) < len(stored):
        raise UploadRejected(gettext("The same picture is in the list twice. Remove one of them."))
    if upload.again:
        return
    before = (
        ReportFile.objects.filter(
            sha256__in=[file.sha256 for file in stored], report__user=upload.patient
        )
        .order_by("-report__uploaded_at")
        .values_list("report__uploaded_at", flat=True)
        .first()
    )
    if before is not None:
        raise UploadRejected(status=409, before=before)


def _create_rows(
    upload: UploadRequest, stored: Sequence[storage.StoredFile], report_id: UUID
) -> Report:
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
            stored_as=stored_file.stored_as,
            given_name=display_file_name(file.name),
            kind=stored_file.kind,
            size=stored_file.size,
            sha256=stored_file.sha256,
            pages=stored_file.pages,
        )
        for position, (file, stored_file) in enumerate(zip(upload.files, stored, strict=True))
    )
    return report


def display_file_name(name: str | None) -> str:
    """Return a file name for display, without control and text direction characters."""
    plain = unicodedata.normalize("NFC", name or "")
    letters = "".join(
        mark
        for mark in plain
        if unicodedata.category(mark) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    )
    return letters.strip()[:MAX_NAME_LENGTH] or gettext("unnamed")


def delete_orphaned_files(now: datetime) -> int:
    """Delete files without a row, from interrupted uploads, when they are a day old."""
    orphaned = storage.orphaned_files(
        ReportFile.objects.values_list("stored_as", flat=True).iterator(),
        (now - DAY).timestamp(),
    )
    storage.delete(orphaned)
    return len(orphaned)
