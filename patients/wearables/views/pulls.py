"""Historical pulls of all patients: failing groups with their error, patients and start."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django import forms
from django.db.models import Count, F, Min
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_safe

from backoffice.accounts.access import requires
from backoffice.audit.recording import record_list
from backoffice.core import vocabulary
from backoffice.mirror.models import AS_RECEIVED
from backoffice.pages.paging.counts import capped_count
from backoffice.pages.paging.pages import Sort, fetch_page, page_position
from patients.models import Patient
from patients.wearables.models import HistoricalPull, HistoricalPullQuerySet

PAGE_SIZE: Final = 50
BY_PATIENT: Final = Sort(("user_id", "id"))
MAX_GROUPS: Final = 50
"""Most groups of failing pulls that the page lists."""


class PullFilters(forms.Form):
    """The filters of the list of pulls."""

    status = forms.CharField(required=False, max_length=40, label=gettext_lazy("Status"))
    provider = forms.CharField(required=False, max_length=100, label=gettext_lazy("Provider"))
    resource = forms.CharField(required=False, max_length=100, label=gettext_lazy("Resource"))
    error = forms.CharField(required=False, max_length=100, label=gettext_lazy("Error"))
    user_id = forms.UUIDField(required=False, label=gettext_lazy("Patient ID"))

    COLUMNS: Final = {
        "status": "status",
        "provider": "provider",
        "resource": "resource",
        "error": "error_details",
        "user_id": "user_id",
    }

    def apply(self, rows: HistoricalPullQuerySet) -> HistoricalPullQuerySet:
        filters = {self.COLUMNS[name]: value for name, value in self.cleaned_data.items() if value}
        return rows.filter(**filters)

    def active_filters(self) -> list[dict[str, str]]:
        """Return the active filters as text."""
        return [
            {"name": name, "value": self.data[name], "label": self._words(name, self.data[name])}
            for name in self.fields
            if self.cleaned_data.get(name)
        ]

    def _words(self, name: str, value: str) -> str:
        names = {"status": "historical_pull.status", "error": "historical_pull.error_details"}
        words = gettext(vocabulary.term(names[name], value).label) if name in names else value
        return f"{self.fields[name].label}: {words}"


@dataclass(frozen=True, slots=True)
class PullGroup:
    """Failing pulls with the same status, provider and error."""

    status: str
    provider: str
    error_details: str | None
    pulls: int
    patients: int
    since: datetime


@requires("patients.view")
@require_safe
def pulls(request: HttpRequest) -> HttpResponse:
    """List failing pulls grouped by error, and single pulls: either the failing ones or all."""
    form = PullFilters(request.GET)
    valid = form.is_valid()
    shows_all = request.GET.get("show") == "all"
    rows = HistoricalPull.objects.filter(missing_since=None).defer(*AS_RECEIVED)
    rows = form.apply(rows) if valid else rows.none()
    is_specific = form.cleaned_data.get("user_id") or form.cleaned_data.get("status")
    if not shows_all and not is_specific:
        rows = rows.failing()
    page = fetch_page(rows, BY_PATIENT, size=PAGE_SIZE, **page_position(request))
    record_list(request, "pull", (row.pk for row in page.rows), (row.user_id for row in page.rows))
    people = _people(row.user_id for row in page.rows)
    context = {
        "form": form,
        "everything": shows_all,
        "is_specific": is_specific,
        "patient": form.cleaned_data.get("user_id"),
        "groups": groups(),
        "page": page,
        "rows": [{"pull": row, "person": people.get(row.user_id)} for row in page.rows],
        "total": capped_count(rows),
        "active_filters": form.active_filters() if valid else [],
        "any_pulls": bool(page.rows) or HistoricalPull.objects.exists(),
    }
    return render(request, "wearables/pulls.html", context, status=200 if valid else 400)


def groups() -> list[PullGroup]:
    """Return failing pulls by status, provider and error: failed first, then by most patients.

    One query reads only the failing pulls, by their own index.
    """
    pull_rows = (
        HistoricalPull.objects.failing()
        .values("status", "provider", "error_details")
        .annotate(
            pulls=Count("pk"),
            patients=Count("user_id", distinct=True),
            since=Min(Coalesce(F("ended_at"), F("started_at"), F("scheduled_at"), F("as_of"))),
        )
        .order_by("status", "-patients", "provider")
    )
    return [PullGroup(**row) for row in pull_rows[:MAX_GROUPS]]


def _people(users: Iterable[UUID | None]) -> dict[UUID | None, Patient]:
    people = Patient.objects.named().filter(pk__in={user for user in users if user is not None})
    return {person.pk: person for person in people}
