"""Queries of the event log: counts, types, and positions by time.

Their cost does not depend on the size of the inbox: counts stop at a cap, and types and times are
found by skipping along an index.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from django.db import connection
from django.utils.translation import gettext, gettext_noop

from backoffice.core.distinct_values import distinct_values
from backoffice.pages.paging.counts import COUNT_CAP, Count
from webhooks.models import Event

MAX_TYPES: Final = 1_000
"""Most event types that are listed. The service has about 200."""
MAX_ID: Final = 2**63 - 1
RECEIPT_SLACK: Final = timedelta(minutes=1)
"""Tolerance in the search by time: ids and times of receipt are not in exactly the same order."""

# The states are literals: a condition with a parameter cannot use the partial indexes.
_STATES_SQL: Final = " UNION ALL ".join(
    f"SELECT '{state}', (SELECT count(*) FROM (SELECT 1 FROM webhooks_event"
    f" WHERE state = '{state}' LIMIT %(cap)s) AS few)"
    for state in Event.State.values
)

_BEFORE_SQL: Final = """
WITH RECURSIVE search (low, high) AS (
    SELECT min(id) - 1, max(id) FROM webhooks_event
    UNION ALL
    SELECT CASE WHEN probe.received_at < %(moment)s THEN probe.id ELSE low END,
           CASE WHEN probe.received_at < %(moment)s THEN high ELSE (low + high) / 2 END
    FROM search CROSS JOIN LATERAL (
        SELECT id, received_at FROM webhooks_event
        WHERE id > (low + high) / 2 ORDER BY id LIMIT 1
    ) AS probe
    WHERE low < high
)
SELECT coalesce(max(low), 0) FROM search
"""

# Each state is read by its own index: a retry is due later than most events received after it.
_OLDEST_SQL: Final = """
SELECT min(received_at) FROM (
    (SELECT received_at FROM webhooks_event WHERE state = 'pending' ORDER BY due_at, id LIMIT 1)
    UNION ALL
    (SELECT received_at FROM webhooks_event WHERE state = 'retry' ORDER BY id LIMIT 1)
) AS first
"""


def state_counts(cap: int = COUNT_CAP) -> dict[str, Count]:
    """Return the number of events per state, each counted up to `cap`: one query."""
    with connection.cursor() as cursor:
        cursor.execute(_STATES_SQL, {"cap": cap + 1})
        return {state: Count.with_cap(count, cap) for state, count in cursor.fetchall()}


def received_types() -> list[str]:
    """Return every received type, in order: one query, of one index step for each type."""
    return distinct_values(Event, "event_type", MAX_TYPES)


def last_event_before(moment: datetime) -> int:
    """Return the id of an event received shortly before `moment`: one query.

    Ids grow with receipt, so a binary search finds the event without an index on time.
    """
    with connection.cursor() as cursor:
        cursor.execute(_BEFORE_SQL, {"moment": moment - RECEIPT_SLACK})
        return int(cursor.fetchone()[0])


def ids_between(since: datetime | None, until: datetime | None) -> tuple[int, int]:
    """Return the ids between which all events received from `since` to `until` are."""
    low = 0 if since is None else last_event_before(since)
    high = MAX_ID if until is None else last_event_before(until + 3 * RECEIPT_SLACK) + 2
    return low, high


def latest() -> tuple[int, datetime]:
    """Return the id of the latest event, and the time of the database: one query."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT coalesce(max(id), 0), clock_timestamp() FROM webhooks_event")
        number, now = cursor.fetchone()
        return number, now


def oldest_waiting() -> datetime | None:
    """Return when the event that has waited longest to be applied was received.

    That is the first due of the untried events, or the first received of those to be tried again.
    """
    with connection.cursor() as cursor:
        cursor.execute(_OLDEST_SQL)
        received_at: datetime | None = cursor.fetchone()[0]
        return received_at


# Labels

_GROUPS: Final = {
    "labtest.order": gettext_noop("Orders"),
    "labtest.appointment": gettext_noop("Appointments"),
    "labtest.result": gettext_noop("Critical results"),
    "labtest.match_review": gettext_noop("Unmatched results"),
    "lab_report.parsing_job": gettext_noop("Uploaded reports"),
    "provider.connection": gettext_noop("Connections"),
    "provider.device": gettext_noop("Devices"),
    "continuous_query.result_table": gettext_noop("Stored queries"),
    "daily.data": gettext_noop("Device data"),
    "historical.data": gettext_noop("Device history"),
    "message.attempt": gettext_noop("Failed deliveries"),
    "": gettext_noop("No type"),
}
_TYPES: Final = {
    "": gettext_noop("No type"),
    "labtest.order.created": gettext_noop("Order created"),
    "labtest.order.updated": gettext_noop("Order updated"),
    "labtest.appointment.created": gettext_noop("Appointment created"),
    "labtest.appointment.updated": gettext_noop("Appointment updated"),
    "labtest.result.critical": gettext_noop("Critical result"),
    "labtest.match_review.created": gettext_noop("Unmatched result created"),
    "labtest.match_review.updated": gettext_noop("Unmatched result updated"),
    "lab_report.parsing_job.created": gettext_noop("Uploaded report created"),
    "lab_report.parsing_job.updated": gettext_noop("Uploaded report updated"),
    "provider.connection.created": gettext_noop("Connection created"),
    "provider.connection.error": gettext_noop("Connection error"),
    "provider.device.created": gettext_noop("Device created"),
    "provider.device.updated": gettext_noop("Device updated"),
    "continuous_query.result_table.changed": gettext_noop("Stored query updated"),
    "message.attempt.exhausted": gettext_noop("Failed delivery"),
}
_DATA_TYPES: Final = {
    "created": gettext_noop("%(data)s, new"),
    "updated": gettext_noop("%(data)s, updated"),
}


def type_group(event_type: str) -> str:
    """Return the first two words of a type."""
    return ".".join(event_type.split(".")[:2])


def group_label(prefix: str) -> str:
    """Return the label for the first two words of a type; these words if they are unknown."""
    return gettext(_GROUPS[prefix]) if prefix in _GROUPS else prefix


def type_label(event_type: str) -> str:
    """Return a label for a type, such as `Order updated` or `Heart rate, new`."""
    if event_type in _TYPES:
        return gettext(_TYPES[event_type])
    first, _, last = event_type.rpartition(".")
    group = type_group(event_type)
    if group not in ("daily.data", "historical.data") or first.count(".") != 2:
        return event_type
    data = first.rpartition(".")[2].replace("_", " ").capitalize()
    if group == "historical.data":
        return gettext("%(data)s, history read") % {"data": data}
    if last in _DATA_TYPES:
        return gettext(_DATA_TYPES[last]) % {"data": data}
    return f"{data}, {last.replace('_', ' ')}"


def types_with_prefix(event_types: Sequence[str], prefix: str) -> list[str]:
    """Return the types that are `prefix` or begin with it as whole words."""
    stem = prefix.rstrip(".")
    return [name for name in event_types if name == stem or name.startswith(f"{stem}.")]
