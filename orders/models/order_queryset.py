"""Queries of orders: the filters of lists and the search, as methods of `Order.objects`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Self

from django.db import models
from django.db.models import F, Q, Value
from django.db.models.lookups import GreaterThan

from backoffice.core.identifiers import same_identifier
from backoffice.pages.paging.keys import UNREACHED_LIMIT, opaque_condition
from orders.models.name import OrderNameWord
from patients.models import id_range_for_prefix
from patients.search_keys import parse_birth_date, words

if TYPE_CHECKING:
    from orders.models.order import Order  # noqa: F401 - named in a string

LIST_COLUMNS: Final = (
    "id",
    "user_id",
    "created_at",
    "updated_at",
    "last_event_at",
    "quiet_at",
    "low_level_status",
    "status_detail",
    "bucket",
    "method",
    "priority",
    "origin",
    "activate_by",
    "sample_id",
    "lab_test_name",
    "interpretation",
    "patient_first_name",
    "patient_last_name",
    "patient_name",
    "patient_dob",
    "missing_since",
)


class OrderQuerySet(models.QuerySet["Order"]):
    """Queries of orders; an index of `Order` answers each condition."""

    def with_list_columns(self) -> Self:
        """Load only the columns that a row of a list shows."""
        return self.only(*LIST_COLUMNS)

    def filtered(self, filters: Mapping[str, Any], sort: str) -> Self:
        """Filter by the parameters of `GET /v3/orders` (orders.md 4), except names and words.

        `filters` is the cleaned data of `OrderFilters`. `sort` is the column that sorts the list.
        """
        plain = {
            "bucket": filters["bucket"],
            "low_level_status__in": filters["status"],
            "method__in": filters["order_type"],
            "interpretation": filters["interpretation"],
            "user_id": filters["user_id"],
            "pk__in": filters["order_ids"],
            "order_transaction_id": filters["order_transaction_id"],
        }
        rows = self.filter(**{name: value for name, value in plain.items() if value})
        rows = rows.created_between(filters["start_date"], filters["end_date"], sort)
        # Results that are not normal have an index sorted by the time of ordering.
        index_column = "created_at" if filters["interpretation"] not in ("", "normal") else sort
        rows = rows.updated_between(
            filters["updated_start_date"],
            filters["updated_end_date"],
            index_column,
            filters["start_date"],
        )
        if is_never_usual(*ordered_until_and_updated_since(filters)):
            rows = rows.filter(STILL_UPDATED)
        if filters["is_critical"] == "true":
            rows = rows.filter(interpretation="critical")
        elif filters["is_critical"] == "false":
            rows = rows.filter(~Q(interpretation="critical") | Q(interpretation=None))
        return rows.with_activation_types(filters["order_activation_types"])

    def created_between(self, first: datetime | None, last: datetime | None, sort: str) -> Self:
        """Keep orders placed in a period.

        No order is updated before it is placed. So in a list sorted by the time of update, no
        matching order was updated before `first`, and the scan of the index can stop there. The
        condition is added only for that sort: the planner assumes that the two times are
        independent, and with both conditions it would expect thirty times too few orders of a
        month.
        """
        rows = self.filter(created_at__gte=first) if first else self
        if first and sort == "updated_at":
            rows = rows.filter(updated_at__gte=_earlier(first, _CLOCK_TOLERANCE))
        return rows.filter(created_at__lte=last) if last else rows

    def updated_between(
        self,
        first: datetime | None,
        last: datetime | None,
        sort: str,
        ordered_since: datetime | None,
    ) -> Self:
        """Keep orders updated in a period.

        In a list sorted by the time of placing, `last` also limits that time, for the same reason
        as in `created_between`. Nearly all orders placed since `ordered_since` were also updated
        since then, so the planner must not expect fewer orders because of the second condition.
        """
        rows = self
        if first:
            since = Q(updated_at__gte=first)
            implied = ordered_since is not None and ordered_since >= first
            rows = rows.filter(opaque_condition(since) if implied else since)
        if last and sort == "created_at":
            rows = rows.filter(created_at__lte=_later(last, _CLOCK_TOLERANCE))
        return rows.filter(updated_at__lte=last) if last else rows

    def with_activation_types(self, types: Sequence[str]) -> Self:
        """Keep `current` orders, `scheduled` orders, or both (orders.md 2.10).

        A current order has no date or a past one. A scheduled order has a future date.
        """
        if not types:
            return self
        today = datetime.now(UTC).date()
        condition = Q(pk__in=[])
        if "current" in types:
            condition |= Q(activate_by=None) | Q(activate_by__lte=today)
        if "scheduled" in types:
            condition |= Q(activate_by__gt=today)
        return self.filter(condition)

    def matching_words(self, filters: Mapping[str, Any], *, by_name: bool) -> Self:
        """Keep orders that match the words that were typed."""
        rows, typed = self.matching_identifiers(filters, by_name=by_name)
        return rows.with_names(typed) if typed else rows

    def matching_identifiers(
        self, filters: Mapping[str, Any], *, by_name: bool
    ) -> tuple[Self, dict[str, str]]:
        """Apply the typed words except names; also return the names by column, for `with_names`.

        `search_input` is the beginning of an order id or user id, a name, a recipient, a birth date
        in any spelling (specification: whole ids, ISO dates) or a sample id. Without `by_name` it
        matches ids, never people. A text that may be a name or an identifier becomes a union: with
        alternatives in one condition, PostgreSQL would check every order.
        """
        typed = {column: filters[name] for name, column in NAME_PARAMETERS.items() if filters[name]}
        rows, text = self, filters["search_input"].strip()
        is_name, by_identifier = _search_meanings(text, by_name=by_name) if text else (False, Q())
        if is_name and by_identifier:
            everything = type(self)(self.model).order_by()
            both = (
                everything.with_name(text).values("pk"),
                everything.filter(by_identifier).values("pk"),
            )
            rows = rows.filter(pk__in=both[0].union(both[1], all=True))
        elif is_name:
            typed["names"] = text
        elif text:
            rows = rows.filter(by_identifier)
        return rows, typed

    def with_sample_id(self, *texts: str) -> Self:
        """Keep orders with one of these sample IDs, in any spelling."""
        return self.filter(same_identifier("sample_id", *texts))

    def with_name(self, text: str) -> Self:
        """Keep orders with a patient or recipient of this name: word beginnings, in any order."""
        return self.with_names({"names": text})

    def with_names(self, typed: Mapping[str, str], *, is_walked: bool = False) -> Self:
        """Keep orders with matching names (`OrderNameWord.matching`).

        With `is_walked`, each row is checked while the list is read along the index of its sort.
        """
        fit = Q(names__in=OrderNameWord.matching(typed).values("names")[:UNREACHED_LIMIT])
        return self.filter(opaque_condition(fit) if is_walked else fit)


def _search_meanings(text: str, *, by_name: bool) -> tuple[bool, Q]:
    """Return whether the text may be a name, and the condition for what else it may be."""
    born, ids = parse_birth_date(text), id_range_for_prefix(text)
    is_name = by_name and not born and bool(words(text))
    by_identifier = Q()
    if not is_name or any(mark.isdigit() for mark in text):
        by_identifier |= same_identifier("sample_id", text)
    if ids and not born:
        by_identifier |= Q(pk__range=ids) | Q(user__gte=ids[0], user__lte=ids[1])
    if by_name and born:
        by_identifier |= Q(patient_dob=born)
    return is_name, by_identifier


NAME_PARAMETERS: Final = {
    "patient_name": "patient_name",
    "shipping_recipient_name": "recipient_name",
}
"""The columns in which the words of each parameter are searched."""


USUAL_UPDATE_SPAN: Final = timedelta(days=30)
"""Most orders are updated for the last time within this time after they are placed."""
STILL_UPDATED: Final = Q(GreaterThan(F("updated_at") - F("created_at"), Value(USUAL_UPDATE_SPAN)))
"""Condition for the other orders. An index of their own finds them."""


def ordered_until_and_updated_since(
    filters: Mapping[str, Any],
) -> tuple[datetime | None, datetime | None]:
    """Return the end of the period of ordering, and the start of the period of updates."""
    until = filters["end_date"] or (filters.get("ordered") or (None, None))[1]
    since = filters["updated_start_date"] or (filters.get("changed") or (None, None))[0]
    return until, since


def implied_by_usual_span(
    ordered_until: datetime | None, updated_since: datetime | None
) -> Q | None:
    """Return the condition that most orders placed until, or updated since, these times fulfill.

    Return None if both times are None. The condition limits the other time of an order, so a list
    sorted by that time can be read from, or up to, the limit. Only orders that are `STILL_UPDATED`
    can be outside it.
    """
    if ordered_until is None and updated_since is None:
        return None
    implied = Q()
    if ordered_until is not None:
        implied &= Q(updated_at__lte=_later(ordered_until, USUAL_UPDATE_SPAN))
    if updated_since is not None:
        implied &= Q(created_at__gte=_earlier(updated_since, USUAL_UPDATE_SPAN))
    return implied


def is_never_usual(ordered_until: datetime | None, updated_since: datetime | None) -> bool:
    """Whether every order placed until, and updated since, these times is `STILL_UPDATED`."""
    if ordered_until is None or updated_since is None:
        return False
    return updated_since - ordered_until > USUAL_UPDATE_SPAN


_CLOCK_TOLERANCE: Final = timedelta(days=1)
"""Most by which the times of one order may be in the wrong order, because clocks differ."""


def _earlier(moment: datetime, by: timedelta) -> datetime:
    return moment - min(by, moment - _FIRST_MOMENT)


def _later(moment: datetime, by: timedelta) -> datetime:
    return moment + min(by, _LAST_MOMENT - moment)


_FIRST_MOMENT: Final = datetime(1, 1, 2, tzinfo=UTC)
_LAST_MOMENT: Final = datetime(9999, 12, 30, tzinfo=UTC)
