"""The upload pages: for whom, and the report itself."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.core.exceptions import BadRequest, TooManyFilesSent
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods

from backoffice import audit
from backoffice.core.access import requires
from backoffice.core.encryption.url_tokens import (
    PersonalParameters,
    decrypted_query,
    redirect_to_list,
)
from backoffice.models import User
from labs.reports import intake
from labs.reports.forms import UploadForm
from labs.reports.intake import Ceiling, InMemory, NotTaken
from patients.models import Demographics, Patient

FOUND: Final = 20
WORDS: Final = PersonalParameters("whose report", frozenset({"q"}))
BESIDE_FILES: Final = 64 * 1024
"""Bytes of a request that are not file data: fields, part heads."""
HOPELESS: Final = 4
"""A body of more times the limit than this is refused unread; less is read to its end and thrown
away, or the browser would show a broken connection instead of the reason."""


@requires("reports.upload", "patients.view")
@require_http_methods(["GET", "HEAD", "POST"])
def choose(request: HttpRequest) -> HttpResponse:
    """Whose report is it? Finds patients by whatever is at hand."""
    if request.method == "POST":
        return redirect_to_list(request, request.path, WORDS)
    text = decrypted_query(request.GET, WORDS).get("q", "").strip()[:100]
    if "\x00" in text:
        raise BadRequest("A search holds letters.")
    found: list[Patient] = []
    if text:
        rows = Patient.objects.matching(text).defer("record", "content_hash")
        found = list(rows.order_by("-created_on", "pk")[:FOUND])
        ids = [patient.pk for patient in found]
        audit.record_list(request, "patient", ids, ids, searched=True)
    context = {"q": text, "rows": found, "more": len(found) == FOUND}
    return render(request, "labs/reports/choose.html", context)


@requires("reports.upload", "patients.view")
@require_http_methods(["GET", "HEAD", "POST"])
@csrf_exempt
def upload(request: HttpRequest, patient_id: UUID) -> HttpResponse:
    """The upload form of one patient. The size is watched before anything reads the body, so the
    check of the form's token comes after, not before."""
    if request.method != "POST":
        return _checked(request, patient_id)
    # The limit first: the handlers cannot be changed once the body has been looked at.
    said = request.META.get("CONTENT_LENGTH") or ""
    size = int(said) if said.isascii() and said.isdigit() else 0  # Django reads none of it then
    if size > HOPELESS * settings.REPORT_MAX_BYTES + BESIDE_FILES:
        return _not_taken(request, patient_id, UploadForm(), intake.too_large())
    ceiling = Ceiling(request)
    request.upload_handlers = [ceiling, InMemory(request)]
    request.report_ceiling = ceiling  # type: ignore[attr-defined]
    try:
        return _checked(request, patient_id)
    except TooManyFilesSent:
        too_many = NotTaken(f"At most {intake.FILES} pictures make one report.")
        return _not_taken(request, patient_id, UploadForm(), too_many)


@csrf_protect
def _checked(request: HttpRequest, patient_id: UUID) -> HttpResponse:
    patient = _patient(patient_id)
    if request.method != "POST":
        return _form(request, patient, UploadForm())
    form = UploadForm(request.POST)
    if request.report_ceiling.passed:  # type: ignore[attr-defined]
        return _not_taken(request, patient_id, form, intake.too_large())
    if not form.is_valid():
        return _not_taken(request, patient_id, form, NotTaken(*_errors(form)))
    given = form.cleaned_data
    assert isinstance(request.user, User)
    wanted = intake.Upload(
        patient=patient,
        by=request.user,
        form_id=given["form_id"],
        files=request.FILES.getlist("files"),
        needs_human_review=given["review"],
        again=given["again"],
    )
    try:
        report = intake.already_taken(wanted)
        if report is None:
            report_id = intake.new_report_id()
            # Recorded first: what cannot be recorded does not happen.
            audit.record_entry(request, "change", "report", ids=[report_id], patients=[patient.pk])
            report = intake.take(wanted, report_id)
    except NotTaken as refused:
        if refused.form_id is not None:
            form = UploadForm({**request.POST.dict(), "form_id": refused.form_id})
        return _not_taken(request, patient_id, form, refused)
    target = reverse("reports:detail", args=[report.pk])
    if request.headers.get("Accept") == "application/json":
        return JsonResponse({"to": target})
    return redirect(target)


def _errors(form: UploadForm) -> list[str]:
    return [f"{form[name].label}: {' '.join(map(str, said))}" for name, said in form.errors.items()]


def _not_taken(
    request: HttpRequest, patient_id: UUID, form: UploadForm, refused: NotTaken
) -> HttpResponse:
    """Say why; the page with what was chosen, or, where a script sent it, the reasons alone."""
    if request.headers.get("Accept") == "application/json":
        context = {"refused": refused, "form": form}
        return render(request, "labs/reports/_refused.html", context, status=refused.status)
    return _form(request, _patient(patient_id), form, refused)


def _form(
    request: HttpRequest, patient: Patient, form: UploadForm, refused: NotTaken | None = None
) -> HttpResponse:
    # Refused or not, the page names the patient.
    audit.record_view(request, "patient", [patient.pk], [patient.pk])
    context: dict[str, Any] = {
        "patient": patient,
        "person": Demographics.objects.filter(pk=patient.pk).defer("record").first(),
        "form": form,
        "refused": refused,
        "limit": settings.REPORT_MAX_BYTES,
        "limit_words": intake.limit_words(),
        "files": intake.FILES,
    }
    status = refused.status if refused else 200
    return render(request, "labs/reports/upload.html", context, status=status)


def _patient(patient_id: UUID) -> Patient:
    try:
        return Patient.objects.defer("record").get(pk=patient_id)
    except Patient.DoesNotExist as error:
        raise Http404 from error
