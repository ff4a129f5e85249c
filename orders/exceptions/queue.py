"""Which orders need a person, grouped by what is done about them, the longest over first.

A group is a condition that one partial index of `Order` answers in its order. An order is left out
while its `Handling` holds: until the moment it comes back, and no longer than nothing new happens.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from django.db.models import Exists, F, OuterRef, Q, QuerySet, TextField
from django.db.models.fields.tuple_lookups import TupleGreaterThan
from django.db.models.functions import Cast

from backoffice.core import vocabulary
from backoffice.core.access import may
from backoffice.models import Assignment, CommandRecord, User
from backoffice.pages.paging.counts import Count, capped_count_sql, run_capped_counts
from backoffice.pages.paging.pages import Page, Sort, fetch_page
from orders.models import Handling, Order, OrderMove, UnmatchedResult
from orders.models.order import CAN_GO_QUIET, EXCEPTION_STATUSES, OTHER_EXCEPTIONS
from orders.models.order_queryset import OrderQuerySet
from orders.results import open_criticals
from orders.unmatched.models import OURS

SIZE: Final = 25
CAP: Final = 500
CRITICAL, STUCK, UNKNOWN, QUIET, PUT_OFF = "critical", "stuck", "unknown", "quiet", "put-off"
MOVED: Final = "moved"
OTHER: Final = "other"
_TROUBLED: Final = tuple(status for each in EXCEPTION_STATUSES.values() for status in each)
OPEN_COMMANDS: Final = (CommandRecord.State.UNCERTAIN, CommandRecord.State.UNDECIDED)


@dataclass(frozen=True, slots=True)
class Group:
    """A cause; `first` is what is usually done first."""

    key: str
    label: str
    first: str
    family: str = vocabulary.NEEDS_ACTION
    sort: Sort = Sort(("quiet_at", "id"))  # noqa: RUF009 - frozen, shared on purpose

    @property
    def glyph(self) -> str:
        return vocabulary.GLYPHS[self.family]


GROUPS: Final = {
    group.key: group
    for group in (
        Group(CRITICAL, "Clinical urgency", "Open the result and call.", vocabulary.CRITICAL),
        Group(
            MOVED,
            "Moved to another patient",
            "Find out whose sample it is.",
            sort=Sort(("updated_at", "id")),
        ),
        Group("lost", "Sample lost or unusable", "Order again and tell the patient."),
        Group(STUCK, "Lab is stuck on us", "Give the lab what it misses."),
        Group("delivery", "Delivery trouble", "Look at the tracking, confirm the address."),
        Group("draw", "Needs a new draw", "Book a visit."),
        Group(OTHER, "Other trouble", "Look what the service sent."),
        Group(QUIET, "Gone quiet", "Ask the service, then whoever’s turn it is."),
        Group(
            UNKNOWN,
            "Not understood",
            "Look what the service sent.",
            vocabulary.UNKNOWN,
            Sort(("updated_at", "id")),
        ),
        Group(PUT_OFF, "Put off", "Comes back by itself.", vocabulary.CLOSED),
    )
}


def orders_of(key: str, now: datetime) -> OrderQuerySet:
    """Orders of a group that wait for somebody now."""
    return _cause(key, now).filter(~Exists(_handled(now)), missing_since=None)


def in_trouble(now: datetime) -> OrderQuerySet:
    """Orders that their status puts into one of the groups, all together: for Today to count."""
    rows = Order.objects.filter(low_level_status__in=_TROUBLED)
    return rows.filter(~Exists(_handled(now)), missing_since=None)


def only_moved(now: datetime, rights: frozenset[str]) -> OrderQuerySet:
    """Moved orders that stand in no other group but perhaps Gone quiet for somebody with these
    rights: for Today, which counts each order once."""
    rows = orders_of(MOVED, now).exclude(low_level_status__in=_TROUBLED)
    rows = rows.exclude(bucket__in=(vocabulary.NEEDS_ACTION, vocabulary.UNKNOWN))
    if "results.view" in rights:
        rows = rows.filter(~Exists(open_criticals().filter(pk=OuterRef("pk"))))
    return rows


def put_off(now: datetime) -> QuerySet[Handling]:
    """What comes back by itself, and has not yet."""
    found = Handling.objects.filter(until__gt=now, order__missing_since=None)
    return found.filter(event_id__gte=F("order__last_event_id"))


def group_of(order: Order, now: datetime) -> str:
    """The group an order belongs to as it stands, handled or not; empty for none. Of its move it
    is known where `order_with_move` read it."""
    if order.move_waits:
        return MOVED
    low = order.low_level_status
    for key, statuses in EXCEPTION_STATUSES.items():
        if low in statuses:
            return key
    if order.bucket == vocabulary.NEEDS_ACTION:
        return OTHER
    if order.bucket == vocabulary.UNKNOWN:
        return UNKNOWN
    return QUIET if order.quiet_since(now) else ""


def counts(now: datetime, user: Any) -> dict[str, Count]:
    """How many wait in each group for this person, counted up to a cap: one query."""
    keys, parts, values = _counting(rights_of(user), CAP)
    found: dict[str, int] = {}
    for key, count in zip(keys, run_capped_counts(parts, at(now, values), CAP), strict=True):
        found[key] = found.get(key, 0) + count.value + count.capped
    return {key: Count(min(count, CAP), count > CAP) for key, count in found.items()}


_RIGHTS: Final = ("results.view", "results.match", "commands.view")
SOME_MOMENT: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""Stands in kept statements where the present one will."""


def rights_of(user: Any) -> frozenset[str]:
    """What decides which of the exceptions somebody sees."""
    return frozenset(one for one in _RIGHTS if may(user, one))


def at(now: datetime, values: Iterable[Any]) -> list[Any]:
    """Values of a kept statement, for this moment."""
    return [now if value == SOME_MOMENT else value for value in values]


@lru_cache(maxsize=16)
def _counting(rights: frozenset[str], cap: int) -> tuple[list[str], list[str], list[Any]]:
    """Groups, and the statement that counts them with its values. It stays the same but for the
    moment, and making it anew would be a third of the page."""
    # Each in the order of its index, so that PostgreSQL walks it, and stops.
    parts: list[tuple[str, QuerySet[Any]]] = [
        (key, orders_of(key, SOME_MOMENT).order_by(*group.sort.columns))
        for key, group in GROUPS.items()
        if key not in (CRITICAL, PUT_OFF)
    ]
    parts.append((PUT_OFF, put_off(SOME_MOMENT).order_by("until", "order_id")))
    if "results.view" in rights:
        parts.append((CRITICAL, open_criticals()))
    parts += stray_rows(rights).items()
    return [key for key, _ in parts], *capped_count_sql([rows for _, rows in parts], cap)


def page(
    key: str, now: datetime, *, after: str | None = None, before: str | None = None
) -> Page[Any]:
    """One page of a group: orders; of what was put off, handlings with their orders."""
    if key == PUT_OFF:
        rows = put_off(now).select_related("order", "by").defer("order__record")
        return fetch_page(rows, Sort(("until", "order_id")), size=SIZE, after=after, before=before)
    if key == CRITICAL:
        ids = [review.pk for review in open_criticals()[:SIZE]]
        kept = {order.pk: order for order in Order.objects.filter(pk__in=ids).with_list_columns()}
        return Page([kept[pk] for pk in ids if pk in kept])
    listed = orders_of(key, now).with_list_columns()
    return fetch_page(listed, GROUPS[key].sort, size=SIZE, after=after, before=before)


def next_after(order: Order, key: str, user: User, now: datetime) -> tuple[str, UUID] | None:
    """The card after this one: further down its group, from its top, or in the next group.

    Cards somebody else is on are passed over.
    """
    groups = [each for each in GROUPS if each not in (CRITICAL, PUT_OFF)]
    first = groups.index(key) if key in groups else 0
    for each in groups[first:] + groups[:first]:
        columns = GROUPS[each].sort.columns
        free = orders_of(each, now).exclude(pk=order.pk).filter(~Exists(_others(user)))
        if each == key:
            edge = tuple(getattr(order, name) for name in columns)
            if None not in edge:
                later = free.filter(TupleGreaterThan(columns, edge))
                if found := later.order_by(*columns).values_list("pk", flat=True).first():
                    return each, found
        if found := free.order_by(*columns).values_list("pk", flat=True).first():
            return each, found
    return None


@dataclass(frozen=True, slots=True)
class Stray:
    """What is no order but waits in a group all the same; it has a page of its own."""

    title: str
    cause: str
    route: str
    key: UUID
    since: datetime


def stray_rows(rights: frozenset[str]) -> dict[str, QuerySet[Any]]:
    """By group, what is no order but waits there for somebody with these rights: results that
    match no order, and requests whose outcome nobody knows."""
    found: dict[str, QuerySet[Any]] = {}
    if "results.match" in rights:
        found[STUCK] = UnmatchedResult.objects.filter(missing_since=None, status=OURS)
    if "commands.view" in rights:
        found[UNKNOWN] = CommandRecord.objects.filter(state__in=OPEN_COMMANDS)
    return found


def strays(key: str, user: Any) -> list[Stray]:
    """The first of them, oldest first."""
    rows = stray_rows(rights_of(user)).get(key)
    if rows is None:
        return []
    if key == STUCK:
        return [
            Stray("A result that matches no order", row.lab_name, "unmatched:detail", row.pk,
                  row.created_at)
            for row in rows.only("lab_name", "created_at").order_by("created_at")[:SIZE]
        ]  # fmt: skip
    return [
        Stray(row.title, vocabulary.term("command.state", row.state).label,
              "commands:detail", row.pk, row.requested_at)
        for row in rows.only("title", "state", "requested_at").order_by("requested_at")[:SIZE]
    ]  # fmt: skip


def handlings(ids: Iterable[UUID]) -> dict[UUID, Handling]:
    """What was last done about these orders."""
    rows = Handling.objects.filter(pk__in=list(ids)).select_related("by")
    return {row.pk: row for row in rows}


def is_handled(order: Order, handling: Handling | None, now: datetime) -> bool:
    """Whether it is out of the queue."""
    return (
        handling is not None
        and handling.event_id >= order.last_event_id
        and (handling.until is None or handling.until > now)
    )


def _cause(key: str, now: datetime) -> OrderQuerySet:
    if key in EXCEPTION_STATUSES:
        return Order.objects.filter(low_level_status__in=EXCEPTION_STATUSES[key])
    if key == OTHER:
        return Order.objects.filter(OTHER_EXCEPTIONS)
    if key == UNKNOWN:
        return Order.objects.filter(bucket=vocabulary.UNKNOWN)
    if key == MOVED:
        waiting = OrderMove.objects.filter(settled_at=None)
        return Order.objects.filter(pk__in=waiting.values("order_id"))
    # `quiet_at` is not asked to be there once more: PostgreSQL would expect far fewer rows.
    return Order.objects.filter(bucket__in=CAN_GO_QUIET, quiet_at__lte=now)


def _handled(now: datetime) -> QuerySet[Handling]:
    rows = Handling.objects.filter(order_id=OuterRef("pk"), event_id__gte=OuterRef("last_event_id"))
    return rows.filter(Q(until=None) | Q(until__gt=now))


def _others(user: User) -> QuerySet[Assignment]:
    mine = Assignment.objects.filter(subject_type="order").exclude(user=user)
    return mine.filter(subject_id=Cast(OuterRef("pk"), TextField()))
