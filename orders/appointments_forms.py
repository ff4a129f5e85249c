"""The appointment list's tabs and filters."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Any, Final

from django import forms
from django.db.models import Q, QuerySet
from django.utils import timezone

from backoffice import vocabulary
from backoffice.paging import Sort
from orders.forms import MomentField, OpenChoices
from orders.models import Appointment

TABS: Final[dict[str, tuple[str, Sort]]] = {
    "today": ("Today", Sort(("start_at", "id"))),
    "upcoming": ("Upcoming", Sort(("start_at", "id"))),
    "requested": ("Requested, no time yet", Sort(("as_of", "id"))),
    "past": ("Past", Sort(("start_at", "id"), descending=True)),
}
"""Tab to its name and order. A request has no time of its own: the longest unchanged is first."""

OVER: Final = ("cancelled", "completed")


class AppointmentFilters(forms.Form):
    """Filters of the list; days are days of the staff member's zone."""

    type = OpenChoices("appointment.type", label="Type")
    status = OpenChoices("appointment.status", label="Status")
    city = forms.CharField(required=False, max_length=100, label="City")
    state = forms.CharField(
        required=False,
        max_length=2,
        label="State",
        help_text="Two letters, such as AZ.",
        widget=forms.TextInput(attrs={"size": 2, "autocapitalize": "characters"}),
    )
    start_date = MomentField(label="From")
    end_date = MomentField(label="Until", end_of_day=True, help_text="The whole day.")

    PLACE: Final = ("city", "state")
    DATES: Final = ("start_date", "end_date")

    def __init__(self, data: Any = None, *, by_name: bool) -> None:
        super().__init__(data)
        self.by_name = by_name

    def clean(self) -> None:
        """A home draw is where the patient lives: who may not see that may not ask for it."""
        for name in self.PLACE:
            if not self.by_name and self.cleaned_data.get(name):
                self.add_error(name, "Your role does not show who a patient is.")

    def clean_state(self) -> str:
        return str(self.cleaned_data["state"]).strip().upper()

    def apply(self, rows: QuerySet[Appointment]) -> QuerySet[Appointment]:
        given = self.cleaned_data
        rows = rows.filter(superseded_at=None)
        plain: dict[str, Any] = {
            "type__in": given.get("type"),
            "status__in": given.get("status"),
            "city__iexact": (given.get("city") or "").strip(),
            "state": given.get("state"),
            "start_at__gte": given.get("start_date"),
            "start_at__lte": given.get("end_date"),
        }
        return rows.filter(**{name: value for name, value in plain.items() if value})

    def shown(self, rows: QuerySet[Appointment], tab: str, now: datetime) -> QuerySet[Appointment]:
        """Rows of a tab. Visits called off are shown only when their status is asked for."""
        if not self.cleaned_data.get("status"):
            rows = rows.exclude(status="cancelled")
        if tab == "requested":
            rows = rows.filter(start_at=None)
            return rows if self.cleaned_data.get("status") else rows.exclude(status__in=OVER)
        if tab == "today":
            begins, ends = today(now)
            return rows.filter(start_at__gte=begins, start_at__lt=ends)
        later = Q(start_at__gte=now)
        return rows.filter(later if tab == "upcoming" else Q(start_at__lt=now))

    def chips(self) -> list[dict[str, str]]:
        """Filters in force, in words."""
        found = []
        for name in ("type", "status"):
            for value in self.cleaned_data.get(name) or ():
                label = vocabulary.term(f"appointment.{name}", value).label
                found.append({"name": name, "value": value, "label": label})
        for name in (*self.PLACE, *self.DATES):
            if self.cleaned_data.get(name):
                raw = self.data[name]
                found.append(
                    {"name": name, "value": raw, "label": f"{self.fields[name].label}: {raw}"}
                )
        return found


def today(now: datetime) -> tuple[datetime, datetime]:
    """First moment of today and of tomorrow in the staff member's zone."""
    day = timezone.localtime(now).date()
    begins, ends = (
        timezone.make_aware(datetime.combine(date, time.min)).astimezone(UTC)
        for date in (day, day + timedelta(days=1))
    )
    return begins, ends
