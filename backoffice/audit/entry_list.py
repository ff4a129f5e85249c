"""The list of audit entries: its columns and its download."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Final
from uuid import UUID

from django.db.models import QuerySet
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop

from backoffice.accounts.access import may
from backoffice.audit.filters import AuditFilterSet
from backoffice.audit.models import AuditCheck, AuditEntry
from backoffice.audit.recording import ACTION_LABELS, kind_label
from backoffice.core.time_formats import calendar_day, hour_with_seconds, short_day
from backoffice.pages.lists.definition import Column, ExportCell, ListPage, Preset
from backoffice.pages.lists.filters import ListFilterSet

RECORD_PAGES: Final = {
    "order": ("orders:detail", "orders.view"),
    "patient": ("patients:detail", "patients.view"),
    "result": ("reviewing:report", "results.view"),
    "report": ("reports:detail", "reports.view"),
    "unmatched result": ("unmatched:detail", "results.match"),
    "command": ("commands:detail", "commands.view"),
    "event": ("events:detail", "events.view"),
    "event payload": ("events:detail", "events.view"),
    "audit entry": ("audit:entry", "audit.view"),
}
"""Kinds of records that have a page: its route, and the permission to open it."""


UNNAMED_ACTORS: Final = {
    "anonymous": gettext_noop("Not signed in"),
    "machine": gettext_noop("Server command line"),
}
MAX_ID_LENGTH: Final = 36
"""Characters of an id shown in a row: the length of a UUID, which `short_id` shortens."""


def record_page_url(kind: str, key: str, user: Any) -> str:
    """Return the URL of a record's page; "" if it has none, or `user` may not open it."""
    route, permission = RECORD_PAGES.get(kind, ("", ""))
    if not route or not may(user, permission):
        return ""
    try:
        return reverse(route, args=[key])
    except NoReverseMatch:
        return ""


def actor_name(entry: AuditEntry) -> str:
    """Return the name of the actor of an entry."""
    if entry.actor is None:
        return gettext(UNNAMED_ACTORS.get(entry.actor_kind, gettext_noop("The back office")))
    return entry.actor.get_full_name()


def action_label(entry: AuditEntry) -> str:
    return gettext(ACTION_LABELS.get(entry.action, entry.action.capitalize()))


def single_patient(entry: AuditEntry) -> UUID | None:
    """Return the patient of an entry that is about exactly one patient."""
    return entry.patient_ids[0] if len(entry.patient_ids) == 1 else None


def named_patients(entries: Iterable[AuditEntry], user: Any) -> list[UUID | None]:
    """Return the patients whom rows of these entries show by name."""
    if not may(user, "patients.view"):
        return []
    return [single_patient(entry) for entry in entries]


def _join(values: Iterable[object]) -> str:
    return " ".join(map(str, values))


COLUMNS: Final = (
    Column(
        "at",
        gettext_noop("When"),
        (ExportCell(gettext_noop("When"), lambda row: row.at, is_timestamp=True),),
        sort="at",
        cell_css="nowrap",
    ),
    Column(
        "who",
        gettext_noop("Who"),
        (
            ExportCell(
                gettext_noop("Who"), lambda row: row.actor.get_username() if row.actor else ""
            ),
            ExportCell(gettext_noop("As"), lambda row: row.actor_kind),
        ),
        cell_css="nowrap",
    ),
    Column(
        "did", gettext_noop("Action"), (ExportCell(gettext_noop("Action"), lambda row: row.action),)
    ),
    Column(
        "about",
        gettext_noop("About"),
        (
            ExportCell(gettext_noop("Kind"), lambda row: row.object_type),
            ExportCell(gettext_noop("Records"), lambda row: _join(row.object_ids)),
        ),
    ),
    Column(
        "patient",
        gettext_noop("Patient"),
        (ExportCell(gettext_noop("Patients"), lambda row: _join(row.patient_ids)),),
        cell_css="nowrap",
    ),
    Column(
        "outcome",
        gettext_noop("Outcome"),
        (ExportCell(gettext_noop("Outcome"), lambda row: row.outcome),),
    ),
    Column(
        "reason",
        gettext_noop("Reason"),
        (ExportCell(gettext_noop("Reason"), lambda row: row.reason),),
        cell_css="wrap",
    ),
    Column(
        "ip",
        gettext_noop("IP address"),
        (ExportCell(gettext_noop("IP address"), lambda row: row.ip),),
        cell_css="nowrap",
    ),
    Column(
        "request",
        gettext_noop("Request"),
        (ExportCell(gettext_noop("Request"), lambda row: row.request_id),),
        shown=False,
    ),
    Column(
        "route",
        gettext_noop("Page"),
        (ExportCell(gettext_noop("Page"), lambda row: row.route),),
        shown=False,
    ),
    Column(
        "number",
        gettext_noop("Number"),
        (ExportCell(gettext_noop("Number"), lambda row: row.pk),),
        css="num",
        shown=False,
        cell_css="num",
    ),
)
OWN_COLUMNS: Final = tuple(column for column in COLUMNS if column.shown and column.key != "who")


@dataclass(frozen=True, slots=True)
class AuditRowContext:
    """What the rows of audit entries show to a user."""

    user: Any

    @property
    def sees_entries(self) -> bool:
        return may(self.user, "audit.view")

    @property
    def sees_patients(self) -> bool:
        return may(self.user, "patients.view")

    def exact_time(self, at: datetime) -> str:
        """Format a time to the second, in the zone of the user: `Nov 25, 8:00:07 AM`."""
        local = timezone.localtime(at)
        write = short_day if local.year == timezone.localdate().year else calendar_day
        return f"{write(local)}, {hour_with_seconds(local)}"

    def actor_name(self, row: AuditEntry) -> str:
        return actor_name(row)

    def action_label(self, row: AuditEntry) -> str:
        return action_label(row)

    def kind_label(self, kind: str) -> str:
        return kind_label(kind)

    def record_url(self, row: AuditEntry) -> str:
        """Return the URL of the only record of an entry; "" if the user may not open it."""
        return record_page_url(row.object_type, row.object_ids[0], self.user)

    def short_key(self, row: AuditEntry) -> str:
        """Return the id of the only record of an entry, cut if it is longer than a UUID."""
        key = row.object_ids[0]
        return key if len(key) <= MAX_ID_LENGTH else key[:8]


class AuditList(ListPage):
    name = "audit"
    title = gettext_noop("Audit")
    template = "audit/list.html"
    subject = "audit entry"
    nouns = (gettext_noop("entry"), gettext_noop("entries"))
    needs = ("audit.view",)
    export_permission = "audit.view"
    columns = COLUMNS
    row_macros = "audit/entry_rows.html"
    filter_set = AuditFilterSet
    presets: ClassVar = (
        Preset("refused", gettext_noop("Refused"), {"outcome": ["refused"]}),
        Preset("changed", gettext_noop("Changes"), {"did": ["change"]}),
        Preset("taken", gettext_noop("Downloaded or printed"), {"did": ["export", "print"]}),
        Preset("entered", gettext_noop("Sign-ins"), {"did": ["login"]}),
    )

    def visible_rows(self, user: Any) -> QuerySet[AuditEntry]:
        return AuditEntry.objects.select_related("actor").defer("before", "after")

    def row_context(self, user: Any, column_keys: Set[str]) -> AuditRowContext:
        return AuditRowContext(user)

    def page_context(self, filters: ListFilterSet) -> dict[str, Any]:
        """Return the patient that the list is filtered by, and what the last check found."""
        check = AuditCheck.objects.latest_finished()
        return {
            "patient": filters.form.cleaned_data.get("patient"),
            "broken": check.trouble if check else [],
        }

    def shown_patients(
        self, rows: Iterable[AuditEntry], filters: ListFilterSet
    ) -> list[UUID | None]:
        patient = filters.form.cleaned_data.get("patient")
        return [*named_patients(rows, filters.user), *([patient] if patient else [])]

    def patient_id_of(self, row: AuditEntry) -> UUID | None:
        return single_patient(row)


AUDIT_LIST: Final = AuditList()
