"""Updates for open pages: each page requests the number of changes every 1.5 seconds.

A page has a cursor: the database snapshot of the query that loaded the user at the start of the
request (`accounts.backend`). So every change that the page cannot contain counts, however late its
transaction commits. The response has only the number of changes, and no personal data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.db import connection

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
"""The topics of each list: names of tables, and topics of `live_changes.record_change`."""
RECORDS: Final = ("order", "patient", "appointment", "result", "report", "unmatched")

_MAX_SUBJECTS: Final = 200


@dataclass(frozen=True, slots=True)
class WatchedRecords:
    """The contents of a page: whole lists, by topic, and single records, by id."""

    topics: tuple[str, ...]
    subjects: tuple[UUID, ...]


def about(text: str) -> WatchedRecords:
    """Parse `orders`, `order:<id>`, or several of these separated by spaces.

    Raises ValueError for anything else.
    """
    topics: list[str] = []
    subjects: list[UUID] = []
    for word in text.split()[:_MAX_SUBJECTS]:
        kind, mark, subject = word.partition(":")
        if mark and kind in RECORDS:
            subjects.append(UUID(subject))
        elif not mark and kind in LISTS:
            topics.extend(LISTS[kind])
        else:
            raise ValueError(word)
    return WatchedRecords(tuple(topics), tuple(subjects))


def changes_since(cursor_text: str, watched: WatchedRecords) -> tuple[int, str]:
    """Return how many of the shown rows changed since the cursor, and the next cursor.

    One statement on the index `change_since`. It skips transactions older than the oldest one that
    was open at the cursor.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT coalesce(sum(CASE WHEN topic = ANY(%(topics)s) THEN rows ELSE 1 END), 0),
                   pg_current_snapshot()::text
            FROM core_change
            WHERE xact >= pg_snapshot_xmin(%(since)s::pg_snapshot)::text::bigint
              AND NOT pg_visible_in_snapshot(xact::text::xid8, %(since)s::pg_snapshot)
              AND (topic = ANY(%(topics)s) OR subjects && %(subjects)s::uuid[]
                   OR (subjects IS NULL AND cardinality(%(subjects)s::uuid[]) > 0))
            """,
            {
                "since": cursor_text,
                "topics": list(watched.topics),
                "subjects": list(watched.subjects),
            },
        )
        count, now = cursor.fetchone()
    return int(count), str(now)


def current_snapshot(user: AbstractBaseUser | AnonymousUser | None) -> str:
    """Return the database snapshot of the query that loaded this request's user.

    Without a user it is the present one.
    """
    snapshot = getattr(user, "snapshot", "")
    if snapshot:
        return str(snapshot)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_snapshot()::text")
        return str(cursor.fetchone()[0])
