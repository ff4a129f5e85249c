"""The filters of the list of patients."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import QuerySet
from django.utils.translation import gettext_lazy
from django_filters import CharFilter

from backoffice.core.encryption.url_tokens import PersonalParameters
from backoffice.pages.lists.filters import ListFilterSet
from backoffice.pages.lists.forms import FilterForm
from patients.models import PatientQuerySet
from patients.search_text import parse_search_text


class PatientListForm(FilterForm):
    SORTS: ClassVar = {
        "created_on": ("created_on", "id"),
        "name": ("name_key", "id"),
        "born": ("dob", "id"),
    }
    DESCENDING_FIRST = frozenset({"created_on"})
    PRIVATE_SORTS = frozenset({"name", "born"})
    WORDS = PersonalParameters("patients", frozenset({"q"}))

    @property
    def text(self) -> str:
        return str(self.cleaned_data.get("q", "")).strip()


class PatientListFilterSet(ListFilterSet):
    """The search box.

    It takes parts of names, digits of a phone number, an email address, a birth date, the
    beginning of an id, or a client user id.
    """

    q = CharFilter(max_length=100, label=gettext_lazy("Search"), method="filter_text")

    class Meta:
        form = PatientListForm

    def filter_text(self, patients: PatientQuerySet, name: str, text: str) -> PatientQuerySet:
        return patients.matching(parse_search_text(text.strip()))

    def filter_queryset(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return self.with_sort_value(super().filter_queryset(queryset))

    def with_sort_value(self, patients: QuerySet[Any]) -> QuerySet[Any]:
        """Return the patients that have a value in the sorted column."""
        key = self.form.sort[0] if self.form.is_valid() else ""
        if key == "name":
            return patients.filter(name_key__gt="")
        return patients.filter(dob__isnull=False) if key == "born" else patients
