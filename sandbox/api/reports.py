"""Upload of lab reports and the jobs that parse them (errors-and-limits.md 7)."""

from __future__ import annotations

import uuid
from typing import Any

from django.core.exceptions import SuspiciousOperation
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse
from django.http.multipartparser import MultiPartParserError
from django.http.request import UnreadablePostError

from sandbox import clock
from sandbox.api.calls import ApiRequest, Call
from sandbox.api.errors import Invalid, Problems, Refusal, missing
from sandbox.api.params import Flag, Kind, Param, Uuid
from sandbox.api.responses import json_response
from sandbox.api.users import team_users
from sandbox.models import ReportJob
from sandbox.reports import files, jobs

_FORM_BYTES = 64 * 1024  # of a body, beside its files


def submit_report(api_request: ApiRequest) -> HttpResponse:
    """Checks in turn: the form (422), the user (404), review and the number of jobs (400), the
    files (400, 413)."""
    user_id, needs_review, parts = _form(api_request.request)
    user = team_users(api_request.caller.team).filter(pk=user_id).first()
    if user is None:
        raise missing("User")
    if needs_review and not jobs.settings().review_enabled:
        raise Refusal(400, "Human review is not enabled for this team")
    uploads = [files.Upload(part.content_type or "", part.read()) for part in parts]
    report = files.check_uploads(uploads)
    count = (
        ReportJob.objects.filter(team_id=api_request.caller.team).exclude(status="failed").count()
    )
    if count >= jobs.MOST_JOBS:
        raise Refusal(400, f"Sandbox teams are limited to {jobs.MOST_JOBS} parsing jobs")
    names = [part.name or "" for part in parts]
    job = jobs.submit(user, uploads, names, report, needs_review, clock.now())
    return json_response(jobs.record(job))


def _form(request: HttpRequest) -> tuple[uuid.UUID, bool, list[UploadedFile[bytes]]]:
    """The fields of the form; a body that cannot fit is refused unread."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > files.TOGETHER + _FORM_BYTES:
        raise Refusal(413, f"The files together are larger than {files.TOGETHER} bytes")
    problems = Problems()
    try:
        fields, parts = request.POST, request.FILES.getlist("file")
    except (MultiPartParserError, SuspiciousOperation, UnreadablePostError):
        raise Refusal(400, "There was an error parsing the body") from None
    user_id = _field(fields.getlist("user_id"), "user_id", Uuid(), problems)
    needs_review = _field(
        fields.getlist("needs_human_review"), "needs_human_review", Flag(), problems, False
    )
    if not parts:
        given = fields.get("file")
        invalid = Invalid("missing", "Field required")
        if given is not None:
            invalid = Invalid("value_error", "Value error, Expected UploadFile, received: text")
        problems.add(["body", "file"], invalid, None)
    problems.settle()
    return user_id, needs_review, parts


def _field(given: list[str], name: str, kind: Kind, problems: Problems, default: Any = None) -> Any:
    if not given:
        if default is None:
            problems.add(["body", name], Invalid("missing", "Field required"), None)
        return default
    try:
        return kind.parse(given[-1])
    except Invalid as invalid:
        problems.add(["body", name], invalid, given[-1])
        return default


def report_job(api_request: ApiRequest) -> HttpResponse:
    job = ReportJob.objects.filter(
        pk=api_request["job_id"], team_id=api_request.caller.team
    ).first()
    if job is None:
        raise missing("Job")
    return json_response(jobs.record(job))


def report_job_by_query(api_request: ApiRequest) -> HttpResponse:
    """The path as the specification has it, cut off before the id: the id is a query."""
    return report_job(api_request)


_JOBS = "/lab_report/v1/parser/job"
_UPLOAD = {
    "multipart/form-data": {
        "schema": {
            "type": "object",
            "required": ["file", "user_id"],
            "properties": {
                "file": {"type": "array", "items": {"type": "string", "format": "binary"}},
                "user_id": {"type": "string", "format": "uuid"},
                "needs_human_review": {"type": "boolean", "default": False},
            },
        }
    }
}
CALLS = (
    Call("POST", _JOBS, submit_report, "Upload a lab report", takes=_UPLOAD),
    Call(
        "GET",
        _JOBS,
        report_job_by_query,
        "A parsing job, by query",
        query=(Param("job_id", Uuid(), required=True),),
    ),
    Call("GET", _JOBS + "/{job_id}", report_job, "A parsing job"),
)
