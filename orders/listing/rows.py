"""The list of orders, as `backoffice.lists` knows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, Final
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet, TextField, UUIDField
from django.db.models.functions import Cast
from django.http import QueryDict
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from backoffice import statements, team
from backoffice.access import may
from backoffice.lists.listing import Listing, Preset
from backoffice.lists.screen import Screen
from backoffice.models import Assignment
from backoffice.paging import (
    SOON,
    Edge,
    Expected,
    First,
    Page,
    Place,
    page_of,
    sorted_apart,
    unguessed,
    walked,
)
from orders.forms import ME, NOBODY, OrderFilters
from orders.listing.columns import COLUMNS
from orders.listing.drawing import draw
from orders.listing.verbs import VERBS
from orders.models import Order, OrderNameWord
from orders.models.name import first_of_names
from orders.models.order import (
    CAN_GO_QUIET,
    LIST_COLUMNS,
    STILL_UPDATED,
    OrderQuerySet,
    never_usual,
    usually,
)

SUBJECT: Final = "order"


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

    def form(self, data: QueryDict, user: Any) -> OrderFilters:
        return OrderFilters(
            data,
            by_name=may(user, "patients.view"),
            sees_results=may(user, "results.view"),
            user=user,
        )

    def everything(self, user: Any) -> QuerySet[Order]:
        return Order.objects.only(*LIST_COLUMNS, "lab_slug", "order_transaction_id")

    def rows(self, form: Any, user: Any) -> QuerySet[Order]:
        return self._unworded(form, user).worded(form.cleaned_data, by_name=form.by_name)

    def _unworded(self, form: Any, user: Any) -> OrderQuerySet:
        """All but the words that were typed."""
        given = form.cleaned_data
        sort = form.sort[0]
        rows = Order.objects.filtered(given, sort)
        rows = rows.only(*LIST_COLUMNS, "lab_slug", "order_transaction_id")
        for name, column in (("ordered", "created_at"), ("changed", "updated_at")):
            if given[name]:
                first, after = given[name]
                begun = rows.created if name == "ordered" else rows.updated
                rows = begun(first, None, sort).filter(**{f"{column}__lt": after})
        if never_usual(*_until_and_since(given)):
            rows = rows.filter(STILL_UPDATED)
        if given["lab"]:
            rows = rows.filter(lab_slug__in=given["lab"])
        if given["assigned"]:
            rows = rows.filter(_given_to(given["assigned"], user))
        now, can = timezone.now(), Q(bucket__in=CAN_GO_QUIET)
        if given["quiet"] == "true":
            # Most that have a usual time are in these buckets. The planner would take both for
            # independent, and expect twenty times too few.
            rows = rows.filter(unguessed(can), quiet_at__lte=now)
        elif given["quiet"] == "false":
            rows = rows.filter(~(can & Q(quiet_at__lte=now)) | Q(quiet_at=None))
        return rows

    def page_of_many(self, form: Any, size: int, place: Place) -> Page[Order]:
        """A page of a list of which no more is known than that it is long. Of those who are called
        so the names are found first: orders are told by these as they are walked, or by name taken
        from one name after the other. Of those in a time by one moment, sorted by another, most
        are looked for where they usually stand."""
        rows = self._unworded(form, form.user)
        rows, typed = rows.numbered(form.cleaned_data, by_name=form.by_name)
        near = _usual_place(form)
        if not (typed or near or form.cleaned_data["quiet"]):
            return self.page(rows, form, size, place)
        first: First = walked
        if typed and form.sort[0] == "patient_name":
            first = partial(first_of_names, OrderNameWord.called(typed))
        else:
            rows = rows.called(typed, along=True) if typed else rows
            first = partial(_there_and_elsewhere, near) if near else walked
        whole = self.everything(form.user)
        return page_of(rows, form.keyset(), size=size, whole=whole, first=first, **place)

    @staticmethod
    def soon(form: Any) -> Expected | None:
        """How many rows may be found at once and sorted, rather than walked to.

        The planner takes two boxes of words for independent and would expect far too few. By
        status, those of a bucket stand behind all of other statuses: more of them are sorted
        sooner than the others are passed over.
        """
        if sum(bool(form.cleaned_data.get(name)) for name in form.words.names) > 1:
            return None
        if form.sort[0] == "last_status" and form.cleaned_data["bucket"]:
            return Expected(3 * SOON.rows, SOON.cost)
        return SOON

    def dressed(self, rows: list[Order], user: Any) -> list[Order]:
        """With who works on them and the names of their labs: two queries."""
        held = team.holders(SUBJECT, [row.pk for row in rows])
        slugs = {row.lab_slug for row in rows if row.lab_slug}
        labs = _names_of(slugs)
        by_name = may(user, "patients.view")
        now = timezone.now()
        for row in rows:
            row.held = held.get(str(row.pk))  # type: ignore[attr-defined]
            row.lab_name = labs.get(row.lab_slug or "", row.lab_slug or "")  # type: ignore[attr-defined]
            row.by_name = by_name  # type: ignore[attr-defined]
            row.over_since = (  # type: ignore[attr-defined]
                row.quiet_at
                if row.quiet_at and row.quiet_at <= now and row.bucket in CAN_GO_QUIET
                else None
            )
        return rows

    def drawn(self, rows: list[Order], screen: Screen) -> SafeString:
        return draw(rows, screen)

    def patient_of(self, row: Order) -> UUID | None:
        return row.user_id

    def told(self, keys: Iterable[UUID], user: Any) -> dict[UUID, tuple[str, str]]:
        by_name = may(user, "patients.view")
        return {
            order.pk: (
                f"{order.patient_first_name} {order.patient_last_name}".strip()
                if by_name
                else f"Order {str(order.pk)[:8]}",
                reverse("orders:detail", args=[order.pk]),
            )
            for order in Order.objects.filter(pk__in=list(keys)).listed()
        }


def _until_and_since(given: Mapping[str, Any]) -> tuple[datetime | None, datetime | None]:
    """The last moment at which they were ordered, and the first one at which they were updated."""
    until = given["end_date"] or (given["ordered"] or (None, None))[1]
    since = given["updated_start_date"] or (given["changed"] or (None, None))[0]
    return until, since


def _usual_place(form: Any) -> Q | None:
    """Where most of those stand that are in a time by one moment, sorted by the other or by one
    behind a status: the index leads there."""
    sort, (until, since) = form.sort[0], _until_and_since(form.cleaned_data)
    if sort not in ("created_at", "updated_at", "last_status"):
        return None
    return usually(until if sort != "created_at" else None, since if sort != "updated_at" else None)


def _there_and_elsewhere(
    near: Q,
    rows: QuerySet[Order],
    columns: Sequence[str],
    edge: Edge,
    descending: bool,
    most: int,
) -> QuerySet[Order, Any]:
    """Keys of the first where most stand, along the index of the sort, and of the first of the few
    others."""
    there: QuerySet[Order, Any] = walked(rows.filter(near), columns, edge, descending, most)
    others = rows.filter(~near, STILL_UPDATED)
    return there.union(sorted_apart(others, columns, edge, descending, most), all=True)


def _names_of(labs: Iterable[str]) -> dict[str, str]:
    """Of labs by their slugs: each list asks it."""
    with statements.cursor() as cursor:
        cursor.execute("SELECT slug, name FROM labs_lab WHERE slug = ANY(%s)", [list(labs)])
        return dict(cursor.fetchall())


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
