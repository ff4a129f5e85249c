"""Tiles of Today: how much work of each kind there is, each a link to the list of just that.

Where a count comes from: orders by where they are from the exact counters (`counting`), results to
sign from theirs (`orders.reviewing`). The other lists are worked off every day: they are counted by
the partial indexes their own pages read, no further than those pages count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.urls import reverse
from django.utils import timezone

from backoffice import vocabulary
from backoffice.access import may
from backoffice.models import CommandRecord
from backoffice.paging import Count, capped_count
from labs.reports.models import FOR_US, Report
from orders.appointments.forms import AppointmentFilters
from orders.appointments.rows import to_book
from orders.exceptions import queue
from orders.models import Appointment, UnmatchedResult
from orders.reviewing import unsigned_count
from orders.today.counting import counts
from orders.unmatched.models import OURS


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
    count: Callable[[Any, datetime], Count]


def _visits(tab: str) -> Callable[[Any, datetime], Count]:
    """As the tab of the list shows them."""

    def count(user: Any, now: datetime) -> Count:
        form = AppointmentFilters({}, by_name=may(user, "patients.view"))
        form.is_valid()
        return capped_count(form.shown(form.apply(Appointment.objects.all()), tab, now))

    return count


_KINDS: Final = (
    _Kind("Results to sign", "reviewing:queue", {}, vocabulary.RESULT_IN, ("results.view",),
          lambda user, now: Count(unsigned_count())),
    _Kind("Ready to book", "appointments:list", {"show": "book"}, vocabulary.WITH_PATIENT,
          ("appointments.view", "orders.view"), lambda user, now: capped_count(to_book(()))),
    _Kind("Visits requested", "appointments:list", {"show": "requested"}, vocabulary.PREPARING,
          ("appointments.view",), _visits("requested")),
    _Kind("Visits today", "appointments:list", {"show": "today"}, vocabulary.ON_THE_WAY,
          ("appointments.view",), _visits("today")),
    _Kind("Results without a match", "unmatched:list", {}, vocabulary.NEEDS_ACTION,
          ("results.match", "orders.view", "patients.view"),
          lambda user, now: capped_count(
              UnmatchedResult.objects.filter(missing_since=None, status=OURS))),
    _Kind("Reports to check", "reports:list", {}, vocabulary.NEEDS_ACTION, ("reports.view",),
          lambda user, now: capped_count(Report.objects.filter(FOR_US))),
    _Kind("Requests to decide", "commands:list", {"show": "decide"}, vocabulary.NEEDS_ACTION,
          ("commands.view",),
          lambda user, now: capped_count(
              CommandRecord.objects.filter(state=CommandRecord.State.UNDECIDED))),
)  # fmt: skip


def tiles(user: Any) -> tuple[list[Tile], list[Tile]]:
    """(work that waits, orders by where they are), as of the last commit."""
    now = timezone.now()
    work = [
        Tile(kind.label, _url(kind.route, kind.query), kind.count(user, now), kind.family)
        for kind in _KINDS
        if may(user, *kind.permissions)
    ]
    return [*_exceptions(user, now), *work], _buckets()


def _exceptions(user: Any, now: datetime) -> list[Tile]:
    """All that needs a person but what was put off, and apart from it what has gone quiet."""
    if not may(user, "exceptions.work", "orders.view", "patients.view"):
        return []
    found = queue.counts(now, sees_results=may(user, "results.view"))
    quiet = found.get(queue.QUIET, Count(0))
    causes = [key for key in queue.GROUPS if key not in (queue.QUIET, queue.PUT_OFF)]
    each = [found[key] for key in causes if key in found]
    total = Count(sum(one.value for one in each), any(one.capped for one in each))
    return [
        Tile("Exceptions", reverse("exceptions:queue"), total, vocabulary.NEEDS_ACTION),
        Tile(
            "Gone quiet",
            reverse("exceptions:group", args=[queue.QUIET]),
            quiet,
            vocabulary.NEEDS_ACTION,
        ),
    ]


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
