"""The patient list's filters."""

from typing import Any, Final

from django import forms

from backoffice.paging import Sort
from patients.models import Demographics, Patient

SIZE: Final = 50

SORTS: Final[dict[str, Sort]] = {
    "created_on": Sort(("created_on", "id"), descending=True),
    "name": Sort(("name_key", "user_id"), private=True),
}


class PatientFilters(forms.Form):
    """One box: partial names, phone digits, e-mail, birth date, id beginnings, client id."""

    q = forms.CharField(required=False, max_length=100, label="Search")
    size = forms.IntegerField(required=False, min_value=1, max_value=100)

    @property
    def text(self) -> str:
        return str(self.cleaned_data.get("q", "")).strip()

    @property
    def page_size(self) -> int:
        return self.cleaned_data.get("size") or SIZE


def demographics_of(patients: list[Patient]) -> dict[Any, Demographics]:
    """Demographics by patient id, without the records as received: one query."""
    rows = Demographics.objects.defer("record", "content_hash")
    return rows.in_bulk([patient.pk for patient in patients])
