"""The page that lists and searches patients."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from backoffice.accounts.access import requires, staff_user
from backoffice.audit.recording import record_list
from backoffice.core.encryption.url_tokens import encrypt_address, redirect_to_list
from backoffice.pages.lists.context import ListContext
from backoffice.pages.paging.counts import Count
from backoffice.pages.paging.pages import Page, page_position
from patients.models import Patient
from patients.patient_list import PATIENTS

SORT_NOTICES: Final = {
    "name": "Sorted by name, here and in a download: patients without a name are not listed.",
    "born": "Sorted by birth date, here and in a download: patients without a birth date are not"
    " listed.",
}


@requires("patients.view")
@require_http_methods(["GET", "HEAD", "POST"])
def patient_list(request: HttpRequest) -> HttpResponse:
    """List patients, newest first or in another order. Any identifying text can be searched."""
    user = staff_user(request)
    words = PATIENTS.personal_parameters(user)
    if request.method == "POST":
        return redirect_to_list(request, PATIENTS.url(), words)
    encrypt_address(request, words)
    filters = PATIENTS.form(request.GET, user)
    valid = filters.is_valid()
    screen = ListContext.of(request, PATIENTS, filters)
    if screen.redirect_url:
        return redirect(screen.redirect_url)
    total = Count(0)
    page: Page[Patient] = Page()
    if valid:
        total, page = PATIENTS.count_and_page(filters, user, screen.size, page_position(request))
        if notice := SORT_NOTICES.get(filters.sort[0]):
            screen.notices.append(notice)
    ids = [patient.pk for patient in page.rows]
    record_list(request, "patient", ids, ids, searched=bool(filters.text))
    pager = screen.pager(page, total)
    context = {
        "list": screen,
        "filters": filters,
        "page": page,
        "pager": pager,
        "rows": PATIENTS.with_related(page.rows, user),
        "total": pager["total"],
    }
    return render(request, "patients/list.html", context, status=200 if valid else 400)
