"""Forms that book or reschedule an appointment.

The form includes the filters of the list of times. So no URL has a patient's address, and a changed
filter loses no typed value.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from django import forms
from django.utils.translation import gettext, gettext_lazy

from backoffice.outbox.forms import CommandForm
from backoffice.service.appointments import VisitAddress
from orders.rules.slots import PARTS, WEEKS, OfferedTime, TimeFilters

NOTES: Final = 1000
RADII: Final = ("10", "20", "25", "50", "100")
MAX_SITES: Final = 3
ADDRESS: Final = ("first_line", "second_line", "city", "state", "zip_code", "access_notes")


def _notes_widget(rows: int) -> forms.Textarea:
    return forms.Textarea(attrs={"rows": rows, "maxlength": NOTES, "data-count": NOTES})


class _TimesForm(CommandForm):
    """A list of times, and a choice from it."""

    is_booking: bool = False
    """Whether the button that books submitted the form. Then the first day of the list of times
    does not matter.
    """

    slot = forms.CharField(label=gettext_lazy("Time"), required=False, max_length=5000)
    start_date = forms.DateField(
        label=gettext_lazy("From"), required=False, widget=forms.DateInput(attrs={"type": "date"})
    )
    part = forms.ChoiceField(
        label=gettext_lazy("Time of day"), required=False, choices=list(PARTS.items())
    )
    week = forms.ChoiceField(
        label=gettext_lazy("Week"), required=False, choices=list(WEEKS.items())
    )
    same = forms.BooleanField(label=gettext_lazy("Same time of day as before"), required=False)
    notes = forms.CharField(
        required=False,
        max_length=NOTES,
        strip=True,
        widget=_notes_widget(3),
        error_messages={
            "max_length": gettext_lazy("Up to 1,000 characters. You entered %(show_value)d.")
        },
    )

    def full_clean(self) -> None:
        super().full_clean()
        if self.is_booking:
            self.errors.pop("start_date", None)

    def clean_start_date(self) -> date | None:
        day: date | None = self.cleaned_data["start_date"]
        # A calendar day at the place of the draw, which may be a day behind UTC.
        if day is not None and day < datetime.now(UTC).date() - timedelta(days=1):
            raise forms.ValidationError(gettext("Choose today or a later day."))
        return day

    def clean_slot(self) -> OfferedTime | None:
        text = self.cleaned_data["slot"]
        if not text:
            return None
        try:
            return OfferedTime.read(text)
        except (ValueError, OverflowError, OSError):
            raise forms.ValidationError(gettext("Choose one of the times shown.")) from None

    def current_value(self, name: str) -> Any:
        """Return the value of a field, cleaned if possible, before the whole form is validated."""
        if not self.is_bound:
            return self.get_initial_for_field(self.fields[name], name)
        if not hasattr(self, "cleaned_data"):
            self.is_valid()
        return self.cleaned_data.get(name)

    def time_filters(self) -> TimeFilters:
        chosen = self.current_value("slot")
        return TimeFilters(
            start_date=self.current_value("start_date") or None,
            part=self.current_value("part") or "",
            week=self.current_value("week") or "",
            same=bool(self.current_value("same")),
            chosen=chosen if isinstance(chosen, OfferedTime) else None,
        )

    def require_slot(self) -> OfferedTime | None:
        """Return the chosen time. If there is none, add an error to the form and return None."""
        time: OfferedTime | None = self.cleaned_data.get("slot")
        if time is None and "slot" not in self.errors:
            self.add_error("slot", gettext("Choose a time."))
        return time


class HomeForm(_TimesForm):
    """An appointment at a patient's home."""

    first_line = forms.CharField(label=gettext_lazy("Street address"), max_length=200)
    second_line = forms.CharField(
        label=gettext_lazy("Apartment, suite, floor"), max_length=200, required=False
    )
    city = forms.CharField(label=gettext_lazy("City"), max_length=100)
    state = forms.RegexField(
        r"^[A-Za-z]{2}$",
        label=gettext_lazy("State"),
        max_length=2,
        error_messages={"invalid": gettext_lazy("Two letters, such as AZ.")},
    )
    zip_code = forms.RegexField(
        r"^\d{5}(-\d{4})?\Z",
        label=gettext_lazy("ZIP code"),
        max_length=10,
        error_messages={"invalid": gettext_lazy("Five or nine digits: 85004 or 85004-1234.")},
    )
    access_notes = forms.CharField(
        label=gettext_lazy("Access notes"),
        required=False,
        max_length=NOTES,
        widget=_notes_widget(2),
    )
    ask = forms.CharField(max_length=100, required=False)  # the provider that calls the patient

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["notes"].label = gettext("Notes for the phlebotomist")

    def full_clean(self) -> None:
        """Accept an unchanged address on record without our rules: the service already has it."""
        super().full_clean()
        for name in ADDRESS:
            on_record = str(self.initial.get(name) or "")
            typed = self.data.get(name, "").strip()
            if on_record and name in self.errors and typed == on_record.strip():
                del self.errors[name]
                self.cleaned_data[name] = on_record

    def clean_first_line(self) -> str:
        line: str = self.cleaned_data["first_line"]
        if not any(letter.isdigit() for letter in line):
            raise forms.ValidationError(gettext("Enter a street address with its number."))
        return line

    def clean_state(self) -> str:
        return str(self.cleaned_data["state"]).upper()

    def address(self) -> VisitAddress | None:
        """Return the address of the draw; None if it is not complete yet."""
        values = {name: self.current_value(name) or "" for name in ADDRESS}
        if not all(values[name] for name in ("first_line", "city", "state", "zip_code")):
            return None
        return VisitAddress(
            first_line=values["first_line"],
            city=values["city"],
            state=values["state"],
            zip_code=values["zip_code"],
            second_line=values["second_line"] or None,
            access_notes=values["access_notes"] or None,
        )


def _radius_choices() -> list[tuple[str, str]]:
    return [(miles, gettext("%(count)s miles") % {"count": miles}) for miles in RADII]


class _CenterCodes(forms.MultipleChoiceField):
    """Codes of sites. The service decides which ones are valid."""

    def valid_value(self, value: object) -> bool:
        return len(str(value)) <= 64


class CenterForm(_TimesForm):
    """An appointment at a service center."""

    zip_code = forms.RegexField(
        r"^\d{5}\Z",
        label=gettext_lazy("Near ZIP code"),
        max_length=5,
        required=False,
        error_messages={"invalid": gettext_lazy("Five digits, such as 85004.")},
    )
    radius = forms.ChoiceField(
        label=gettext_lazy("Within"),
        required=False,
        choices=_radius_choices,
    )
    sites = _CenterCodes(required=False)
    far_sites = _CenterCodes(required=False)
    """Sites that the person chose near another ZIP code."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["notes"].label = gettext("Notes for the service center")

    def clean_sites(self) -> list[str]:
        codes: list[str] = self.cleaned_data["sites"]
        if len(codes) > MAX_SITES:
            raise forms.ValidationError(
                gettext("Choose up to %(count)s service centers.") % {"count": MAX_SITES}
            )
        return codes


class _SeenAppointmentForm(forms.Form):
    """The appointment as the person saw it."""

    seen_id = forms.UUIDField(widget=forms.HiddenInput)
    seen_start = forms.DateTimeField(widget=forms.HiddenInput, required=False)


class MoveHomeForm(_SeenAppointmentForm, HomeForm):
    pass


class MoveCenterForm(_SeenAppointmentForm, CenterForm):
    pass


class CancelAppointmentForm(_SeenAppointmentForm, CommandForm):
    """Why an appointment is canceled: one of the service's reasons."""

    reason = forms.ChoiceField(label=gettext_lazy("Reason"))
    notes = forms.CharField(
        label=gettext_lazy("Note for the provider"),
        required=False,
        max_length=NOTES,
        widget=_notes_widget(3),
    )

    def __init__(self, *args: Any, reasons: list[tuple[str, str]], **options: Any) -> None:
        super().__init__(*args, **options)
        field = self.fields["reason"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = reasons if len(reasons) == 1 else [("", gettext("Choose…")), *reasons]


def start_text(moment: datetime | None) -> str:
    """Return a start as the text of a hidden field, to the microsecond."""
    return moment.isoformat() if moment else ""
