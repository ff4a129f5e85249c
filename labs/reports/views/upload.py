"""Pages that upload a report: choose the patient, choose the files."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django.conf import settings
from django.core.exceptions import TooManyFilesSent
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods

from backoffice.accounts.access import requires, staff_user
from backoffice.audit.recording import record_entry, record_list, record_view
from backoffice.core.encryption.url_tokens import (
    PersonalParameters,
    decrypted_query,
    redirect_to_list,
)
from labs.reports import intake
from labs.reports.forms import UploadForm
from labs.reports.intake import MemoryOnlyHandler, SizeLimitHandler, UploadRejected
from labs.search_texts import clean_search_text
from patients.models import Demographics, Patient
from patients.search_text import parse_search_text

MAX_PATIENTS: Final = 20
WORDS: Final = PersonalParameters("whose report", frozenset({"q"}))
FORM_OVERHEAD: Final = 64 * 1024
"""Bytes of a request that are not file data: fields and part headers."""
MAX_READ_FACTOR: Final = 4
"""A body larger than this many times the limit is refused unread. A smaller one is read to its end
and discarded. Otherwise the browser would show a broken connection and not the reason.
"""


@requires("reports.upload", "patients.view")
@require_http_methods(["GET", "HEAD", "POST"])
def choose(request: HttpRequest) -> HttpResponse:
    """Choose the patient of the report, with the same search as the patient list."""
    if request.method == "POST":
        return redirect_to_list(request, request.path, WORDS)
    text = clean_search_text(decrypted_query(request.GET, WORDS).get("q", ""))
    patients: list[Patient] = []
    if text:
        rows = Patient.objects.matching(parse_search_text(text)).defer("record", "content_hash")
        patients = list(rows.order_by("-created_on", "pk")[:MAX_PATIENTS])
        ids = [patient.pk for patient in patients]
        record_list(request, "patient", ids, ids, searched=True)
    context = {"q": text, "rows": patients, "more": len(patients) == MAX_PATIENTS}
    return render(request, "labs/reports/choose.html", context)


@requires("reports.upload", "patients.view")
@require_http_methods(["GET", "HEAD", "POST"])
@csrf_exempt
def upload(request: HttpRequest, patient_id: UUID) -> HttpResponse:
    """Upload a report of one patient.

    The size is checked before anything reads the body. So the CSRF check comes after it.
    """
    if request.method != "POST":
        return _checked(request, patient_id)
    # Set the limit first: the upload handlers cannot be changed once the body is being read.
    length = request.META.get("CONTENT_LENGTH") or ""
    # Django does not read the body if the length is invalid.
    size = int(length) if length.isascii() and length.isdigit() else 0
    if size > MAX_READ_FACTOR * settings.REPORT_MAX_BYTES + FORM_OVERHEAD:
        return _rejected(request, patient_id, UploadForm(), intake.too_large())
    size_limit = SizeLimitHandler(request)
    request.upload_handlers = [size_limit, MemoryOnlyHandler(request)]
    request.size_limit = size_limit  # type: ignore[attr-defined]
    try:
        return _checked(request, patient_id)
    except TooManyFilesSent:
        too_many = UploadRejected(
            gettext("A report can have up to %(limit)s pictures.") % {"limit": intake.MAX_FILES}
        )
        return _rejected(request, patient_id, UploadForm(), too_many)


@csrf_protect
def _checked(request: HttpRequest, patient_id: UUID) -> HttpResponse:
    patient = _patient(patient_id)
    if request.method != "POST":
        return _form(request, patient, UploadForm())
    form = UploadForm(request.POST)
    if request.size_limit.is_exceeded:  # type: ignore[attr-defined]
        return _rejected(request, patient_id, form, intake.too_large())
    if not form.is_valid():
        return _rejected(request, patient_id, form, UploadRejected(*_errors(form)))
    data = form.cleaned_data
    upload_request = intake.UploadRequest(
        patient=patient,
        by=staff_user(request),
        form_id=data["form_id"],
        files=request.FILES.getlist("files"),
        needs_human_review=data["review"],
        again=data["again"],
    )
    try:
        report = intake.find_report_of_form(upload_request)
        if report is None:
            report_id = intake.new_report_id()
            # Write the audit entry first, so that no upload lacks one.
            record_entry(request, "change", "report", ids=[report_id], patients=[patient.pk])
            report = intake.create_report(upload_request, report_id)
    except UploadRejected as refused:
        if refused.form_id is not None:
            form = UploadForm({**request.POST.dict(), "form_id": refused.form_id})
        return _rejected(request, patient_id, form, refused)
    target = reverse("reports:detail", args=[report.pk])
    if request.headers.get("Accept") == "application/json":
        return JsonResponse({"to": target})
    return redirect(target)


def _errors(form: UploadForm) -> list[str]:
    return [
        f"{form[name].label}: {' '.join(map(str, errors))}" for name, errors in form.errors.items()
    ]


def _rejected(
    request: HttpRequest, patient_id: UUID, form: UploadForm, refused: UploadRejected
) -> HttpResponse:
    """Show why the upload was rejected: the whole page, or only the reasons for a script."""
    if request.headers.get("Accept") == "application/json":
        context = {"refused": refused, "form": form}
        return render(request, "labs/reports/_refused.html", context, status=refused.status)
    return _form(request, _patient(patient_id), form, refused)


def _form(
    request: HttpRequest, patient: Patient, form: UploadForm, refused: UploadRejected | None = None
) -> HttpResponse:
    # The page names the patient, also when it shows an error.
    record_view(request, "patient", [patient.pk], [patient.pk])
    context = {
        "patient": patient,
        "person": Demographics.objects.filter(pk=patient.pk).defer("record").first(),
        "form": form,
        "refused": refused,
        "limit": settings.REPORT_MAX_BYTES,
        "limit_words": intake.size_limit_text(),
        "files": intake.MAX_FILES,
    }
    status = refused.status if refused else 200
    return render(request, "labs/reports/upload.html", context, status=status)


def _patient(patient_id: UUID) -> Patient:
    return get_object_or_404(Patient.objects.defer("record"), pk=patient_id)
