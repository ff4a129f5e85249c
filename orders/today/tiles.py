"""Tiles of Today: how much work of each kind there is, each a link to the list of just that.

Where a count comes from: orders by where they are from the exact counters (`counting`), results to
sign from theirs (`orders.reviewing`). The other lists are worked off every day: they are counted by
the partial indexes their own pages read, exactly up to `MOST`; beyond it the tile says `100+`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.urls import reverse
from django.utils import timezone

from backoffice import vocabulary
from backoffice.access import may
from backoffice.models import CommandRecord
from backoffice.paging import Count, counts_of
from labs.reports.models import FOR_US, Report
from orders.appointments.forms import visits_of
from orders.appointments.rows import to_book
from orders.exceptions import queue
from orders.models import UnmatchedResult
from orders.reviewing import open_criticals, unsigned_count
from orders.today.counting import counts
from orders.unmatched.models import OURS

MOST: Final = 100
"""A longer list tells nobody more by its number, and every row beyond it costs."""
CAUSES: Final = ("trouble", queue.STUCK, queue.UNKNOWN, "not understood", "critical")
"""What makes up the exceptions, apart from what has gone quiet."""


@dataclass(frozen=True, slots=True)
class Tile:
    label: str
    url: str
    count: Count
    family: str

    @property
    def glyph(self) -> str:
        return vocabulary.GLYPHS[self.family]


@dataclass(frozen=True, slots=True)
class _Kind:
    label: str
    route: str
    query: Mapping[str, str]
    family: str
    permissions: tuple[str, ...]
    rows: Callable[[Any, datetime], QuerySet[Any]]


def _visits(tab: str) -> Callable[[Any, datetime], QuerySet[Any]]:
    """As the tab of the list shows them."""

    def rows(user: Any, now: datetime) -> QuerySet[Any]:
        return visits_of(tab, now, by_name=may(user, "patients.view"))

    return rows


_KINDS: Final = (
    _Kind("Ready to book", "appointments:list", {"show": "book"}, vocabulary.WITH_PATIENT,
          ("appointments.view", "orders.view"), lambda user, now: to_book(())),
    _Kind("Visits requested", "appointments:list", {"show": "requested"}, vocabulary.PREPARING,
          ("appointments.view",), _visits("requested")),
    _Kind("Visits today", "appointments:list", {"show": "today"}, vocabulary.ON_THE_WAY,
          ("appointments.view",), _visits("today")),
    _Kind("Results without a match", "unmatched:list", {}, vocabulary.NEEDS_ACTION,
          ("results.match", "orders.view", "patients.view"),
          lambda user, now: UnmatchedResult.objects.filter(missing_since=None, status=OURS)),
    _Kind("Reports to check", "reports:list", {}, vocabulary.NEEDS_ACTION, ("reports.view",),
          lambda user, now: Report.objects.filter(FOR_US)),
    _Kind("Requests to decide", "commands:list", {"show": "decide"}, vocabulary.NEEDS_ACTION,
          ("commands.view",),
          lambda user, now: CommandRecord.objects.filter(state=CommandRecord.State.UNDECIDED)),
)  # fmt: skip


def tiles(user: Any) -> tuple[list[Tile], list[Tile]]:
    """(work that waits, orders by where they are), as of the last commit: three queries."""
    now = timezone.now()
    kinds = [kind for kind in _KINDS if may(user, *kind.permissions)]
    exceptions = may(user, "exceptions.work", "orders.view", "patients.view")
    lists = {kind.label: kind.rows(user, now) for kind in kinds}
    if exceptions:
        lists |= _exceptions(user, now)
    found = _counted(lists)
    work = []
    if exceptions:
        causes = [found[key] for key in CAUSES if key in found]
        work = [
            Tile("Exceptions", reverse("exceptions:queue"), _sum(causes), vocabulary.NEEDS_ACTION),
            Tile("Gone quiet", reverse("exceptions:group", args=[queue.QUIET]),
                 found[queue.QUIET], vocabulary.NEEDS_ACTION),
        ]  # fmt: skip
    if may(user, "results.view"):
        unsigned = Count(unsigned_count())
        work.append(
            Tile("Results to sign", reverse("reviewing:queue"), unsigned, vocabulary.RESULT_IN)
        )
    work += [
        Tile(kind.label, _url(kind.route, kind.query), found[kind.label], kind.family)
        for kind in kinds
    ]
    return work, _buckets()


def _exceptions(user: Any, now: datetime) -> dict[str, QuerySet[Any]]:
    """What waits in the exception queue."""
    quiet = queue.orders_of(queue.QUIET, now)
    lists: dict[str, QuerySet[Any]] = {
        # In the order of its index, which so ends the counting early.
        queue.QUIET: quiet.order_by("quiet_at", "id"),
        "trouble": queue.in_trouble(now),
        "not understood": queue.orders_of(queue.UNKNOWN, now),
        **queue.stray_rows(user),
    }
    if may(user, "results.view"):
        lists["critical"] = open_criticals()
    return lists


def _counted(lists: Mapping[str, QuerySet[Any]]) -> dict[str, Count]:
    """Each counted no further than `MOST`: one query."""
    return dict(zip(lists, counts_of(lists.values(), MOST), strict=True))


def _sum(counts: Iterable[Count]) -> Count:
    total = sum(one.value + one.capped for one in counts)
    return Count(min(total, MOST), total > MOST)


def _buckets() -> list[Tile]:
    of_bucket = counts().by_bucket()
    return [
        Tile(
            label,
            _url("orders:list", {"bucket": bucket}),
            Count(of_bucket.get(bucket, 0)),
            bucket,
        )
        for bucket, label in vocabulary.BUCKETS.items()
        if bucket != vocabulary.UNKNOWN or of_bucket.get(bucket)
    ]


def _url(route: str, query: Mapping[str, str]) -> str:
    address = reverse(route)
    return f"{address}?{urlencode(query)}" if query else address
