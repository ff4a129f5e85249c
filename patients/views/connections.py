"""Pages that make a link by which a patient connects a device, and show it once (users.md 8)."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from backoffice.accounts.access import requires, staff_user
from backoffice.audit.recording import record_action, record_view
from backoffice.outbox.enqueueing import was_already_sent
from backoffice.outbox.models import CommandRecord
from patients.commands import MakeConnectLink
from patients.commands.links import newest_link_request
from patients.connection_forms import ConnectForm
from patients.models import ConnectLink
from patients.patient_page import patient_page_context
from patients.qr_code import qr_image

METHODS: Final = ("GET", "HEAD", "POST")


@requires("patients.view", "patients.change")
@require_http_methods(METHODS)
def connect(request: HttpRequest, patient_id: UUID) -> HttpResponse:
    """Request a link to connect a device, after an explanation of what it is."""
    page = patient_page_context(request, patient_id)
    form = ConnectForm.from_request(request)
    if request.method == "POST" and (
        was_already_sent(request) or _is_requested(request, form, patient_id)
    ):
        return redirect("patients:connect-link", patient_id)
    record_view(request, "patient", [patient_id], [patient_id])
    status = 422 if request.method == "POST" else 200
    return render(request, "patients/connect.html", {**page, "form": form}, status=status)


def _is_requested(request: HttpRequest, form: ConnectForm, patient_id: UUID) -> bool:
    """Enqueue the command and return True, or return False with errors on the form."""
    if not form.is_valid():
        return False
    provider, name = form.chosen()
    command = MakeConnectLink(
        user_id=patient_id, asked_at=timezone.now(), provider=provider, provider_name=name
    )
    return form.enqueue(request, command) is not None


@requires("patients.view", "patients.change")
@require_http_methods(METHODS)
def connect_link(request: HttpRequest, patient_id: UUID) -> HttpResponse:
    """Show the state of the link that this user requested last. A POST shows the link, once."""
    page = patient_page_context(request, patient_id)
    row = newest_link_request(staff_user(request), patient_id)
    if row is None:
        return redirect("patients:detail", patient_id)
    record_view(request, "patient", [patient_id], [patient_id])
    url = _take(request, row) if request.method == "POST" else ""
    if request.method == "POST" and not url:
        return redirect("patients:connect-link", patient_id)
    context = {
        **page,
        "command": row,
        "link": ConnectLink.objects.filter(pk=row.pk).first(),
        "link_url": url,
        "qr": qr_image(url) if url else None,
    }
    return render(request, "patients/connect_link.html", context)


def _take(request: HttpRequest, row: CommandRecord) -> str:
    """Return the link and record that it was shown; empty if it was shown before or expired."""
    with transaction.atomic(durable=True):
        url = ConnectLink.take(row.pk)
        if url:
            ids = [row.pk, row.subject_id]
            record_action(request, f"{row.kind} shown", ids, [row.patient_id])
    return url
