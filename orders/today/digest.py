"""The digest of Today: the activity a user has not seen yet, grouped by patient, shown once.

The database stores what a user has seen as a snapshot, not as a time or an id. So an entry that is
committed late is new, however early its time is, and nothing is shown twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

from django.db import connection
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop, ngettext

from backoffice.accounts.models import User
from backoffice.core import vocabulary
from backoffice.core.prepared_queries import by_key
from backoffice.core.snapshots import is_snapshot
from backoffice.core.vocabulary import CLOSED, GLYPHS, NEEDS_ACTION, Term
from backoffice.team.models import Assignment
from backoffice.team.queries import assignments_by_subject
from backoffice.team.subjects import Subject
from orders.appointment_zones import AppointmentZone, visit_zone
from orders.models import Appointment, Order, OrderActivity, SeenActivity, SeenSubject
from orders.models.order_queryset import LIST_COLUMNS
from orders.models.review import OPEN_CRITICAL, Review

FIRST_PERIOD: Final = timedelta(hours=24)
"""The period shown to a user who opens the digest for the first time."""
MAX_ENTRIES: Final = 2_000
"""Most entries read. The page says if there are more."""
MAX_GROUPS: Final = 25
"""Most patients on the page, most urgent first. Others follow once these are seen."""
NEW_PROBLEM: Final = "new problem"
OPENED_AND_SOLVED: Final = "came and went"
SOLVED: Final = "no longer"
VISIT: Final = "Visit"
VISIT_MOVED: Final = "Visit moved"
RESULTS: Final = ("partial_results", "completed", "corrected")

_NO_TERM: Final = Term("", "")
_MOVED: Final = Term(
    "moved",
    gettext_noop("Moved to another patient"),
    NEEDS_ACTION,
    glyph=GLYPHS[NEEDS_ACTION],
)

_NEW_SINCE_SNAPSHOT: Final = """
 activity.transaction >= pg_snapshot_xmin(%(since)s::pg_snapshot)::text::bigint
 AND NOT pg_visible_in_snapshot(activity.transaction::text::xid8, %(since)s::pg_snapshot)
 AND activity.transaction < pg_snapshot_xmax(pg_current_snapshot())::text::bigint
"""
_NEW_SINCE_TIME: Final = " activity.at > %(since)s "
_READ_SQL: Final = """
WITH fresh AS MATERIALIZED (
 SELECT activity.id, activity.at, transaction, kind, activity.order_id,
  coalesce(moved.after, patient_id) AS patient_id, before, activity.after, bucket_before,
  bucket_after, start_before, start_after
 FROM orders_orderactivity AS activity
 LEFT JOIN (
  SELECT DISTINCT ON (order_id) order_id, after
  FROM orders_orderpatientchange ORDER BY order_id, id DESC
 ) AS moved ON moved.order_id = activity.order_id
 LEFT JOIN orders_seensubject AS seen ON seen.user_id = %(user)s
  AND seen.about = coalesce(moved.after, patient_id, activity.order_id)
  AND pg_snapshot_xmax(seen.snapshot::pg_snapshot) <= pg_snapshot_xmax(pg_current_snapshot())
 WHERE {new} AND (seen.id IS NULL OR NOT pg_visible_in_snapshot(
  activity.transaction::text::xid8, seen.snapshot::pg_snapshot))
 ORDER BY activity.transaction DESC, activity.id DESC LIMIT %(most)s
), problems AS (
 SELECT *, max(id) FILTER (WHERE kind = 'order' AND bucket_after <> %(needs_action)s) OVER (
  PARTITION BY order_id, CASE bucket_after WHEN %(needs_action)s THEN after ELSE before END
 ) AS ended FROM fresh WHERE order_id IS NOT NULL
), of_order AS (
 SELECT order_id, (array_agg(patient_id ORDER BY transaction DESC, id DESC))[1] AS patient_id,
  max(at) AS latest, min(CASE kind
   WHEN 'critical' THEN CASE WHEN %(sees_results)s THEN CASE WHEN EXISTS (
     SELECT FROM orders_review AS review WHERE review.order_id = problems.order_id
     AND least(acknowledged, called) >= critical_since) THEN 3 ELSE 0 END END
   WHEN 'moved' THEN 1
   WHEN 'visit' THEN 3
   WHEN 'result' THEN 2
   WHEN 'order' THEN CASE
    WHEN bucket_after = %(needs_action)s THEN CASE WHEN ended > id THEN NULL ELSE 1 END
    WHEN after = ANY(%(results)s) THEN 2
    WHEN bucket_before = %(needs_action)s THEN 4
    ELSE 5 END
  END) AS rank
 FROM problems GROUP BY order_id
), of_patient AS (
 SELECT coalesce(patient_id, order_id) AS about, count(*) OVER () AS total FROM of_order
 WHERE rank IS NOT NULL GROUP BY 1 ORDER BY min(rank), max(latest) DESC LIMIT %(groups)s
)
SELECT fresh.*, total, (SELECT count(*) FROM fresh) AS read
FROM of_patient JOIN of_order ON coalesce(patient_id, order_id) = about
JOIN fresh ON fresh.order_id = of_order.order_id ORDER BY transaction, fresh.id
"""
# The ranks are those of `order_lines`. The database ranks thousands of rows, and few of them are
# read. A stored snapshot of another cluster (`_is_from_other_cluster`) is always replaced.
_IS_LATER_SQL: Final = """
 pg_snapshot_xmax(excluded.snapshot::pg_snapshot)
 >= pg_snapshot_xmax(stored.snapshot::pg_snapshot)
 OR pg_snapshot_xmax(stored.snapshot::pg_snapshot) > pg_snapshot_xmax(pg_current_snapshot())
"""


class InvalidSnapshot(ValueError):
    """The snapshot in a form is not a snapshot of this database."""


class DigestLine(NamedTuple):
    """One activity as text. `rank` is its urgency: 0 is the most urgent."""

    at: datetime
    term: Term
    words: str
    rank: int
    start_before: datetime | None = None
    start_after: datetime | None = None
    status: str = ""
    """The status of the order, if the line shows one."""


@dataclass(slots=True)
class OrderActivityGroup:
    """The new activity of one order. `entries` has at least one, oldest first."""

    entries: Sequence[OrderActivity]
    lines: list[DigestLine]
    """Most urgent first."""
    order: Order | None = None
    holder: Assignment | None = None
    zone: AppointmentZone | None = None
    """The time zone of its visit."""

    @property
    def shows_status(self) -> bool:
        """Whether a line shows the current status of the order."""
        return self.order is not None and any(
            line.status == self.order.low_level_status for line in self.lines
        )

    @property
    def signed_subject(self) -> str:
        """The order, as the forms of `team` name it."""
        patient = self.order.user_id if self.order else None
        return Subject("order", str(self.order_id), patient).signed()

    @property
    def order_id(self) -> UUID:
        key = self.entries[0].order_id
        assert key is not None
        return key


@dataclass(slots=True)
class PatientActivity:
    """The new activity of a patient, or of an order without a patient."""

    about: UUID
    patient_id: UUID | None
    orders: list[OrderActivityGroup] = field(default_factory=list)

    @property
    def rank(self) -> int:
        return min(activity.lines[0].rank for activity in self.orders)

    @property
    def latest(self) -> datetime:
        return max(activity.entries[-1].at for activity in self.orders)

    @property
    def order(self) -> Order | None:
        """An order that has the patient's name; None if no order was read."""
        return next((activity.order for activity in self.orders if activity.order), None)


@dataclass(frozen=True, slots=True)
class Digest:
    since: datetime
    first: bool
    groups: list[PatientActivity]
    total: int
    capped: bool


def build_digest(user: User, *, sees_results: bool, max_groups: int = MAX_GROUPS) -> Digest:
    """Return the activity that `user` has not seen: at most seven queries, whatever the amount."""
    seen_activity = SeenActivity.objects.filter(pk=user.pk).first()
    since = seen_activity.at if seen_activity else timezone.now() - FIRST_PERIOD
    new_entries = _new_entries(user, seen_activity, since, sees_results, max_groups)
    closed = _closed_criticals(new_entries.entries) if sees_results else set()
    of_order: dict[UUID, list[OrderActivity]] = defaultdict(list)
    for entry in new_entries.entries:
        assert entry.order_id is not None
        of_order[entry.order_id].append(entry)
    activities = [
        OrderActivityGroup(entries, order_lines(entries, key not in closed, sees_results))
        for key, entries in of_order.items()
    ]
    groups = _group_by_patient(activity for activity in activities if activity.lines)
    _load_details(groups)
    return Digest(since, seen_activity is None, groups, new_entries.total, new_entries.capped)


def mark_seen(user: User, about: UUID, snapshot: str) -> None:
    """Mark the activity of one patient in `snapshot` as seen."""
    _check_snapshot(snapshot)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO orders_seensubject AS stored (user_id, about, snapshot)"
            " VALUES (%s, %s, %s)"
            " ON CONFLICT (user_id, about) DO UPDATE SET snapshot = excluded.snapshot,"
            f" at = now() WHERE {_IS_LATER_SQL}",
            [user.pk, about, snapshot],
        )


def unmark_seen(user: User, about: UUID) -> None:
    SeenSubject.objects.filter(user=user, about=about).delete()


def mark_all_seen(user: User, snapshot: str) -> None:
    """Mark all activity in `snapshot` as seen."""
    _check_snapshot(snapshot)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO orders_seenactivity AS stored (user_id, snapshot) VALUES (%s, %s)"
            " ON CONFLICT (user_id) DO UPDATE SET snapshot = excluded.snapshot,"
            f" at = now() WHERE {_IS_LATER_SQL}",
            [user.pk, snapshot],
        )
        cursor.execute(
            "DELETE FROM orders_seensubject WHERE user_id = %s"
            " AND (pg_snapshot_xmax(snapshot::pg_snapshot) <= pg_snapshot_xmax(%s::pg_snapshot)"
            " OR pg_snapshot_xmax(snapshot::pg_snapshot)"
            " > pg_snapshot_xmax(pg_current_snapshot()))",
            [user.pk, snapshot],
        )


def _check_snapshot(snapshot: str) -> None:
    """Raise InvalidSnapshot if needed. A future snapshot would hide later activity."""
    if not is_snapshot(snapshot) or _is_from_other_cluster(snapshot):
        raise InvalidSnapshot(snapshot[:20])


class _NewEntries(NamedTuple):
    entries: list[OrderActivity]
    """Entries of the patients that are shown, oldest first."""
    total: int = 0
    """Number of patients with new entries."""
    capped: bool = False


def _new_entries(
    user: User,
    seen_activity: SeenActivity | None,
    since: datetime,
    sees_results: bool,
    max_groups: int,
) -> _NewEntries:
    if seen_activity is not None and not _is_from_other_cluster(seen_activity.snapshot):
        return _read_entries(
            _NEW_SINCE_SNAPSHOT, user, seen_activity.snapshot, sees_results, max_groups
        )
    return _read_entries(_NEW_SINCE_TIME, user, since, sees_results, max_groups)


def _read_entries(
    new: str, user: User, since: str | datetime, sees_results: bool, max_groups: int
) -> _NewEntries:
    """Read all rows at once. `objects.raw` would fetch them one by one from the driver."""
    parameters = {
        "user": user.pk,
        "since": since,
        "most": MAX_ENTRIES + 1,
        "groups": max_groups,
        "needs_action": NEEDS_ACTION,
        "results": [*RESULTS],
        "sees_results": sees_results,
    }
    with connection.cursor() as cursor:
        cursor.execute(_READ_SQL.format(new=new), parameters)
        names = [column.name for column in cursor.description][:-2]
        rows = cursor.fetchall()
    if not rows:
        return _NewEntries([])
    total, read = rows[0][-2:]
    entries = [OrderActivity.from_db(connection.alias, names, row[:-2]) for row in rows]
    return _NewEntries(entries, total, read > MAX_ENTRIES)


def _is_from_other_cluster(snapshot: str) -> bool:
    """Return whether a snapshot is of another cluster.

    A database that was restored into a new cluster starts its transaction numbers again.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
        return int(snapshot.split(":")[1]) > int(cursor.fetchone()[0])


def _closed_criticals(entries: Iterable[OrderActivity]) -> set[UUID]:
    """Return the orders whose critical results are acknowledged and called about.

    A critical result without values yet is still open.
    """
    keys = {entry.order_id for entry in entries if entry.kind == OrderActivity.CRITICAL}
    if not keys:
        return set()
    reviews = Review.objects.filter(pk__in=keys, critical_since__isnull=False)
    return set(reviews.exclude(OPEN_CRITICAL).values_list("pk", flat=True))


def _group_by_patient(activities: Iterable[OrderActivityGroup]) -> list[PatientActivity]:
    """Group by patient, the most urgent first, then the latest."""
    groups: dict[UUID, PatientActivity] = {}
    for activity in activities:
        newest = activity.entries[-1]
        subject_id = newest.patient_id or activity.order_id
        group = groups.setdefault(subject_id, PatientActivity(subject_id, newest.patient_id))
        group.orders.append(activity)
    return sorted(groups.values(), key=lambda group: (group.rank, -group.latest.timestamp()))


def order_lines(
    entries: Sequence[OrderActivity], is_open: bool, sees_results: bool
) -> list[DigestLine]:
    """Return the activity of one order as text, most urgent first. Minor steps are counted."""
    lines: list[DigestLine] = []
    steps: list[OrderActivity] = []
    critical: OrderActivity | None = None
    for entry in entries:
        if entry.kind == OrderActivity.ORDER:
            if not _add_status_line(entry, lines):
                steps.append(entry)
        elif entry.kind == OrderActivity.MOVED:
            lines.append(DigestLine(entry.at, _MOVED, "", 1))
        elif entry.kind == OrderActivity.VISIT:
            lines.append(_visit_line(entry))
        elif entry.kind == OrderActivity.RESULT:
            lines.append(DigestLine(entry.at, vocabulary.term("result.status", entry.after), "", 2))
        elif entry.kind == OrderActivity.CRITICAL:
            critical = entry
    if critical is not None and sees_results:
        words = "" if is_open else gettext("acknowledged")
        term = vocabulary.term("order.interpretation", "critical")
        lines.insert(0, DigestLine(critical.at, term, words, 0 if is_open else 3))
    if steps:
        words = ngettext("%(count)s new step", "%(count)s new steps", len(steps))
        words %= {"count": len(steps)}
        if not steps[0].before:
            words = gettext("New order")
        lines.append(DigestLine(steps[-1].at, _NO_TERM, words, 5))
    if len(lines) > 1:
        lines.sort(key=lambda line: (line.rank, -line.at.timestamp()))
    return lines


def _add_status_line(entry: OrderActivity, lines: list[DigestLine]) -> bool:
    """Add the line for a problem that opens or closes, or for a result.

    Returns False for any other step.
    """
    before, after = entry.bucket_before == NEEDS_ACTION, entry.bucket_after == NEEDS_ACTION
    if not before and not after and entry.after not in RESULTS:
        return False
    if before and not after:
        term = replace(_status_term(entry.before), family=CLOSED, glyph=GLYPHS[CLOSED])
        opened = [
            line for line in lines if line.words == NEW_PROBLEM and line.status == entry.before
        ]
        for line in opened:
            lines.remove(line)
        lines.append(DigestLine(entry.at, term, OPENED_AND_SOLVED if opened else SOLVED, 4))
    if after:
        lines.append(
            DigestLine(entry.at, _status_term(entry.after), NEW_PROBLEM, 1, status=entry.after)
        )
    elif entry.after in RESULTS:
        lines.append(DigestLine(entry.at, _status_term(entry.after), "", 2, status=entry.after))
    return True


def _visit_line(entry: OrderActivity) -> DigestLine:
    term = vocabulary.term("appointment.status", entry.after)
    is_moved = entry.start_before and entry.start_after and entry.start_before != entry.start_after
    if is_moved and entry.after != "cancelled":
        return DigestLine(entry.at, term, VISIT_MOVED, 3, entry.start_before, entry.start_after)
    return DigestLine(entry.at, term, VISIT, 3, None, entry.start_after)


def _status_term(status: str) -> Term:
    return vocabulary.term("order.low_level_status", status or "unknown")


def _load_details(groups: Sequence[PatientActivity]) -> None:
    """Load the orders, their assignees, and the time zones of their visits: three queries."""
    keys = [activity.order_id for group in groups for activity in group.orders]
    orders = by_key(Order, keys, LIST_COLUMNS)
    holders = assignments_by_subject("order", keys)
    visits = Appointment.objects.filter(order_id__in=keys).order_by("as_of")
    zones = {
        order_id: visit_zone(zone, state)
        for order_id, zone, state in visits.values_list("order_id", "iana_timezone", "state")
    }
    for group in groups:
        for activity in group.orders:
            activity.order = orders.get(activity.order_id)
            activity.holder = holders.get(str(activity.order_id))
            activity.zone = zones.get(activity.order_id) or visit_zone(None, None)
