"""The form of System > Unknown values."""

from __future__ import annotations

from typing import Any, Final

from django import forms
from django.utils.translation import gettext, gettext_lazy, gettext_noop

from backoffice.core import vocabulary
from backoffice.core.models import UnknownValue
from backoffice.core.vocabulary import interpretations

STATUS: Final = "order.low_level_status"
BUCKETS: Final = {
    bucket: label
    for bucket, label in vocabulary.BUCKETS.items()
    if bucket != vocabulary.UNKNOWN
}  # fmt: skip
RANKS: Final = interpretations.RANKS_TO_GIVE
PLAIN: Final = {vocabulary.PLAIN: gettext_noop("Plain label, no color")}


class UnknownValueForm(forms.Form):
    """Bucket or rank, and label, of an unknown value.

    `seen` is the number of the decision that the page showed. It prevents two people from
    overwriting each other's decisions.
    """

    bucket = forms.ChoiceField(label=gettext_lazy("Status group"), widget=forms.RadioSelect)
    label = forms.CharField(
        label=gettext_lazy("Label"),
        max_length=80,
        help_text=gettext_lazy("Shown to staff instead of the value."),
    )
    seen = forms.IntegerField(widget=forms.HiddenInput)

    def __init__(self, row: UnknownValue, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.row = row
        field = self.fields["bucket"]
        assert isinstance(field, forms.ChoiceField)
        if row.vocabulary in interpretations.VOCABULARIES:
            field.label, field.choices = gettext("Rank"), _translated(RANKS)
        else:
            plain = {} if row.vocabulary == STATUS else PLAIN
            field.choices = _translated({**BUCKETS, **plain})

    @classmethod
    def of(cls, row: UnknownValue) -> UnknownValueForm:
        words = row.label or row.value.replace("_", " ").strip().capitalize()[:80]
        return cls(row, initial={"bucket": row.bucket, "label": words, "seen": row.decision})


def _translated(labels: dict[str, str]) -> list[tuple[str, str]]:
    return [(value, gettext(label)) for value, label in labels.items()]
