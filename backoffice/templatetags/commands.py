"""What was asked of the service about a record, for the record's own page."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from django import template
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from backoffice.models import CommandRecord

register = template.Library()

SHOWN: Final = 3
RECENT: Final = timedelta(days=1)
OVERLAP: Final = timedelta(seconds=1)
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
    """The newest commands about a record that are open or ended lately: one query."""
    now = timezone.now()
    rows = list(CommandRecord.objects.about(subject_type, subject_id)[:SHOWN])
    shown = [row for row in rows if row.is_open or (row.finished_at or now) > now - RECENT]
    # What ended while the page was made may not be on it: the strip has the page read itself anew.
    began = getattr(context.get("request"), "began", now)
    for row in shown:
        ended = row.finished_at is not None and row.finished_at > began - OVERLAP
        row.ended_just_now = ended  # type: ignore[attr-defined]
    return {"commands": shown, "request": context.get("request")}


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
