"""The list of requests to the service."""

from __future__ import annotations

from typing import Any, Final

from django.db.models import QuerySet
from django.utils.translation import gettext, gettext_noop

from backoffice.core import vocabulary
from backoffice.outbox.filters import TABS, CommandFilterSet
from backoffice.outbox.models import CommandRecord
from backoffice.pages.lists.definition import Column, ExportCell, ListPage
from backoffice.pages.lists.filters import ListFilterSet
from backoffice.pages.query_strings import address_with
from backoffice.pages.tabs import Tab

NOT_SHOWN: Final = ("payload", "form_data", "found", "refusal_fields")
"""Long columns that no row shows. Two of them are encrypted."""

COLUMNS: Final = (
    Column(
        "title",
        gettext_noop("Request"),
        (
            ExportCell(gettext_noop("Request"), lambda row: row.title),
            ExportCell(gettext_noop("ID"), lambda row: row.pk),
        ),
    ),
    Column(
        "state",
        gettext_noop("Status"),
        (
            ExportCell(
                gettext_noop("Status"),
                lambda row: gettext(vocabulary.term("command.state", row.state).label),
            ),
            ExportCell(gettext_noop("Refusal"), lambda row: row.refusal),
        ),
        sort="state",
    ),
    Column(
        "about",
        gettext_noop("Record"),
        (
            ExportCell(gettext_noop("Kind of record"), lambda row: row.subject_type),
            ExportCell(gettext_noop("Record"), lambda row: row.subject_id),
        ),
    ),
    Column(
        "person",
        gettext_noop("By"),
        (ExportCell(gettext_noop("By"), lambda row: row.requested_by.get_full_name()),),
    ),
    Column(
        "requested_at",
        gettext_noop("Requested"),
        (ExportCell(gettext_noop("Requested"), lambda row: row.requested_at, is_timestamp=True),),
        sort="requested_at",
        cell_css="nowrap",
    ),
    Column(
        "attempts",
        gettext_noop("Sent"),
        (ExportCell(gettext_noop("Times sent"), lambda row: row.attempts),),
        css="num",
        cell_css="num",
    ),
    Column(
        "kind",
        gettext_noop("Kind"),
        (
            ExportCell(
                gettext_noop("Kind"),
                lambda row: gettext(vocabulary.term("command.kind", row.kind).label),
            ),
        ),
        sort="kind",
        shown=False,
    ),
    Column(
        "patient",
        gettext_noop("Patient ID"),
        (ExportCell(gettext_noop("Patient"), lambda row: row.patient_id),),
        shown=False,
    ),
    Column(
        "finished_at",
        gettext_noop("Finished"),
        (ExportCell(gettext_noop("Finished"), lambda row: row.finished_at, is_timestamp=True),),
        shown=False,
        cell_css="nowrap",
    ),
    Column(
        "reason",
        gettext_noop("Reason"),
        (ExportCell(gettext_noop("Reason"), lambda row: row.reason),),
        shown=False,
        cell_css="wrap",
    ),
)


class CommandList(ListPage):
    name = "commands"
    title = gettext_noop("Requests")
    template = "commands/list.html"
    subject = "command"
    nouns = (gettext_noop("request"), gettext_noop("requests"))
    patient_column = "patient_id"
    needs = ("commands.view",)
    columns = COLUMNS
    row_macros = "commands/command_rows.html"
    filter_set = CommandFilterSet

    def visible_rows(self, user: Any) -> QuerySet[CommandRecord]:
        return CommandRecord.objects.select_related("requested_by").defer(*NOT_SHOWN)

    def page_context(self, filters: ListFilterSet) -> dict[str, Any]:
        current = filters.form.tab
        tabs = [
            Tab(label, address_with(filters.data, show=key), key == current)
            for key, label in TABS.items()
        ]
        return {"tabs": tabs}


COMMAND_LIST: Final = CommandList()
