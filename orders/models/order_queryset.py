"""Queries of orders: the filters of lists and the search, as methods of `Order.objects`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Self

from django.db import models
from django.db.models import Q

from backoffice.core.identifiers import same_identifier
from backoffice.pages.paging.keys import key_condition
from orders.models.name import name_condition, name_range
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
        """Keep orders that match the words that were typed. Runs up to three queries for keys.

        `search_input` is the beginning of an order id or user id, a name, a recipient, a birth date
        in any spelling (specification: whole ids, ISO dates) or a sample id. Without `by_name` it
        matches ids, never people. `sort` is the column that sorts the list.
        """
        typed = {column: filters[name] for name, column in NAME_PARAMETERS.items() if filters[name]}
        rows, text = self, filters["search_input"].strip()
        is_name, by_identifier = _search_meanings(text, by_name=by_name) if text else (False, Q())
        if by_identifier:
            found = type(self)(self.model).order_by().filter(by_identifier).values("pk")
            condition = key_condition("pk", found, MAX_IDENTIFIED, otherwise=by_identifier)
            rows = rows.filter(
                name_condition({"names": text}) | condition if is_name else condition
            )
        elif is_name:
            typed["names"] = text
        if typed and sort == "patient_name":
            rows = rows.filter(name_range(typed))
        return rows.filter(name_condition(typed)) if typed else rows

    def with_sample_id(self, *texts: str) -> Self:
        """Keep orders with one of these sample IDs, in any spelling."""
        return self.filter(same_identifier("sample_id", *texts))

    def with_name(self, text: str) -> Self:
        """Keep orders with a patient or recipient of this name: word beginnings, in any order."""
        return self.filter(name_condition({"names": text}))


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


MAX_IDENTIFIED: Final = 1_000
"""Most orders that are found first by an identifier or a birth date."""
NAME_PARAMETERS: Final = {
    "patient_name": "patient_name",
    "shipping_recipient_name": "recipient_name",
}
"""The columns in which the words of each parameter are searched."""
