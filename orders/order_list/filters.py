"""The filters of the list of orders: those of `orders.filters`, and those for staff only."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, ClassVar, Final
from uuid import UUID

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy, gettext_noop
from django_filters import CharFilter, ChoiceFilter, Filter

from backoffice.core import vocabulary
from backoffice.core.encryption.url_tokens import PersonalParameters
from backoffice.pages.lists.filters import DaysFilter, TabFilter, VocabularyFilter
from backoffice.pages.lists.forms import FilterGroup
from orders.filters import (
    YES_NO,
    AssignedFilter,
    OrderFilterForm,
    OrderFilterSet,
    offer_assignees_and_labs,
)
from orders.models.order import CAN_GO_QUIET
from orders.models.order_queryset import OrderQuerySet
from orders.today.counts import OrderCounts, order_counts

SUBJECT: Final = "order"
SORTS: Final[dict[str, tuple[str, ...]]] = {
    "created_at": ("created_at", "id"),
    "updated_at": ("updated_at", "id"),
    "patient_name": ("patient_name", "id"),
    "last_status": ("low_level_status", "created_at", "id"),
    "quiet_at": ("quiet_at", "id"),
}
FALLING: Final = frozenset({"created_at", "updated_at"})
"""Sort keys whose first click shows the newest first."""

WORD_BEGINNINGS: Final = gettext_lazy("The beginning of each name, in any order.")
"""Help text. The service matches any part of a name; here an index finds beginnings of words."""


class RepeatedText(forms.TextInput):
    """A text box that joins the values of a repeated parameter, the service's form of a list."""

    def value_from_datadict(self, data: Any, files: Any, name: str) -> str:
        values: Iterable[str] = data.getlist(name) if hasattr(data, "getlist") else [data.get(name)]
        return " ".join(value for value in values if value)


class UuidsField(forms.Field):
    """Several ids: as a repeated parameter, or in one box, separated by spaces or commas."""

    widget = RepeatedText

    def clean(self, value: object) -> list[UUID]:
        parts = str(value or "").replace(",", " ").split()
        try:
            return [UUID(item) for item in parts]
        except ValueError as error:
            raise ValidationError(gettext("Enter complete order IDs.")) from error


class OrderIdsFilter(Filter):
    field_class = UuidsField


class OrderListForm(OrderFilterForm):
    SORTS = SORTS
    DESCENDING_FIRST = FALLING
    PRIVATE_SORTS = frozenset({"patient_name"})
    NEEDS: ClassVar = {
        **OrderFilterForm.NEEDS,
        "patient_name": "patients.view",
        "shipping_recipient_name": "patients.view",
    }
    WORDS = PersonalParameters(
        "orders", frozenset({"search_input", "patient_name", "shipping_recipient_name"})
    )
    TAB_FIELD = "bucket"
    FILTERS: ClassVar = (
        FilterGroup(gettext_noop("Status"), ("status",), always_shown=True),
        FilterGroup(gettext_noop("Method"), ("order_type",), always_shown=True),
        FilterGroup(
            gettext_noop("Date"),
            ("ordered", "start_date", "end_date", "changed", "updated_start_date",
             "updated_end_date"),
            always_shown=True,
            shows_zone=True,
        ),
        FilterGroup(gettext_noop("Assigned to"), ("assigned",), always_shown=True),
        FilterGroup(gettext_noop("Overdue"), ("quiet",)),
        FilterGroup(gettext_noop("Result"), ("interpretation", "is_critical")),
        FilterGroup(gettext_noop("Lab"), ("lab",)),
        FilterGroup(gettext_noop("Release"), ("order_activation_types",)),
        FilterGroup(gettext_noop("Name"), ("patient_name", "shipping_recipient_name")),
        FilterGroup(gettext_noop("IDs"), ("user_id", "order_ids", "order_transaction_id")),
    )  # fmt: skip

    def __init__(self, data: Any = None, *, user: Any) -> None:
        super().__init__(data, user=user)
        offer_assignees_and_labs(self, assigned="assigned", lab="lab")

    def clean_status(self) -> list[str]:
        return [
            vocabulary.canonical("order.low_level_status", value)
            for value in self.cleaned_data["status"]
        ]

    @property
    def sort(self) -> tuple[str, str]:
        """Return the sort key and direction.

        A sort by the time of becoming overdue needs the filter for overdue orders: other orders
        have no such time.
        """
        key, direction = super().sort
        if key == "quiet_at" and self.cleaned_data.get("quiet") != "true":
            return "created_at", "desc"
        return key, direction

    def can_sort_by(self, key: str) -> bool:
        return super().can_sort_by(key) and (
            key != "quiet_at" or self.cleaned_data.get("quiet") == "true"
        )


class TypedNameFilter(CharFilter):
    """Words of a name. `OrderListFilterSet` looks all of them up together."""

    def filter(self, qs: QuerySet[Any], value: Any) -> QuerySet[Any]:
        return qs


class OrderListFilterSet(OrderFilterSet):
    """The filters of the list of orders."""

    bucket = TabFilter(vocabulary.BUCKETS, "bucket")
    search_input = TypedNameFilter(max_length=100, label=gettext_lazy("Search"))
    status = VocabularyFilter(
        "order.low_level_status", "low_level_status", label=gettext_lazy("Status")
    )
    ordered = DaysFilter("created_at", short="ordered", label=gettext_lazy("Ordered"))
    changed = DaysFilter("updated_at", short="changed", label=gettext_lazy("Changed"))
    assigned = AssignedFilter()
    quiet = ChoiceFilter(
        label=gettext_lazy("Overdue"),
        empty_label=gettext_lazy("Any"),
        choices=YES_NO,
        method="filter_quiet",
    )
    patient_name = TypedNameFilter(
        max_length=100, label=gettext_lazy("Patient name"), help_text=WORD_BEGINNINGS
    )
    shipping_recipient_name = TypedNameFilter(
        max_length=100, label=gettext_lazy("Name on the package"), help_text=WORD_BEGINNINGS
    )
    order_ids = OrderIdsFilter("pk", "in", label=gettext_lazy("Order IDs"))

    class Meta:
        form = OrderListForm

    def filter_queryset(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        orders = super().filter_queryset(queryset)
        if not self.form.is_valid():
            return orders
        assert isinstance(orders, OrderQuerySet)
        return orders.matching_words(
            self.form.cleaned_data, by_name=self.form.by_name, sort=self.form.sort[0]
        )

    def filter_quiet(self, orders: OrderQuerySet, name: str, value: str) -> OrderQuerySet:
        is_overdue = Q(bucket__in=CAN_GO_QUIET, quiet_at__lte=timezone.now())
        return orders.filter(is_overdue if value == "true" else ~is_overdue | Q(quiet_at=None))

    @cached_property
    def state_counts(self) -> OrderCounts:
        """The stored counts, read once for the count of the list and for its tabs."""
        return order_counts()
