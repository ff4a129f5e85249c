"""The tiles of Today: the amount of work of each kind, with a link to its list.

The counts of orders by status group are exact (`counts`), and so is the count of results to sign
(`orders.results`). The other lists are short, because staff finish them every day. The partial
indexes of their pages count them, exactly up to `COUNT_CAP`; above it the tile says `100+`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import urlencode

from django.db.models import Model, QuerySet
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_noop

from backoffice.accounts.access import may
from backoffice.accounts.models import User
from backoffice.core import vocabulary
from backoffice.outbox.models import CommandRecord
from backoffice.pages.paging.counts import Count, capped_count_sql, run_capped_counts
from labs.reports.models import WAITING_FOR_STAFF, Report
from orders.appointment_list.queries import (
    appointments_of_tab,
    current_appointments,
    unbooked_orders_of_tab,
)
from orders.exceptions import queue
from orders.models import Order, UnmatchedResult
from orders.results import open_criticals, unsigned_count
from orders.today.counts import order_counts

COUNT_CAP: Final = 100
"""Most rows that are counted. A larger number helps nobody, and each further row costs time."""
CAUSES: Final = (
    *("trouble", queue.MOVED, queue.OTHER, queue.STUCK, queue.UNKNOWN),
    *("not understood", "critical"),
)
"""The lists that the tile "Exceptions" counts. "Overdue" has its own tile."""


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
class _TileKind:
    label: str
    route: str
    query: Mapping[str, str]
    family: str
    permissions: tuple[str, ...]
    rows: Callable[[], QuerySet[Model]] | None = None
    """The rows of the list. None: the visits of the tab in `query`, which depend on the day."""


_TILE_KINDS: Final = (
    _TileKind(gettext_noop("Ready to book"), "unbooked:list", {"show": "book"},
          vocabulary.WITH_PATIENT, ("appointments.view", "orders.view"),
          lambda: unbooked_orders_of_tab(Order.objects.all(), "book")),
    _TileKind(gettext_noop("Requested, not scheduled"), "appointments:list", {"show": "requested"},
          vocabulary.PREPARING, ("appointments.view",)),
    _TileKind(gettext_noop("Visits today"), "appointments:list", {"show": "today"},
          vocabulary.ON_THE_WAY, ("appointments.view",)),
    _TileKind(gettext_noop("Unmatched results"), "unmatched:list", {}, vocabulary.NEEDS_ACTION,
          ("results.match", "orders.view", "patients.view"),
          UnmatchedResult.objects.pending),
    _TileKind(gettext_noop("Reports to review"), "reports:list", {}, vocabulary.NEEDS_ACTION,
          ("reports.view",),
          lambda: Report.objects.filter(WAITING_FOR_STAFF)),
    _TileKind(gettext_noop("Needs your decision"), "commands:list", {"show": "decide"},
          vocabulary.NEEDS_ACTION, ("commands.view",),
          lambda: CommandRecord.objects.filter(state=CommandRecord.State.UNDECIDED)),
)  # fmt: skip


def tiles(user: User) -> tuple[list[Tile], list[Tile]]:
    """Return the tiles of work and of status groups, as of the last commit: three queries."""
    now = timezone.now()
    kinds = [kind for kind in _TILE_KINDS if may(user, *kind.permissions)]
    exceptions = may(user, "exceptions.work", "orders.view", "patients.view")
    labels = frozenset(kind.label for kind in kinds)
    keys, parts, values = _static_counts(labels, queue.queue_rights(user) if exceptions else None)
    visits = {
        kind.label: appointments_of_tab(current_appointments(), kind.query["show"], now)
        for kind in kinds
        if kind.rows is None
    }
    more, parameters = capped_count_sql(visits.values(), COUNT_CAP)
    counts = run_capped_counts(
        [*parts, *more], [*queue.bind_now(now, values), *parameters], COUNT_CAP
    )
    counts_by_key = dict(zip([*keys, *visits], counts, strict=True))
    work = []
    if exceptions:
        causes = [counts_by_key[key] for key in CAUSES if key in counts_by_key]
        work = [
            Tile(gettext_noop("Exceptions"), reverse("exceptions:list"), _total(causes),
                 vocabulary.NEEDS_ACTION),
            Tile(gettext_noop("Overdue"), _url("exceptions:list", {"group": queue.QUIET}),
                 counts_by_key[queue.QUIET], vocabulary.NEEDS_ACTION),
        ]  # fmt: skip
    if may(user, "results.view"):
        unsigned = Count(unsigned_count())
        work.append(
            Tile(
                gettext_noop("Results to sign"),
                reverse("reviewing:queue"),
                unsigned,
                vocabulary.RESULT_IN,
            )
        )
    work += [
        Tile(kind.label, _url(kind.route, kind.query), counts_by_key[kind.label], kind.family)
        for kind in kinds
    ]
    return work, _status_group_tiles()


@lru_cache(maxsize=64)
def _static_counts(
    labels: frozenset[str], rights: frozenset[str] | None
) -> tuple[list[str], list[str], list[object]]:
    """Return the names of the lists that do not depend on the day, and the statement counting them.

    They are the kinds in `labels` and, for a user with these rights, the exceptions. The statement
    is built once; `queue.bind_now` sets the current time.
    """
    lists = {kind.label: kind.rows() for kind in _TILE_KINDS if kind.label in labels and kind.rows}
    if rights is not None:
        lists |= _exception_lists(rights)
    return list(lists), *capped_count_sql(lists.values(), COUNT_CAP)


def _exception_lists(rights: frozenset[str]) -> dict[str, QuerySet[Model]]:
    """Return the lists that make up the exception queue."""
    now = queue.PLACEHOLDER_NOW
    quiet = queue.group_orders(queue.QUIET, now)
    lists: dict[str, QuerySet[Model]] = {
        # In the order of its index, so that counting stops early.
        queue.QUIET: quiet.order_by("quiet_at", "id"),
        "trouble": queue.troubled_orders(now),
        queue.MOVED: queue.only_moved_orders(now, rights),
        queue.OTHER: queue.group_orders(queue.OTHER, now).order_by("quiet_at", "id"),
        "not understood": queue.group_orders(queue.UNKNOWN, now),
        **queue.other_rows(rights),
    }
    if "results.view" in rights:
        lists["critical"] = open_criticals()
    return lists


def _total(counts: Iterable[Count]) -> Count:
    total = sum(count.value + count.capped for count in counts)
    return Count(min(total, COUNT_CAP), total > COUNT_CAP)


def _status_group_tiles() -> list[Tile]:
    counts = order_counts().by_bucket()
    return [
        Tile(
            label,
            _url("orders:list", {"bucket": bucket}),
            Count(counts.get(bucket, 0)),
            bucket,
        )
        for bucket, label in vocabulary.BUCKETS.items()
        if bucket != vocabulary.UNKNOWN or counts.get(bucket)
    ]


def _url(route: str, query: Mapping[str, str]) -> str:
    address = reverse(route)
    return f"{address}?{urlencode(query)}" if query else address
