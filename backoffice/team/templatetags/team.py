"""Template tags for notes, assignments and notifications.

{% load team %}
{% notes_on "order" order.pk order.user_id %}   the notes, and a form to add one
{% assigned "order" order.pk order.user_id %}   the assignee, and buttons to change it
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final
from uuid import UUID

from django import template
from django.http import HttpRequest
from django.template.defaultfilters import linebreaksbr
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from backoffice.accounts.access import may
from backoffice.accounts.models import User
from backoffice.pages.nav_badges import badge_number, declare
from backoffice.pages.paging.counts import Count
from backoffice.team.actions import MAX_NOTE_LENGTH, MENTION_PATTERN
from backoffice.team.queries import SHOWN_NOTES, assignment_of, notes_and_calls
from backoffice.team.subjects import Subject, make_subject

register = template.Library()

BELL_CAP: Final = 99
declare(
    "notes.write",
    "SELECT count(*) AS unseen FROM (SELECT FROM team_notification"
    f" WHERE user_id = %(user)s AND seen_at IS NULL LIMIT {BELL_CAP + 1}) AS capped",
)

_ESCAPED_MENTION: Final = re.compile(MENTION_PATTERN.pattern)


@register.inclusion_tag("team/_notes.html", takes_context=True)
def notes_on(
    context: template.Context,
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


@register.inclusion_tag("team/_assigned.html", takes_context=True)
def assigned(
    context: template.Context,
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


@register.inclusion_tag("team/_changes_of.html", takes_context=True)
def changes_of(
    context: template.Context,
    subject_type: str,
    subject_id: object,
    patient_id: UUID | None = None,
) -> dict[str, object]:
    """Render the collapsed change log of a record. It is loaded when somebody opens it."""
    request = context.get("request")
    if request is None or not may(request.user, "patients.view", "commands.view"):
        return {"hidden": True}
    return {"about": make_subject(subject_type, subject_id, patient_id).signed()}


@register.filter
def is_moment(value: object) -> bool:
    return isinstance(value, datetime)


@register.inclusion_tag("team/_bell.html", takes_context=True)
def bell(context: template.Context) -> dict[str, object]:
    """Render the number of unseen notifications, up to 99."""
    request = context.get("request")
    unseen = badge_number(request.user, "unseen") if request is not None else None
    if unseen is None:
        return {"hidden": True}
    return {"unseen": Count(min(unseen, BELL_CAP), unseen > BELL_CAP)}


@register.filter
def staff_name(user: User | None) -> str:
    """Return the name of a staff member, or the username if there is no name."""
    return user.get_full_name() if user is not None else ""


@register.filter
def note_text(text: str) -> SafeString:
    """Render a note with its line breaks, and with mentions in bold."""
    marked = _ESCAPED_MENTION.sub(r"<strong>@\1</strong>", escape(text))
    return linebreaksbr(mark_safe(marked))  # noqa: S308 - escaped above


def _current_url(context: template.Context) -> str:
    request = context.get("request")
    return request.path if request is not None else ""
