"""The order list's filters: those of `GET /v3/orders`, under the same names, and our own."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from typing import Any, ClassVar, Final
from uuid import UUID

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from backoffice import vocabulary
from backoffice.lists.forms import Filter, FilterForm
from backoffice.models import User
from labs.models import Lab

SORTS: Final[dict[str, tuple[str, ...]]] = {
    "created_at": ("created_at", "id"),
    "updated_at": ("updated_at", "id"),
    "patient_name": ("patient_name", "id"),
    "last_status": ("low_level_status", "created_at", "id"),
    "quiet_at": ("quiet_at", "id"),
}
FALLING: Final = frozenset({"created_at", "updated_at"})
"""Sort keys whose first click shows the newest first."""

WORD_BEGINNINGS: Final = "Beginnings of words, in any order."
"""The service matches any part of a name; word beginnings are what an index answers at once."""

YES_NO: Final = (("", "Either"), ("true", "Yes"), ("false", "No"))

DAYS: Final = {
    "today": "today",
    "yesterday": "yesterday",
    "this_week": "this week",
    "last_7": "last 7 days",
    "this_month": "this month",
    "last_30": "last 30 days",
}
"""Days counted from now, so that a saved view of "this week" stays one."""

ME: Final = "me"
NOBODY: Final = "nobody"


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
        whole_day = self.end_of_day and not isinstance(moment, datetime)
        try:
            if not isinstance(moment, datetime):
                # A day ends where the next one begins: its last hour may come twice.
                moment = datetime.combine(moment + timedelta(days=whole_day), time.min)
            if timezone.is_naive(moment):
                moment = timezone.make_aware(moment)
            return moment.astimezone(UTC) - timedelta(microseconds=whole_day)
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


class DaysField(forms.ChoiceField):
    """Days counted from today in the staff member's zone; reads as (first moment, first after)."""

    def __init__(self, short: str, **kwargs: Any) -> None:
        self.short = short
        super().__init__(required=False, choices=[("", "Any day"), *DAYS.items()], **kwargs)

    def clean(self, value: Any) -> Any:
        key = super().clean(value)
        return _days(key, timezone.localdate()) if key else None


def _days(key: str, today: date) -> tuple[datetime, datetime]:
    first, after = today, today + timedelta(days=1)
    if key == "yesterday":
        first, after = today - timedelta(days=1), today
    elif key == "this_week":
        first = today - timedelta(days=today.weekday())
    elif key == "this_month":
        first = today.replace(day=1)
    elif key in ("last_7", "last_30"):
        first = today - timedelta(days=int(key.removeprefix("last_")) - 1)
    begins, ends = (
        timezone.make_aware(datetime.combine(day, time.min)).astimezone(UTC)
        for day in (first, after)
    )
    return begins, ends


def _labs() -> list[tuple[str, str]]:
    return list(Lab.objects.filter(missing_since=None).values_list("slug", "name"))


def _people() -> list[tuple[str, str]]:
    people = User.objects.filter(is_active=True, api_tokens=None)
    named = people.order_by("first_name", "last_name", "username").values_list(
        "pk", "first_name", "last_name", "username"
    )[:200]
    return [
        (ME, "Me"),
        (NOBODY, "Nobody"),
        *((str(key), f"{first} {last}".strip() or name) for key, first, last, name in named),
    ]


class LateChoices(forms.MultipleChoiceField):
    """Choices out of a table, read only where they are shown."""

    def valid_value(self, value: Any) -> bool:
        return len(str(value)) <= 100 and "\x00" not in str(value)


class AssignedField(LateChoices):
    def valid_value(self, value: Any) -> bool:
        text = str(value)
        return text in (ME, NOBODY) or (text.isascii() and text.isdigit() and len(text) < 10)


class OrderFilters(FilterForm):
    """All parameters of `GET /v3/orders` except the page; bucket, lab, person and usual time."""

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
    ordered = DaysField("ordered", label="Ordered")
    start_date = MomentField(label="Ordered from")
    end_date = MomentField(label="Ordered until", end_of_day=True, help_text="The whole day.")
    changed = DaysField("changed", label="Changed")
    updated_start_date = MomentField(label="Changed from")
    updated_end_date = MomentField(label="Changed before", help_text="The start of that day.")
    assigned = AssignedField(required=False, label="Given to", widget=forms.CheckboxSelectMultiple)
    lab = LateChoices(required=False, label="Lab", widget=forms.CheckboxSelectMultiple)
    quiet = forms.ChoiceField(required=False, label="Over its usual time", choices=YES_NO)
    patient_name = forms.CharField(
        required=False, max_length=100, label="Patient name", help_text=WORD_BEGINNINGS
    )
    shipping_recipient_name = forms.CharField(
        required=False, max_length=100, label="Name on the parcel", help_text=WORD_BEGINNINGS
    )
    user_id = UuidField(label="Patient id")
    order_ids = UuidsField(required=False, label="Order ids", widget=RepeatedText)
    order_transaction_id = UuidField(label="Transaction id")

    SORTS = SORTS
    FALLING = FALLING
    PRIVATE = frozenset({"patient_name"})
    WORDS = frozenset({"search_input", "patient_name", "shipping_recipient_name"})
    TABBED = frozenset({"bucket"})
    FILTERS: ClassVar = (
        Filter("Status", ("status",), first=True),
        Filter("Method", ("order_type",), first=True),
        Filter(
            "Date",
            ("ordered", "start_date", "end_date", "changed", "updated_start_date",
             "updated_end_date"),
            first=True,
            zoned=True,
        ),
        Filter("Given to", ("assigned",), first=True),
        Filter("Usual time", ("quiet",)),
        Filter("Result", ("interpretation", "is_critical")),
        Filter("Lab", ("lab",)),
        Filter("Dispatch", ("order_activation_types",)),
        Filter("Name", ("patient_name", "shipping_recipient_name")),
        Filter("Ids", ("user_id", "order_ids", "order_transaction_id")),
    )  # fmt: skip

    def __init__(
        self, data: Any = None, *, by_name: bool, sees_results: bool, user: Any = None
    ) -> None:
        super().__init__(data, by_name=by_name)
        self.user = user
        for name, read in (("assigned", _people), ("lab", _labs)):
            field = self.fields[name]
            assert isinstance(field, forms.MultipleChoiceField)
            field.choices = cache(read)
        if not by_name:
            names = ("patient_name", "shipping_recipient_name")
            self.hidden |= dict.fromkeys(names, "who a patient is")
        if not sees_results:
            self.hidden |= dict.fromkeys(("interpretation", "is_critical"), "results")

    def clean_status(self) -> list[str]:
        return [
            vocabulary.canonical("order.low_level_status", value)
            for value in self.cleaned_data["status"]
        ]

    @property
    def sort(self) -> tuple[str, str]:
        """The usual time sorts those that are over it: none of the others has a moment for it."""
        key, direction = super().sort
        if key == "quiet_at" and self.cleaned_data.get("quiet") != "true":
            return "created_at", "desc"
        return key, direction

    def sorts_by(self, key: str) -> bool:
        return super().sorts_by(key) and (
            key != "quiet_at" or self.cleaned_data.get("quiet") == "true"
        )
