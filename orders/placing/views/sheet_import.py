"""Importing orders from a table: check it, import its good rows, take the bad ones home."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from django import forms
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_http_methods, require_safe

from backoffice import audit, outbox
from backoffice.core.access import requires
from backoffice.models import CommandRecord
from backoffice.outbox.forms import conflict_message
from orders.commands.importing import ImportOrder
from orders.placing import request_bodies, sheet_import, table_reader
from orders.placing.table_reader import COLUMNS, MOST_BYTES, MOST_ROWS, Row, Unusable
from orders.placing.views.new_order import METHODS, NEEDED

PAGE: Final = "orders/placing/sheet.html"


class SheetForm(outbox.CommandForm):
    """A file, or the text of one: what was checked travels as text."""

    file = forms.FileField(label="CSV file", required=False)
    rows = forms.CharField(
        label="Or its text",
        required=False,
        strip=False,
        widget=forms.Textarea({"rows": 6, "class": "sheet-input", "spellcheck": "false"}),
    )

    def given(self) -> bytes:
        """Raises Unusable where there is nothing, or too much."""
        file = self.cleaned_data["file"]
        if file is not None:
            if file.size > MOST_BYTES:
                raise Unusable(
                    f"The table is too large: at most {MOST_BYTES // 1024} KB are taken."
                )
            return bytes(file.read())
        text: str = self.cleaned_data["rows"]
        if not text.strip():
            raise Unusable("Choose a file, or paste its text.")
        return text.encode()


@requires(*NEEDED)
@require_http_methods(METHODS)
def import_sheet(request: HttpRequest) -> HttpResponse:
    """A table is checked first; then its good rows are asked for, one command each."""
    if request.method != "POST":
        return _page(request, SheetForm(), [])
    form, do = SheetForm(request.POST, request.FILES), request.POST.get("do", "")
    if not form.is_valid():
        return _page(request, form, [], status=422)
    try:
        rows = table_reader.read(form.given())
    except Unusable as error:
        form.add_error(None, str(error))
        return _page(request, form, [], status=422)
    sheet_import.examine(rows)
    form_id = form.cleaned_data["form_id"]
    _remember(request, form_id, rows)
    patients = [row.wish.patient.pk for row in rows if row.wish]
    if do == "bad":
        bad = [row for row in rows if not row.good]
        audit.record(request, "export", "order import", patients=patients, row_count=len(bad))
        return _download(sheet_import.write(bad, reasons=True), "orders-not-imported.csv")
    audit.listed(request, "order import", [], patients)
    if do == "import":
        for row in rows:
            if row.good and row.command is None:
                _ask(request, form_id, row)
    return _page(request, form, rows, done=do == "import")


@requires(*NEEDED)
@require_safe
def standing(request: HttpRequest) -> HttpResponse:
    """How the imports stand that were asked for since a moment, for the page that shows them."""
    commands: list[CommandRecord] = []
    if "since" in request.GET:
        try:
            since = parse_datetime(request.GET["since"])
        except ValueError:
            since = None
        if since is None or since.tzinfo is None:
            raise BadRequest("This is no moment.")
        asked = CommandRecord.objects.filter(
            kind=ImportOrder.kind, requested_by=request.user.pk, requested_at__gte=since
        )
        commands = list(asked.order_by("requested_at", "pk")[:MOST_ROWS])
    context = {"polled": True, **_standing(commands)}
    return render(request, "orders/placing/_sheet_standing.html", context)


def _standing(commands: Sequence[CommandRecord]) -> dict[str, Any]:
    """How often each state is met; in the order of the states, and when the first was asked."""
    met = Counter(command.state for command in commands)
    return {
        "commands": commands,
        "states": [(state, met[state]) for state in CommandRecord.State.values if met[state]],
        "open": any(
            command.is_open and command.state != CommandRecord.State.UNDECIDED
            for command in commands
        ),
        "since": min((command.requested_at for command in commands), default=None),
    }


@requires(*NEEDED)
@require_safe
def sample_sheet(request: HttpRequest) -> HttpResponse:
    """A file to begin with: the head line and one row of nobody."""
    return _download(sheet_import.sample(), "orders-to-import.csv")


def _remember(request: HttpRequest, form_id: uuid.UUID, rows: list[Row]) -> None:
    """What this very page asked for before: its sample ids are taken by itself since then."""
    by_form = {_form_of(form_id, row): row for row in rows}
    asked = CommandRecord.objects.filter(form_id__in=by_form, requested_by=request.user.pk)
    for command in asked:
        row = by_form[command.form_id]
        row.command, row.faults = command, []


def _ask(request: HttpRequest, form_id: uuid.UUID, row: Row) -> None:
    """One row of one page is one command, however often the page is sent."""
    assert row.wish is not None
    own = _form_of(form_id, row)
    typed = {name: list(values) for name, values in row.wish.typed.items()}
    try:
        row.command = outbox.enqueue(request, request_bodies.import_(row.wish), own, "", typed)
    except outbox.PreconditionFailed as error:
        row.faults.append(error.message)
    except outbox.Conflict as error:
        row.faults.append(conflict_message(error.other, request.user))


def _form_of(form_id: uuid.UUID, row: Row) -> uuid.UUID:
    return uuid.uuid5(form_id, "\n".join([str(row.number), *row.cells.values()]))


def _page(
    request: HttpRequest,
    form: SheetForm,
    rows: list[Row],
    *,
    status: int = 200,
    done: bool = False,
) -> HttpResponse:
    context: dict[str, Any] = {
        "form": form,
        "rows": rows,
        "good": [row for row in rows if row.good],
        "bad": [row for row in rows if not row.good],
        "text": sheet_import.write(rows, reasons=False),
        "done": done,
        "columns": COLUMNS,
        "most_rows": MOST_ROWS,
        **_standing([row.command for row in rows if row.command is not None]),
    }
    return render(request, PAGE, context, status=status)


def _download(text: str, name: str) -> HttpResponse:
    # The mark tells spreadsheets that it is UTF-8.
    answer = HttpResponse("\ufeff" + text, content_type="text/csv; charset=utf-8")
    answer.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer
