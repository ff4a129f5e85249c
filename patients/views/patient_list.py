"""The page that lists and searches patients."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from backoffice.accounts.access import requires, staff_user
from backoffice.accounts.models import User
from backoffice.audit.recording import record_list
from backoffice.core.encryption.url_tokens import encrypt_address, redirect_to_list
from backoffice.pages.lists.context import ListContext
from backoffice.pages.paging.counts import COUNT_CAP, Count
from backoffice.pages.paging.pages import Page, PagePosition, page_position
from backoffice.pages.paging.row_query import QUICK_PLAN, match_rows
from patients.forms import PatientFilters
from patients.models import NameMatch, Patient
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
        total, page = _count_and_page(filters, user, screen.size, page_position(request))
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


def _count_and_page(
    form: PatientFilters, user: User, size: int, place: PagePosition
) -> tuple[Count, Page[Patient]]:
    """Return the number of patients that a valid form finds, and a page of them."""
    everybody = PATIENTS.everybody(form, user)
    name_match = NameMatch.if_only_name(form.text) if form.text else None
    if name_match and name_match.patient_ids is None:
        count = Count(COUNT_CAP, capped=True)
        return count, PATIENTS.page(name_match.filter(everybody), form, size, place)
    rows = name_match.filter(everybody) if name_match else PATIENTS.rows(form, user)
    quick_plan = QUICK_PLAN if form.text else None
    match = match_rows(rows, PATIENTS.visible_rows(user), form.keyset(), quick_plan=quick_plan)
    return match.count, PATIENTS.page(match.rows, form, size, place, match.all_rows)
