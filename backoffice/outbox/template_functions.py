"""Functions for templates: the commands about a record, on the page of the record."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from django.db.models import prefetch_related_objects
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.translation import gettext_noop
from jinja2.runtime import Context

from backoffice.accounts.access import may
from backoffice.core.prepared_queries import columns, read
from backoffice.core.template_functions import renders
from backoffice.outbox.models import CommandRecord

MAX_ENDED: Final = 3
MAX_LISTED: Final = 20
RECENT: Final = timedelta(days=1)
OVERLAP: Final = timedelta(seconds=1)
_LATELY: Final = f"""
SELECT {columns(CommandRecord)} FROM outbox_commandrecord
WHERE subject_type = %s AND subject_id = %s
AND (state = ANY(%s) OR finished_at > %s) ORDER BY requested_at DESC LIMIT %s
"""  # noqa: S608 - our names
PAGES: Final = {
    gettext_noop("order"): "orders:detail",
    gettext_noop("patient"): "patients:detail",
    gettext_noop("lab account"): "labs:account",
    gettext_noop("lab"): "labs:detail",
    gettext_noop("unmatched result"): "unmatched:detail",
    gettext_noop("lab test"): "labs:test",
}


@renders("commands/_strips.html")
def record_commands(context: Context, subject_type: str, subject_id: object) -> dict[str, Any]:
    """Render the commands about a record: all open ones, and the newest that ended recently.

    One simple query on each page of a record. Usually it finds nothing.
    """
    request = context.get("request")
    if request is None or not may(request.user, "commands.view"):
        return {"commands": []}
    now = timezone.now()
    lately = (subject_type, str(subject_id), list(CommandRecord.OPEN), now - RECENT, MAX_LISTED)
    rows = read(CommandRecord, _LATELY, lately)
    prefetch_related_objects(rows, "requested_by")
    ended = [row for row in rows if not row.is_open][:MAX_ENDED]
    listed = [row for row in rows if row.is_open or row in ended]
    # The page may lack the outcome of a command that ended while the page was rendered. Then the
    # strip makes the page reload itself.
    began = getattr(request, "began", now)
    for row in listed:
        just_now = row.finished_at is not None and row.finished_at > began - OVERLAP
        row.ended_just_now = just_now  # type: ignore[attr-defined]
    return {"commands": listed}


def subject_url(command: CommandRecord) -> str:
    """Return the URL of the record that a command is about; empty if it has no page."""
    name = PAGES.get(command.subject_type)
    if name is None:
        return ""
    try:
        return reverse(name, args=[command.subject_id])
    except NoReverseMatch:
        return ""
