"""The list of orders, as `backoffice.pages.lists` knows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Final
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet, TextField, UUIDField
from django.db.models.functions import Cast
from django.http import QueryDict
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from backoffice import team
from backoffice.core import prepared_queries, vocabulary
from backoffice.core.access import may
from backoffice.models import Assignment
from backoffice.pages.lists.context import Screen
from backoffice.pages.lists.definition import BulkPage, Listing, Preset
from backoffice.pages.paging.keys import opaque_condition
from orders.forms import ME, NOBODY, OrderFilters
from orders.models import Order
from orders.models.order import CAN_GO_QUIET
from orders.models.order_queryset import LIST_COLUMNS, OrderQuerySet
from orders.order_list.bulk_actions import VERBS
from orders.order_list.columns import COLUMNS
from orders.order_list.rendering import draw, named_patient

SUBJECT: Final = "order"
SHOWN: Final = (*LIST_COLUMNS, "lab_slug", "order_transaction_id")
"""Columns that a row shows, whatever its reader has chosen."""


class Orders(Listing):
    name = "orders"
    subject = SUBJECT
    nouns = ("order", "orders")
    needs = ("orders.view",)
    columns = COLUMNS
    words = OrderFilters.WORDS
    presets: ClassVar = (
        Preset("mine", "Mine", {"assigned": [ME]}, needs="notes.write"),
        Preset("quiet", "Over usual time", {"quiet": ["true"], "order_key": ["quiet_at"]}),
    )
    verbs = VERBS
    bulk_pages: ClassVar = (
        BulkPage("Print documents…", "documents:choose", ("orders.view", "patients.view")),
    )

    def form(self, data: QueryDict, user: Any) -> OrderFilters:
        return OrderFilters(
            data,
            by_name=may(user, "patients.view"),
            sees_results=may(user, "results.view"),
            user=user,
        )

    def everything(self, user: Any) -> QuerySet[Order]:
        return Order.objects.only(*SHOWN)

    def rows(self, form: Any, user: Any) -> QuerySet[Order]:
        return self.unworded(form, user).matching_words(form.cleaned_data, by_name=form.by_name)

    def unworded(self, form: Any, user: Any, *, along: bool = False) -> OrderQuerySet:
        """All but the words that were typed. `along`: what is over its usual time is told from
        others one after the other, as they are walked, whatever the planner thinks of it."""
        given = form.cleaned_data
        sort = form.sort[0]
        rows = Order.objects.filtered(given, sort)
        rows = rows.only(*SHOWN)
        since = given["start_date"]
        if given["ordered"]:
            since, after = given["ordered"]
            rows = rows.created_between(since, None, sort).filter(created_at__lt=after)
        if given["changed"]:
            first, after = given["changed"]
            rows = rows.updated_between(first, None, sort, since).filter(updated_at__lt=after)
        if given["lab"]:
            rows = rows.filter(lab_slug__in=given["lab"])
        if given["assigned"]:
            rows = rows.filter(_given_to(given["assigned"], user))
        now, can = timezone.now(), Q(bucket__in=CAN_GO_QUIET)
        if given["quiet"] == "true":
            # Most that have a usual time are in these buckets. The planner would take both for
            # independent, and expect twenty times too few.
            over = Q(quiet_at__lte=now)
            rows = (
                rows.filter(opaque_condition(can & over))
                if along
                else rows.filter(opaque_condition(can), over)
            )
        elif given["quiet"] == "false":
            rows = rows.filter(~(can & Q(quiet_at__lte=now)) | Q(quiet_at=None))
        return rows

    def dressed(self, rows: list[Order], user: Any) -> list[Order]:
        """With who works on them, whether our part is done, and the names of their labs: three
        queries."""
        held = team.holders(SUBJECT, [row.pk for row in rows])
        done = _done(rows)
        slugs = {row.lab_slug for row in rows if row.lab_slug}
        labs = _names_of(slugs)
        by_name = may(user, "patients.view")
        now = timezone.now()
        for row in rows:
            row.held = held.get(str(row.pk))  # type: ignore[attr-defined]
            row.lab_name = labs.get(row.lab_slug or "", row.lab_slug or "")  # type: ignore[attr-defined]
            row.by_name = by_name  # type: ignore[attr-defined]
            row.done = done.get(row.pk, "")  # type: ignore[attr-defined]
            row.over_since = row.quiet_since(now)  # type: ignore[attr-defined]
        return rows

    def drawn(self, rows: list[Order], screen: Screen) -> SafeString:
        return draw(rows, screen)

    def patient_of(self, row: Order) -> UUID | None:
        return row.user_id

    def told(self, keys: Iterable[UUID], user: Any) -> dict[UUID, tuple[str, str]]:
        by_name = may(user, "patients.view")
        return {
            order.pk: (
                named_patient(order) if by_name else f"Order {str(order.pk)[:8]}",
                reverse("orders:detail", args=[order.pk]),
            )
            for order in Order.objects.filter(pk__in=list(keys)).with_list_columns()
        }


def _names_of(labs: Iterable[str]) -> dict[str, str]:
    """Of labs by their slugs: each list asks it."""
    with prepared_queries.cursor() as cursor:
        cursor.execute("SELECT slug, name FROM labs_lab WHERE slug = ANY(%s)", [list(labs)])
        return dict(cursor.fetchall())


def _done(rows: Iterable[Order]) -> dict[UUID, str]:
    """Where it would be our turn, but somebody has done our part and there is no news since: in a
    word. The page of an order says the same (`orders.progress.Turn`)."""
    ours: dict[bool, list[UUID]] = {True: [], False: []}
    for row in rows:
        item = vocabulary.order_term(row.low_level_status, row.method, (), row.bucket)
        if item.turn == vocabulary.US:
            ours[item.family == vocabulary.RESULT_IN].append(row.pk)
    with prepared_queries.cursor() as cursor:
        cursor.execute(_DONE, [ours[True], ours[False]])
        return dict(cursor.fetchall())


_DONE: Final = """
SELECT order_id, 'Signed' FROM orders_review
WHERE order_id = ANY(%s) AND signer_id IS NOT NULL AND version <= signed
UNION ALL
SELECT order_id, CASE outcome WHEN 'snoozed' THEN 'Put off' ELSE 'Handled' END
FROM orders_handling JOIN orders_order ON orders_order.id = order_id
WHERE order_id = ANY(%s) AND event_id >= last_event_id AND (until IS NULL OR until > now())
"""


def _given_to(people: list[str], user: Any) -> Q:
    """Orders of these people, of `me`, or of nobody."""
    held = Assignment.objects.filter(subject_type=SUBJECT)
    keys = [int(one) for one in people if one.isdigit()]
    if ME in people and user is not None:
        keys.append(user.pk)
    wanted = Q(pk__in=[])
    if keys:
        theirs = held.filter(user_id__in=keys).annotate(key=Cast("subject_id", UUIDField()))
        wanted |= Q(pk__in=theirs.values("key"))
    if NOBODY in people:
        # Work of somebody who left is nobody's.
        still_here = held.filter(user__is_active=True)
        wanted |= ~Q(Exists(still_here.filter(subject_id=Cast(OuterRef("pk"), TextField()))))
    return wanted


ORDERS: Final = Orders()
