"""Forms of the review of results: sign-off, calls, delegation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django import forms
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy, gettext_noop

from backoffice.accounts.access import ROLES
from backoffice.accounts.models import User
from backoffice.pages.widgets import DateTimeLocalInput
from orders.models.review import NO_READ_BACK, NOT_REACHED, READ_BACK

MAX_NOTE_LENGTH: Final = 2_000
TELLER_LABELS: Final = {
    "": gettext_noop("Choose…"),
    "clinician": gettext_noop("Clinician"),
    "nurse": gettext_noop("Nurse"),
    "front desk": gettext_noop("Front desk"),
    "portal": gettext_noop("No call: the patient reads it online"),
    "visit": gettext_noop("At the next visit"),
}
CALL_OUTCOME_LABELS: Final = {
    READ_BACK: gettext_noop("Reached, read-back confirmed"),
    NO_READ_BACK: gettext_noop("Reached, no read-back"),
    NOT_REACHED: gettext_noop("Not reached"),
}


class SignForm(forms.Form):
    version = forms.IntegerField(widget=forms.HiddenInput, min_value=0)
    note = forms.CharField(
        label=gettext_lazy("Note"),
        required=False,
        max_length=MAX_NOTE_LENGTH,
        widget=forms.Textarea(attrs={"rows": 2}),
    )
    tells = forms.ChoiceField(
        label=gettext_lazy("Who will notify the patient"),
        required=False,
        choices=[(key, gettext_lazy(label)) for key, label in TELLER_LABELS.items()],
    )
    is_identity_confirmed = forms.BooleanField(
        label=gettext_lazy("I checked with the lab: this result belongs to this patient"),
        required=False,
    )

    def __init__(self, data: Mapping[str, object] | None = None, **options: Any) -> None:
        # The form of a call on the same page also has a field `note`.
        super().__init__(data, auto_id="sign_%s", **options)


class CallForm(forms.Form):
    """A call about critical values. The server sets the values, the time and the caller."""

    version = forms.IntegerField(widget=forms.HiddenInput, min_value=0)
    recipient = forms.CharField(
        label=gettext_lazy("Person called"),
        max_length=200,
        error_messages={"required": gettext_lazy("Enter who was called.")},
    )
    outcome = forms.ChoiceField(
        label=gettext_lazy("Outcome"),
        choices=[(key, gettext_lazy(label)) for key, label in CALL_OUTCOME_LABELS.items()],
        widget=forms.RadioSelect,
        error_messages={"required": gettext_lazy("Choose an outcome.")},
    )
    next_attempt_at = forms.DateTimeField(
        label=gettext_lazy("Next attempt"),
        required=False,
        widget=DateTimeLocalInput(),
        help_text=gettext_lazy("Required if nobody was reached."),
    )
    note = forms.CharField(
        label=gettext_lazy("Note"),
        required=False,
        max_length=MAX_NOTE_LENGTH,
        widget=forms.Textarea(attrs={"rows": 2}),
    )
    made_by_service_network = forms.BooleanField(
        label=gettext_lazy("The service’s physicians made this call"), required=False
    )
    source = forms.CharField(
        label=gettext_lazy("Source"),
        required=False,
        max_length=200,
        help_text=gettext_lazy(
            "If someone else made the call: who told you, or where it is documented."
        ),
    )

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        due = values.get("next_attempt_at")
        if values.get("outcome") != NOT_REACHED:
            values["next_attempt_at"] = None
        elif due is None and "next_attempt_at" not in self.errors:
            self.add_error("next_attempt_at", gettext("Enter when to try again."))
        elif due is not None and due <= timezone.now():
            self.add_error("next_attempt_at", gettext("Choose a future time."))
        if values.get("made_by_service_network") and not values.get("source"):
            self.add_error("source", gettext("Enter how you know about this call."))
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
        label=gettext_lazy("Colleague"),
        queryset=User.objects.none(),
        error_messages={"required": gettext_lazy("Choose a colleague.")},
    )
    what = forms.ChoiceField(
        label=gettext_lazy("Results to sign"),
        choices=[
            ("this", gettext_lazy("This result")),
            ("normal", gettext_lazy("All normal final results")),
        ],
        widget=forms.RadioSelect,
        initial="this",
    )
    days = forms.IntegerField(
        label=gettext_lazy("Number of days"), min_value=1, max_value=90, initial=1
    )

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
