"""Pages of reports: the list, and one report beside what was read from it."""

from __future__ import annotations

import logging
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

from csp.constants import SELF
from csp.decorators import csp_exempt, csp_update
from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import FileResponse, Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from backoffice import audit
from backoffice.core.access import may, requires
from backoffice.core.encryption.cipher import DecryptionError
from backoffice.models import User
from backoffice.pages.paging.counts import capped_count
from backoffice.pages.paging.pages import Sort, fetch_page, page_position
from labs.reports import acceptance, delivery, review, storage
from labs.reports.forms import TABS, RowForm, TickForm
from labs.reports.models import Report, ReportFile
from patients.models import Demographics, Patient

logger = logging.getLogger(__name__)

SIZE: Final = 50
NEWEST: Final = Sort(("uploaded_at", "id"), descending=True)
OF_PATIENT: Final = 5
WAITING: Final = ("stored", "sending", "upload_pending", "started")
FILE_POLICY: Final = "sandbox; default-src 'none'; frame-ancestors 'self'"


@requires("reports.view")
@require_safe
def report_list(request: HttpRequest) -> HttpResponse:
    """Reports, newest first; what waits for us is the first tab."""
    tab = request.GET.get("show", "")
    patient_id = _uuid(request.GET.get("user_id", ""))
    if tab not in TABS:
        tab = "all" if patient_id else "todo"
    everything = Report.objects.all()
    if patient_id:
        everything = everything.filter(user=patient_id)
    rows = everything.filter(TABS[tab][1])
    page = fetch_page(
        rows.select_related("job").defer("job__record"),
        NEWEST,
        size=SIZE,
        **page_position(request),
    )
    audit.record_list(
        request, "report", [one.pk for one in page.rows], [one.user_id for one in page.rows]
    )
    people = _people(page.rows) if may(request.user, "patients.view") else {}
    context = {
        "page": page,
        "rows": [{"report": one, "person": people.get(one.user_id)} for one in page.rows],
        "total": capped_count(rows),
        "tabs": [
            {
                "key": key,
                "label": label,
                "current": key == tab,
                # Only of what waits for somebody: the others grow for ever.
                "count": capped_count(everything.filter(which)) if key == "todo" else None,
            }
            for key, (label, which) in TABS.items()
        ],
        "tab": tab,
        "patient_id": patient_id,
        "any": bool(page.rows) or everything.exists(),
    }
    return render(request, "labs/reports/list.html", context)


@requires("reports.view", "patients.view")
@require_safe
def of_patient(request: HttpRequest, patient_id: UUID) -> HttpResponse:
    """The newest reports of a patient, as a part of the patient's page."""
    if not Patient.objects.filter(pk=patient_id).exists():
        raise Http404
    rows = list(
        Report.objects.filter(user=patient_id)
        .select_related("job")
        .defer("job__record")
        .order_by("-uploaded_at", "id")[: OF_PATIENT + 1]
    )
    audit.record_list(request, "report", [one.pk for one in rows], [patient_id])
    context = {
        "reports": rows[:OF_PATIENT],
        "more": len(rows) > OF_PATIENT,
        "patient_id": patient_id,
    }
    return render(request, "labs/reports/_of_patient.html", context)


@requires("reports.view")
@require_safe
@csp_update({"frame-src": [SELF]})  # type: ignore[arg-type]
def detail(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """One report: where it is, the document beside the rows, and what is to be decided."""
    report = _report(report_id)
    audit.record_view(request, "report", [report.pk], [report.user_id])
    return render(request, "labs/reports/detail.html", _context(request, report))


def _context(request: HttpRequest, report: Report) -> dict[str, Any]:
    by_name = may(request.user, "patients.view")
    sees_results = may(request.user, "results.view")
    seen = acceptance.seen(report)  # before the rows: see there
    person = Demographics.objects.filter(pk=report.user_id).defer("record").first()
    rows = review.lines(report) if sees_results else []
    facts = review.compared(report.job, person) if report.job and by_name else []
    has_data = bool(rows) or bool(report.job and report.job.status == "completed")
    return {
        "report": report,
        "job": report.job,
        "person": person if by_name else None,
        "by_name": by_name,
        "sees_results": sees_results,
        "may_upload": may(request.user, "reports.upload"),
        "may_accept": sees_results and may(request.user, "reports.accept"),
        "files": list(report.files.order_by("position")),
        "rows": rows,
        "checked": sum(row.checked for row in rows),
        "doubtful": sum(bool(row.doubts) for row in rows),
        "facts": facts if has_data else [],
        "differs": review.differs(facts),
        "agrees": any(fact.same for fact in facts),
        "seen": seen,
        "changed": report.changed_since_accepted,
        "candidates": delivery.candidates(report),
        "waiting": report.state in WAITING,
        "raw": report.job.pretty() if report.job and may(request.user, "records.view") else None,
    }


@requires("reports.view")
@require_safe
def progress(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """How far it is, for a page that waits; tells the page to reload once that has changed."""
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
    """A file of a report as it was uploaded: shown in a sandbox or saved, never run.

    The media type is the one found in the content when it was uploaded.
    """
    report = _report(report_id)
    kept = report.files.filter(position=position).first()
    if kept is None:
        raise Http404
    save = "save" in request.GET
    audit.record_entry(
        request,
        "export" if save else "view",
        "report file",
        ids=[f"{report.pk}:{position}"],
        patients=[report.user_id],
    )
    try:
        content = storage.opened(kept.stored_as)
    except (FileNotFoundError, DecryptionError) as error:
        logger.error("a file of a report cannot be shown: %s", type(error).__name__)
        raise Http404 from error
    return _served(kept, content, save)


def _served(kept: ReportFile, content: Any, save: bool) -> FileResponse:
    response = FileResponse(content, content_type=kept.kind)
    name = f"report-{kept.position + 1}{storage.ENDINGS[kept.kind]}"
    how = "attachment" if save else "inline"
    # The name it was given may hold a patient's name: it is for the one who saves the file.
    given = f"; filename*=UTF-8''{quote(_safe_name(kept), safe='')}" if save else ""
    response.headers["Content-Disposition"] = f'{how}; filename="{name}"{given}'
    response.headers["Content-Security-Policy"] = FILE_POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["X-Frame-Options"] = "SAMEORIGIN"
    response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
    response.headers["Cache-Control"] = "no-store, private"
    return response


def _safe_name(kept: ReportFile) -> str:
    """The given name with the ending of what it holds, and nothing a file system trips over."""
    stem = kept.given_name.rpartition(".")[0] or kept.given_name
    plain = "".join("_" if mark in '\\/:*?"<>|' else mark for mark in stem).strip(". ")
    return (plain or "report") + storage.ENDINGS[kept.kind]


# What people decide


@requires("reports.upload")
@require_POST
def again(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """Send the same files again, as a new job."""
    report = _report(report_id)
    _recorded(request, report)
    done = delivery.send_again(report.pk, _attempt(request))
    return _back(request, report, "It is being sent again." if done else "")


@requires("reports.upload")
@require_POST
def arrived(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """A job the service told of is the uncertain upload."""
    report = _report(report_id)
    job_id = _uuid(request.POST.get("job", ""))
    if job_id is None:
        raise BadRequest("Which job it is was not said.")
    _recorded(request, report)
    done = delivery.arrived_as(report.pk, _attempt(request), job_id)
    return _back(request, report, "This job is now the one of this report." if done else "")


@requires("reports.upload")
@require_POST
def give_up(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """Do not send it any more."""
    report = _report(report_id)
    _recorded(request, report)
    done = delivery.give_up(report.pk, _attempt(request))
    return _back(request, report, "It will not be sent." if done else "")


@requires("reports.view", "results.view", "reports.accept")
@require_http_methods(["GET", "HEAD", "POST"])
@csp_update({"frame-src": [SELF]})  # type: ignore[arg-type]
def row(request: HttpRequest, report_id: UUID, position: int) -> HttpResponse:
    """One row: as it stands, with its form, ticked or corrected."""
    report = _report(report_id)
    line = review.line(report, position)
    if line is None:
        raise Http404
    if request.method != "POST":
        if request.headers.get("HX-Request") == "true":
            audit.record_view(request, "report", [report.pk], [report.user_id])
        return _row(request, report, line, _row_form(line) if "edit" in request.GET else None)
    correcting = "correct" in request.POST
    # A tick says nothing about the values: they may be ones that nobody could type.
    form = RowForm(request.POST) if correcting else TickForm(request.POST)
    if not form.is_valid():
        if isinstance(form, RowForm):
            return _row(request, report, line, form, status=422)
        raise BadRequest("Which reading of the row this is about was not said.")
    _recorded(request, report)
    assert isinstance(request.user, User)
    try:
        said = review.say(
            report,
            position,
            request.user,
            reading=form.cleaned_data["reading"],
            latest=form.cleaned_data["latest"],
            checked=correcting or request.POST.get("checked") == "yes",
            values=form.cleaned_data if correcting else None,
        )
    except acceptance.Overtaken:
        return _overtaken(request, report, position, form)
    if request.headers.get("HX-Request") != "true":
        return redirect(f"{_address(report)}#row-{position}")
    # What others changed meanwhile is not on this page, and must not be accepted from it.
    page_seen = request.POST.get("seen", "")
    context = {
        **_context(request, _report(report_id)),
        "row": said.line,
        "seen": said.after if page_seen == said.before else page_seen,
        "same_person": request.POST.get("same_person") == "yes",
    }
    return render(request, "labs/reports/_row_said.html", context)


def _overtaken(request: HttpRequest, report: Report, position: int, form: TickForm) -> HttpResponse:
    """The row as it is now, and what was typed over what it was before."""
    line = review.line(report, position)
    if line is None:
        raise Http404
    words = "This row was changed meanwhile: look at it again."
    if not isinstance(form, RowForm):
        return _row(request, report, line, None, status=409, overtaken=words)
    typed = request.POST.copy()
    typed["reading"], typed["latest"] = line.reading, str(line.latest)
    words += " What you typed is below: compare it with the row, and save it if it is still right."
    again = RowForm(typed, auto_id=f"row-{position}-%s")
    return _row(request, report, line, again, status=409, overtaken=words)


def _row_form(line: review.Line) -> RowForm:
    return RowForm(initial=_values(line), auto_id=f"row-{line.parsed.position}-%s")


def _values(line: review.Line) -> dict[str, Any]:
    """A row's form as it stands."""
    shown = {name: "" if value is None else value for name, value in line.shown.items()}
    for limit in ("min_reference_range", "max_reference_range"):
        said = line.shown[limit]
        shown[limit] = "" if said is None else review.limit(said)
    return {**shown, "reading": line.reading, "latest": line.latest}


def _row(
    request: HttpRequest,
    report: Report,
    line: review.Line,
    form: RowForm | None,
    status: int = 200,
    overtaken: str = "",
) -> HttpResponse:
    """One row, or, where no script asked, the page with that row open."""
    if request.headers.get("HX-Request") == "true":
        context: dict[str, Any] = {"report": report, "may_accept": True}
        template = "labs/reports/_row.html"
    else:
        audit.record_view(request, "report", [report.pk], [report.user_id])
        context, template = _context(request, report), "labs/reports/detail.html"
        context["open_position"] = line.parsed.position
    context |= {"row": line, "row_form": form, "overtaken": overtaken}
    if request.headers.get("HX-Request") == "true":
        status = 200  # or the swap would not happen; the row itself tells
    return render(request, template, context, status=status)


@requires("reports.view", "results.view", "reports.accept", "patients.view")
@require_POST
def accept(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """Accept what was read, by name and time."""
    report = _report(report_id)
    person = Demographics.objects.filter(pk=report.user_id).first()
    if report.job is None or report.user_id is None:
        return _back(request, report, "")
    facts = review.compared(report.job, person)
    if review.differs(facts) and request.POST.get("same_person") != "yes":
        messages.error(
            request,
            "The report names somebody else. Accept it only after you made sure that it is this "
            "patient’s, and tick the box that says so.",
        )
        return redirect(f"{_address(report)}#accept")
    _recorded(request, report)
    assert isinstance(request.user, User)
    try:
        acceptance.accept(report.pk, request.user, seen_hash=request.POST.get("seen", ""))
    except acceptance.Overtaken:
        return _back(request, report, "")
    messages.success(request, "Accepted.")
    return redirect(_address(report))


def _recorded(request: HttpRequest, report: Report) -> None:
    """Before the change: what cannot be recorded does not happen."""
    audit.record_entry(request, "change", "report", ids=[report.pk], patients=[report.user_id])


def _back(request: HttpRequest, report: Report, done: str) -> HttpResponse:
    if done:
        messages.success(request, done)
    else:
        messages.warning(
            request,
            "Nothing was changed: the report had moved on since you opened the page. This is how "
            "it stands now.",
        )
    return redirect(_address(report))


def _address(report: Report) -> str:
    return redirect("reports:detail", report.pk).url


def _attempt(request: HttpRequest) -> int:
    said = request.POST.get("attempt", "")
    if not (said.isascii() and said.isdigit() and len(said) < 10):
        raise BadRequest("Which attempt this is about was not said.")
    return int(said)


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError as error:
        raise BadRequest("This is no id.") from error


def _report(report_id: UUID) -> Report:
    found = (
        Report.objects.select_related("job", "uploaded_by", "accepted_by")
        .filter(pk=report_id)
        .first()
    )
    if found is None:
        raise Http404
    return found


def _people(reports: list[Report]) -> dict[UUID | None, Patient]:
    ids = {one.user_id for one in reports if one.user_id}
    return {person.pk: person for person in Patient.objects.named("dob").filter(pk__in=ids)}
