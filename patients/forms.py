"""The patient list's filters."""

from typing import ClassVar

from django import forms

from backoffice.core.encryption.url_tokens import PersonalParameters
from backoffice.pages.lists.forms import FilterForm


class PatientFilters(FilterForm):
    """One box: partial names, phone digits, e-mail, birth date, id beginnings, client id."""

    q = forms.CharField(required=False, max_length=100, label="Search")

    SORTS: ClassVar = {
        "created_on": ("created_on", "id"),
        "name": ("name_key", "id"),
        "born": ("dob", "id"),
    }
    FALLING = frozenset({"created_on"})
    PRIVATE = frozenset({"name", "born"})
    WORDS = PersonalParameters("patients", frozenset({"q"}))

    @property
    def text(self) -> str:
        return str(self.cleaned_data.get("q", "")).strip()
