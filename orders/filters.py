"""The filters of orders that the list of orders and the JSON API share.

They have the names of the parameters of `GET /v3/orders` (orders.md 4).
"""

from __future__ import annotations

from typing import ClassVar, Final

from django.db.models import Q
from django_filters import ChoiceFilter

from backoffice.core import vocabulary
from backoffice.pages.lists.fields import check_day_order
from backoffice.pages.lists.filters import (
    DeferredChoiceFilter,
    ListFilterSet,
    TimestampFilter,
    UUIDFilter,
    VocabularyFilter,
)
from backoffice.pages.lists.forms import FilterForm
from orders.models.order_queryset import OrderQuerySet

YES_NO: Final = (("true", "Yes"), ("false", "No"))


class OrderFilterForm(FilterForm):
    NEEDS: ClassVar = {"interpretation": "results.view", "is_critical": "results.view"}

    def clean(self) -> None:
        super().clean()
        check_day_order(self, "start_date", "end_date")
        check_day_order(self, "updated_start_date", "updated_end_date")


class OrderFilterSet(ListFilterSet):
    """The filters that the list of orders and the JSON API share."""

    order_type = VocabularyFilter("order.method", "method", label="Method")
    interpretation = ChoiceFilter(
        label="Interpretation",
        empty_label="Any",
        choices=vocabulary.choices("order.interpretation"),
    )
    is_critical = ChoiceFilter(
        label="Critical", empty_label="Either", choices=YES_NO, method="filter_critical"
    )
    order_activation_types = VocabularyFilter(
        "order.activation_type", "activate_by", label="Activation", method="filter_activation"
    )
    start_date = TimestampFilter("created_at", "gte", label="Ordered from")
    end_date = TimestampFilter(
        "created_at", "lte", label="Ordered until", end_of_day=True, help_text="The whole day."
    )
    updated_start_date = TimestampFilter("updated_at", "gte", label="Changed from")
    updated_end_date = TimestampFilter(
        "updated_at", "lte", label="Changed before", help_text="The start of that day."
    )
    lab = DeferredChoiceFilter("lab_slug", label="Lab")
    user_id = UUIDFilter(label="Patient ID")
    order_transaction_id = UUIDFilter(label="Transaction ID")

    class Meta:
        form = OrderFilterForm

    def filter_critical(self, orders: OrderQuerySet, name: str, value: str) -> OrderQuerySet:
        if value == "true":
            return orders.filter(interpretation="critical")
        return orders.filter(~Q(interpretation="critical") | Q(interpretation=None))

    def filter_activation(
        self, orders: OrderQuerySet, name: str, types: list[str]
    ) -> OrderQuerySet:
        return orders.with_activation_types(types)
