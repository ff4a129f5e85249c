"""The form of System > Unknown values."""

from __future__ import annotations

from typing import Any, Final

from django import forms

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
PLAIN: Final = {vocabulary.PLAIN: "Plain words, without a color"}


class UnknownValueForm(forms.Form):
    """Bucket or rank, and label, of an unknown value.

    `seen` is the number of the decision that the page showed. It prevents two people from
    overwriting each other's decisions.
    """

    bucket = forms.ChoiceField(label="Bucket", widget=forms.RadioSelect)
    label = forms.CharField(
        label="Words", max_length=80, help_text="What staff read instead of the value."
    )
    seen = forms.IntegerField(widget=forms.HiddenInput)

    def __init__(self, row: UnknownValue, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.row = row
        field = self.fields["bucket"]
        assert isinstance(field, forms.ChoiceField)
        if row.vocabulary in interpretations.VOCABULARIES:
            field.label, field.choices = "Rank", list(RANKS.items())
        else:
            plain = {} if row.vocabulary == STATUS else PLAIN
            field.choices = list({**BUCKETS, **plain}.items())

    @classmethod
    def of(cls, row: UnknownValue) -> UnknownValueForm:
        words = row.label or row.value.replace("_", " ").strip().capitalize()[:80]
        return cls(row, initial={"bucket": row.bucket, "label": words, "seen": row.decision})
