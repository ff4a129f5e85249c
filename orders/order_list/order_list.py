"""The definition of the list of orders, for `backoffice.pages.lists`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from typing import Any, ClassVar, Final
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop

from backoffice.accounts.access import may
from backoffice.core import prepared_queries, vocabulary
from backoffice.pages.lists.definition import BulkPage, ListPage, Preset
from backoffice.pages.lists.filters import ListFilterSet
from backoffice.pages.paging.counts import Count
from backoffice.pages.paging.pages import Page, PagePosition
from backoffice.pages.query_strings import address_with
from backoffice.pages.tabs import Tab
from backoffice.team.queries import assignments_by_subject
from orders.filters import ME
from orders.models import Order
from orders.models.order_queryset import LIST_COLUMNS
from orders.next_actor import NextActor, next_actor
from orders.order_list.bulk_actions import BULK_ACTIONS
from orders.order_list.columns import COLUMNS
from orders.order_list.filters import SUBJECT, OrderListFilterSet

ROW_COLUMNS: Final = (*LIST_COLUMNS, "lab_slug", "order_transaction_id")
"""Database columns read for each row, whichever columns the reader has chosen."""


COUNTED_FILTERS: Final = frozenset({"status", "order_type"})
"""Filters for which triggers keep counts, besides the bucket."""


@dataclass(frozen=True, slots=True)
class OrderRowContext:
    """The values that are the same for all rows of a page."""

    by_name: bool
    sees_results: bool
    shows_interpretation: bool
    """Whether the interpretation is shown beside the status, because its own column is hidden."""
    zone: tzinfo
    now: datetime
    today: date

    def next_actor(self, order: Order) -> NextActor | None:
        return next_actor(order, self.now)


class OrderList(ListPage):
    name = "orders"
    title = gettext_noop("Orders")
    template = "orders/list.html"
    subject = SUBJECT
    nouns = (gettext_noop("order"), gettext_noop("orders"))
    needs = ("orders.view",)
    columns = COLUMNS
    row_macros = "orders/order_rows.html"
    filter_set = OrderListFilterSet
    presets: ClassVar = (
        Preset("mine", gettext_noop("Mine"), {"assigned": [ME]}, needs="notes.write"),
        Preset("quiet", gettext_noop("Overdue"), {"quiet": ["true"], "order_key": ["quiet_at"]}),
    )
    patient_column = "user_id"
    detail_route = "orders:detail"
    bulk_actions = BULK_ACTIONS
    bulk_pages: ClassVar = (
        BulkPage(
            gettext_noop("Print documents…"), "documents:choose", ("orders.view", "patients.view")
        ),
    )

    def visible_rows(self, user: Any) -> QuerySet[Order]:
        return Order.objects.only(*ROW_COLUMNS)

    def count_and_page(
        self, filters: Any, size: int, place: PagePosition, number: int | None = None
    ) -> tuple[Count, Page[Order]]:
        """Return how many orders match a valid form, and a page of them.

        With filters on the state only, the triggers keep the number.
        """
        values = filters.form.cleaned_data
        if filters.form.active_filter_names() <= COUNTED_FILTERS:
            number = filters.state_counts.count(
                bucket=values["bucket"], statuses=values["status"], methods=values["order_type"]
            )
        return super().count_and_page(filters, size, place, number)

    def page_context(self, filters: Any) -> dict[str, Any]:
        """Return a tab for each status group, with counts while no filter is active."""
        form = filters.form
        is_whole = form.is_valid() and not form.is_filtered()
        counts = filters.state_counts.by_bucket() if is_whole else None
        return {"tabs": _status_tabs(filters, counts), "by_name": form.by_name}

    def with_related(self, rows: list[Order], user: Any) -> list[Order]:
        """Add the assignments, what staff have done, and the lab names: three queries."""
        assignments = assignments_by_subject(SUBJECT, [row.pk for row in rows])
        done_texts = _done_texts(rows)
        slugs = {row.lab_slug for row in rows if row.lab_slug}
        labs = _lab_names(slugs)
        by_name = may(user, "patients.view")
        now = timezone.now()
        for row in rows:
            row.assignment = assignments.get(str(row.pk))  # type: ignore[attr-defined]
            row.lab_name = labs.get(row.lab_slug or "", row.lab_slug or "")  # type: ignore[attr-defined]
            row.by_name = by_name  # type: ignore[attr-defined]
            row.done_text = done_texts.get(row.pk, "")  # type: ignore[attr-defined]
            row.over_since = row.quiet_since(now)  # type: ignore[attr-defined]
        return rows

    def row_context(self, user: Any, column_keys: Set[str]) -> OrderRowContext:
        sees_results, now = may(user, "results.view"), timezone.now()
        return OrderRowContext(
            by_name=may(user, "patients.view"),
            sees_results=sees_results,
            shows_interpretation=sees_results and "result" not in column_keys,
            zone=timezone.get_current_timezone(),
            now=now,
            today=timezone.localdate(now),
        )

    def row_label(self, row: Order, user: Any) -> str:
        return row.patient_label if may(user, "patients.view") else super().row_label(row, user)


def _status_tabs(filters: ListFilterSet, counts: Mapping[str, int] | None) -> list[Tab]:
    """Return one tab per status group, after the tab of all orders."""
    current = filters.form.tab
    known = counts or {}
    return [
        Tab(gettext("All"), address_with(filters.data, bucket=""), current=not current),
        *(
            Tab(
                gettext(label),
                address_with(filters.data, bucket=bucket),
                current=bucket == current,
                count=None if counts is None else Count(known.get(bucket, 0)),
                family=bucket,
                glyph=vocabulary.GLYPHS[bucket],
            )
            for bucket, label in vocabulary.BUCKETS.items()
            if bucket != vocabulary.UNKNOWN or known.get(bucket) or bucket == current
        ),
    ]


def _lab_names(labs: Iterable[str]) -> dict[str, str]:
    """Return the names of labs by slug. Every page of the list runs this query."""
    with prepared_queries.cursor() as cursor:
        cursor.execute("SELECT slug, name FROM labs_lab WHERE slug = ANY(%s)", [list(labs)])
        return dict(cursor.fetchall())


def _done_texts(rows: Iterable[Order]) -> dict[UUID, str]:
    """Return a word such as "Signed", in English, for orders that staff have already handled.

    The status of such an order says that it is our turn, and the order has not changed since staff
    handled it. The page of an order shows the same (`orders.progress.CurrentStep`).
    """
    our_turn: dict[bool, list[UUID]] = {True: [], False: []}
    for row in rows:
        item = vocabulary.order_term(row.low_level_status, row.method, (), row.bucket)
        if item.turn == vocabulary.US:
            our_turn[item.family == vocabulary.RESULT_IN].append(row.pk)
    with prepared_queries.cursor() as cursor:
        cursor.execute(_DONE_SQL, [our_turn[True], our_turn[False]])
        return {order_id: _DONE_TEXTS[done] for order_id, done in cursor.fetchall()}


_DONE_TEXTS: Final = {
    "signed": gettext_noop("Signed"),
    "snoozed": gettext_noop("Snoozed"),
    "handled": gettext_noop("Handled"),
}
_DONE_SQL: Final = """
SELECT order_id, 'signed' FROM orders_review
WHERE order_id = ANY(%s) AND signer_id IS NOT NULL AND version <= signed
UNION ALL
SELECT order_id, CASE outcome WHEN 'snoozed' THEN 'snoozed' ELSE 'handled' END
FROM orders_handling JOIN orders_order ON orders_order.id = order_id
WHERE order_id = ANY(%s) AND event_id >= last_event_id AND (until IS NULL OR until > now())
"""


ORDER_LIST: Final = OrderList()
