"""The form of the monthly review of the audit trail."""

from __future__ import annotations

from datetime import date

from django import forms
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy


class AuditReviewForm(forms.Form):
    """The confirmation of a person that they reviewed the entries of a month."""

    month = forms.DateField(input_formats=["%Y-%m"], widget=forms.HiddenInput)
    note = forms.CharField(
        required=False,
        max_length=2_000,
        label=gettext_lazy("Findings"),
        widget=forms.Textarea(attrs={"rows": 3}),
    )

    def clean_month(self) -> date:
        month: date = self.cleaned_data["month"]
        if month >= timezone.localdate().replace(day=1):
            raise forms.ValidationError(gettext("You can sign off a month after it ends."))
        return month
