"""Orders that need a person, grouped by what staff do about them, the most overdue first.

A group is a condition, for which `Order` has a partial index in the order of the group. The queue
omits an order while its `Handling` is active: until a time, or until the order changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from django.contrib.auth.models import AnonymousUser
from django.db.models import Exists, F, Model, OuterRef, Q, QuerySet, TextField, Value
from django.db.models.fields.tuple_lookups import TupleGreaterThan
from django.db.models.functions import Cast
from django.utils.translation import gettext, gettext_noop

from backoffice.accounts.access import may
from backoffice.accounts.models import User
from backoffice.core import vocabulary
from backoffice.outbox.models import CommandRecord
from backoffice.pages.paging.counts import Count, capped_count_sql, run_capped_counts
from backoffice.pages.paging.pages import Page, Sort, fetch_page
from backoffice.team.models import Assignment
from orders.models import Handling, Order, OrderPatientChange, UnmatchedResult
from orders.models.order import CAN_GO_QUIET, EXCEPTION_STATUSES, OTHER_EXCEPTIONS
from orders.models.order_queryset import LIST_COLUMNS, OrderQuerySet
from orders.results import open_criticals

PAGE_SIZE: Final = 25
COUNT_CAP: Final = 500
ROW_COLUMNS: Final = (*LIST_COLUMNS, "lab_slug")
CRITICAL, STUCK, UNKNOWN, QUIET, SNOOZED = "critical", "stuck", "unknown", "quiet", "put-off"
MOVED: Final = "moved"
OTHER: Final = "other"
_TROUBLE_STATUSES: Final = tuple(
    status for statuses in EXCEPTION_STATUSES.values() for status in statuses
)
OPEN_COMMANDS: Final = (CommandRecord.State.UNCERTAIN, CommandRecord.State.UNDECIDED)


@dataclass(frozen=True, slots=True)
class ExceptionGroup:
    """A cause of exceptions. `first` is the usual first action."""

    key: str
    label: str
    first: str
    family: str = vocabulary.NEEDS_ACTION
    sorts: tuple[str, ...] = ("overdue", "changed", "ordered", "patient")
    """Keys of `SORTS` that the group can be sorted by. The first one is its default."""

    @property
    def glyph(self) -> str:
        return vocabulary.GLYPHS[self.family]

    @property
    def sort(self) -> Sort:
        return Sort(SORTS[self.sorts[0]])


SORTS: Final[dict[str, tuple[str, ...]]] = {
    "overdue": ("quiet_at", "id"),
    "changed": ("updated_at", "id"),
    "ordered": ("created_at", "id"),
    "patient": ("patient_name", "id"),
    "due": ("until", "order_id"),
    "waiting": ("since", "order_id"),
}
"""Sorts of orders; the last two are of snoozed orders and of critical results."""
_CHANGED_FIRST: Final = ("changed", "ordered", "patient")
"""Sorts of groups whose orders may have no time when they are overdue."""
EXCEPTION_GROUPS: Final = {
    group.key: group
    for group in (
        ExceptionGroup(
            CRITICAL,
            gettext_noop("Critical results"),
            gettext_noop("Open the result and call."),
            vocabulary.CRITICAL,
            sorts=("waiting",),
        ),
        ExceptionGroup(
            MOVED,
            gettext_noop("Moved to another patient"),
            gettext_noop("Find out whose sample it is."),
            sorts=_CHANGED_FIRST,
        ),
        ExceptionGroup(
            "lost",
            gettext_noop("Sample lost or unusable"),
            gettext_noop("Order again and notify the patient."),
        ),
        ExceptionGroup(
            STUCK,
            gettext_noop("Lab needs info from us"),
            gettext_noop("Send the lab the missing information."),
        ),
        ExceptionGroup(
            "delivery",
            gettext_noop("Delivery problem"),
            gettext_noop("Check the tracking and confirm the address."),
        ),
        ExceptionGroup("draw", gettext_noop("Needs a new draw"), gettext_noop("Book a visit.")),
        ExceptionGroup(
            OTHER, gettext_noop("Other problems"), gettext_noop("Check what the service sent.")
        ),
        ExceptionGroup(
            QUIET, gettext_noop("Overdue"), gettext_noop("Check with the service first.")
        ),
        ExceptionGroup(
            UNKNOWN,
            gettext_noop("Unrecognized"),
            gettext_noop("Check what the service sent."),
            vocabulary.UNKNOWN,
            sorts=_CHANGED_FIRST,
        ),
        ExceptionGroup(
            SNOOZED,
            gettext_noop("Snoozed"),
            gettext_noop("Returns to the queue automatically."),
            vocabulary.CLOSED,
            sorts=("due",),
        ),
    )
}


def group_orders(key: str, now: datetime) -> OrderQuerySet:
    """Return the orders of a group that need action now."""
    return _cause_rows(key, now).filter(~Exists(_active_handlings(now)), missing_since=None)


def troubled_orders(now: datetime) -> OrderQuerySet:
    """Return the orders that are in a group by their status. Today shows their total."""
    rows = Order.objects.filter(low_level_status__in=_TROUBLE_STATUSES)
    return rows.filter(~Exists(_active_handlings(now)), missing_since=None)


def only_moved_orders(now: datetime, rights: frozenset[str]) -> OrderQuerySet:
    """Return moved orders that are in no other group that these rights allow, except Overdue.

    Today counts each order once.
    """
    rows = group_orders(MOVED, now).exclude(low_level_status__in=_TROUBLE_STATUSES)
    rows = rows.exclude(bucket__in=(vocabulary.NEEDS_ACTION, vocabulary.UNKNOWN))
    if "results.view" in rights:
        rows = rows.filter(~Exists(open_criticals().filter(pk=OuterRef("pk"))))
    return rows


def snoozed_handlings(now: datetime) -> QuerySet[Handling]:
    """Return the handlings whose time has not come yet."""
    handlings = Handling.objects.filter(until__gt=now, order__missing_since=None)
    return handlings.filter(event_id__gte=F("order__last_event_id"))


def group_of(order: Order, now: datetime) -> str:
    """Return the group of an order, handled or not; empty if it is in no group.

    Moves are considered only if the order was read by `order_with_move`.
    """
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


def group_counts(
    now: datetime, user: User | AnonymousUser, cap: int = COUNT_CAP
) -> dict[str, Count]:
    """Return the number of items in each group for this user, up to `cap`: one query."""
    keys, parts, values = _count_statement(queue_rights(user), cap)
    counts: dict[str, int] = {}
    for key, count in zip(keys, run_capped_counts(parts, bind_now(now, values), cap), strict=True):
        counts[key] = counts.get(key, 0) + count.value + count.capped
    return {key: Count.with_cap(count, cap) for key, count in counts.items()}


_DECISIVE_RIGHTS: Final = ("results.view", "results.match", "commands.view")
PLACEHOLDER_NOW: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""The value in cached statements that is replaced by the current time."""


def queue_rights(user: User | AnonymousUser) -> frozenset[str]:
    """Return the permissions of a user that decide which exceptions they see."""
    return frozenset(right for right in _DECISIVE_RIGHTS if may(user, right))


def bind_now(now: datetime, values: Iterable[object]) -> list[object]:
    """Return the values of a cached statement with the current time."""
    return [now if value == PLACEHOLDER_NOW else value for value in values]


@lru_cache(maxsize=16)
def _count_statement(rights: frozenset[str], cap: int) -> tuple[list[str], list[str], list[object]]:
    """Return the groups, and the parts and values of the statement that counts them.

    Only the current time changes between calls. The statement is cached, because building it takes
    a third of the time of the page.
    """
    # Each in the order of its index, so that PostgreSQL scans the index and stops at the cap.
    parts: list[tuple[str, QuerySet[Model]]] = [
        (key, group_orders(key, PLACEHOLDER_NOW).order_by(*group.sort.columns))
        for key, group in EXCEPTION_GROUPS.items()
        if key not in (CRITICAL, SNOOZED)
    ]
    parts.append((SNOOZED, snoozed_handlings(PLACEHOLDER_NOW).order_by(*SORTS["due"])))
    if "results.view" in rights:
        parts.append((CRITICAL, open_criticals()))
    parts += other_rows(rights).items()
    return [key for key, _ in parts], *capped_count_sql([rows for _, rows in parts], cap)


def visible_groups(user: User | AnonymousUser) -> list[ExceptionGroup]:
    """Return the groups whose rows this user may see."""
    sees_results = may(user, "results.view")
    return [group for group in EXCEPTION_GROUPS.values() if sees_results or group.key != CRITICAL]


def group_rows(key: str, now: datetime) -> QuerySet[Any]:
    """Return the rows of a group, with its key as `group`, and the id of their order as `pk`.

    The rows are orders, for SNOOZED handlings with their orders, and for CRITICAL reviews.
    """
    rows: QuerySet[Any]
    if key == SNOOZED:
        rows = snoozed_handlings(now).select_related("order").defer("order__record")
    elif key == CRITICAL:
        # An announced critical result may come before its order.
        rows = open_criticals().filter(Exists(Order.objects.filter(pk=OuterRef("pk"))))
    else:
        rows = group_orders(key, now).only(*ROW_COLUMNS)
    return rows.annotate(group=Value(key))


def group_page(key: str, now: datetime) -> Page[Any]:
    """Return the first page of a group."""
    return fetch_page(group_rows(key, now), EXCEPTION_GROUPS[key].sort, size=PAGE_SIZE)


def next_card(order: Order, key: str, user: User, now: datetime) -> tuple[str, UUID] | None:
    """Return the next card: below in the group, else from its top, else in the next group.

    Cards that are assigned to somebody else are skipped.
    """
    groups = [name for name in EXCEPTION_GROUPS if name not in (CRITICAL, SNOOZED)]
    first = groups.index(key) if key in groups else 0
    for group in groups[first:] + groups[:first]:
        columns = EXCEPTION_GROUPS[group].sort.columns
        free = group_orders(group, now).exclude(pk=order.pk)
        free = free.filter(~Exists(_others_assignments(user))).order_by(*columns)
        if group == key:
            edge = tuple(getattr(order, name) for name in columns)
            if None not in edge:
                later = free.filter(TupleGreaterThan(columns, edge))
                if order_id := later.values_list("pk", flat=True).first():
                    return group, order_id
        if order_id := free.values_list("pk", flat=True).first():
            return group, order_id
    return None


@dataclass(frozen=True, slots=True)
class OtherItem:
    """An item of a group that is not an order and has its own page."""

    title: str
    cause: str
    route: str
    key: UUID
    since: datetime


def other_rows(rights: frozenset[str]) -> dict[str, QuerySet[Model]]:
    """Return by group the items that are not orders, for a user with these rights.

    These are results that match no order, and commands with an unknown outcome.
    """
    rows: dict[str, QuerySet[Model]] = {}
    if "results.match" in rights:
        rows[STUCK] = UnmatchedResult.objects.pending()
    if "commands.view" in rights:
        rows[UNKNOWN] = _uncertain_commands()
    return rows


def _uncertain_commands() -> QuerySet[CommandRecord]:
    return CommandRecord.objects.filter(state__in=OPEN_COMMANDS)


def other_items(key: str, user: User | AnonymousUser) -> list[OtherItem]:
    """Return the first items of a group that are not orders, oldest first."""
    if key == STUCK and may(user, "results.match"):
        unmatched = UnmatchedResult.objects.pending().only("lab_name", "created_at")
        return [
            OtherItem(
                gettext("Unmatched result"),
                result.lab_name,
                "unmatched:detail",
                result.pk,
                result.created_at,
            )
            for result in unmatched.order_by("created_at")[:PAGE_SIZE]
        ]
    if key == UNKNOWN and may(user, "commands.view"):
        commands = _uncertain_commands().only("title", "state", "requested_at")
        return [
            OtherItem(
                command.title,
                gettext(vocabulary.term("command.state", command.state).label),
                "commands:detail",
                command.pk,
                command.requested_at,
            )
            for command in commands.order_by("requested_at")[:PAGE_SIZE]
        ]
    return []


def handlings_by_order(ids: Iterable[UUID]) -> dict[UUID, Handling]:
    """Return the last handling of each of these orders."""
    rows = Handling.objects.filter(pk__in=list(ids)).select_related("by")
    return {row.pk: row for row in rows}


def is_handled(order: Order, handling: Handling | None, now: datetime) -> bool:
    """Return whether a handling hides the order from the queue."""
    return (
        handling is not None
        and handling.event_id >= order.last_event_id
        and (handling.until is None or handling.until > now)
    )


def _cause_rows(key: str, now: datetime) -> OrderQuerySet:
    if key in EXCEPTION_STATUSES:
        return Order.objects.filter(low_level_status__in=EXCEPTION_STATUSES[key])
    if key == OTHER:
        return Order.objects.filter(OTHER_EXCEPTIONS)
    if key == UNKNOWN:
        return Order.objects.filter(bucket=vocabulary.UNKNOWN)
    if key == MOVED:
        waiting = OrderPatientChange.objects.filter(settled_at=None)
        return Order.objects.filter(pk__in=waiting.values("order_id"))
    # The condition `quiet_at IS NOT NULL` is not added: PostgreSQL would expect far too few rows.
    return Order.objects.filter(bucket__in=CAN_GO_QUIET, quiet_at__lte=now)


def _active_handlings(now: datetime) -> QuerySet[Handling]:
    rows = Handling.objects.filter(order_id=OuterRef("pk"), event_id__gte=OuterRef("last_event_id"))
    return rows.filter(Q(until=None) | Q(until__gt=now))


def _others_assignments(user: User) -> QuerySet[Assignment]:
    assignments = Assignment.objects.filter(subject_type="order").exclude(user=user)
    return assignments.filter(subject_id=Cast(OuterRef("pk"), TextField()))
