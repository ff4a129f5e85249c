"""Queries of orders: the filters of lists and the search, as methods of `Order.objects`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Self

from django.db import models
from django.db.models import Q

from backoffice.core.identifiers import same_identifier
from backoffice.pages.paging.keys import key_condition, keys_of_any
from orders.models.name import name_condition, name_range
from orders.models.search_conditions import list_conditions, person_condition
from orders.search_text import OrderSearchText, parse_order_search_text
from patients.search_text import SearchText, required_prefixes

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

    def matching_words(self, filters: Mapping[str, Any], *, by_name: bool, sort: str = "") -> Self:
        """Keep orders that match the words that were typed. Runs up to four queries for keys.

        `search_input` finds what the search box finds (specification: whole ids, ISO dates).
        Without `by_name` it matches identifiers, never people. `sort` is the column that sorts the
        list.
        """
        names = {
            column: required_prefixes(filters[name])
            for name, column in NAME_PARAMETERS.items()
            if filters[name]
        }
        rows = self
        if filters["search_input"].strip():
            search = parse_order_search_text(filters["search_input"], by_name=by_name)
            if condition := self._search_condition(search):
                rows = rows.filter(condition)
            else:
                names["names"] = list(search.typed.name)
        if names and sort == "patient_name":
            rows = rows.filter(name_range(names))
        return rows.filter(name_condition(names)) if names else rows

    def _search_condition(self, search: OrderSearchText) -> Q:
        """Return the condition for all that a text may mean; empty if it is only a name."""
        typed, conditions = search.typed, list_conditions(search)
        if not conditions:
            return Q()
        rows = type(self)(self.model)
        condition = key_condition(
            "pk",
            keys_of_any(rows, conditions, MAX_IDENTIFIED + 1),
            MAX_IDENTIFIED,
            otherwise=Q(pk__in=keys_of_any(rows, conditions)),
        )
        return name_condition({"names": typed.name}) | condition if typed.name else condition

    def with_sample_id(self, *texts: str) -> Self:
        """Keep orders with one of these sample IDs, in any spelling."""
        return self.filter(same_identifier("sample_id", *texts))

    def with_person(self, typed: SearchText) -> Self:
        """Keep orders with this person on them: word beginnings of names, and a birth date."""
        condition = person_condition(typed)
        return self.filter(condition) if condition else self.none()


MAX_IDENTIFIED: Final = 1_000
"""Most orders that are found first by an identifier or a birth date."""
NAME_PARAMETERS: Final = {
    "patient_name": "patient_name",
    "shipping_recipient_name": "recipient_name",
}
"""The columns in which the words of each parameter are searched."""
