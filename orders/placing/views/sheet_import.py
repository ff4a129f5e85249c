"""Import of orders from a table: check it, import the valid rows, download the others."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Final

from django import forms
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_http_methods, require_safe

from backoffice.accounts.access import requires
from backoffice.audit.recording import record_entry, record_list
from backoffice.outbox.command import PreconditionFailed
from backoffice.outbox.enqueueing import Conflict, enqueue
from backoffice.outbox.forms import CommandForm, conflict_message
from backoffice.outbox.models import CommandRecord
from orders.commands.importing import ImportOrder
from orders.placing import request_bodies, sheet_import, table_reader
from orders.placing.table_reader import COLUMNS, MAX_BYTES, MAX_ROWS, ImportRow, UnusableTable
from orders.placing.views.new_order import METHODS, PERMISSIONS

PAGE: Final = "orders/placing/sheet.html"


class SheetForm(CommandForm):
    """A file, or its text. After the check, the page sends the table as text."""

    file = forms.FileField(label=gettext_lazy("CSV file"), required=False)
    rows = forms.CharField(
        label=gettext_lazy("Or paste it"),
        required=False,
        strip=False,
        widget=forms.Textarea({"rows": 6, "class": "sheet-input", "spellcheck": "false"}),
    )

    def table_bytes(self) -> bytes:
        """Return the table. Raises UnusableTable if there is none, or if it is too large."""
        file = self.cleaned_data["file"]
        if file is not None:
            if file.size > MAX_BYTES:
                raise UnusableTable(table_reader.too_large_message())
            return bytes(file.read())
        text: str = self.cleaned_data["rows"]
        if not text.strip():
            raise UnusableTable(gettext("Choose a file, or paste its text."))
        return text.encode()


@requires(*PERMISSIONS)
@require_http_methods(METHODS)
def import_table(request: HttpRequest) -> HttpResponse:
    """Check a table, then import its valid rows with one command each."""
    if request.method != "POST":
        return _page(request, SheetForm(), [])
    form, do = SheetForm(request.POST, request.FILES), request.POST.get("do", "")
    if not form.is_valid():
        return _page(request, form, [], status=422)
    try:
        rows = table_reader.read(form.table_bytes())
    except UnusableTable as error:
        form.add_error(None, str(error))
        return _page(request, form, [], status=422)
    sheet_import.check_rows(rows)
    form_id = form.cleaned_data["form_id"]
    _attach_commands(request, form_id, rows)
    patients = [row.order_request.patient.pk for row in rows if row.order_request]
    if do == "bad":
        bad = [row for row in rows if not row.is_importable]
        record_entry(request, "export", "order import", patients=patients, row_count=len(bad))
        return _download(sheet_import.write_table(bad, reasons=True), "orders-not-imported.csv")
    record_list(request, "order import", [], patients)
    if do == "import":
        for row in rows:
            if row.is_importable and row.command is None:
                _enqueue_row(request, form_id, row)
    return _page(request, form, rows, done=do == "import")


@requires(*PERMISSIONS)
@require_safe
def import_status(request: HttpRequest) -> HttpResponse:
    """Show the states of imports requested since a time: a fragment that the page polls."""
    commands: list[CommandRecord] = []
    if "since" in request.GET:
        try:
            since = parse_datetime(request.GET["since"])
        except ValueError:
            since = None
        if since is None or since.tzinfo is None:
            raise BadRequest("The time is not valid.")
        rows = CommandRecord.objects.filter(
            kind=ImportOrder.kind, requested_by=request.user.pk, requested_at__gte=since
        )
        commands = list(rows.order_by("requested_at", "pk")[:MAX_ROWS])
    context = {"polled": True, **_command_states(commands)}
    return render(request, "orders/placing/_import_counts.html", context)


def _command_states(commands: Sequence[CommandRecord]) -> dict[str, object]:
    """Return the number of commands by state, and when the first was requested."""
    counts = Counter(command.state for command in commands)
    return {
        "commands": commands,
        "states": [(state, counts[state]) for state in CommandRecord.State.values if counts[state]],
        "open": any(
            command.is_open and command.state != CommandRecord.State.UNDECIDED
            for command in commands
        ),
        "since": min((command.requested_at for command in commands), default=None),
    }


@requires(*PERMISSIONS)
@require_safe
def sample_table(request: HttpRequest) -> HttpResponse:
    """Download a table with the column names and one example row, which names no patient."""
    return _download(sheet_import.sample_table(), "orders-to-import.csv")


def _attach_commands(request: HttpRequest, form_id: uuid.UUID, rows: list[ImportRow]) -> None:
    """Attach the commands that this page already enqueued. Their sample IDs count as taken."""
    by_form = {_row_form_id(form_id, row): row for row in rows}
    commands = CommandRecord.objects.filter(form_id__in=by_form, requested_by=request.user.pk)
    for command in commands:
        row = by_form[command.form_id]
        row.command, row.faults = command, []


def _enqueue_row(request: HttpRequest, form_id: uuid.UUID, row: ImportRow) -> None:
    """Enqueue one command for a row, however often the page is submitted."""
    assert row.order_request is not None
    row_form_id = _row_form_id(form_id, row)
    typed = {name: list(values) for name, values in row.order_request.typed.items()}
    try:
        row.command = enqueue(
            request, request_bodies.import_command(row.order_request), row_form_id, "", typed
        )
    except PreconditionFailed as error:
        row.faults.append(error.message)
    except Conflict as error:
        row.faults.append(conflict_message(error.other, request.user))


def _row_form_id(form_id: uuid.UUID, row: ImportRow) -> uuid.UUID:
    return uuid.uuid5(form_id, "\n".join([str(row.number), *row.cells.values()]))


def _page(
    request: HttpRequest,
    form: SheetForm,
    rows: list[ImportRow],
    *,
    status: int = 200,
    done: bool = False,
) -> HttpResponse:
    context = {
        "form": form,
        "rows": rows,
        "good": [row for row in rows if row.is_importable],
        "bad": [row for row in rows if not row.is_importable],
        "text": sheet_import.write_table(rows, reasons=False),
        "done": done,
        "columns": COLUMNS,
        "most_rows": MAX_ROWS,
        **_command_states([row.command for row in rows if row.command is not None]),
    }
    return render(request, PAGE, context, status=status)


def _download(text: str, name: str) -> HttpResponse:
    # The byte order mark tells spreadsheets that it is UTF-8.
    answer = HttpResponse("\ufeff" + text, content_type="text/csv; charset=utf-8")
    answer.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer
