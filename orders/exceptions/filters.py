"""The filters of the list of exceptions, and its groups, which are tabs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from django import forms
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy, gettext_noop

from backoffice.accounts.access import may
from backoffice.pages.lists.filters import (
    ChoicesFilter,
    DaysFilter,
    DeferredChoiceFilter,
    ListFilterSet,
    UUIDFilter,
    VocabularyFilter,
)
from backoffice.pages.lists.forms import FilterForm, FilterGroup
from backoffice.pages.paging.counts import Count
from orders.exceptions import queue
from orders.exceptions.cards import OUTCOME_LABELS
from orders.exceptions.queue import EXCEPTION_GROUPS, ExceptionGroup
from orders.filters import AssignedFilter, offer_assignees_and_labs
from orders.models import Order


class ExceptionListForm(FilterForm):
    """The open group, which has its own rows and sorts, and the filters of its rows."""

    group = forms.ChoiceField(
        required=False,
        choices=[(key, gettext_lazy(group.label)) for key, group in EXCEPTION_GROUPS.items()],
    )

    SORTS = queue.SORTS
    DESCENDING_FIRST = frozenset({"ordered"})
    PRIVATE_SORTS = frozenset({"patient"})
    TAB_FIELD = "group"
    FILTERS: ClassVar = (
        FilterGroup(gettext_noop("Assigned to"), ("assigned",), always_shown=True),
        FilterGroup(gettext_noop("Method"), ("method",), always_shown=True),
        FilterGroup(gettext_noop("Last outcome"), ("outcome",), always_shown=True),
        FilterGroup(gettext_noop("Lab"), ("lab",)),
        FilterGroup(gettext_noop("Date"), ("ordered", "changed"), shows_zone=True),
        FilterGroup(gettext_noop("Patient"), ("patient",)),
    )

    def __init__(self, data: Any = None, *, user: Any) -> None:
        super().__init__(data, user=user)
        self.user = user
        self.now = timezone.now()
        offer_assignees_and_labs(self, assigned="assigned", lab="lab")

    @cached_property
    def groups(self) -> list[tuple[ExceptionGroup, Count]]:
        """The groups that the user may see, each with its count."""
        counts = queue.group_counts(self.now, self.user)
        return [(group, counts[group.key]) for group in queue.visible_groups(self.user)]

    @property
    def has_waiting(self) -> bool:
        """Whether a group other than that of snoozed orders is not empty."""
        return any(count.value for group, count in self.groups if group.key != queue.SNOOZED)

    @cached_property
    def open_group(self) -> ExceptionGroup:
        """The chosen group, else the first one that is not empty."""
        if chosen := self.cleaned_data.get("group"):
            return EXCEPTION_GROUPS[chosen]
        return next(
            (group for group, count in self.groups if count.value and group.key != queue.SNOOZED),
            self.groups[0][0],
        )

    def clean_group(self) -> str:
        key: str = self.cleaned_data["group"]
        if key == queue.CRITICAL and not may(self.user, "results.view"):
            raise forms.ValidationError(gettext("Your role does not show results."), code="hidden")
        return key

    def may_open(self, query: Mapping[str, Sequence[str]]) -> bool:
        is_hidden = queue.CRITICAL in query.get("group", ()) and not may(self.user, "results.view")
        return super().may_open(query) and not is_hidden

    @property
    def sort(self) -> tuple[str, str]:
        """The active sort; the default of the group where it does not have the chosen one."""
        key, direction = super().sort
        if self.cleaned_data.get("order_key") in self.open_group.sorts:
            return key, direction
        return self.open_group.sorts[0], "asc"

    def can_sort_by(self, key: str) -> bool:
        return super().can_sort_by(key) and key in self.open_group.sorts


class ExceptionFilterSet(ListFilterSet):
    """The filters of the open group. They filter orders, and thereby the rows of the group."""

    assigned = AssignedFilter()
    method = VocabularyFilter("order.method", "method", label=gettext_lazy("Method"))
    outcome = ChoicesFilter(
        "handling__outcome",
        label=gettext_lazy("Last outcome"),
        choices=[(key, gettext_lazy(label)) for key, label in OUTCOME_LABELS.items()],
    )
    lab = DeferredChoiceFilter("lab_slug", label=gettext_lazy("Lab"))
    ordered = DaysFilter("created_at", short="ordered", label=gettext_lazy("Ordered"))
    changed = DaysFilter("updated_at", short="changed", label=gettext_lazy("Changed"))
    patient = UUIDFilter("user", label=gettext_lazy("Patient ID"))

    class Meta:
        form = ExceptionListForm

    @cached_property
    def group_rows(self) -> QuerySet[Any]:
        """The rows of the open group, without filters."""
        assert isinstance(self.form, ExceptionListForm)
        return queue.group_rows(self.form.open_group.key, self.form.now)

    def filter_queryset(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows of the open group whose orders match. `queryset`: all orders."""
        if not self.form.is_valid():
            return queryset.none()
        rows = self.group_rows
        if rows.model is Order:
            return super().filter_queryset(rows)
        if not self.form.is_filtered():
            return rows
        return rows.filter(pk__in=super().filter_queryset(queryset).values("pk"))
