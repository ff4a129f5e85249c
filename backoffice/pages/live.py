"""Open pages learn what has changed since they were made: one cheap question every 1.5 seconds.

A page carries a cursor: the snapshot of the database in which its reader was found at the start of
the request (`accounts.backend`), so every change it cannot have seen counts, however late it
commits. The answer says how many changes of what the page shows there were, and nothing about
anybody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.core.exceptions import BadRequest
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from backoffice.core.access import signed_in
from backoffice.core.snapshots import is_snapshot

LISTS: Final[dict[str, tuple[str, ...]]] = {
    "orders": ("orders_order",),
    "appointments": ("orders_appointment",),
    "results": (
        *("orders_result", "sign result", "undo signature"),
        *("acknowledge critical", "critical call"),
    ),
    "patients": ("patients_patient", "patients_demographics"),
    "unmatched": ("orders_unmatchedresult",),
    "reports": ("labs_report", "labs_reportjob"),
    "exceptions": ("orders_order", "exception"),
}
"""What a list shows: names of tables, and topics that `changes.record_change` tells."""
RECORDS: Final = ("order", "patient", "appointment", "result", "report", "unmatched")

_MOST_SUBJECTS: Final = 200


@dataclass(frozen=True, slots=True)
class About:
    """What a page shows: whole lists, by topic, and records, by id."""

    topics: tuple[str, ...]
    subjects: tuple[UUID, ...]


def about(text: str) -> About:
    """`orders`, `order:<id>`, or several of them with a space between. ValueError for others."""
    topics: list[str] = []
    subjects: list[UUID] = []
    for word in text.split()[:_MOST_SUBJECTS]:
        kind, mark, subject = word.partition(":")
        if mark and kind in RECORDS:
            subjects.append(UUID(subject))
        elif not mark and kind in LISTS:
            topics.extend(LISTS[kind])
        else:
            raise ValueError(word)
    return About(tuple(topics), tuple(subjects))


def changes_since(cursor_text: str, shown: About) -> tuple[int, str]:
    """How many rows of what is shown changed since the cursor, and the cursor of now.

    One statement on the index `change_since`: transactions before the oldest one that was open
    then are passed over.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT coalesce(sum(CASE WHEN topic = ANY(%(topics)s) THEN rows ELSE 1 END), 0),
                   pg_current_snapshot()::text
            FROM backoffice_change
            WHERE xact >= pg_snapshot_xmin(%(since)s::pg_snapshot)::text::bigint
              AND NOT pg_visible_in_snapshot(xact::text::xid8, %(since)s::pg_snapshot)
              AND (topic = ANY(%(topics)s) OR subjects && %(subjects)s::uuid[]
                   OR (subjects IS NULL AND cardinality(%(subjects)s::uuid[]) > 0))
            """,
            {
                "since": cursor_text,
                "topics": list(shown.topics),
                "subjects": list(shown.subjects),
            },
        )
        count, now = cursor.fetchone()
    return int(count), str(now)


def now_of(user: Any) -> str:
    """The snapshot in which this request's reader was found."""
    known = getattr(user, "snapshot", "")
    if known:
        return str(known)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_snapshot()::text")
        return str(cursor.fetchone()[0])


@signed_in
@require_safe
def live(request: HttpRequest) -> HttpResponse:
    """`?since=<cursor>&about=orders`: 204 when nothing changed, else `{"count": 3}`.

    The header `X-Cursor` is what to ask with next time. No record is read, so none is audited.
    """
    since = request.GET.get("since", "")
    if not is_snapshot(since):
        raise BadRequest("That is no cursor.")
    try:
        count, now = changes_since(since, about(request.GET.get("about", "")))
    except ValueError as error:
        raise BadRequest("There is no such list or record.") from error
    response = JsonResponse({"count": count}) if count else HttpResponse(status=204)
    response.headers["X-Cursor"] = now
    return response
