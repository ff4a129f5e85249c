"""Forms of the audit trail: the filters (in URLs: ids and kinds, no free text), and the reviews."""

from __future__ import annotations

from datetime import date
from functools import cache
from typing import Any, ClassVar, Final

from django import forms
from django.db import connection
from django.db.models import Q, QuerySet
from django.utils import timezone

from backoffice.accounts.staff_queries import staff_choices
from backoffice.audit.models import AuditEntry
from backoffice.audit.recording import ACTION_LABELS, kind_label
from backoffice.pages.lists.fields import (
    DaysField,
    DeferredChoiceField,
    TimestampField,
    UuidField,
    check_day_order,
)
from backoffice.pages.lists.forms import Filter, FilterForm

NOBODY: Final = "nobody"
MAX_KINDS: Final = 200

_KINDS_SQL: Final = """
WITH RECURSIVE kinds (kind, position) AS (
    (SELECT object_type, 1 FROM audit_auditentry ORDER BY object_type LIMIT 1)
    UNION ALL
    SELECT (SELECT object_type FROM audit_auditentry
            WHERE object_type > kinds.kind ORDER BY object_type LIMIT 1), position + 1
    FROM kinds WHERE kinds.kind IS NOT NULL AND position < %s
)
SELECT kind FROM kinds WHERE kind IS NOT NULL
"""


def _kind_choices() -> list[tuple[str, str]]:
    """Return every kind of record that has an entry. The query takes one index step per kind."""
    with connection.cursor() as cursor:
        cursor.execute(_KINDS_SQL, [MAX_KINDS])
        return [(kind, kind_label(kind)) for (kind,) in cursor.fetchall()]


def _person_choices() -> list[tuple[str, str]]:
    return [*staff_choices(), (NOBODY, "Nobody who is known")]


class PersonField(DeferredChoiceField):
    def valid_value(self, value: object) -> bool:
        text = str(value)
        return text == NOBODY or (text.isascii() and text.isdigit() and len(text) < 10)


class AuditFilterForm(FilterForm):
    """Filter by person, action, record, time, and outcome, combined with AND."""

    person = PersonField(required=False, label="Who", widget=forms.CheckboxSelectMultiple)
    did = forms.MultipleChoiceField(
        required=False,
        label="Action",
        choices=list(ACTION_LABELS.items()),
        widget=forms.CheckboxSelectMultiple,
    )
    kind = DeferredChoiceField(required=False, label="Kind", widget=forms.CheckboxSelectMultiple)
    day = DaysField("", label="Day")
    since = TimestampField(label="From")
    until = TimestampField(label="Until", end_of_day=True, help_text="The whole day.")
    outcome = forms.ChoiceField(
        required=False,
        label="Outcome",
        choices=[("", "Either"), ("ok", "Done"), ("refused", "Refused")],
    )
    patient = UuidField(label="Patient ID")
    record = forms.CharField(
        required=False,
        max_length=200,
        label="Record ID",
        help_text="The whole id of an order, report, request or other record.",
    )
    request = forms.CharField(
        required=False,
        max_length=64,
        label="Request ID",
        help_text="As it stands in log lines and in the answer's X-Request-ID.",
    )

    SORTS: ClassVar = {"at": ("at", "id")}
    DESCENDING_FIRST = frozenset({"at"})
    FILTERS: ClassVar = (
        Filter("Who", ("person",), always_shown=True),
        Filter("Action", ("did",), always_shown=True),
        Filter("Kind", ("kind",), always_shown=True),
        Filter("Date", ("day", "since", "until"), always_shown=True, shows_zone=True),
        Filter("About", ("patient", "record"), always_shown=True),
        Filter("Outcome", ("outcome",)),
        Filter("Request", ("request",)),
    )

    def __init__(self, data: Any = None) -> None:
        super().__init__(data)
        for name, read in (("person", _person_choices), ("kind", _kind_choices)):
            field = self.fields[name]
            assert isinstance(field, DeferredChoiceField)
            field.offer(cache(read))

    def clean_record(self) -> str:
        return str(self.cleaned_data["record"]).strip()

    def clean_request(self) -> str:
        return str(self.cleaned_data["request"]).strip()

    def clean(self) -> None:
        super().clean()
        check_day_order(self, "since", "until")

    def apply(self, rows: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
        filters = self.cleaned_data
        for name, condition in (
            ("did", "action__in"),
            ("kind", "object_type__in"),
            ("outcome", "outcome"),
            ("since", "at__gte"),
            ("until", "at__lte"),
            ("request", "request_id"),
        ):
            if filters[name]:
                rows = rows.filter(**{condition: filters[name]})
        if filters["day"]:
            first, after = filters["day"]
            rows = rows.filter(at__gte=first, at__lt=after)
        if filters["patient"]:
            rows = rows.filter(patient_ids__contains=[filters["patient"]])
        if filters["record"]:
            rows = rows.filter(object_ids__contains=[filters["record"]])
        if filters["person"]:
            people = Q(actor__in=[int(key) for key in filters["person"] if key != NOBODY])
            rows = rows.filter(people | Q(actor=None) if NOBODY in filters["person"] else people)
        return rows


class AuditReviewForm(forms.Form):
    """The confirmation of a person that they reviewed the entries of a month."""

    month = forms.DateField(input_formats=["%Y-%m"], widget=forms.HiddenInput)
    note = forms.CharField(
        required=False,
        max_length=2_000,
        label="What was found",
        widget=forms.Textarea(attrs={"rows": 3}),
    )

    def clean_month(self) -> date:
        month: date = self.cleaned_data["month"]
        if month >= timezone.localdate().replace(day=1):
            raise forms.ValidationError("A month can be signed off when it is over.")
        return month
