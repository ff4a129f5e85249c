"""The list of audit entries: its columns, its rows as HTML, and its download."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any, ClassVar, Final
from uuid import UUID

from django.db.models import QuerySet
from django.http import QueryDict
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString

from backoffice.accounts.access import may
from backoffice.audit.forms import AuditFilterForm
from backoffice.audit.models import AuditEntry
from backoffice.audit.recording import ACTION_LABELS, kind_label
from backoffice.core.time_formats import MONTHS
from backoffice.core.urls import record_url
from backoffice.pages.icons import glyph_svg
from backoffice.pages.lists.context import ListContext
from backoffice.pages.lists.definition import Column, ExportCell, ListPage, Preset
from backoffice.pages.templatetags.ui import DASH, dash, short_id

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


UNNAMED_ACTORS: Final = {"anonymous": "Nobody known", "machine": "Somebody at the machine"}
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
        return UNNAMED_ACTORS.get(entry.actor_kind, "The back office")
    return entry.actor.get_full_name()


def action_label(entry: AuditEntry) -> str:
    return ACTION_LABELS.get(entry.action, entry.action.capitalize())


def outcome_html(value: str) -> SafeString:
    """Return the outcome as HTML, marked unless it is plain success."""
    if value == "ok":
        return SafeString("Done")
    text = glyph_svg("warning") + escape(value.capitalize())
    return SafeString(f'<span class="st bare" data-st="needs-action">{text}</span>')


def single_patient(entry: AuditEntry) -> UUID | None:
    """Return the patient of an entry that is about exactly one patient."""
    return entry.patient_ids[0] if len(entry.patient_ids) == 1 else None


def _join(values: Iterable[object]) -> str:
    return " ".join(map(str, values))


COLUMNS: Final = (
    Column("at", "When", (ExportCell("When", lambda row: row.at, is_timestamp=True),), sort="at"),
    Column(
        "who",
        "Who",
        (
            ExportCell("Who", lambda row: row.actor.get_username() if row.actor else ""),
            ExportCell("As", lambda row: row.actor_kind),
        ),
    ),
    Column("did", "Action", (ExportCell("Action", lambda row: row.action),)),
    Column(
        "about",
        "About",
        (
            ExportCell("Kind", lambda row: row.object_type),
            ExportCell("Records", lambda row: _join(row.object_ids)),
        ),
    ),
    Column("patient", "Patient", (ExportCell("Patients", lambda row: _join(row.patient_ids)),)),
    Column("outcome", "Outcome", (ExportCell("Outcome", lambda row: row.outcome),)),
    Column("reason", "Reason", (ExportCell("Reason", lambda row: row.reason),)),
    Column("ip", "From", (ExportCell("From", lambda row: row.ip),)),
    Column("request", "Request", (ExportCell("Request", lambda row: row.request_id),), shown=False),
    Column("route", "Page", (ExportCell("Page", lambda row: row.route),), shown=False),
    Column("number", "Number", (ExportCell("Number", lambda row: row.pk),), css="num", shown=False),
)
OWN_COLUMNS: Final = tuple(column for column in COLUMNS if column.shown and column.key != "who")


class AuditList(ListPage):
    name = "audit"
    subject = "audit entry"
    nouns = ("entry", "entries")
    needs = ("audit.view",)
    export_permission = "audit.view"
    columns = COLUMNS
    presets: ClassVar = (
        Preset("refused", "Refused", {"outcome": ["refused"]}),
        Preset("changed", "Changes", {"did": ["change"]}),
        Preset("taken", "Downloaded or printed", {"did": ["export", "print"]}),
        Preset("entered", "Log-ins", {"did": ["login"]}),
    )

    def form(self, data: QueryDict, user: Any) -> AuditFilterForm:
        return AuditFilterForm(data)

    def visible_rows(self, user: Any) -> QuerySet[AuditEntry]:
        return AuditEntry.objects.select_related("actor").defer("before", "after")

    def rows(self, form: Any, user: Any) -> QuerySet[AuditEntry]:
        rows: QuerySet[AuditEntry] = form.apply(self.visible_rows(user))
        return rows

    def render_rows(self, rows: list[Any], screen: ListContext) -> SafeString:
        return render_rows(rows, screen.columns, screen.user)

    def patient_id_of(self, row: AuditEntry) -> UUID | None:
        return single_patient(row)


AUDIT_LIST: Final = AuditList()


# Rows. `named` is the name of the single patient of an entry, set where the reader may see it.


def render_rows(rows: Iterable[AuditEntry], columns: Sequence[Column], user: Any) -> SafeString:
    html = []
    leads = may(user, "audit.view")
    for row in rows:
        html.append(f"<tr>{_at_cell(row, leads)}")
        html += [CELL_RENDERERS[column.key](row, user) for column in columns[1:]]
        html.append("</tr>\n")
    return SafeString("".join(html))


def _at_cell(row: AuditEntry, leads: bool) -> str:
    moment = _time_html(row.at)
    if leads:
        url = reverse("audit:entry", args=[row.pk])
        moment = f'<a href="{url}" hx-boost="false">{moment}</a>'
    return f'<th scope="row" class="lead nowrap">{moment}</th>\n'


def _time_html(at: datetime) -> str:
    """Return the time to the second, because a minute can have many entries."""
    local = timezone.localtime(at)
    year = "" if local.year == timezone.localdate().year else f" {local.year}"
    text = f"{local.day} {MONTHS[local.month]}{year}, {local:%H:%M:%S}"
    return f'<time datetime="{at.astimezone(UTC).isoformat()}">{text}</time>'


def _actor_cell(row: AuditEntry, user: Any) -> str:
    chip = ' <span class="chip">by token</span>' if row.actor_kind == "token" else ""
    return f'<td data-label="Who" class="nowrap">{escape(actor_name(row))}{chip}</td>\n'


def _record_cell(row: AuditEntry, user: Any) -> str:
    kind, count = escape(kind_label(row.object_type)), len(row.object_ids)
    if count == 1:
        key = row.object_ids[0]
        url = record_page_url(row.object_type, key, user)
        text = short_id(key if len(key) <= MAX_ID_LENGTH else key[:8], False)
        kind += f' <a href="{url}" hx-boost="false">{text}</a>' if url else f" {text}"
    elif count:
        kind += f' <span class="muted">({count} records)</span>'
    return f'<td data-label="About">{kind}</td>\n'


def _patient_cell(row: AuditEntry, user: Any) -> str:
    key, text = single_patient(row), str(DASH)
    if key is not None:
        named = getattr(row, "named", "")
        text = f"<bdi>{escape(named)}</bdi>" if named else short_id(key, False)
        if may(user, "patients.view"):
            url = record_url("patients:detail", key)
            text = f'<a href="{url}" hx-boost="false">{text}</a>'
    elif row.patient_ids:
        text = f"{len(row.patient_ids)} patients"
    return f'<td data-label="Patient" class="nowrap">{text}</td>\n'


def _plain_cell(label: str, name: str, css: str = "") -> Callable[[AuditEntry, Any], str]:
    def cell(row: AuditEntry, user: Any) -> str:
        text = conditional_escape(dash(getattr(row, name)))
        return f'<td data-label="{label}"{css}>{text}</td>\n'

    return cell


CELL_RENDERERS: Final[dict[str, Callable[[AuditEntry, Any], str]]] = {
    "who": _actor_cell,
    "did": lambda row, user: f'<td data-label="Action">{escape(action_label(row))}</td>\n',
    "about": _record_cell,
    "patient": _patient_cell,
    "outcome": lambda row, user: f'<td data-label="Outcome">{outcome_html(row.outcome)}</td>\n',
    "reason": _plain_cell("Reason", "reason", ' class="wrap"'),
    "ip": _plain_cell("From", "ip", ' class="nowrap"'),
    "request": lambda row, user: (
        f'<td data-label="Request">{short_id(row.request_id, False)}</td>\n'
    ),
    "route": _plain_cell("Page", "route"),
    "number": _plain_cell("Number", "pk", ' class="num"'),
}
"""Renderers by column key. The first column is missing: it links to the entry."""
