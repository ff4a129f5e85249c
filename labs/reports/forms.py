"""Forms of reports: the filters of the list, the upload, and corrected rows."""

from __future__ import annotations

import re
import uuid
from functools import cache
from typing import Any, ClassVar, Final

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import Exists, OuterRef, Q, QuerySet

from backoffice.accounts.models import User
from backoffice.core import vocabulary
from backoffice.pages.lists.fields import (
    DaysField,
    DeferredChoiceField,
    OpenVocabularyField,
    TimestampField,
    UuidField,
    check_day_order,
)
from backoffice.pages.lists.forms import Filter, FilterForm
from labs.reports.models import IN_PROGRESS, IS_ACCEPTED, WAITING_FOR_STAFF, Report

TO_REVIEW: Final = "todo"
ACCEPTED: Final = "accepted"
ALL: Final = "all"
TABS: Final[dict[str, tuple[str, Q]]] = {
    TO_REVIEW: ("To review", WAITING_FOR_STAFF),
    "under-way": ("Under way", IN_PROGRESS),
    ACCEPTED: ("Accepted", IS_ACCEPTED),
    ALL: ("All", Q()),
}
ME: Final = "me"
ELSEWHERE: Final = "elsewhere"
"""Choice of the filter by uploader: reports that were not uploaded here."""


def _uploader_choices() -> list[tuple[str, str]]:
    """Return who uploaded reports. The query takes one index step per staff account."""
    uploaders = User.objects.filter(Exists(Report.objects.filter(uploaded_by=OuterRef("pk"))))
    people = uploaders.order_by("first_name", "last_name", "username")[:200]
    named = [(str(one.pk), one.get_full_name() or one.get_username()) for one in people]
    return [(ME, "Me"), (ELSEWHERE, "Elsewhere, not here"), *named]


class UploaderField(DeferredChoiceField):
    def valid_value(self, value: object) -> bool:
        text = str(value)
        return text in (ME, ELSEWHERE) or (text.isascii() and text.isdigit() and len(text) < 10)


class ReportFilterForm(FilterForm):
    """Filter by state, time of upload, uploader and patient, combined with AND, within a tab."""

    show = forms.ChoiceField(
        required=False,
        choices=[(key, label) for key, (label, _) in TABS.items()],
        widget=forms.HiddenInput,
    )
    state = OpenVocabularyField("report.state", label="Status")
    uploaded = DaysField("", label="Day")
    since = TimestampField(label="From")
    until = TimestampField(label="Until", end_of_day=True, help_text="The whole day.")
    uploaded_by = UploaderField(
        required=False, label="Uploaded by", widget=forms.CheckboxSelectMultiple
    )
    user_id = UuidField(label="Patient ID")

    SORTS: ClassVar = {
        "uploaded_at": ("uploaded_at", "id"),
        "state": ("state", "uploaded_at", "id"),
        "accepted_at": ("accepted_at", "id"),
    }
    DESCENDING_FIRST = frozenset({"uploaded_at", "accepted_at"})
    TAB_FIELDS = frozenset({"show"})
    FILTERS: ClassVar = (
        Filter("Status", ("state",), always_shown=True),
        Filter("Uploaded", ("uploaded", "since", "until"), always_shown=True, shows_zone=True),
        Filter("Uploaded by", ("uploaded_by",), always_shown=True),
        Filter("Patient", ("user_id",)),
    )

    def __init__(self, data: Any = None, *, user: Any) -> None:
        super().__init__(data)
        self.user = user
        uploaders = self.fields["uploaded_by"]
        assert isinstance(uploaders, UploaderField)
        uploaders.offer(cache(_uploader_choices))

    def clean(self) -> None:
        super().clean()
        check_day_order(self, "since", "until")

    @property
    def tab(self) -> str:
        """The open tab: what waits for staff, but everything of one patient."""
        default = ALL if self.cleaned_data.get("user_id") else TO_REVIEW
        return self.cleaned_data.get("show") or default

    def has_tab(self) -> bool:
        return self.tab != ALL

    @property
    def sort(self) -> tuple[str, str]:
        """The active sort. Only accepted reports can be sorted by when they were accepted."""
        key, direction = super().sort
        return (key, direction) if self.can_sort_by(key) else ("uploaded_at", "desc")

    def can_sort_by(self, key: str) -> bool:
        return super().can_sort_by(key) and (key != "accepted_at" or self.tab == ACCEPTED)

    def apply(self, rows: QuerySet[Report]) -> QuerySet[Report]:
        """Return the rows that match the filters, in all tabs."""
        filters = self.cleaned_data
        for name, condition in (
            ("state", "state__in"),
            ("since", "uploaded_at__gte"),
            ("until", "uploaded_at__lte"),
            ("user_id", "user"),
        ):
            if filters[name]:
                rows = rows.filter(**{condition: filters[name]})
        if filters["uploaded"]:
            first, after = filters["uploaded"]
            rows = rows.filter(uploaded_at__gte=first, uploaded_at__lt=after)
        if people := filters["uploaded_by"]:
            keys = [int(one) for one in people if one.isdigit()]
            wanted = Q(uploaded_by__in=[*keys, self.user.pk] if ME in people else keys)
            rows = rows.filter(wanted | Q(uploaded_by=None) if ELSEWHERE in people else wanted)
        return rows


class UploadForm(forms.Form):
    """The fields besides the files. A form that is sent twice makes one report, by its id."""

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
    """The row that the person saw, identified by its parsed content and its latest check."""

    reading = forms.RegexField(r"^[0-9a-f]{32}$", widget=forms.HiddenInput)
    latest = forms.IntegerField(min_value=0, widget=forms.HiddenInput)


class RowForm(TickForm):
    """One row with the correct values."""

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
        choices = [("", "Not interpreted"), *vocabulary.choices("result.interpretation")]
        current = self["interpretation"].value()
        if current and current not in dict(choices):
            choices.append((current, current))
        self.fields["interpretation"].widget = forms.Select(choices=choices)
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
