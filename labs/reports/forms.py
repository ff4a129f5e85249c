"""Forms of reports: the upload, a corrected row, the list's tabs."""

from __future__ import annotations

import re
import uuid
from typing import Any, Final

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import Q

from backoffice.core import vocabulary
from labs.reports.models import UNDER_WAY, WAITING_FOR_STAFF

TABS: Final[dict[str, tuple[str, Q]]] = {
    "todo": ("For us", WAITING_FOR_STAFF),
    "under-way": ("Under way", UNDER_WAY),
    "accepted": ("Accepted", Q(accepted_at__isnull=False, changed_since_accepted=False)),
    "all": ("All", Q()),
}


class UploadForm(forms.Form):
    """What is asked beside the files. Its id makes a form that is sent twice one report."""

    form_id = forms.UUIDField(widget=forms.HiddenInput, initial=uuid.uuid4)
    review = forms.TypedChoiceField(
        label="Who checks what is read?",
        choices=[("no", "We do"), ("yes", "The service, then we do")],
        coerce=lambda value: value == "yes",
        initial="no",
        widget=forms.RadioSelect,
    )
    again = forms.BooleanField(required=False)


class TickForm(forms.Form):
    """Which reading of a row, and after whose word, a person speaks about."""

    reading = forms.RegexField(r"^[0-9a-f]{32}$", widget=forms.HiddenInput)
    latest = forms.IntegerField(min_value=0, widget=forms.HiddenInput)


class RowForm(TickForm):
    """One row as it should read."""

    test_name = forms.CharField(label="Name", max_length=200)
    value = forms.CharField(label="Value", max_length=2000)
    units = forms.CharField(label="Unit", max_length=60, required=False)
    min_reference_range = forms.FloatField(label="Lower limit", required=False)
    max_reference_range = forms.FloatField(label="Upper limit", required=False)
    interpretation = forms.CharField(label="Interpretation", max_length=60, required=False)
    loinc_code = forms.CharField(label="LOINC code", max_length=12, required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.use_required_attribute = False
        known = [("", "Not interpreted"), *vocabulary.choices("result.interpretation")]
        said = self["interpretation"].value()
        if said and said not in dict(known):
            known.append((said, said))
        self.fields["interpretation"].widget = forms.Select(choices=known)
        for name in ("min_reference_range", "max_reference_range"):
            self.fields[name].widget = forms.TextInput(attrs={"inputmode": "decimal"})

    def clean_loinc_code(self) -> str:
        code: str = self.cleaned_data["loinc_code"].strip()
        if code and not re.fullmatch(r"\d{1,7}-\d", code):
            raise ValidationError("A LOINC code looks like 2345-7.")
        return code

    def clean(self) -> None:
        low = self.cleaned_data.get("min_reference_range")
        high = self.cleaned_data.get("max_reference_range")
        if low is not None and high is not None and low > high:
            self.add_error("max_reference_range", "The upper limit is below the lower one.")
