"""The patient list's filters."""

from typing import Any, ClassVar

from django import forms

from backoffice.lists.forms import FilterForm
from backoffice.models import AS_RECEIVED
from backoffice.sealed_words import Words
from backoffice.statements import by_key
from patients.models import Demographics, Patient


class PatientFilters(FilterForm):
    """One box: partial names, phone digits, e-mail, birth date, id beginnings, client id."""

    q = forms.CharField(required=False, max_length=100, label="Search")

    SORTS: ClassVar = {"created_on": ("created_on", "id"), "name": ("name_key", "user_id")}
    FALLING = frozenset({"created_on"})
    PRIVATE = frozenset({"name"})
    WORDS = Words("patients", frozenset({"q"}))

    @property
    def text(self) -> str:
        return str(self.cleaned_data.get("q", "")).strip()


def demographics_of(patients: list[Patient]) -> dict[Any, Demographics]:
    """Demographics by patient id, without the records as received: one query."""
    keys = [patient.pk for patient in patients]
    return by_key(Demographics, keys, but=AS_RECEIVED)
