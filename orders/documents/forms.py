"""What staff may choose about documents."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from django import forms
from django.utils import timezone

from orders.documents.kinds import LABELS, MOST_LABELS, LabelOptions

_LOCAL: Final = "%Y-%m-%dT%H:%M"


def _number(label: str) -> forms.IntegerField:
    return forms.IntegerField(label=label, min_value=1, max_value=MOST_LABELS, required=False)


class LabelsForm(forms.Form):
    """How many labels, and the time of collection on them. All of it may be left out."""

    number = _number("Labels")
    collected_at = forms.DateTimeField(
        label="Collected",
        required=False,
        input_formats=[_LOCAL],
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format=_LOCAL),
    )

    def options(self) -> LabelOptions:
        """What was chosen, of a valid form."""
        given = self.cleaned_data
        return LabelOptions(given["number"] or LABELS, given["collected_at"])


def labels_form(visit_at: datetime | None) -> LabelsForm:
    """The form as it is first shown: for the time of the visit, or for now."""
    at = timezone.localtime(visit_at or timezone.now())
    first: dict[str, Any] = {"number": LABELS, "collected_at": at}
    return LabelsForm(initial=first, auto_id="labels_%s")
