"""The list of requests to the service: its filters, columns and tabs."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar, Final
from uuid import UUID

from django import forms
from django.db.models import QuerySet
from django.http import QueryDict

from backoffice.accounts.staff_queries import staff_choices
from backoffice.core import vocabulary
from backoffice.outbox.models import CommandRecord
from backoffice.pages.lists.definition import Column, ExportCell, ListPage
from backoffice.pages.lists.fields import (
    DaysField,
    DeferredChoiceField,
    OpenVocabularyField,
    TimestampField,
    UuidField,
    check_day_order,
)
from backoffice.pages.lists.forms import Filter, FilterForm

TABS: Final = {
    "mine": "Mine",
    "decide": "Need a decision",
    "open": "Under way",
    "refused": "Refused",
    "": "All",
}
TAB_STATES: Final = {
    "decide": CommandRecord.State.UNDECIDED,
    "refused": CommandRecord.State.REFUSED,
}
NOT_SHOWN: Final = ("payload", "form_data", "found", "refusal_fields")
"""Long columns that no row shows. Two of them are encrypted."""


class StaffField(DeferredChoiceField):
    """A choice of members of staff, by id."""

    def valid_value(self, value: object) -> bool:
        text = str(value)
        return text.isascii() and text.isdigit() and len(text) < 10


class CommandFilters(FilterForm):
    """Filter by tab, status, kind, person, record and time, combined with AND."""

    show = forms.ChoiceField(required=False, choices=list(TABS.items()))
    state = OpenVocabularyField("command.state", label="Status")
    kind = OpenVocabularyField("command.kind", label="Kind")
    person = StaffField(required=False, label="By", widget=forms.CheckboxSelectMultiple)
    day = DaysField("", label="Day")
    since = TimestampField(label="From")
    until = TimestampField(label="Until", end_of_day=True, help_text="The whole day.")
    patient = UuidField(label="Patient ID")
    record = forms.CharField(
        required=False,
        max_length=200,
        label="Record ID",
        help_text="The whole ID of the order, lab account or other record.",
    )

    SORTS: ClassVar = {
        "requested_at": ("requested_at", "id"),
        "state": ("state", "requested_at", "id"),
        "kind": ("kind", "requested_at", "id"),
    }
    DESCENDING_FIRST = frozenset({"requested_at"})
    TAB_FIELDS = frozenset({"show"})
    FILTERS: ClassVar = (
        Filter("Status", ("state",), always_shown=True),
        Filter("Kind", ("kind",), always_shown=True),
        Filter("By", ("person",), always_shown=True),
        Filter("Date", ("day", "since", "until"), always_shown=True, shows_zone=True),
        Filter("About", ("patient", "record"), always_shown=True),
    )

    def __init__(self, data: Any = None) -> None:
        super().__init__(data)
        person = self.fields["person"]
        assert isinstance(person, StaffField)
        person.offer(cache(staff_choices))

    def clean_record(self) -> str:
        return str(self.cleaned_data["record"]).strip()

    def clean(self) -> None:
        super().clean()
        check_day_order(self, "since", "until")

    def apply(self, rows: QuerySet[CommandRecord], user: Any) -> QuerySet[CommandRecord]:
        filters = self.cleaned_data
        for name, condition in (
            ("state", "state__in"),
            ("kind", "kind__in"),
            ("person", "requested_by__in"),
            ("since", "requested_at__gte"),
            ("until", "requested_at__lte"),
            ("patient", "patient_id"),
            ("record", "subject_id"),
        ):
            if filters[name]:
                rows = rows.filter(**{condition: filters[name]})
        if filters["day"]:
            first, after = filters["day"]
            rows = rows.filter(requested_at__gte=first, requested_at__lt=after)
        tab = filters["show"]
        if tab == "mine":
            rows = rows.filter(requested_by=user.pk)
        elif tab == "open":
            rows = rows.filter(state__in=CommandRecord.OPEN)
        elif tab:
            rows = rows.filter(state=TAB_STATES[tab])
        return rows


COLUMNS: Final = (
    Column(
        "title",
        "Request",
        (
            ExportCell("Request", lambda row: row.title),
            ExportCell("ID", lambda row: row.pk),
        ),
        macro="title",
    ),
    Column(
        "state",
        "Status",
        (
            ExportCell("Status", lambda row: vocabulary.term("command.state", row.state).label),
            ExportCell("Refusal", lambda row: row.refusal),
        ),
        sort="state",
        macro="state",
    ),
    Column(
        "about",
        "About",
        (
            ExportCell("Kind of record", lambda row: row.subject_type),
            ExportCell("Record", lambda row: row.subject_id),
        ),
        macro="about",
    ),
    Column(
        "person",
        "By",
        (ExportCell("By", lambda row: row.requested_by.get_full_name()),),
        macro="person",
    ),
    Column(
        "requested_at",
        "Requested",
        (ExportCell("Requested", lambda row: row.requested_at, is_timestamp=True),),
        sort="requested_at",
        macro="requested_at",
        cell_css="nowrap",
    ),
    Column(
        "attempts",
        "Sent",
        (ExportCell("Times sent", lambda row: row.attempts),),
        css="num",
        macro="attempts",
        cell_css="num",
    ),
    Column(
        "kind",
        "Kind",
        (ExportCell("Kind", lambda row: vocabulary.term("command.kind", row.kind).label),),
        sort="kind",
        shown=False,
        macro="kind",
    ),
    Column(
        "patient",
        "Patient ID",
        (ExportCell("Patient", lambda row: row.patient_id),),
        shown=False,
        macro="patient",
    ),
    Column(
        "finished_at",
        "Finished",
        (ExportCell("Finished", lambda row: row.finished_at, is_timestamp=True),),
        shown=False,
        macro="finished_at",
        cell_css="nowrap",
    ),
    Column(
        "reason",
        "Reason",
        (ExportCell("Reason", lambda row: row.reason),),
        shown=False,
        macro="reason",
        cell_css="wrap",
    ),
)


class CommandList(ListPage):
    name = "commands"
    title = "Requests"
    template = "commands/list.html"
    subject = "command"
    nouns = ("request", "requests")
    needs = ("commands.view",)
    columns = COLUMNS
    row_macros = "commands/command_rows.html"

    def form(self, data: QueryDict, user: Any) -> CommandFilters:
        return CommandFilters(data)

    def visible_rows(self, user: Any) -> QuerySet[CommandRecord]:
        return CommandRecord.objects.select_related("requested_by").defer(*NOT_SHOWN)

    def rows(self, form: Any, user: Any) -> QuerySet[CommandRecord]:
        rows: QuerySet[CommandRecord] = form.apply(self.visible_rows(user), user)
        return rows

    def page_context(self, form: FilterForm, user: Any) -> dict[str, Any]:
        current = form.cleaned_data.get("show") if form.is_valid() else None
        return {
            "tabs": [
                {"key": key, "label": label, "current": key == current}
                for key, label in TABS.items()
            ]
        }

    def patient_id_of(self, row: CommandRecord) -> UUID | None:
        return row.patient_id


COMMAND_LIST: Final = CommandList()
