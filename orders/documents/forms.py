"""What staff may choose about documents."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from django import forms
from django.utils import timezone

from backoffice.outbox import AskForm
from orders.documents.kinds import LABELS, MOST_LABELS, DocumentKind, LabelOptions

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


class PrintForm(AskForm):
    """Which documents of the chosen orders are printed, and how."""

    kinds = forms.MultipleChoiceField(
        label="Documents",
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Choose at least one document."},
    )
    labels = _number("Labels per order")
    new_sheet = forms.BooleanField(
        label="Start each document on a new sheet (for two-sided printing)", required=False
    )

    def __init__(self, *args: Any, kinds: Sequence[DocumentKind], **options: Any) -> None:
        super().__init__(*args, **options)
        field = self.fields["kinds"]
        assert isinstance(field, forms.MultipleChoiceField)
        field.choices = [(kind.slug, kind.label) for kind in kinds]


def labels_form(visit_at: datetime | None) -> LabelsForm:
    """The form as it is first shown: for the time of the visit, or for now."""
    at = timezone.localtime(visit_at or timezone.now())
    first: dict[str, Any] = {"number": LABELS, "collected_at": at}
    return LabelsForm(initial=first, auto_id="labels_%s")
