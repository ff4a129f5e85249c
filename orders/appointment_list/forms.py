"""The filters of the appointment pages, and the visits that match them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final

from django import forms
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.dateparse import parse_date

from backoffice.accounts.models import User
from backoffice.core import prepared_queries, vocabulary
from backoffice.pages.lists.fields import AnyChoiceField, OpenVocabularyField, check_day_order
from backoffice.pages.paging.pages import Sort
from backoffice.team.models import Assignment
from orders.models import Appointment, Order
from orders.rules.appointment_rules import VISIT_TYPE_BY_METHOD

BY_DAY: Final = ("draw_day", "start_at", "id")
TABS: Final[dict[str, tuple[str, Sort]]] = {
    "today": ("Today", Sort(BY_DAY)),
    "upcoming": ("Upcoming", Sort(BY_DAY)),
    "requested": ("Requested, no time yet", Sort(("as_of", "id"))),
    "past": ("Past", Sort(BY_DAY, descending=True)),
}
"""The label and sort of each tab. A requested visit has no time, so the one without changes for the
longest is first.
"""

ENDED_STATUSES: Final = ("cancelled", "completed")
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


class ProviderField(AnyChoiceField):
    """A choice among the providers that have visits."""

    def __init__(self) -> None:
        super().__init__(
            choices=provider_choices,
            required=False,
            label="Provider",
            widget=forms.CheckboxSelectMultiple,
        )


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


class AppointmentFilters(forms.Form):
    """Filters of all appointment pages. Days are calendar days in the zone of the draw."""

    type = OpenVocabularyField("appointment.type", label="Type")
    status = OpenVocabularyField("appointment.status", label="Status")
    provider = ProviderField()
    site = forms.CharField(required=False, max_length=100, label="Site")
    city = forms.CharField(required=False, max_length=100, label="City")
    state = forms.CharField(
        required=False,
        max_length=2,
        label="State",
        help_text="Two letters, such as AZ.",
        widget=forms.TextInput(attrs={"size": 2, "autocapitalize": "characters"}),
    )
    start_date = DayField(required=False, label="From")
    end_date = DayField(required=False, label="Until", help_text="The whole day.")
    mine = forms.BooleanField(required=False, label="Mine")

    PLACE: Final = ("city", "state")
    DATES: Final = ("start_date", "end_date")

    def __init__(self, data: Any = None, *, by_name: bool, user: User | None = None) -> None:
        super().__init__(data)
        self.by_name = by_name
        self.user = user

    def clean(self) -> None:
        """Reject filters on place for users who may not see patients.

        The place of a home draw is the patient's address.
        """
        for name in self.PLACE:
            if not self.by_name and self.cleaned_data.get(name):
                self.add_error(name, "Your role does not show who a patient is.")
        check_day_order(self, *self.DATES)

    def clean_state(self) -> str:
        return str(self.cleaned_data["state"]).strip().upper()

    def filter_appointments(self, rows: QuerySet[Appointment]) -> QuerySet[Appointment]:
        values = self.cleaned_data
        rows = rows.filter(superseded_at=None)
        plain: dict[str, Any] = {
            "type__in": values.get("type"),
            "status__in": values.get("status"),
            "provider__in": values.get("provider"),
            "provider_id": (values.get("site") or "").strip(),
            "city__iexact": (values.get("city") or "").strip(),
            "state": values.get("state"),
            "draw_day__gte": values.get("start_date"),
            "draw_day__lte": values.get("end_date"),
        }
        rows = rows.filter(**{name: value for name, value in plain.items() if value})
        if plain["provider_id"]:
            rows = rows.filter(type="patient_service_center")
        if values.get("mine"):
            ids = self._assigned_ids()
            mine = Q(pk__in=ids["appointment"]) | Q(order_id__in=ids["order"])
            rows = rows.filter(mine | Q(user_id__in=ids["patient"]))
        return rows

    def filter_orders(self, rows: QuerySet[Order]) -> QuerySet[Order]:
        """Filter orders without a visit: only type and assignee apply."""
        types = self.cleaned_data.get("type")
        if types:
            rows = rows.filter(method__in=order_methods(types))
        if self.cleaned_data.get("mine"):
            ids = self._assigned_ids()
            rows = rows.filter(Q(pk__in=ids["order"]) | Q(user_id__in=ids["patient"]))
        return rows

    def rows_of_tab(
        self, rows: QuerySet[Appointment], tab: str, now: datetime
    ) -> QuerySet[Appointment]:
        """Return the rows of a tab. Canceled visits need the status filter."""
        if not self.cleaned_data.get("status"):
            rows = rows.exclude(status="cancelled")
        if tab == "requested":
            rows = rows.filter(start_at=None)
            return (
                rows if self.cleaned_data.get("status") else rows.exclude(status__in=ENDED_STATUSES)
            )
        today = timezone.localdate(now)
        if tab == "today":
            return rows.filter(draw_day=today)
        # With the condition on the day, the scan of the index by day begins near today.
        if tab == "upcoming":
            return rows.filter(start_at__gte=now, draw_day__gte=today - timedelta(days=2))
        return rows.filter(start_at__lt=now, draw_day__lte=today + timedelta(days=2))

    def rows_of_day(self, rows: QuerySet[Appointment], day: date) -> QuerySet[Appointment]:
        """Return the visits of one day. Canceled visits need the status filter."""
        if not self.cleaned_data.get("status"):
            rows = rows.exclude(status="cancelled")
        return rows.filter(draw_day=day)

    def chips(self) -> list[dict[str, str]]:
        """Return the active filters with their labels."""
        filter_chips = []
        for name in ("type", "status", "provider"):
            for value in self.cleaned_data.get(name) or ():
                label = value
                if name != "provider":
                    label = vocabulary.term(f"appointment.{name}", value).label
                filter_chips.append({"name": name, "value": value, "label": label})
        for name in ("site", *self.PLACE, *self.DATES):
            if self.cleaned_data.get(name):
                raw = self.data[name]
                filter_chips.append(
                    {"name": name, "value": raw, "label": f"{self.fields[name].label}: {raw}"}
                )
        if self.cleaned_data.get("mine"):
            filter_chips.append({"name": "mine", "value": self.data["mine"], "label": "Mine"})
        return filter_chips

    def _assigned_ids(self) -> dict[str, list[str]]:
        """Return the ids of the records assigned to this user, by subject type: one query."""
        ids_by_type: dict[str, list[str]] = {"appointment": [], "order": [], "patient": []}
        rows = Assignment.objects.filter(user=self.user, subject_type__in=list(ids_by_type))
        for kind, key in rows.order_by("-at").values_list("subject_type", "subject_id")[
            :MAX_ASSIGNMENTS
        ]:
            ids_by_type[kind].append(key)
        return ids_by_type


def order_methods(types: Sequence[str]) -> list[str]:
    """Return the order methods that belong to these appointment types."""
    return [method for method, kind in VISIT_TYPE_BY_METHOD.items() if kind in types]


def tab_appointments(tab: str, now: datetime, *, by_name: bool) -> QuerySet[Appointment]:
    """Return the visits of a tab without any filter."""
    form = AppointmentFilters({}, by_name=by_name)
    form.is_valid()
    return form.rows_of_tab(form.filter_appointments(Appointment.objects.defer("record")), tab, now)
