"""Tiles of Today: how much work of each kind there is, each a link to the list of just that.

Where a count comes from: orders by state from the exact counters (`counting`), results to sign
from theirs (`orders.reviewing`); the other lists are short however many orders there are, and are
counted by the partial index that their page reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from backoffice import vocabulary
from backoffice.access import may
from backoffice.models import CommandRecord
from labs.reports.models import FOR_US, Report
from orders.appointments.forms import AppointmentFilters
from orders.models import Appointment, UnmatchedResult
from orders.reviewing import unsigned_count
from orders.today.counting import Counts, counts
from orders.unmatched.models import OURS


@dataclass(frozen=True, slots=True)
class Tile:
    label: str
    url: str
    count: int
    family: str
    glyph: str


@dataclass(frozen=True, slots=True)
class _Kind:
    label: str
    route: str
    query: Mapping[str, str]
    family: str
    permissions: tuple[str, ...]
    count: Callable[[Any, Counts], int]


READY_TO_BOOK: Final = {"status": "requisition_created", "order_type": "at_home_phlebotomy"}


def _visits(tab: str) -> Callable[[Any, Counts], int]:
    """As the tab of the list shows them."""

    def count(user: Any, orders: Counts) -> int:
        form = AppointmentFilters({}, by_name=may(user, "patients.view"))
        form.is_valid()
        return form.shown(form.apply(Appointment.objects.all()), tab, timezone.now()).count()

    return count


def _unmatched(user: Any, orders: Counts) -> int:
    return UnmatchedResult.objects.filter(missing_since=None, status=OURS).count()


def _undecided(user: Any, orders: Counts) -> int:
    return CommandRecord.objects.filter(state=CommandRecord.State.UNDECIDED).count()


_KINDS: Final = (
    _Kind("Results to sign", "reviewing:queue", {}, vocabulary.RESULT_IN, ("results.view",),
          lambda user, orders: unsigned_count()),
    _Kind("Ready to book", "orders:list", READY_TO_BOOK, vocabulary.WITH_PATIENT,
          ("orders.view",),
          lambda user, orders: orders.of(statuses=[READY_TO_BOOK["status"]],
                                         methods=[READY_TO_BOOK["order_type"]])),
    _Kind("Visits requested", "appointments:list", {"show": "requested"}, vocabulary.PREPARING,
          ("appointments.view",), _visits("requested")),
    _Kind("Visits today", "appointments:list", {"show": "today"}, vocabulary.ON_THE_WAY,
          ("appointments.view",), _visits("today")),
    _Kind("Results without a match", "unmatched:list", {}, vocabulary.NEEDS_ACTION,
          ("results.match", "orders.view", "patients.view"), _unmatched),
    _Kind("Reports to check", "reports:list", {}, vocabulary.NEEDS_ACTION, ("reports.view",),
          lambda user, orders: Report.objects.filter(FOR_US).count()),
    _Kind("Requests to decide", "commands:list", {"show": "decide"}, vocabulary.NEEDS_ACTION,
          ("commands.view",), _undecided),
)  # fmt: skip


def tiles(user: Any) -> tuple[list[Tile], list[Tile]]:
    """(work that waits, orders by bucket), as of the last commit."""
    orders = counts()
    work = [
        Tile(
            kind.label,
            _url(kind.route, kind.query),
            kind.count(user, orders),
            kind.family,
            vocabulary.GLYPHS[kind.family],
        )
        for kind in _KINDS
        if may(user, *kind.permissions) and _exists(kind.route)
    ]
    of_bucket = orders.by_bucket()
    buckets = [
        Tile(
            label,
            _url("orders:list", {"bucket": bucket}),
            of_bucket.get(bucket, 0),
            bucket,
            vocabulary.GLYPHS[bucket],
        )
        for bucket, label in vocabulary.BUCKETS.items()
        if bucket != vocabulary.UNKNOWN or of_bucket.get(bucket)
    ]
    return work, buckets


def _exists(route: str) -> bool:
    try:
        return bool(reverse(route))
    except NoReverseMatch:
        return False


def _url(route: str, query: Mapping[str, str]) -> str:
    address = reverse(route)
    return f"{address}?{urlencode(query)}" if query else address
