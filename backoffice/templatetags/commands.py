"""What was asked of the service about a record, for the record's own page."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from django import template
from django.db.models import prefetch_related_objects
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from backoffice.core.access import may
from backoffice.core.prepared_queries import columns, read
from backoffice.models import CommandRecord

register = template.Library()

SHOWN: Final = 3
MOST: Final = 20
RECENT: Final = timedelta(days=1)
OVERLAP: Final = timedelta(seconds=1)
_LATELY: Final = f"""
SELECT {columns(CommandRecord)} FROM backoffice_commandrecord
WHERE subject_type = %s AND subject_id = %s
AND (state = ANY(%s) OR finished_at > %s) ORDER BY requested_at DESC LIMIT %s
"""  # noqa: S608 - our names
PAGES: Final = {
    "order": "orders:detail",
    "patient": "patients:detail",
    "lab account": "labs:account",
    "lab": "labs:detail",
    "unmatched result": "unmatched:detail",
    "lab test": "labs:test",
}


@register.inclusion_tag("commands/_strips.html", takes_context=True)
def asked_about(context: template.Context, subject_type: str, subject_id: object) -> dict[str, Any]:
    """Commands about a record: all that are open, and the newest of those that ended lately.

    One plain statement on each page of a record, where there is mostly nothing to find.
    """
    request = context.get("request")
    if request is None or not may(request.user, "commands.view"):
        return {"commands": []}
    now = timezone.now()
    lately = (subject_type, str(subject_id), list(CommandRecord.OPEN), now - RECENT, MOST)
    rows = read(CommandRecord, _LATELY, lately)
    prefetch_related_objects(rows, "requested_by")
    ended = [row for row in rows if not row.is_open][:SHOWN]
    shown = [row for row in rows if row.is_open or row in ended]
    # What ended while the page was made may not be on it: the strip has the page read itself anew.
    began = getattr(request, "began", now)
    for row in shown:
        just_now = row.finished_at is not None and row.finished_at > began - OVERLAP
        row.ended_just_now = just_now  # type: ignore[attr-defined]
    return {"commands": shown}


@register.filter
def subject_url(command: CommandRecord) -> str:
    """The page of what a command is about; empty where it has none."""
    name = PAGES.get(command.subject_type)
    if name is None:
        return ""
    try:
        return reverse(name, args=[command.subject_id])
    except NoReverseMatch:
        return ""
