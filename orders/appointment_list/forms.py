"""The filters of the appointment pages: which visits, and which orders without a visit, match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from functools import cache, cached_property
from typing import Any, ClassVar, Final

from django import forms
from django.db.models import Q, QuerySet
from django.utils.dateparse import parse_date

from backoffice.accounts.models import User
from backoffice.core import prepared_queries
from backoffice.pages.lists.fields import (
    DeferredChoiceField,
    OpenVocabularyField,
    UuidField,
    check_day_order,
)
from backoffice.pages.lists.forms import Filter, FilterForm
from backoffice.pages.paging.pages import Sort
from backoffice.team.models import Assignment
from orders.models import Appointment, Order
from orders.rules.appointment_rules import CENTER, VISIT_TYPE_BY_METHOD

TABS: Final = {
    "today": "Today",
    "upcoming": "Upcoming",
    "requested": "Requested, no time yet",
    "past": "Past",
}
"""The tabs of visits."""
UNBOOKED_TABS: Final = {"book": "To book", "rebook": "To rebook"}
"""The tabs of orders without a visit."""
MAX_ASSIGNMENTS: Final = 1_000


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
            raise forms.ValidationError("Type a date as YYYY-MM-DD.")
        return day


def provider_choices() -> list[tuple[str, str]]:
    """Return every provider once. The index `appointment_of_provider` is read once per provider."""
    with prepared_queries.cursor() as cursor:
        cursor.execute(
            """
            WITH RECURSIVE each (provider) AS (
                (SELECT provider FROM orders_appointment WHERE superseded_at IS NULL
                 ORDER BY provider LIMIT 1)
                UNION ALL
                SELECT (SELECT provider FROM orders_appointment
                        WHERE superseded_at IS NULL AND provider > each.provider
                        ORDER BY provider LIMIT 1)
                FROM each WHERE each.provider IS NOT NULL
            )
            SELECT provider FROM each WHERE provider <> '' LIMIT 200
            """
        )
        return [(name, name) for (name,) in cursor.fetchall()]


class VisitFilters(FilterForm):
    """The filters that visits and orders without a visit have in common."""

    type = OpenVocabularyField("appointment.type", label="Type")
    mine = forms.ChoiceField(
        required=False, label="Assigned to", choices=[("", "Anybody"), ("1", "Me")]
    )

    def __init__(self, data: Any = None, *, by_name: bool, user: User | None = None) -> None:
        super().__init__(data, by_name=by_name)
        self.user = user

    def filter_appointments(self, rows: QuerySet[Appointment]) -> QuerySet[Appointment]:
        if self.cleaned_data.get("type"):
            rows = rows.filter(type__in=self.cleaned_data["type"])
        if self.cleaned_data.get("mine"):
            ids = self._assigned_ids
            mine = Q(pk__in=ids["appointment"]) | Q(order_id__in=ids["order"])
            rows = rows.filter(mine | Q(user_id__in=ids["patient"]))
        return rows

    def filter_orders(self, rows: QuerySet[Order]) -> QuerySet[Order]:
        types = self.cleaned_data.get("type")
        if types:
            rows = rows.filter(method__in=order_methods(types))
        if self.cleaned_data.get("mine"):
            ids = self._assigned_ids
            rows = rows.filter(Q(pk__in=ids["order"]) | Q(user_id__in=ids["patient"]))
        return rows

    @cached_property
    def _assigned_ids(self) -> dict[str, list[str]]:
        """The ids of the records assigned to this user, by subject type: one query."""
        ids_by_type: dict[str, list[str]] = {"appointment": [], "order": [], "patient": []}
        rows = Assignment.objects.filter(user=self.user, subject_type__in=list(ids_by_type))
        for kind, key in rows.order_by("-at").values_list("subject_type", "subject_id")[
            :MAX_ASSIGNMENTS
        ]:
            ids_by_type[kind].append(key)
        return ids_by_type


class AppointmentFilters(VisitFilters):
    """The filters of all pages of visits."""

    provider = DeferredChoiceField(
        required=False, label="Provider", widget=forms.CheckboxSelectMultiple
    )
    status = OpenVocabularyField("appointment.status", label="Status")
    site = forms.CharField(required=False, max_length=100, label="Site")
    city = forms.CharField(required=False, max_length=100, label="City")
    state = forms.CharField(
        required=False,
        max_length=2,
        label="State",
        help_text="Two letters, such as AZ.",
        widget=forms.TextInput(attrs={"size": 2, "autocapitalize": "characters"}),
    )

    FILTERS: ClassVar[Sequence[Filter]] = (
        Filter("Type", ("type",), always_shown=True),
        Filter("Provider", ("provider",), always_shown=True),
        Filter("Status", ("status",), always_shown=True),
        Filter("Place", ("site", "city", "state"), always_shown=True),
        Filter("Assigned to", ("mine",), always_shown=True),
    )

    def __init__(self, data: Any = None, *, by_name: bool, user: User | None = None) -> None:
        """Hide the filters by place from users who may not see patients.

        The place of a home draw is the patient's address.
        """
        super().__init__(data, by_name=by_name, user=user)
        provider = self.fields["provider"]
        assert isinstance(provider, DeferredChoiceField)
        provider.offer(cache(provider_choices))
        if not by_name:
            self.hidden |= dict.fromkeys(("city", "state"), "who a patient is")

    def clean_state(self) -> str:
        return str(self.cleaned_data["state"]).strip().upper()

    def filter_appointments(self, rows: QuerySet[Appointment]) -> QuerySet[Appointment]:
        values = self.cleaned_data
        site = (values.get("site") or "").strip()
        conditions: dict[str, Any] = {
            "status__in": values.get("status"),
            "provider__in": values.get("provider"),
            "provider_id": site,
            # The same number can be that of something else at a home visit.
            "type": CENTER if site else "",
            "city__iexact": (values.get("city") or "").strip(),
            "state": values.get("state"),
        }
        rows = super().filter_appointments(rows)
        return rows.filter(**{name: value for name, value in conditions.items() if value})


class AppointmentListFilters(AppointmentFilters):
    """The filters of the list of visits. Days are calendar days in the zone of the draw."""

    show = forms.CharField(required=False, max_length=20, widget=forms.HiddenInput)
    start_date = DayField(required=False, label="From")
    end_date = DayField(
        required=False, label="Until", help_text="The whole day, by the calendar of the draw."
    )
    user_id = UuidField(label="Patient ID")

    SORTS: ClassVar = {"time": ("draw_day", "start_at", "id")}
    TAB_FIELDS = frozenset({"show"})
    FILTERS: ClassVar[Sequence[Filter]] = (
        *AppointmentFilters.FILTERS,
        Filter("Day of visit", ("start_date", "end_date"), always_shown=True),
        Filter("Patient ID", ("user_id",)),
    )

    def clean_show(self) -> str:
        show: str = self.cleaned_data["show"]
        return show if show in TABS else "upcoming"

    def clean(self) -> None:
        super().clean()
        check_day_order(self, "start_date", "end_date")

    @property
    def sort(self) -> tuple[str, str]:
        """The active sort. The nearest visit is first, so past visits are in descending order."""
        key, direction = super().sort
        if self.cleaned_data.get("show") == "past":
            direction = self.cleaned_data.get("order_direction") or "desc"
        return key, direction

    def keyset(self) -> Sort:
        """Return the columns of the sort.

        A requested visit has no time, so the one without changes for the longest is first.
        """
        sort = super().keyset()
        if self.cleaned_data.get("show") == "requested":
            return replace(sort, columns=("as_of", "id"))
        return sort

    def filter_appointments(self, rows: QuerySet[Appointment]) -> QuerySet[Appointment]:
        conditions = {
            "draw_day__gte": self.cleaned_data.get("start_date"),
            "draw_day__lte": self.cleaned_data.get("end_date"),
            "user_id": self.cleaned_data.get("user_id"),
        }
        rows = super().filter_appointments(rows)
        return rows.filter(**{name: value for name, value in conditions.items() if value})


class UnbookedOrderFilters(VisitFilters):
    """The filters of orders without a visit."""

    show = forms.CharField(required=False, max_length=20, widget=forms.HiddenInput)

    SORTS: ClassVar = {"ordered": ("created_at", "id")}
    TAB_FIELDS = frozenset({"show"})
    FILTERS: ClassVar[Sequence[Filter]] = (
        Filter("Type", ("type",), always_shown=True),
        Filter("Assigned to", ("mine",), always_shown=True),
    )

    def clean_show(self) -> str:
        show: str = self.cleaned_data["show"]
        return show if show in UNBOOKED_TABS else "book"


def order_methods(types: Sequence[str]) -> list[str]:
    """Return the order methods that belong to these appointment types."""
    return [method for method, kind in VISIT_TYPE_BY_METHOD.items() if kind in types]
