"""Since you last looked: what happened to whom, told once, grouped by patient.

How far somebody has looked is a snapshot of the database, not a time and not a number: what
commits late is new however early it happened, and nothing is told twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import connection
from django.utils import timezone

from backoffice import team
from backoffice.core import vocabulary
from backoffice.core.prepared_queries import by_key
from backoffice.core.snapshots import is_snapshot
from backoffice.core.vocabulary import CLOSED, GLYPHS, NEEDS_ACTION, Term
from backoffice.models import User
from backoffice.team.models import Assignment
from orders.models import Appointment, Happening, Look, Order, Seen
from orders.models.order_queryset import LIST_COLUMNS
from orders.results.models import OPEN_CRITICAL, Review
from orders.visit_zones import VisitZone, visit_zone

FIRST_LOOK: Final = timedelta(hours=24)
"""What somebody is told who looks for the first time."""
MOST: Final = 2_000
"""Happenings that are read; beyond it the page says so."""
GROUPS: Final = 25
"""Patients on the page, the most urgent first; the others follow as these are seen."""
NEW_PROBLEM: Final = "new problem"
CAME_AND_WENT: Final = "came and went"
NO_LONGER: Final = "no longer"
VISIT: Final = "Visit"
VISIT_MOVED: Final = "Visit moved"
RESULTS: Final = ("partial_results", "completed", "corrected")

_NO_TERM: Final = Term("", "")
_MOVED: Final = Term("moved", "Moved to another patient", NEEDS_ACTION, glyph=GLYPHS[NEEDS_ACTION])

_NEW: Final = """
 happening.transaction >= pg_snapshot_xmin(%(since)s::pg_snapshot)::text::bigint
 AND NOT pg_visible_in_snapshot(happening.transaction::text::xid8, %(since)s::pg_snapshot)
 AND happening.transaction < pg_snapshot_xmax(pg_current_snapshot())::text::bigint
"""
_OF_TIME: Final = " happening.at > %(since)s "
_READ: Final = """
WITH fresh AS MATERIALIZED (
 SELECT happening.id, happening.at, transaction, kind, happening.order_id,
  coalesce(moved.after, patient_id) AS patient_id, before, happening.after, bucket_before,
  bucket_after, start_before, start_after
 FROM today_happening AS happening
 LEFT JOIN (
  SELECT DISTINCT ON (order_id) order_id, after FROM orders_ordermove ORDER BY order_id, id DESC
 ) AS moved ON moved.order_id = happening.order_id
 LEFT JOIN today_seen AS seen ON seen.user_id = %(user)s
  AND seen.about = coalesce(moved.after, patient_id, happening.order_id)
  AND pg_snapshot_xmax(seen.snapshot::pg_snapshot) <= pg_snapshot_xmax(pg_current_snapshot())
 WHERE {new} AND (seen.id IS NULL OR NOT pg_visible_in_snapshot(
  happening.transaction::text::xid8, seen.snapshot::pg_snapshot))
 ORDER BY happening.transaction DESC, happening.id DESC LIMIT %(most)s
), problems AS (
 SELECT *, max(id) FILTER (WHERE kind = 'order' AND bucket_after <> %(needs_action)s) OVER (
  PARTITION BY order_id, CASE bucket_after WHEN %(needs_action)s THEN after ELSE before END
 ) AS ended FROM fresh WHERE order_id IS NOT NULL
), of_order AS (
 SELECT order_id, (array_agg(patient_id ORDER BY transaction DESC, id DESC))[1] AS patient_id,
  max(at) AS latest, min(CASE kind
   WHEN 'critical' THEN CASE WHEN %(sees_results)s THEN CASE WHEN EXISTS (
     SELECT FROM orders_review AS known WHERE known.order_id = problems.order_id
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
# The ranks are those of `told`: thousands of rows are ranked where they lie, and few are read.
# What is held may be of another cluster (`_of_another_cluster`), and then gives way.
_LATER: Final = """
 pg_snapshot_xmax(excluded.snapshot::pg_snapshot)
 >= pg_snapshot_xmax(held.snapshot::pg_snapshot)
 OR pg_snapshot_xmax(held.snapshot::pg_snapshot) > pg_snapshot_xmax(pg_current_snapshot())
"""


class NoSnapshot(ValueError):
    """What a form says it has shown is nothing this database ever was."""


class Line(NamedTuple):
    """One thing that happened, in words; `rank` says how soon somebody wants to know."""

    at: datetime
    term: Term
    words: str
    rank: int
    start_before: datetime | None = None
    start_after: datetime | None = None
    status: str = ""
    """Of the order, where the line tells it."""


@dataclass(slots=True)
class OrderNews:
    """What is new about one order; `happenings` oldest first, at least one."""

    happenings: Sequence[Happening]
    lines: list[Line]
    """The most urgent first."""
    order: Order | None = None
    holder: Assignment | None = None
    zone: VisitZone | None = None
    """Of its visit."""

    @property
    def is_told(self) -> bool:
        """A line says where the order is now."""
        return self.order is not None and any(
            line.status == self.order.low_level_status for line in self.lines
        )

    @property
    def order_id(self) -> UUID:
        found = self.happenings[0].order_id
        assert found is not None
        return found


@dataclass(slots=True)
class Group:
    """A patient (or an order without one) with what is new."""

    about: UUID
    patient_id: UUID | None
    orders: list[OrderNews] = field(default_factory=list)

    @property
    def rank(self) -> int:
        return min(news.lines[0].rank for news in self.orders)

    @property
    def latest(self) -> datetime:
        return max(news.happenings[-1].at for news in self.orders)

    @property
    def order(self) -> Order | None:
        """One that knows the patient's name."""
        return next((news.order for news in self.orders if news.order), None)


@dataclass(frozen=True, slots=True)
class Digest:
    since: datetime
    first: bool
    groups: list[Group]
    total: int
    capped: bool


def digest(user: User, *, sees_results: bool) -> Digest:
    """What `user` has not seen yet: seven queries at most, however much that is."""
    look = Look.objects.filter(pk=user.pk).first()
    since = look.at if look else timezone.now() - FIRST_LOOK
    fresh = _since(user, look, since, sees_results)
    dealt_with = _dealt_with(fresh.happenings) if sees_results else set()
    of_order: dict[UUID, list[Happening]] = defaultdict(list)
    for one in fresh.happenings:
        assert one.order_id is not None
        of_order[one.order_id].append(one)
    news = [
        OrderNews(found, told(found, key not in dealt_with, sees_results))
        for key, found in of_order.items()
    ]
    groups = _grouped(one for one in news if one.lines)
    _fill(groups)
    return Digest(since, look is None, groups, fresh.total, fresh.capped)


def see(user: User, about: UUID, snapshot: str) -> None:
    """What was new about one patient when the page was made is known now."""
    _checked(snapshot)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO today_seen AS held (user_id, about, snapshot) VALUES (%s, %s, %s)"
            " ON CONFLICT (user_id, about) DO UPDATE SET snapshot = excluded.snapshot,"
            f" at = now() WHERE {_LATER}",
            [user.pk, about, snapshot],
        )


def unsee(user: User, about: UUID) -> None:
    Seen.objects.filter(user=user, about=about).delete()


def see_all(user: User, snapshot: str) -> None:
    """The whole page is known."""
    _checked(snapshot)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO today_look AS held (user_id, snapshot) VALUES (%s, %s)"
            " ON CONFLICT (user_id) DO UPDATE SET snapshot = excluded.snapshot,"
            f" at = now() WHERE {_LATER}",
            [user.pk, snapshot],
        )
        cursor.execute(
            "DELETE FROM today_seen WHERE user_id = %s"
            " AND (pg_snapshot_xmax(snapshot::pg_snapshot) <= pg_snapshot_xmax(%s::pg_snapshot)"
            " OR pg_snapshot_xmax(snapshot::pg_snapshot)"
            " > pg_snapshot_xmax(pg_current_snapshot()))",
            [user.pk, snapshot],
        )


def _checked(snapshot: str) -> None:
    """Raises NoSnapshot: one of the future would hide what is still to come."""
    if not is_snapshot(snapshot) or _of_another_cluster(snapshot):
        raise NoSnapshot(snapshot[:20])


class _Fresh(NamedTuple):
    happenings: list[Happening]
    """Of the patients that are shown, oldest first."""
    total: int = 0
    """Patients."""
    capped: bool = False


def _since(user: User, look: Look | None, since: datetime, sees_results: bool) -> _Fresh:
    if look is not None and not _of_another_cluster(look.snapshot):
        return _read(_NEW, user, look.snapshot, sees_results)
    return _read(_OF_TIME, user, since, sees_results)


def _read(new: str, user: User, since: object, sees_results: bool) -> _Fresh:
    """All at once: `objects.raw` asks the driver for one row after the other."""
    given: dict[str, Any] = {
        "user": user.pk,
        "since": since,
        "most": MOST + 1,
        "groups": GROUPS,
        "needs_action": NEEDS_ACTION,
        "results": [*RESULTS],
        "sees_results": sees_results,
    }
    with connection.cursor() as cursor:
        cursor.execute(_READ.format(new=new), given)
        names = [column.name for column in cursor.description][:-2]
        rows = cursor.fetchall()
    if not rows:
        return _Fresh([])
    total, read = rows[0][-2:]
    found = [Happening.from_db(connection.alias, names, row[:-2]) for row in rows]
    return _Fresh(found, total, read > MOST)


def _of_another_cluster(snapshot: str) -> bool:
    """A database restored into a new cluster counts its transactions anew."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
        return int(snapshot.split(":")[1]) > int(cursor.fetchone()[0])


def _dealt_with(happenings: Iterable[Happening]) -> set[UUID]:
    """Of the critical ones among them, those that are acknowledged and told. One whose values are
    still to be read is not."""
    keys = {one.order_id for one in happenings if one.kind == Happening.CRITICAL}
    if not keys:
        return set()
    known = Review.objects.filter(pk__in=keys, critical_since__isnull=False)
    return set(known.exclude(OPEN_CRITICAL).values_list("pk", flat=True))


def _grouped(news: Iterable[OrderNews]) -> list[Group]:
    """The most urgent first, then the latest."""
    groups: dict[UUID, Group] = {}
    for one in news:
        newest = one.happenings[-1]
        about = newest.patient_id or one.order_id
        group = groups.setdefault(about, Group(about, newest.patient_id))
        group.orders.append(one)
    return sorted(groups.values(), key=lambda group: (group.rank, -group.latest.timestamp()))


def told(happenings: Sequence[Happening], is_open: bool, sees_results: bool) -> list[Line]:
    """What happened to one order, in words, the most urgent first; steps between are counted."""
    lines: list[Line] = []
    steps: list[Happening] = []
    critical: Happening | None = None
    for one in happenings:
        if one.kind == Happening.ORDER:
            if not _step(one, lines):
                steps.append(one)
        elif one.kind == Happening.MOVED:
            lines.append(Line(one.at, _MOVED, "", 1))
        elif one.kind == Happening.VISIT:
            lines.append(_visit(one))
        elif one.kind == Happening.RESULT:
            lines.append(Line(one.at, vocabulary.term("result.status", one.after), "", 2))
        elif one.kind == Happening.CRITICAL:
            critical = one
    if critical is not None and sees_results:
        words = "" if is_open else "acknowledged"
        term = vocabulary.term("order.interpretation", "critical")
        lines.insert(0, Line(critical.at, term, words, 0 if is_open else 3))
    if steps:
        words = f"{len(steps)} steps further" if len(steps) > 1 else "A step further"
        if not steps[0].before:
            words = "New order"
        lines.append(Line(steps[-1].at, _NO_TERM, words, 5))
    if len(lines) > 1:
        lines.sort(key=lambda line: (line.rank, -line.at.timestamp()))
    return lines


def _step(one: Happening, lines: list[Line]) -> bool:
    """Problems that open and close, and results; False for a step like any other."""
    before, after = one.bucket_before == NEEDS_ACTION, one.bucket_after == NEEDS_ACTION
    if not before and not after and one.after not in RESULTS:
        return False
    if before and not after:
        term = replace(_status(one.before), family=CLOSED, glyph=GLYPHS[CLOSED])
        opened = [line for line in lines if line.words == NEW_PROBLEM and line.status == one.before]
        for line in opened:
            lines.remove(line)
        lines.append(Line(one.at, term, CAME_AND_WENT if opened else NO_LONGER, 4))
    if after:
        lines.append(Line(one.at, _status(one.after), NEW_PROBLEM, 1, status=one.after))
    elif one.after in RESULTS:
        lines.append(Line(one.at, _status(one.after), "", 2, status=one.after))
    return True


def _visit(one: Happening) -> Line:
    term = vocabulary.term("appointment.status", one.after)
    moved = one.start_before and one.start_after and one.start_before != one.start_after
    if moved and one.after != "cancelled":
        return Line(one.at, term, VISIT_MOVED, 3, one.start_before, one.start_after)
    return Line(one.at, term, VISIT, 3, None, one.start_after)


def _status(status: str) -> Term:
    return vocabulary.term("order.low_level_status", status or "unknown")


def _fill(groups: Sequence[Group]) -> None:
    """The orders with what a line shows of them, who works on them, and where their visits are:
    three queries."""
    wanted = [news.order_id for group in groups for news in group.orders]
    orders = by_key(Order, wanted, LIST_COLUMNS)
    holders = team.holders("order", wanted)
    visits = Appointment.objects.filter(order_id__in=wanted).order_by("as_of")
    zones = {
        order_id: visit_zone(zone, state)
        for order_id, zone, state in visits.values_list("order_id", "iana_timezone", "state")
    }
    for group in groups:
        for news in group.orders:
            news.order = orders.get(news.order_id)
            news.holder = holders.get(str(news.order_id))
            news.zone = zones.get(news.order_id)
