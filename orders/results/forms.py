"""Forms of results: filters of the list and the queue, sign-off, calls, delegation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, cached_property
from typing import Any, ClassVar, Final

from django import forms
from django.db.models import Q, QuerySet
from django.utils import timezone

from backoffice.accounts.access import ROLES
from backoffice.accounts.models import User
from backoffice.pages.lists.fields import (
    DaysField,
    DeferredChoiceField,
    TimestampField,
    UuidField,
    check_day_order,
)
from backoffice.pages.lists.forms import Filter, FilterForm
from backoffice.pages.widgets import DateTimeLocalInput
from labs.models import Lab
from orders.forms import ME, NOBODY, AssignedField, assignees_and_labs
from orders.models.review import (
    IN_QUEUE,
    NO_READ_BACK,
    NOT_REACHED,
    OPEN_CRITICAL,
    READ_BACK,
    SOMEBODY_ELSE,
)
from orders.results.queue import (
    QUEUE_SORT,
    STATES,
    assigned_order_ids,
    place_condition,
    queue_counts,
)

MAX_NOTE_LENGTH: Final = 2_000
TELLER_LABELS: Final = {
    "": "Choose…",
    "clinician": "The clinician",
    "nurse": "A nurse",
    "front desk": "The front desk",
    "portal": "Nobody calls: the patient reads it online",
    "visit": "At the next visit",
}
CALL_OUTCOME_LABELS: Final = {
    READ_BACK: "Reached, and read back to confirm",
    NO_READ_BACK: "Reached, not read back",
    NOT_REACHED: "Not reached",
}

ROWS_STEP: Final = 40
"""Rows of the queue beside a report, and rows added by "Show more", up to `MAX_ROWS`."""
MAX_ROWS: Final = 400
PLACE_CHOICES: Final = {
    "": "Everything",
    "critical": "Critical",
    "abnormal": "Abnormal",
    "corrected": "Corrected",
    "unknown": "Not interpreted",
    SOMEBODY_ELSE: "Another person",
    "normal": "Normal",
    "partial": "Partial",
    "seen": "Partial, seen",
}
STATE_LABELS: Final = {
    "": "All",
    "unsigned": "Waits for sign-off",
    "seen": "Partial, acknowledged",
    "critical": "Open criticals",
    "signed": "Signed",
}


class ResultFilters(FilterForm):
    """Filters of results, of the list and of the review queue."""

    state = forms.ChoiceField(
        required=False, choices=list(STATE_LABELS.items()), widget=forms.HiddenInput
    )
    place = forms.ChoiceField(label="Urgency", required=False, choices=list(PLACE_CHOICES.items()))
    lab = DeferredChoiceField(required=False, label="Lab", widget=forms.CheckboxSelectMultiple)
    received = DaysField("received", label="Received")
    start_date = TimestampField(label="Received from")
    end_date = TimestampField(label="Received until", end_of_day=True, help_text="The whole day.")
    signer = AssignedField(required=False, label="Signed by", widget=forms.CheckboxSelectMultiple)
    mine = forms.ChoiceField(
        label="Mine",
        required=False,
        choices=[("", "Everything"), ("on", "Signed by me or assigned to me")],
    )
    patient = UuidField(label="Patient ID")

    SORTS: ClassVar = {"received": ("since", "order_id"), "urgency": tuple(QUEUE_SORT.columns)}
    DESCENDING_FIRST = frozenset({"received"})
    TAB_FIELDS = frozenset({"state"})
    FILTERS: ClassVar[Sequence[Filter]] = (
        Filter("Urgency", ("place",), always_shown=True),
        Filter("Lab", ("lab",), always_shown=True),
        Filter("Date", ("received", "start_date", "end_date"), always_shown=True, shows_zone=True),
        Filter("Signed by", ("signer",), always_shown=True),
        Filter("Mine", ("mine",)),
        Filter("About", ("patient",)),
    )

    def __init__(self, data: Any, user: Any, **options: Any) -> None:
        super().__init__(data, **options)
        self.user = user
        read = cache(assignees_and_labs)
        for name, choices in (("signer", "assigned"), ("lab", "lab")):
            field = self.fields.get(name)
            if isinstance(field, DeferredChoiceField):
                field.offer(lambda choices=choices: read()[choices])  # type: ignore[misc]

    @cached_property
    def queue_counts(self) -> tuple[int, int]:
        """The stored counts, read once for the count of the list and for its tabs."""
        return queue_counts()

    def clean(self) -> None:
        super().clean()
        check_day_order(self, "start_date", "end_date")

    @property
    def state_condition(self) -> Q:
        return STATES.get(self.cleaned_data.get("state", ""), Q())

    @property
    def condition(self) -> Q:
        """The condition for the results that match a valid form."""
        filters, condition = self.cleaned_data, self.state_condition
        for name, lookup in (
            ("lab", "lab_slug__in"),
            ("patient", "user"),
            ("start_date", "since__gte"),
            ("end_date", "since__lte"),
        ):
            if filters.get(name):
                condition &= Q(**{lookup: filters[name]})
        if filters.get("received"):
            first, after = filters["received"]
            condition &= Q(since__gte=first, since__lt=after)
        if filters.get("place"):
            condition &= place_condition(filters["place"])
        if filters.get("signer"):
            condition &= _signed_by(filters["signer"], self.user)
        if filters.get("mine"):
            condition &= Q(signer=self.user) | Q(pk__in=assigned_order_ids(self.user))
        return condition


def _signed_by(people: list[str], user: User) -> Q:
    """Return the condition for results last signed by these people, by `me`, or by nobody."""
    keys = [int(one) for one in people if one.isdigit()]
    if ME in people:
        keys.append(user.pk)
    return Q(signer__in=keys) | Q(signer=None) if NOBODY in people else Q(signer__in=keys)


class QueueFilters(ResultFilters):
    """Filters of the queue: of the results that wait for review, or of open critical results.

    Where the URL has an invalid value, nothing is filtered.
    """

    lab = forms.ChoiceField(label="Lab", required=False)  # type: ignore[assignment]
    mine = forms.BooleanField(label="Mine only", required=False)  # type: ignore[assignment]
    critical = forms.BooleanField(label="Open criticals", required=False)
    patient = forms.UUIDField(label="Patient", required=False, widget=forms.HiddenInput)  # type: ignore[assignment]
    shown = forms.IntegerField(
        required=False, min_value=ROWS_STEP, max_value=MAX_ROWS, widget=forms.HiddenInput
    )
    state = received = start_date = end_date = signer = None  # type: ignore[assignment]

    TAB_FIELDS = frozenset({"shown"})
    FILTERS = ()

    def __init__(self, data: Any, user: Any) -> None:
        super().__init__(data, user)
        self.fields["lab"] = forms.ChoiceField(
            label="Lab", required=False, choices=[("", "All labs"), *Lab.names().items()]
        )

    def clean_lab(self) -> list[str]:
        lab = self.cleaned_data["lab"]
        return [lab] if lab else []

    @property
    def state_condition(self) -> Q:
        return OPEN_CRITICAL if self.cleaned_data.get("critical") else IN_QUEUE

    @property
    def condition(self) -> Q:
        return super().condition if self.is_valid() else IN_QUEUE

    def is_filtered(self) -> bool:
        return self.is_valid() and super().is_filtered()

    @property
    def rows(self) -> int:
        return (self.cleaned_data.get("shown") if self.is_valid() else None) or ROWS_STEP


class SignForm(forms.Form):
    version = forms.IntegerField(widget=forms.HiddenInput, min_value=0)
    note = forms.CharField(
        label="Note",
        required=False,
        max_length=MAX_NOTE_LENGTH,
        widget=forms.Textarea(attrs={"rows": 2}),
    )
    tells = forms.ChoiceField(
        label="Who will tell the patient", required=False, choices=list(TELLER_LABELS.items())
    )
    is_identity_confirmed = forms.BooleanField(
        label="I checked with the lab: this result is this patient’s", required=False
    )

    def __init__(self, data: Mapping[str, object] | None = None, **options: Any) -> None:
        # The form of a call on the same page also has a field `note`.
        super().__init__(data, auto_id="sign_%s", **options)


class CallForm(forms.Form):
    """A call about critical values. The server sets the values, the time and the caller."""

    version = forms.IntegerField(widget=forms.HiddenInput, min_value=0)
    recipient = forms.CharField(
        label="Who was called",
        max_length=200,
        error_messages={"required": "Say who was called, or who made the call."},
    )
    outcome = forms.ChoiceField(
        label="Outcome",
        choices=list(CALL_OUTCOME_LABELS.items()),
        widget=forms.RadioSelect,
        error_messages={"required": "Choose how the call ended."},
    )
    next_attempt_at = forms.DateTimeField(
        label="Next attempt",
        required=False,
        widget=DateTimeLocalInput(),
        help_text="Needed when nobody was reached.",
    )
    note = forms.CharField(
        label="Note",
        required=False,
        max_length=MAX_NOTE_LENGTH,
        widget=forms.Textarea(attrs={"rows": 2}),
    )
    made_by_service_network = forms.BooleanField(
        label="The service’s physicians made this call", required=False
    )
    source = forms.CharField(
        label="How we know",
        required=False,
        max_length=200,
        help_text="For a call we did not make: who told us, or where it is written.",
    )

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        due = values.get("next_attempt_at")
        if values.get("outcome") != NOT_REACHED:
            values["next_attempt_at"] = None
        elif due is None and "next_attempt_at" not in self.errors:
            self.add_error("next_attempt_at", "Say when it will be tried again.")
        elif due is not None and due <= timezone.now():
            self.add_error("next_attempt_at", "Choose a time to come.")
        if values.get("made_by_service_network") and not values.get("source"):
            self.add_error("source", "Say how we know of this call.")
        return values


class _SingleQueryIterator(forms.models.ModelChoiceIterator):  # type: ignore[type-arg]
    """Read the choices by one query. Django's server-side cursor takes three round trips."""

    def __iter__(self) -> Iterator[tuple[Any, str]]:
        yield "", str(self.field.empty_label or "")
        for obj in self.queryset:
            yield self.choice(obj)


class _ColleagueField(forms.ModelChoiceField):  # type: ignore[type-arg]
    iterator = _SingleQueryIterator

    def label_from_instance(self, obj: User) -> str:
        return obj.get_full_name()


class DelegateForm(forms.Form):
    """Delegate sign-off to a colleague who may not sign."""

    to = _ColleagueField(
        label="Colleague",
        queryset=User.objects.none(),
        error_messages={"required": "Choose a colleague."},
    )
    what = forms.ChoiceField(
        label="What",
        choices=[("this", "This result"), ("normal", "Every normal final result")],
        widget=forms.RadioSelect,
        initial="this",
    )
    days = forms.IntegerField(label="For how many days", min_value=1, max_value=90, initial=1)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        field = self.fields["to"]
        assert isinstance(field, _ColleagueField)
        field.queryset = delegation_candidates()

    @property
    def until(self) -> datetime:
        return timezone.now() + timedelta(days=self.cleaned_data["days"])


def delegation_candidates() -> QuerySet[User]:
    """Return the active users who may acknowledge results but not sign them."""
    seeing = [
        role
        for role, granted in ROLES.items()
        if {"results.view", "results.acknowledge"} <= granted and "results.sign" not in granted
    ]
    rows = User.objects.filter(is_active=True, groups__name__in=seeing).distinct()
    return rows.order_by("last_name", "username")
