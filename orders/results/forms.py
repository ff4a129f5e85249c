"""Forms of the review: what the queue shows, signing, calls about critical values, delegating."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from django import forms
from django.utils import timezone

from backoffice.core.access import ROLES
from backoffice.models import User
from backoffice.pages.widgets import DateTimeLocalInput
from labs.models import Lab
from orders.results.models import NO_READ_BACK, NOT_REACHED, READ_BACK, SOMEBODY_ELSE

LETTERS: Final = 2_000
TELLS: Final = {
    "": "Choose…",
    "clinician": "The clinician",
    "nurse": "A nurse",
    "front desk": "The front desk",
    "portal": "Nobody calls: the patient reads it online",
    "visit": "At the next visit",
}
OUTCOMES: Final = {
    READ_BACK: "Reached, and read back to confirm",
    NO_READ_BACK: "Reached, not read back",
    NOT_REACHED: "Not reached",
}

SHOWN: Final = 40
"""Rows of the queue beside a report, and so many more at a time, up to `LONGEST`."""
LONGEST: Final = 400
PLACES: Final = {
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


class QueueFilters(forms.Form):
    """What of the queue is shown; it stands in the address."""

    lab = forms.ChoiceField(label="Lab", required=False)
    patient = forms.UUIDField(label="Patient", required=False, widget=forms.HiddenInput)
    place = forms.ChoiceField(label="Urgency", required=False, choices=list(PLACES.items()))
    mine = forms.BooleanField(label="Mine only", required=False)
    critical = forms.BooleanField(label="Open criticals", required=False)
    shown = forms.IntegerField(
        required=False, min_value=SHOWN, max_value=LONGEST, widget=forms.HiddenInput
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        field = self.fields["lab"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", "All labs"), *Lab.names().items()]

    @property
    def chosen(self) -> dict[str, Any]:
        """What narrows the queue; nothing does where the address says what cannot be."""
        return self.cleaned_data if self.is_valid() else {}

    @property
    def narrowed(self) -> bool:
        return any(value for name, value in self.chosen.items() if name != "shown")

    @property
    def rows(self) -> int:
        return self.chosen.get("shown") or SHOWN


class SignForm(forms.Form):
    version = forms.IntegerField(widget=forms.HiddenInput, min_value=0)
    note = forms.CharField(
        label="Note",
        required=False,
        max_length=LETTERS,
        widget=forms.Textarea(attrs={"rows": 2}),
    )
    tells = forms.ChoiceField(
        label="Who will tell the patient", required=False, choices=list(TELLS.items())
    )
    is_identity_confirmed = forms.BooleanField(
        label="I checked with the lab: this result is this patient’s", required=False
    )

    def __init__(self, data: Any = None, **options: Any) -> None:
        # It stands below the form of a call, which has a note, too.
        super().__init__(data, auto_id="sign_%s", **options)


class CallForm(forms.Form):
    """A call about critical values. Value, time and caller are stamped by the server."""

    version = forms.IntegerField(widget=forms.HiddenInput, min_value=0)
    recipient = forms.CharField(
        label="Who was called",
        max_length=200,
        error_messages={"required": "Say who was called, or who made the call."},
    )
    outcome = forms.ChoiceField(
        label="Outcome",
        choices=list(OUTCOMES.items()),
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
        label="Note", required=False, max_length=LETTERS, widget=forms.Textarea(attrs={"rows": 2})
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
        given = super().clean() or {}
        due = given.get("next_attempt_at")
        if given.get("outcome") != NOT_REACHED:
            given["next_attempt_at"] = None
        elif due is None and "next_attempt_at" not in self.errors:
            self.add_error("next_attempt_at", "Say when it will be tried again.")
        elif due is not None and due <= timezone.now():
            self.add_error("next_attempt_at", "Choose a time to come.")
        if given.get("made_by_service_network") and not given.get("source"):
            self.add_error("source", "Say how we know of this call.")
        return given


class _AtOnce(forms.models.ModelChoiceIterator):  # type: ignore[type-arg]
    """Not in parts, by a cursor of the server's, which takes three questions."""

    def __iter__(self) -> Iterator[tuple[Any, str]]:
        yield "", str(self.field.empty_label or "")
        for obj in self.queryset:
            yield self.choice(obj)


class _Colleague(forms.ModelChoiceField):  # type: ignore[type-arg]
    iterator = _AtOnce

    def label_from_instance(self, obj: Any) -> str:
        return str(obj.get_full_name())


class DelegateForm(forms.Form):
    """Let a colleague who may not sign do so."""

    to = _Colleague(
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
        assert isinstance(field, _Colleague)
        field.queryset = helpers()

    @property
    def until(self) -> Any:
        return timezone.now() + timedelta(days=self.cleaned_data["days"])


def helpers() -> Any:
    """Colleagues who see results and may not sign them by themselves."""
    seeing = [
        role
        for role, granted in ROLES.items()
        if {"results.view", "results.acknowledge"} <= granted and "results.sign" not in granted
    ]
    rows = User.objects.filter(is_active=True, groups__name__in=seeing).distinct()
    return rows.order_by("last_name", "username")
