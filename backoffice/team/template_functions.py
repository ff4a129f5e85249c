"""Functions for templates: notes, assignments, changes and notifications.

`notes_on("order", order.pk, order.user_id)` renders the notes about a record, with a form.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final
from uuid import UUID

from django.http import HttpRequest
from jinja2.runtime import Context

from backoffice.accounts.access import may
from backoffice.accounts.models import User
from backoffice.core.template_functions import renders
from backoffice.pages.nav_badges import badge_number, declare
from backoffice.pages.paging.counts import Count
from backoffice.team.actions import MAX_NOTE_LENGTH, MENTION_PATTERN
from backoffice.team.queries import SHOWN_NOTES, assignment_of, notes_and_calls
from backoffice.team.subjects import Subject, make_subject

BELL_CAP: Final = 99
declare(
    "notes.write",
    "SELECT count(*) AS unseen FROM (SELECT FROM team_notification"
    f" WHERE user_id = %(user)s AND seen_at IS NULL LIMIT {BELL_CAP + 1}) AS capped",
)


@renders("team/_notes.html")
def notes_on(
    context: Context,
    subject_type: str,
    subject_id: object,
    patient_id: UUID | None = None,
) -> dict[str, object]:
    """Render the notes and calls about a record, newest first, and a form to add a note."""
    subject = make_subject(subject_type, subject_id, patient_id)
    return notes_context(context.get("request"), subject, next_page=_current_url(context))


def notes_context(
    request: HttpRequest | None,
    subject: Subject,
    *,
    next_page: str,
    typed: str = "",
    error: str = "",
    message: str = "",
) -> dict[str, object]:
    """Return the context of `team/_notes.html`.

    Notes may contain names of patients, so users who may not see names get no notes.
    """
    if request is None or not may(request.user, "patients.view"):
        return {"hidden": True}
    notes = notes_and_calls(subject, sees_results=may(request.user, "results.view"))
    return {
        "request": request,
        "key": f"{subject.type}-{subject.id}",
        "about": subject.signed(),
        "newest": notes[:SHOWN_NOTES],
        "older": notes[SHOWN_NOTES:],
        "may_write": may(request.user, "notes.write"),
        "letters": MAX_NOTE_LENGTH,
        "next_page": next_page,
        "typed": typed,
        "error": error,
        "message": message,
    }


@renders("team/_assigned.html")
def assigned(
    context: Context,
    subject_type: str,
    subject_id: object,
    patient_id: UUID | None = None,
) -> dict[str, object]:
    """Render the assignee of a record, with buttons to change it. One query."""
    subject = make_subject(subject_type, subject_id, patient_id)
    return assigned_context(context.get("request"), subject, next_page=_current_url(context))


def assigned_context(
    request: HttpRequest | None, subject: Subject, *, next_page: str, message: str = ""
) -> dict[str, object]:
    """Return the context of `team/_assigned.html`."""
    if request is None:
        return {"hidden": True}
    row = assignment_of(subject)
    return {
        "request": request,
        "key": f"{subject.type}-{subject.id}",
        "about": subject.signed(),
        "row": row,
        "mine": row is not None and row.user_id == request.user.pk,
        "may_write": may(request.user, "notes.write"),
        "next_page": next_page,
        "message": message,
    }


@renders("team/_changes_of.html")
def changes_of(
    context: Context,
    subject_type: str,
    subject_id: object,
    patient_id: UUID | None = None,
) -> dict[str, object]:
    """Render the collapsed change log of a record. It is loaded when somebody opens it."""
    request = context.get("request")
    if request is None or not may(request.user, "patients.view", "commands.view"):
        return {"hidden": True}
    return {"about": make_subject(subject_type, subject_id, patient_id).signed()}


def is_moment(value: object) -> bool:
    return isinstance(value, datetime)


@renders("team/_bell.html")
def bell(context: Context) -> dict[str, object]:
    """Render the number of unseen notifications, up to 99."""
    request = context.get("request")
    unseen = badge_number(request.user, "unseen") if request is not None else None
    if unseen is None:
        return {"hidden": True}
    return {"unseen": Count(min(unseen, BELL_CAP), unseen > BELL_CAP)}


def staff_name(user: User | None) -> str:
    """Return the name of a staff member, or the username if there is no name."""
    return user.get_full_name() if user is not None else ""


def mention_parts(text: str) -> list[tuple[str, bool]]:
    """Return the parts of a note, each with whether it is a mention: `@name`."""
    parts = re.split(f"({MENTION_PATTERN.pattern})", text)
    return [(part, index % 3 == 1) for index, part in enumerate(parts) if index % 3 != 2 and part]


def _current_url(context: Context) -> str:
    request = context.get("request")
    return request.path if request is not None else ""
