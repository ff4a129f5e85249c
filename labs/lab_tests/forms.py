"""Forms about lab tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.http import QueryDict

from backoffice.core import vocabulary
from backoffice.outbox.forms import CommandForm
from labs.models import Lab, LabAccount, Marker

MAX_NAME_LENGTH = 200
MAX_DESCRIPTION_LENGTH = 500
MAX_REASON_LENGTH = 500
ORDERABLE_ACCOUNTS = ("active", "pending")


def name_field(**more: Any) -> forms.CharField:
    return forms.CharField(
        label="Name",
        max_length=MAX_NAME_LENGTH,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        error_messages={"required": "Give it a name."},
        **more,
    )


class ReasonForm(CommandForm):
    """A change with a reason and no other fields."""

    reason = forms.CharField(
        label="Reason",
        max_length=MAX_REASON_LENGTH,
        required=False,
        help_text="For your colleagues; the service does not see it.",
    )


class RenameForm(ReasonForm):
    """The new name of a lab test."""

    name = name_field()
    field_order = ("name", "reason")


class NewTestForm(CommandForm):
    """A new lab test. `markers` are ids of markers in the mirror."""

    name = name_field(help_text="As staff will look for it when they order.")
    description = forms.CharField(
        label="Description",
        max_length=MAX_DESCRIPTION_LENGTH,
        widget=forms.Textarea(attrs={"rows": 2}),
        error_messages={"required": "Say what it is for."},
    )
    method = forms.ChoiceField(label="Collection", error_messages={"required": "Choose one."})
    lab_account = forms.ChoiceField(
        label="Lab account",
        required=False,
        help_text="Only orders under this account will offer it. Leave it open for all.",
    )
    fasting = forms.BooleanField(label="The patient must fast", required=False)
    markers = forms.TypedMultipleChoiceField(
        label="Markers",
        coerce=int,
        error_messages={
            "required": "Choose at least one marker.",
            "invalid_choice": "This marker can no longer be ordered at this lab.",
        },
    )

    def __init__(self, *args: Any, lab: Lab, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lab = lab
        methods = [(m, vocabulary.term("order.method", m).label) for m in lab.collection_methods]
        self._set_choices("method", methods)
        accounts = LabAccount.objects.filter(
            lab=lab.slug, status__in=ORDERABLE_ACCOUNTS, missing_since=None
        ).order_by("account_name", "id")
        self._set_choices("lab_account", [("", "All of them"), *((a.pk, str(a)) for a in accounts)])
        self._set_choices("markers", [(marker.pk, marker.name) for marker in self.chosen()])

    def chosen(self) -> list[Marker]:
        """Return the selected markers, sorted by name."""
        sent = self.data.getlist("markers") if isinstance(self.data, QueryDict) else []
        ids = {int(text) for text in sent if text.isascii() and text.isdigit() and len(text) < 16}
        return list(Marker.objects.orderable_at(self.lab).filter(pk__in=ids).order_by("name", "id"))

    def _set_choices(self, name: str, choices: Sequence[tuple[object, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices
