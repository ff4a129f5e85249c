"""Forms of the review of results: sign-off, calls, delegation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django import forms
from django.db.models import QuerySet
from django.utils import timezone

from backoffice.accounts.access import ROLES
from backoffice.accounts.models import User
from backoffice.pages.widgets import DateTimeLocalInput
from orders.models.review import NO_READ_BACK, NOT_REACHED, READ_BACK

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
