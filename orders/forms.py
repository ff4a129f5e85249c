"""The order list's filters: those of `GET /v3/orders`, under the same names."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time
from typing import Any, Final
from uuid import UUID

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from backoffice import vocabulary
from backoffice.paging import Sort

SIZE: Final = 50

SORTS: Final[dict[str, tuple[str, ...]]] = {
    "created_at": ("created_at", "id"),
    "updated_at": ("updated_at", "id"),
    "patient_name": ("patient_name", "id"),
    "last_status": ("low_level_status", "created_at", "id"),
}
FALLING: Final = frozenset({"created_at", "updated_at"})
"""Sort keys whose first click shows the newest first."""

WORD_BEGINNINGS: Final = "Beginnings of words, in any order."
"""The service matches any part of a name; word beginnings are what an index answers at once."""

YES_NO: Final = (("", "Either"), ("true", "Yes"), ("false", "No"))


class OpenChoices(forms.MultipleChoiceField):
    """Values of an open enumeration: the known ones are offered, any other one is accepted."""

    def __init__(self, name: str, **kwargs: Any) -> None:
        self.vocabulary = name
        super().__init__(
            choices=vocabulary.choices(name),
            required=False,
            widget=forms.CheckboxSelectMultiple,
            **kwargs,
        )

    def valid_value(self, value: Any) -> bool:
        return len(str(value)) <= 100 and "\x00" not in str(value)


class MomentField(forms.CharField):
    """A date, or a date with time, in the staff member's zone unless it names its own.

    A date alone means the start of that day, or its end with `end_of_day`.
    """

    widget = forms.DateInput(attrs={"type": "date"})

    def __init__(self, *, end_of_day: bool = False, **kwargs: Any) -> None:
        self.end_of_day = end_of_day
        super().__init__(required=False, **kwargs)

    def clean(self, value: Any) -> datetime | None:
        text = str(value or "").strip()
        if not text:
            return None
        try:
            moment: date | None = parse_date(text) or parse_datetime(text)
        except ValueError:
            moment = None
        if moment is None:
            raise ValidationError("Type a date as YYYY-MM-DD.")
        if not isinstance(moment, datetime):
            moment = datetime.combine(moment, time.max if self.end_of_day else time.min)
        try:
            if timezone.is_naive(moment):
                moment = timezone.make_aware(moment)
            return moment.astimezone(UTC)
        except OverflowError as error:
            raise ValidationError("Type a date of this age.") from error


class UuidField(forms.UUIDField):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(required=False, **kwargs)


class UuidsField(forms.Field):
    """Repeated ids, or several in one box, separated by spaces or commas."""

    widget = forms.TextInput

    def clean(self, value: Any) -> list[UUID]:
        found = str(value or "").replace(",", " ").split()
        try:
            return [UUID(item) for item in found]
        except ValueError as error:
            raise ValidationError("Type whole order ids.") from error


class RepeatedText(forms.TextInput):
    """Joins repeated parameters, which is how the service writes a list."""

    def value_from_datadict(self, data: Any, files: Any, name: str) -> str:
        values: Iterable[str] = data.getlist(name) if hasattr(data, "getlist") else [data.get(name)]
        return " ".join(value for value in values if value)


class OrderFilters(forms.Form):
    """All parameters of `GET /v3/orders` except the page, plus our working bucket."""

    bucket = forms.CharField(required=False, max_length=20, widget=forms.HiddenInput)
    search_input = forms.CharField(required=False, max_length=100, label="Search")
    status = OpenChoices("order.low_level_status", label="Status")
    order_type = OpenChoices("order.method", label="Method")
    interpretation = forms.ChoiceField(
        required=False,
        label="Interpretation",
        choices=[("", "Any"), *vocabulary.choices("order.interpretation")],
    )
    is_critical = forms.ChoiceField(required=False, label="Critical", choices=YES_NO)
    order_activation_types = OpenChoices("order.activation_type", label="Activation")
    start_date = MomentField(label="Ordered from")
    end_date = MomentField(label="Ordered until", end_of_day=True, help_text="The whole day.")
    updated_start_date = MomentField(label="Updated from")
    updated_end_date = MomentField(label="Updated before", help_text="The start of that day.")
    patient_name = forms.CharField(
        required=False, max_length=100, label="Patient name", help_text=WORD_BEGINNINGS
    )
    shipping_recipient_name = forms.CharField(
        required=False, max_length=100, label="Name on the parcel", help_text=WORD_BEGINNINGS
    )
    user_id = UuidField(label="Patient id")
    order_ids = UuidsField(required=False, label="Order ids", widget=RepeatedText)
    order_transaction_id = UuidField(label="Transaction id")
    order_key = forms.ChoiceField(required=False, choices=[(key, key) for key in SORTS])
    order_direction = forms.ChoiceField(required=False, choices=[("asc", "asc"), ("desc", "desc")])
    size = forms.IntegerField(required=False, min_value=1, max_value=100)

    PEOPLE: Final = ("patient_name", "shipping_recipient_name", "user_id")
    DATES: Final = ("start_date", "end_date", "updated_start_date", "updated_end_date")
    IDS: Final = ("user_id", "order_ids", "order_transaction_id")

    def __init__(self, data: Any = None, *, by_name: bool, sees_results: bool) -> None:
        super().__init__(data)
        self.by_name = by_name
        self.sees_results = sees_results

    def clean_status(self) -> list[str]:
        return [
            vocabulary.canonical("order.low_level_status", value)
            for value in self.cleaned_data["status"]
        ]

    def clean(self) -> None:
        """What a role does not show it may not ask for either: the answer would tell."""
        if not self.by_name:
            self._refuse("who a patient is", "patient_name", "shipping_recipient_name")
            if self.cleaned_data.get("order_key") == "patient_name":
                self._refuse("who a patient is", "order_key")
        if not self.sees_results:
            self._refuse("results", "interpretation", "is_critical")

    def _refuse(self, what: str, *names: str) -> None:
        for name in names:
            if self.cleaned_data.get(name):
                self.add_error(name, f"Your role does not show {what}.")

    @property
    def sort(self) -> tuple[str, str]:
        """(order_key, order_direction) in force."""
        key = self.cleaned_data.get("order_key") or "created_at"
        default = "desc" if key in FALLING else "asc"
        return key, self.cleaned_data.get("order_direction") or default

    def keyset(self) -> Sort:
        key, direction = self.sort
        return Sort(SORTS[key], descending=direction == "desc", private=key == "patient_name")

    @property
    def page_size(self) -> int:
        return self.cleaned_data.get("size") or SIZE

    def narrowed(self) -> bool:
        """True when something besides the bucket narrows the list."""
        ignored = {"bucket", "order_key", "order_direction", "size"}
        return any(value for name, value in self.cleaned_data.items() if name not in ignored)

    def searched(self) -> bool:
        """True when words about a person were typed."""
        names = ("search_input", "patient_name", "shipping_recipient_name")
        return any(self.cleaned_data.get(name) for name in names)
