"""The filters of orders that lists of orders and the JSON API share.

Those of `OrderFilterSet` have the names of the parameters of `GET /v3/orders` (orders.md 4).
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, ClassVar, Final

from django.db.models import Exists, OuterRef, Q, QuerySet, TextField, UUIDField
from django.db.models.functions import Cast
from django.utils.translation import gettext, gettext_lazy
from django_filters import ChoiceFilter

from backoffice.core import prepared_queries, vocabulary
from backoffice.pages.lists.fields import DeferredChoiceField
from backoffice.pages.lists.filters import (
    DeferredChoiceFilter,
    ListFilterSet,
    PersonFilter,
    TimestampFilter,
    UUIDFilter,
    VocabularyFilter,
)
from backoffice.pages.lists.forms import FilterForm
from backoffice.team.models import Assignment
from orders.models.order_queryset import OrderQuerySet

YES_NO: Final = (("true", gettext_lazy("Yes")), ("false", gettext_lazy("No")))


ME: Final = "me"
NOBODY: Final = "nobody"


_CHOICES_SQL: Final = """
SELECT ARRAY(
 SELECT ARRAY[id::text, coalesce(nullif(trim(first_name || ' ' || last_name), ''), username)]
 FROM accounts_user
 WHERE is_active AND NOT EXISTS (SELECT FROM api_apitoken WHERE user_id = accounts_user.id)
 ORDER BY first_name, last_name, username LIMIT 200
), ARRAY(SELECT ARRAY[slug, name] FROM labs_lab WHERE missing_since IS NULL ORDER BY name)
"""


def _assignees_and_labs() -> dict[str, list[tuple[str, str]]]:
    """Return the choices of assignees and labs, by one query."""
    with prepared_queries.cursor() as cursor:
        cursor.execute(_CHOICES_SQL)
        people, labs = cursor.fetchone()
    return {
        "assigned": [(ME, gettext("Me")), (NOBODY, gettext("Unassigned")), *map(tuple, people)],
        "lab": list(map(tuple, labs)),
    }


def offer_assignees_and_labs(form: FilterForm, **fields: str) -> None:
    """Let fields of a form read their choices when they are shown, all by one query.

    `fields` names what each field offers: `assigned` or `lab`.
    """
    read = cache(_assignees_and_labs)
    for name, choices in fields.items():
        field = form.fields[name]
        assert isinstance(field, DeferredChoiceField)
        field.offer(partial(lambda key: read()[key], choices))


class AssignedFilter(PersonFilter):
    """People whom orders are assigned to."""

    def __init__(self) -> None:
        super().__init__("pk", label=gettext_lazy("Assigned to"), me=ME, nobody=NOBODY)

    def filter(self, qs: QuerySet[Any], value: list[str]) -> QuerySet[Any]:
        return qs.filter(_assigned_to(value, self.parent.user)) if value else qs


def _assigned_to(people: list[str], user: Any) -> Q:
    """Return the condition for orders assigned to these people, to `me`, or to nobody."""
    assignments = Assignment.objects.filter(subject_type="order")
    keys = [int(one) for one in people if one.isdigit()]
    if ME in people and user is not None:
        keys.append(user.pk)
    wanted = Q(pk__in=[])
    if keys:
        assigned = assignments.filter(user_id__in=keys).annotate(
            key=Cast("subject_id", UUIDField())
        )
        wanted |= Q(pk__in=assigned.values("key"))
    if NOBODY in people:
        # Orders of an inactive assignee count as assigned to nobody.
        active = assignments.filter(user__is_active=True)
        wanted |= ~Q(Exists(active.filter(subject_id=Cast(OuterRef("pk"), TextField()))))
    return wanted


class OrderFilterForm(FilterForm):
    NEEDS: ClassVar = {"interpretation": "results.view", "is_critical": "results.view"}

    DAY_RANGES: ClassVar = (
        ("start_date", "end_date"),
        ("updated_start_date", "updated_end_date"),
    )


class OrderFilterSet(ListFilterSet):
    """The filters that the list of orders and the JSON API share."""

    order_type = VocabularyFilter("order.method", "method", label=gettext_lazy("Method"))
    interpretation = ChoiceFilter(
        label=gettext_lazy("Interpretation"),
        empty_label=gettext_lazy("Any"),
        choices=vocabulary.choices("order.interpretation"),
    )
    is_critical = ChoiceFilter(
        label=gettext_lazy("Critical"),
        empty_label=gettext_lazy("Any"),
        choices=YES_NO,
        method="filter_critical",
    )
    order_activation_types = VocabularyFilter(
        "order.activation_type",
        "activate_by",
        label=gettext_lazy("Release"),
        method="filter_activation",
    )
    start_date = TimestampFilter("created_at", "gte", label=gettext_lazy("Ordered from"))
    end_date = TimestampFilter(
        "created_at",
        "lte",
        label=gettext_lazy("Ordered until"),
        end_of_day=True,
        help_text=gettext_lazy("Includes the whole day."),
    )
    updated_start_date = TimestampFilter("updated_at", "gte", label=gettext_lazy("Changed from"))
    updated_end_date = TimestampFilter(
        "updated_at",
        "lte",
        label=gettext_lazy("Changed before"),
        help_text=gettext_lazy("Up to the start of that day."),
    )
    lab = DeferredChoiceFilter("lab_slug", label=gettext_lazy("Lab"))
    user_id = UUIDFilter(label=gettext_lazy("Patient ID"))
    order_transaction_id = UUIDFilter(label=gettext_lazy("Transaction ID"))

    class Meta:
        form = OrderFilterForm

    def filter_critical(self, orders: OrderQuerySet, name: str, value: str) -> OrderQuerySet:
        if value == "true":
            return orders.filter(interpretation="critical")
        return orders.filter(~Q(interpretation="critical") | Q(interpretation=None))

    # The OpenAPI document reads the type of the parameter from the hint of `value`.
    def filter_activation(
        self, orders: OrderQuerySet, name: str, value: list[str]
    ) -> OrderQuerySet:
        return orders.with_activation_types(value)
