"""Pages of one report, with its document and its parsed rows, and the reports of a patient."""

from __future__ import annotations

import logging
from io import BytesIO
from typing import Final
from urllib.parse import quote
from uuid import UUID

from csp.constants import SELF
from csp.decorators import csp_exempt, csp_update
from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import FileResponse, Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from backoffice.accounts.access import may, requires, staff_user
from backoffice.audit.recording import record_entry, record_list, record_view
from backoffice.core.encryption.cipher import DecryptionError
from labs.reports import acceptance, delivery, review, storage
from labs.reports.forms import RowForm, TickForm
from labs.reports.models import Report, ReportFile
from patients.models import Demographics, Patient

logger = logging.getLogger(__name__)

ON_PATIENT_PAGE: Final = 5
WAITING_STATES: Final = ("stored", "sending", "upload_pending", "started")
FILE_POLICY: Final = "sandbox; default-src 'none'; frame-ancestors 'self'"


@requires("reports.view", "patients.view")
@require_safe
def of_patient(request: HttpRequest, patient_id: UUID) -> HttpResponse:
    """Show the newest reports of a patient: a fragment of the patient's page."""
    if not Patient.objects.filter(pk=patient_id).exists():
        raise Http404
    reports = Report.objects.filter(user=patient_id).with_job().order_by("-uploaded_at", "id")
    rows = list(reports[: ON_PATIENT_PAGE + 1])
    record_list(request, "report", [row.pk for row in rows], [patient_id])
    context = {
        "reports": rows[:ON_PATIENT_PAGE],
        "more": len(rows) > ON_PATIENT_PAGE,
        "patient_id": patient_id,
    }
    return render(request, "labs/reports/_of_patient.html", context)


@requires("reports.view")
@require_safe
@csp_update({"frame-src": [SELF]})  # type: ignore[arg-type]
def detail(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """Show one report: its state, the document with the rows, and the decisions to make."""
    report = _report(report_id)
    record_view(request, "report", [report.pk], [report.user_id])
    return render(request, "labs/reports/detail.html", _context(request, report))


def _context(request: HttpRequest, report: Report) -> dict[str, object]:
    sees_names = may(request.user, "patients.view")
    sees_results = may(request.user, "results.view")
    page_hash = acceptance.page_digest(report)  # Read before the rows: see its docstring.
    person = Demographics.objects.filter(pk=report.user_id).defer("record").first()
    rows = review.reviewed_rows(report) if sees_results else []
    facts = review.compare_with_patient(report.job, person) if report.job and sees_names else []
    has_data = bool(rows) or bool(report.job and report.job.status == "completed")
    return {
        "report": report,
        "job": report.job,
        "person": person if sees_names else None,
        "by_name": sees_names,
        "sees_results": sees_results,
        "may_upload": may(request.user, "reports.upload"),
        "may_accept": sees_results and may(request.user, "reports.accept"),
        "files": list(report.files.order_by("position")),
        "rows": rows,
        "checked": sum(row.checked for row in rows),
        "doubtful": sum(bool(row.doubts) for row in rows),
        "facts": facts if has_data else [],
        "differs": review.has_contradiction(facts),
        "agrees": any(fact.same for fact in facts),
        "seen": page_hash,
        "changed": report.changed_since_accepted,
        "candidates": delivery.candidate_jobs(report),
        "waiting": report.state in WAITING_STATES,
        "raw": report.job.pretty() if report.job and may(request.user, "records.view") else None,
    }


@requires("reports.view")
@require_safe
def progress(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """Make a waiting page reload if the state of the report has changed."""
    report = _report(report_id)
    if request.GET.get("state", "") != report.state:
        response = HttpResponse(status=204)
        response.headers["HX-Refresh"] = "true"
        return response
    return HttpResponse(status=204)


@requires("reports.view", "results.view")
@require_safe
@csp_exempt()  # type: ignore[arg-type]
def document(request: HttpRequest, report_id: UUID, position: int) -> HttpResponseBase:
    """Serve a file of a report as it was uploaded, in a sandbox or as a download.

    The media type was detected from the content at the upload.
    """
    report = _report(report_id)
    file = report.files.filter(position=position).first()
    if file is None:
        raise Http404
    save = "save" in request.GET
    record_entry(
        request,
        "export" if save else "view",
        "report file",
        ids=[f"{report.pk}:{position}"],
        patients=[report.user_id],
    )
    try:
        content = storage.open_file(file.stored_as)
    except (FileNotFoundError, DecryptionError) as error:
        logger.error("a file of a report cannot be shown: %s", type(error).__name__)
        raise Http404 from error
    return _file_response(file, content, save)


def _file_response(file: ReportFile, content: BytesIO, save: bool) -> FileResponse:
    response = FileResponse(content, content_type=file.kind)
    name = f"report-{file.position + 1}{storage.ENDINGS[file.kind]}"
    disposition = "attachment" if save else "inline"
    # The given name may contain the patient's name, so only a download has it.
    file_name = f"; filename*=UTF-8''{quote(_safe_name(file), safe='')}" if save else ""
    response.headers["Content-Disposition"] = f'{disposition}; filename="{name}"{file_name}'
    response.headers["Content-Security-Policy"] = FILE_POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["X-Frame-Options"] = "SAMEORIGIN"
    response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
    response.headers["Cache-Control"] = "no-store, private"
    return response


def _safe_name(file: ReportFile) -> str:
    """Return the given name with the right extension and without characters unsafe in a path."""
    stem = file.given_name.rpartition(".")[0] or file.given_name
    plain = "".join("_" if mark in '\\/:*?"<>|' else mark for mark in stem).strip(". ")
    return (plain or "report") + storage.ENDINGS[file.kind]


# Decisions


@requires("reports.upload")
@require_POST
def again(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """Send the same files again, as a new job."""
    report = _report(report_id)
    _record_change(request, report)
    is_done = delivery.resend(report.pk, _attempt(request))
    return _redirect_back(
        request, report, gettext("The report is being sent again.") if is_done else ""
    )


@requires("reports.upload")
@require_POST
def arrived(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """Link the uncertain upload to a job of the service."""
    report = _report(report_id)
    job_id = _uuid(request.POST.get("job", ""))
    if job_id is None:
        raise BadRequest(gettext("No job was chosen."))
    _record_change(request, report)
    is_done = delivery.link_to_job(report.pk, _attempt(request), job_id)
    return _redirect_back(
        request, report, gettext("The report is now linked to this job.") if is_done else ""
    )


@requires("reports.upload")
@require_POST
def give_up(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """Stop sending the report."""
    report = _report(report_id)
    _record_change(request, report)
    is_done = delivery.give_up(report.pk, _attempt(request))
    return _redirect_back(
        request, report, gettext("The report will not be sent.") if is_done else ""
    )


@requires("reports.view", "results.view", "reports.accept")
@require_http_methods(["GET", "HEAD", "POST"])
@csp_update({"frame-src": [SELF]})  # type: ignore[arg-type]
def row(request: HttpRequest, report_id: UUID, position: int) -> HttpResponse:
    """Show one row or its form, or check or correct it."""
    report = _report(report_id)
    reviewed = review.reviewed_row(report, position)
    if reviewed is None:
        raise Http404
    if request.method != "POST":
        if _is_htmx(request):
            record_view(request, "report", [report.pk], [report.user_id])
        return _row(
            request, report, reviewed, _row_form(reviewed) if "edit" in request.GET else None
        )
    correcting = "correct" in request.POST
    # A tick sends no values, because a parsed value may not be valid in the form.
    form = RowForm(request.POST) if correcting else TickForm(request.POST)
    if not form.is_valid():
        if isinstance(form, RowForm):
            return _row(request, report, reviewed, form, status=422)
        raise BadRequest(gettext("The request does not name the version of the row."))
    _record_change(request, report)
    try:
        outcome = review.check_row(
            report,
            position,
            staff_user(request),
            reading=form.cleaned_data["reading"],
            latest=form.cleaned_data["latest"],
            checked=correcting or request.POST.get("checked") == "yes",
            values=form.cleaned_data if correcting else None,
        )
    except acceptance.ReportChanged:
        return _changed_row(request, report, position, form)
    if not _is_htmx(request):
        return redirect(f"{_report_url(report)}#row-{position}")
    # The page does not show what others changed meanwhile, so its digest must not cover that.
    page_seen = request.POST.get("seen", "")
    context = {
        **_context(request, _report(report_id)),
        "row": outcome.row,
        "seen": outcome.after if page_seen == outcome.before else page_seen,
        "same_person": request.POST.get("same_person") == "yes",
    }
    return render(request, "labs/reports/_row_saved.html", context)


def _changed_row(
    request: HttpRequest, report: Report, position: int, form: TickForm
) -> HttpResponse:
    """Show the row as it is now, with the values that the person typed for its earlier version."""
    reviewed = review.reviewed_row(report, position)
    if reviewed is None:
        raise Http404
    if not isinstance(form, RowForm):
        words = gettext("This row changed in the meantime. Check it again.")
        return _row(request, report, reviewed, None, status=409, overtaken=words)
    words = gettext(
        "This row changed in the meantime. Compare your entries below with the row, and save them "
        "if they are still right."
    )
    typed = request.POST.copy()
    typed["reading"], typed["latest"] = reviewed.reading, str(reviewed.latest)
    again = RowForm(typed, auto_id=f"row-{position}-%s")
    return _row(request, report, reviewed, again, status=409, overtaken=words)


def _row_form(row: review.ReviewedRow) -> RowForm:
    return RowForm(initial=_initial_values(row), auto_id=f"row-{row.parsed.position}-%s")


def _initial_values(row: review.ReviewedRow) -> dict[str, object]:
    values = {name: "" if value is None else value for name, value in row.values.items()}
    for name in ("min_reference_range", "max_reference_range"):
        limit = row.values[name]
        values[name] = "" if limit is None else review.format_limit(limit)
    return {**values, "reading": row.reading, "latest": row.latest}


def _row(
    request: HttpRequest,
    report: Report,
    row: review.ReviewedRow,
    form: RowForm | None,
    status: int = 200,
    overtaken: str = "",
) -> HttpResponse:
    """Show one row, or the whole page with this row open if no script requested it."""
    if _is_htmx(request):
        context: dict[str, object] = {"report": report, "may_accept": True}
        template = "labs/reports/_row.html"
    else:
        record_view(request, "report", [report.pk], [report.user_id])
        context, template = _context(request, report), "labs/reports/detail.html"
        context["open_position"] = row.parsed.position
    context |= {"row": row, "row_form": form, "overtaken": overtaken}
    if _is_htmx(request):
        status = 200  # htmx swaps only successful answers. The row itself shows the error.
    return render(request, template, context, status=status)


@requires("reports.view", "results.view", "reports.accept", "patients.view")
@require_POST
def accept(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """Accept the report and record who did it and when."""
    report = _report(report_id)
    person = Demographics.objects.filter(pk=report.user_id).first()
    if report.job is None or report.user_id is None:
        return _redirect_back(request, report, "")
    facts = review.compare_with_patient(report.job, person)
    if review.has_contradiction(facts) and request.POST.get("same_person") != "yes":
        messages.error(
            request,
            gettext(
                "The report names a different person. To accept it for this patient, verify that "
                "it is theirs and check the box."
            ),
        )
        return redirect(f"{_report_url(report)}#accept")
    _record_change(request, report)
    try:
        acceptance.accept(report.pk, staff_user(request), seen_hash=request.POST.get("seen", ""))
    except acceptance.ReportChanged:
        return _redirect_back(request, report, "")
    messages.success(request, gettext("Report accepted."))
    return redirect(_report_url(report))


def _record_change(request: HttpRequest, report: Report) -> None:
    """Write the audit entry of a change before the change, so that no change lacks one."""
    record_entry(request, "change", "report", ids=[report.pk], patients=[report.user_id])


def _redirect_back(request: HttpRequest, report: Report, message: str) -> HttpResponse:
    if message:
        messages.success(request, message)
    else:
        messages.warning(
            request,
            gettext(
                "Nothing was saved, because the report changed after you opened the page. This is "
                "the current report."
            ),
        )
    return redirect(_report_url(report))


def _is_htmx(request: HttpRequest) -> bool:
    """Whether a script requested a fragment of the page."""
    return request.headers.get("HX-Request") == "true"


def _report_url(report: Report) -> str:
    return reverse("reports:detail", args=[report.pk])


def _attempt(request: HttpRequest) -> int:
    attempt = request.POST.get("attempt", "")
    if not (attempt.isascii() and attempt.isdigit() and len(attempt) < 10):
        raise BadRequest(gettext("The request does not name the attempt."))
    return int(attempt)


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError as error:
        raise BadRequest(gettext("This is not a valid ID.")) from error


def _report(report_id: UUID) -> Report:
    return get_object_or_404(
        Report.objects.select_related("job", "uploaded_by", "accepted_by"), pk=report_id
    )
