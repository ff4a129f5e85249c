"""Forms of reports: the upload, and checked or corrected rows."""

from __future__ import annotations

import re
import uuid
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext, gettext_lazy

from backoffice.core import vocabulary


class UploadForm(forms.Form):
    """The fields besides the files. A form that is sent twice makes one report, by its id."""

    form_id = forms.UUIDField(widget=forms.HiddenInput, initial=uuid.uuid4)
    review = forms.TypedChoiceField(
        label=gettext_lazy("Who verifies the values?"),
        choices=[
            ("no", gettext_lazy("We do")),
            ("yes", gettext_lazy("The lab service, then we do")),
        ],
        coerce=lambda value: value == "yes",
        initial="no",
        widget=forms.RadioSelect,
    )
    again = forms.BooleanField(required=False)


class TickForm(forms.Form):
    """The row that the person saw, identified by its parsed content and its latest check."""

    reading = forms.RegexField(r"^[0-9a-f]{32}$", widget=forms.HiddenInput)
    latest = forms.IntegerField(min_value=0, widget=forms.HiddenInput)


class RowForm(TickForm):
    """One row with the correct values."""

    test_name = forms.CharField(label=gettext_lazy("Name"), max_length=200)
    value = forms.CharField(label=gettext_lazy("Value"), max_length=2000)
    units = forms.CharField(label=gettext_lazy("Unit"), max_length=60, required=False)
    min_reference_range = forms.FloatField(label=gettext_lazy("Lower limit"), required=False)
    max_reference_range = forms.FloatField(label=gettext_lazy("Upper limit"), required=False)
    interpretation = forms.CharField(
        label=gettext_lazy("Interpretation"), max_length=60, required=False
    )
    loinc_code = forms.CharField(label=gettext_lazy("LOINC code"), max_length=12, required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.use_required_attribute = False
        choices = [("", gettext("Not interpreted"))]
        choices += [
            (value, gettext(label)) for value, label in vocabulary.choices("result.interpretation")
        ]
        current = self["interpretation"].value()
        if current and current not in dict(choices):
            choices.append((current, current))
        self.fields["interpretation"].widget = forms.Select(choices=choices)
        for name in ("min_reference_range", "max_reference_range"):
            self.fields[name].widget = forms.TextInput(attrs={"inputmode": "decimal"})

    def clean_loinc_code(self) -> str:
        code: str = self.cleaned_data["loinc_code"].strip()
        if code and not re.fullmatch(r"\d{1,7}-\d", code):
            raise ValidationError(
                gettext("This is not a LOINC code. A LOINC code looks like 2345-7.")
            )
        return code

    def clean(self) -> None:
        low = self.cleaned_data.get("min_reference_range")
        high = self.cleaned_data.get("max_reference_range")
        if low is not None and high is not None and low > high:
            self.add_error(
                "max_reference_range", gettext("The upper limit is below the lower limit.")
            )
