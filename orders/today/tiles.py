"""Tiles of Today: how much work of each kind there is, each a link to the list of just that.

Where a count comes from: orders by where they are from the exact counters (`counting`), results to
sign from theirs (`orders.results`). The other lists are worked off every day: they are counted by
the partial indexes their own pages read, exactly up to `MOST`; beyond it the tile says `100+`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.urls import reverse
from django.utils import timezone

from backoffice.core import vocabulary
from backoffice.core.access import may
from backoffice.models import CommandRecord
from backoffice.pages.paging.counts import Count, capped_count_sql, run_capped_counts
from labs.reports.models import WAITING_FOR_STAFF, Report
from orders.appointments.forms import visits_of
from orders.appointments.rows import to_book
from orders.exceptions import queue
from orders.models import UnmatchedResult
from orders.results import open_criticals, unsigned_count
from orders.today.counts import counts as orders_counted
from orders.unmatched.models import OURS

MOST: Final = 100
"""A longer list tells nobody more by its number, and every row beyond it costs."""
CAUSES: Final = (
    *("trouble", queue.MOVED, queue.OTHER, queue.STUCK, queue.UNKNOWN),
    *("not understood", "critical"),
)
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
    rows: Callable[[], QuerySet[Any]] | None = None
    """None: the visits of the tab that `query` shows, which each day are others."""


_KINDS: Final = (
    _Kind("Ready to book", "appointments:list", {"show": "book"}, vocabulary.WITH_PATIENT,
          ("appointments.view", "orders.view"), lambda: to_book(())),
    _Kind("Requested, no time yet", "appointments:list", {"show": "requested"},
          vocabulary.PREPARING, ("appointments.view",)),
    _Kind("Visits today", "appointments:list", {"show": "today"}, vocabulary.ON_THE_WAY,
          ("appointments.view",)),
    _Kind("Unmatched results", "unmatched:list", {}, vocabulary.NEEDS_ACTION,
          ("results.match", "orders.view", "patients.view"),
          lambda: UnmatchedResult.objects.filter(missing_since=None, status=OURS)),
    _Kind("Reports to check", "reports:list", {}, vocabulary.NEEDS_ACTION, ("reports.view",),
          lambda: Report.objects.filter(WAITING_FOR_STAFF)),
    _Kind("Requests to decide", "commands:list", {"show": "decide"}, vocabulary.NEEDS_ACTION,
          ("commands.view",),
          lambda: CommandRecord.objects.filter(state=CommandRecord.State.UNDECIDED)),
)  # fmt: skip


def tiles(user: Any) -> tuple[list[Tile], list[Tile]]:
    """(work that waits, orders by where they are), as of the last commit: three queries."""
    now = timezone.now()
    kinds = [kind for kind in _KINDS if may(user, *kind.permissions)]
    exceptions = may(user, "exceptions.work", "orders.view", "patients.view")
    labels = frozenset(kind.label for kind in kinds)
    keys, parts, values = _standing(labels, queue.rights_of(user) if exceptions else None)
    visits = {
        kind.label: visits_of(kind.query["show"], now, by_name=may(user, "patients.view"))
        for kind in kinds
        if kind.rows is None
    }
    more, given = capped_count_sql(visits.values(), MOST)
    counts = run_capped_counts([*parts, *more], [*queue.at(now, values), *given], MOST)
    found = dict(zip([*keys, *visits], counts, strict=True))
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


@lru_cache(maxsize=64)
def _standing(
    labels: frozenset[str], rights: frozenset[str] | None
) -> tuple[list[str], list[str], list[Any]]:
    """Of these kinds those that are the same lists every day, and the exceptions for somebody with
    these rights: their names, and the statement that counts them, made once (`queue.at`)."""
    lists = {kind.label: kind.rows() for kind in _KINDS if kind.label in labels and kind.rows}
    if rights is not None:
        lists |= _exceptions(rights)
    return list(lists), *capped_count_sql(lists.values(), MOST)


def _exceptions(rights: frozenset[str]) -> dict[str, QuerySet[Any]]:
    """What waits in the exception queue."""
    now = queue.SOME_MOMENT
    quiet = queue.orders_of(queue.QUIET, now)
    lists: dict[str, QuerySet[Any]] = {
        # In the order of its index, which so ends the counting early.
        queue.QUIET: quiet.order_by("quiet_at", "id"),
        "trouble": queue.in_trouble(now),
        queue.MOVED: queue.only_moved(now, rights),
        queue.OTHER: queue.orders_of(queue.OTHER, now).order_by("quiet_at", "id"),
        "not understood": queue.orders_of(queue.UNKNOWN, now),
        **queue.stray_rows(rights),
    }
    if "results.view" in rights:
        lists["critical"] = open_criticals()
    return lists


def _sum(counts: Iterable[Count]) -> Count:
    total = sum(one.value + one.capped for one in counts)
    return Count(min(total, MOST), total > MOST)


def _buckets() -> list[Tile]:
    of_bucket = orders_counted().by_bucket()
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
