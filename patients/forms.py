"""The patient list's filters."""

from typing import ClassVar

from django import forms

from backoffice.core.encryption.url_tokens import PersonalParameters
from backoffice.pages.lists.forms import FilterForm


class PatientFilters(FilterForm):
    """The search box.

    It takes parts of names, digits of a phone number, an e-mail address, a birth date, the
    beginning of an id, or a client user id.
    """

    q = forms.CharField(required=False, max_length=100, label="Search")

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
