"""The filters of the appointment pages, and the visits that they leave."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final

from django import forms
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.dateparse import parse_date

from backoffice.core import prepared_queries, vocabulary
from backoffice.models import User
from backoffice.pages.lists.fields import AnyChoice, OpenChoices, in_order
from backoffice.pages.paging.pages import Sort
from backoffice.team.models import Assignment
from orders.models import Appointment, Order
from orders.scheduling.rules import TYPE_OF_METHOD

BY_DAY: Final = ("draw_day", "start_at", "id")
TABS: Final[dict[str, tuple[str, Sort]]] = {
    "today": ("Today", Sort(BY_DAY)),
    "upcoming": ("Upcoming", Sort(BY_DAY)),
    "requested": ("Requested, no time yet", Sort(("as_of", "id"))),
    "past": ("Past", Sort(BY_DAY, descending=True)),
}
"""Tab to its name and order. A request has no time of its own: the longest unchanged is first."""

OVER: Final = ("cancelled", "completed")
MOST_MINE: Final = 1_000


class DayField(forms.CharField):
    """A calendar day of the draw: it has no zone of its own."""

    widget = forms.DateInput(attrs={"type": "date"})

    def clean(self, value: Any) -> date | None:
        text = str(value or "").strip()
        try:
            found = parse_date(text) if text else None
        except ValueError:
            found = None
        if text and (found is None or not 1900 <= found.year <= 2900):
            raise forms.ValidationError("Type a date as YYYY-MM-DD.")
        return found


class Providers(AnyChoice):
    """Those of whom there are visits."""

    def __init__(self) -> None:
        super().__init__(
            choices=providers, required=False, label="Provider", widget=forms.CheckboxSelectMultiple
        )


def providers() -> list[tuple[str, str]]:
    """Every provider once, by jumps through the index `appointment_of_provider`."""
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
    """Filters of all pages; days are days of the draw's own calendar."""

    type = OpenChoices("appointment.type", label="Type")
    status = OpenChoices("appointment.status", label="Status")
    provider = Providers()
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
        """A home draw is where the patient lives: who may not see that may not ask for it."""
        for name in self.PLACE:
            if not self.by_name and self.cleaned_data.get(name):
                self.add_error(name, "Your role does not show who a patient is.")
        in_order(self, *self.DATES)

    def clean_state(self) -> str:
        return str(self.cleaned_data["state"]).strip().upper()

    def apply(self, rows: QuerySet[Appointment]) -> QuerySet[Appointment]:
        given = self.cleaned_data
        rows = rows.filter(superseded_at=None)
        plain: dict[str, Any] = {
            "type__in": given.get("type"),
            "status__in": given.get("status"),
            "provider__in": given.get("provider"),
            "provider_id": (given.get("site") or "").strip(),
            "city__iexact": (given.get("city") or "").strip(),
            "state": given.get("state"),
            "draw_day__gte": given.get("start_date"),
            "draw_day__lte": given.get("end_date"),
        }
        rows = rows.filter(**{name: value for name, value in plain.items() if value})
        if plain["provider_id"]:
            rows = rows.filter(type="patient_service_center")
        if given.get("mine"):
            ids = self._mine()
            mine = Q(pk__in=ids["appointment"]) | Q(order_id__in=ids["order"])
            rows = rows.filter(mine | Q(user_id__in=ids["patient"]))
        return rows

    def apply_to_orders(self, rows: QuerySet[Order]) -> QuerySet[Order]:
        """Of orders without a visit there is less to ask for."""
        types = self.cleaned_data.get("type")
        if types:
            rows = rows.filter(method__in=methods_of(types))
        if self.cleaned_data.get("mine"):
            ids = self._mine()
            rows = rows.filter(Q(pk__in=ids["order"]) | Q(user_id__in=ids["patient"]))
        return rows

    def shown(self, rows: QuerySet[Appointment], tab: str, now: datetime) -> QuerySet[Appointment]:
        """Rows of a tab. Visits called off are shown only when their status is asked for."""
        if not self.cleaned_data.get("status"):
            rows = rows.exclude(status="cancelled")
        if tab == "requested":
            rows = rows.filter(start_at=None)
            return rows if self.cleaned_data.get("status") else rows.exclude(status__in=OVER)
        today = timezone.localdate(now)
        if tab == "today":
            return rows.filter(draw_day=today)
        # The days around today are named too, so that the index of days is begun where they are.
        if tab == "upcoming":
            return rows.filter(start_at__gte=now, draw_day__gte=today - timedelta(days=2))
        return rows.filter(start_at__lt=now, draw_day__lte=today + timedelta(days=2))

    def of_day(self, rows: QuerySet[Appointment], day: date) -> QuerySet[Appointment]:
        """Visits of one day, called off ones only where their status is asked for."""
        if not self.cleaned_data.get("status"):
            rows = rows.exclude(status="cancelled")
        return rows.filter(draw_day=day)

    def chips(self) -> list[dict[str, str]]:
        """Filters in force, in words."""
        found = []
        for name in ("type", "status", "provider"):
            for value in self.cleaned_data.get(name) or ():
                label = value
                if name != "provider":
                    label = vocabulary.term(f"appointment.{name}", value).label
                found.append({"name": name, "value": value, "label": label})
        for name in ("site", *self.PLACE, *self.DATES):
            if self.cleaned_data.get(name):
                raw = self.data[name]
                found.append(
                    {"name": name, "value": raw, "label": f"{self.fields[name].label}: {raw}"}
                )
        if self.cleaned_data.get("mine"):
            found.append({"name": "mine", "value": self.data["mine"], "label": "Mine"})
        return found

    def _mine(self) -> dict[str, list[str]]:
        """Ids of what this person works on, by kind: one query."""
        found: dict[str, list[str]] = {"appointment": [], "order": [], "patient": []}
        rows = Assignment.objects.filter(user=self.user, subject_type__in=list(found))
        for kind, key in rows.order_by("-at").values_list("subject_type", "subject_id")[:MOST_MINE]:
            found[kind].append(key)
        return found


def methods_of(types: Sequence[str]) -> list[str]:
    """Methods of orders whose draws are of these types."""
    return [method for method, kind in TYPE_OF_METHOD.items() if kind in types]


def visits_of(tab: str, now: datetime, *, by_name: bool) -> QuerySet[Appointment]:
    """What a tab of the list shows when nothing narrows it."""
    form = AppointmentFilters({}, by_name=by_name)
    form.is_valid()
    return form.shown(form.apply(Appointment.objects.defer("record")), tab, now)
