"""The list of requests to the service."""

from __future__ import annotations

from typing import Any, Final

from django.db.models import QuerySet

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
        "Request",
        (
            ExportCell("Request", lambda row: row.title),
            ExportCell("ID", lambda row: row.pk),
        ),
    ),
    Column(
        "state",
        "Status",
        (
            ExportCell("Status", lambda row: vocabulary.term("command.state", row.state).label),
            ExportCell("Refusal", lambda row: row.refusal),
        ),
        sort="state",
    ),
    Column(
        "about",
        "About",
        (
            ExportCell("Kind of record", lambda row: row.subject_type),
            ExportCell("Record", lambda row: row.subject_id),
        ),
    ),
    Column(
        "person",
        "By",
        (ExportCell("By", lambda row: row.requested_by.get_full_name()),),
    ),
    Column(
        "requested_at",
        "Requested",
        (ExportCell("Requested", lambda row: row.requested_at, is_timestamp=True),),
        sort="requested_at",
        cell_css="nowrap",
    ),
    Column(
        "attempts",
        "Sent",
        (ExportCell("Times sent", lambda row: row.attempts),),
        css="num",
        cell_css="num",
    ),
    Column(
        "kind",
        "Kind",
        (ExportCell("Kind", lambda row: vocabulary.term("command.kind", row.kind).label),),
        sort="kind",
        shown=False,
    ),
    Column(
        "patient",
        "Patient ID",
        (ExportCell("Patient", lambda row: row.patient_id),),
        shown=False,
    ),
    Column(
        "finished_at",
        "Finished",
        (ExportCell("Finished", lambda row: row.finished_at, is_timestamp=True),),
        shown=False,
        cell_css="nowrap",
    ),
    Column(
        "reason",
        "Reason",
        (ExportCell("Reason", lambda row: row.reason),),
        shown=False,
        cell_css="wrap",
    ),
)


class CommandList(ListPage):
    name = "commands"
    title = "Requests"
    template = "commands/list.html"
    subject = "command"
    nouns = ("request", "requests")
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
