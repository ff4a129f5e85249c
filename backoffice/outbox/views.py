"""Pages of one command: what became of it, its status strip, and decisions."""

from __future__ import annotations

import json
from typing import Final
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.http import require_POST, require_safe

from backoffice.accounts.access import may, requires
from backoffice.audit.recording import record_view
from backoffice.outbox import late_outcomes
from backoffice.outbox.enqueueing import DECISIONS, resolve, withdraw
from backoffice.outbox.models import CommandRecord

LATE: Final = gettext_noop("This request has changed in the meantime. This is its current status.")
MAX_REASON_LENGTH: Final = 500


@requires("commands.view")
@require_safe
def command(request: HttpRequest, command_id: UUID) -> HttpResponse:
    """Show one command: requester, state, history and possible actions."""
    row = _row(command_id)
    record_view(request, "command", [row.pk], [row.patient_id])
    return render(request, "commands/detail.html", _context(request, row))


@requires("commands.view")
@require_safe
def strip(request: HttpRequest, command_id: UUID) -> HttpResponse:
    """Return the status strip of a command, polled by the page that shows it.

    When the command has ended, the response triggers an event: a page without a form in progress
    goes to the result; on others the strip shows a link.
    """
    row = _row(command_id)
    response = render(request, "commands/_strip.html", {"command": row, "polled": True})
    if not row.is_open:
        done_url = row.done_url if row.state == CommandRecord.State.DONE else ""
        response.headers["HX-Trigger"] = json.dumps({"command-ended": {"leads": done_url}})
    return response


@requires("commands.view")
@require_POST
def take_back(request: HttpRequest, command_id: UUID) -> HttpResponse:
    """Withdraw a command that was not sent yet; for its requester and people who may decide."""
    row = _row(command_id)
    if row.requested_by_id != request.user.pk and not may(request.user, "commands.decide"):
        messages.error(request, gettext("Only the requester or a lab coordinator can withdraw it."))
    elif not withdraw(request, command_id):
        messages.error(
            request, gettext("It is too late to withdraw. The request was already sent.")
        )
    return redirect("commands:detail", command_id)


@requires("commands.view")
@require_POST
def decision(request: HttpRequest, command_id: UUID) -> HttpResponse:
    """Record a person's decision on the outcome or the next step."""
    row = _row(command_id)
    if row.requested_by_id != request.user.pk and not may(request.user, "commands.decide"):
        messages.error(request, gettext("Only the requester or a lab coordinator can decide."))
        return redirect("commands:detail", command_id)
    decided = request.POST.get("decision", "")
    attempt = request.POST.get("attempt", "")
    if decided not in DECISIONS or not (attempt.isascii() and attempt.isdigit()):
        raise BadRequest(gettext("There is no such decision."))
    reason = request.POST.get("reason", "").replace("\x00", "").strip()[:MAX_REASON_LENGTH]
    exists = request.POST.get("exists", "")
    if decided == "exists" and exists not in {match["id"] for match in row.found}:
        raise BadRequest(gettext("That record was not found at the lab service."))
    if not resolve(request, command_id, int(attempt[:5]), decided, exists, reason):
        messages.error(request, gettext(LATE))
    return redirect("commands:detail", command_id)


def _row(command_id: UUID) -> CommandRecord:
    return get_object_or_404(CommandRecord.objects.with_users(), pk=command_id)


def _context(request: HttpRequest, row: CommandRecord) -> dict[str, object]:
    is_own_request = row.requested_by_id == request.user.pk
    return {
        "command": row,
        "earlier": late_outcomes.earlier_late_command(row),
        "history": row.history.order_by("pk"),
        "may_decide": is_own_request or may(request.user, "commands.decide"),
        "may_take_back": row.state == CommandRecord.State.WAITING and row.first_sent_at is None,
    }
