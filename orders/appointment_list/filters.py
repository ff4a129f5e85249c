"""The filters of the appointment pages: which visits, and which orders without a visit, match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from functools import cached_property
from typing import Any, ClassVar, Final

from django import forms
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.dateparse import parse_date
from django.utils.translation import gettext, gettext_lazy, gettext_noop
from django_filters import CharFilter, ChoiceFilter, Filter

from backoffice.core.distinct_values import distinct_values
from backoffice.pages.lists.filters import (
    DeferredChoiceFilter,
    ListFilterSet,
    TabFilter,
    UUIDFilter,
    VocabularyFilter,
)
from backoffice.pages.lists.forms import FilterForm, FilterGroup
from backoffice.pages.paging.pages import Sort
from backoffice.team.models import Assignment
from orders.appointment_list.queries import (
    CANCELED,
    TABS,
    UNBOOKED_TABS,
    appointments_of_tab,
    unbooked_orders_of_tab,
)
from orders.models import Appointment, Order
from orders.rules.appointment_rules import CENTER, VISIT_TYPE_BY_METHOD

MAX_ASSIGNMENTS: Final = 1_000
MAX_PROVIDERS: Final = 201
"""Two hundred, and the empty name."""


def _provider_choices() -> list[tuple[str, str]]:
    """Return every provider that has a visit."""
    names = distinct_values(Appointment, "provider", MAX_PROVIDERS, "superseded_at IS NULL")
    return [(name, name) for name in names if name]


class DayField(forms.CharField):
    """A calendar day in the zone of the draw."""

    widget = forms.DateInput(attrs={"type": "date"})

    def clean(self, value: Any) -> date | None:
        text = str(value or "").strip()
        try:
            day = parse_date(text) if text else None
        except ValueError:
            day = None
        if text and (day is None or not 1900 <= day.year <= 2900):
            raise forms.ValidationError(gettext("Enter a date as YYYY-MM-DD."))
        return day


class DayFilter(Filter):
    field_class = DayField


class StatusFilter(VocabularyFilter):
    """Statuses of visits. Canceled visits match only if their status is chosen."""

    def filter(self, qs: QuerySet[Appointment], value: list[str]) -> QuerySet[Appointment]:
        return super().filter(qs, value) if value else qs.exclude(status=CANCELED)


class AppointmentFilterForm(FilterForm):
    # The place of a home visit is the patient's address.
    NEEDS: ClassVar = {"city": "patients.view", "state": "patients.view"}
    FILTERS: ClassVar[Sequence[FilterGroup]] = (
        FilterGroup(gettext_noop("Type"), ("type",), always_shown=True),
        FilterGroup(gettext_noop("Provider"), ("provider",), always_shown=True),
        FilterGroup(gettext_noop("Status"), ("status",), always_shown=True),
        FilterGroup(gettext_noop("Place"), ("site", "city", "state"), always_shown=True),
        FilterGroup(gettext_noop("Assigned to"), ("mine",), always_shown=True),
    )

    def clean_state(self) -> str:
        return str(self.cleaned_data["state"]).upper()


class AppointmentListForm(AppointmentFilterForm):
    SORTS: ClassVar = {"time": ("draw_day", "start_at", "id")}
    TAB_FIELD, DEFAULT_TAB = "show", "upcoming"
    FILTERS: ClassVar[Sequence[FilterGroup]] = (
        *AppointmentFilterForm.FILTERS,
        FilterGroup(gettext_noop("Day of visit"), ("start_date", "end_date"), always_shown=True),
        FilterGroup(gettext_noop("Patient ID"), ("user_id",)),
    )

    @property
    def sort(self) -> tuple[str, str]:
        """The active sort. The nearest visit is first, so past visits are in descending order."""
        key, direction = super().sort
        if self.tab == "past":
            direction = self.cleaned_data.get("order_direction") or "desc"
        return key, direction

    def keyset(self) -> Sort:
        """Return the columns of the sort.

        A requested visit has no time, so the one without changes for the longest is first.
        """
        sort = super().keyset()
        if self.tab == "requested":
            return replace(sort, columns=("as_of", "id"))
        return sort


class UnbookedOrderListForm(FilterForm):
    SORTS: ClassVar = {"ordered": ("created_at", "id")}
    TAB_FIELD, DEFAULT_TAB = "show", "book"
    FILTERS: ClassVar = (
        FilterGroup(gettext_noop("Type"), ("type",), always_shown=True),
        FilterGroup(gettext_noop("Assigned to"), ("mine",), always_shown=True),
    )


class AssignedToMeFilterSet(ListFilterSet):
    """The filter by records assigned to this user. A subclass has the condition."""

    mine = ChoiceFilter(
        label=gettext_lazy("Assigned to"),
        empty_label=gettext_lazy("Anyone"),
        choices=[("1", gettext_lazy("Me"))],
        method="filter_mine",
    )

    def filter_mine(self, rows: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        raise NotImplementedError

    @cached_property
    def assigned_ids(self) -> dict[str, list[str]]:
        """The ids of the records assigned to this user, by subject type: one query."""
        ids_by_type: dict[str, list[str]] = {"appointment": [], "order": [], "patient": []}
        rows = Assignment.objects.filter(user=self.user, subject_type__in=list(ids_by_type))
        for kind, key in rows.order_by("-at").values_list("subject_type", "subject_id")[
            :MAX_ASSIGNMENTS
        ]:
            ids_by_type[kind].append(key)
        return ids_by_type


class AppointmentFilterSet(AssignedToMeFilterSet):
    """The filters of all pages of visits."""

    type = VocabularyFilter("appointment.type", "type", label=gettext_lazy("Type"))
    provider = DeferredChoiceFilter(
        "provider", label=gettext_lazy("Provider"), read=_provider_choices
    )
    status = StatusFilter("appointment.status", "status", label=gettext_lazy("Status"))
    site = CharFilter(
        "provider_id", max_length=100, label=gettext_lazy("Site"), method="filter_site"
    )
    city = CharFilter("city", "iexact", max_length=100, label=gettext_lazy("City"))
    state = CharFilter(
        max_length=2,
        label=gettext_lazy("State"),
        help_text=gettext_lazy("Two letters, such as AZ."),
        widget=forms.TextInput(attrs={"size": 2, "autocapitalize": "characters"}),
    )

    class Meta:
        form = AppointmentFilterForm

    def filter_site(
        self, visits: QuerySet[Appointment], name: str, number: str
    ) -> QuerySet[Appointment]:
        # The same number can be that of something else at a home visit.
        return visits.filter(provider_id=number, type=CENTER)

    def filter_mine(
        self, visits: QuerySet[Appointment], name: str, value: str
    ) -> QuerySet[Appointment]:
        ids = self.assigned_ids
        assigned = Q(pk__in=ids["appointment"]) | Q(order_id__in=ids["order"])
        return visits.filter(assigned | Q(user_id__in=ids["patient"]))


class AppointmentListFilterSet(AppointmentFilterSet):
    """The filters of the list of visits. Days are calendar days in the zone of the draw."""

    show = TabFilter(TABS)
    start_date = DayFilter("draw_day", "gte", label=gettext_lazy("From"))
    end_date = DayFilter(
        "draw_day",
        "lte",
        label=gettext_lazy("Until"),
        help_text=gettext_lazy("Includes the whole day, in the time zone of the draw."),
    )
    user_id = UUIDFilter(label=gettext_lazy("Patient ID"))

    class Meta:
        form = AppointmentListForm

    @cached_property
    def now(self) -> datetime:
        """The time that divides past visits from upcoming ones, on all tabs the same."""
        return timezone.now()

    def filter_tab(
        self, visits: QuerySet[Appointment], name: str, tab: str
    ) -> QuerySet[Appointment]:
        return appointments_of_tab(visits, tab, self.now, self.form.cleaned_data["status"])


class UnbookedOrderFilterSet(AssignedToMeFilterSet):
    """The filters of orders without a visit."""

    show = TabFilter(UNBOOKED_TABS)
    type = VocabularyFilter(
        "appointment.type", "method", label=gettext_lazy("Type"), method="filter_type"
    )

    class Meta:
        form = UnbookedOrderListForm

    def filter_tab(self, orders: QuerySet[Order], name: str, tab: str) -> QuerySet[Order]:
        return unbooked_orders_of_tab(orders, tab, self.form.cleaned_data["type"])

    def filter_type(self, orders: QuerySet[Order], name: str, types: list[str]) -> QuerySet[Order]:
        methods = [method for method, kind in VISIT_TYPE_BY_METHOD.items() if kind in types]
        return orders.filter(method__in=methods)

    def filter_mine(self, orders: QuerySet[Order], name: str, value: str) -> QuerySet[Order]:
        ids = self.assigned_ids
        return orders.filter(Q(pk__in=ids["order"]) | Q(user_id__in=ids["patient"]))
