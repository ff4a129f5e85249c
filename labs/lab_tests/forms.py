"""Forms about lab tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext, gettext_lazy

from backoffice.core import vocabulary
from backoffice.outbox.forms import CommandForm
from labs.models import Lab, LabAccount, Marker

MAX_NAME_LENGTH = 200
MAX_DESCRIPTION_LENGTH = 500
MAX_REASON_LENGTH = 500
ORDERABLE_ACCOUNTS = ("active", "pending")


def name_field(**more: Any) -> forms.CharField:
    return forms.CharField(
        label=gettext_lazy("Name"),
        max_length=MAX_NAME_LENGTH,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        error_messages={"required": gettext_lazy("Enter a name.")},
        **more,
    )


class ReasonForm(CommandForm):
    """A change with a reason and no other fields."""

    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=MAX_REASON_LENGTH,
        required=False,
        help_text=gettext_lazy("For your team only. Not shared with the lab service."),
    )


class RenameForm(ReasonForm):
    """The new name of a lab test."""

    name = name_field()
    field_order = ("name", "reason")


class NewTestForm(CommandForm):
    """A new lab test. `markers` are ids of markers in the mirror."""

    name = name_field(help_text=gettext_lazy("The name that staff search for when they order."))
    description = forms.CharField(
        label=gettext_lazy("Description"),
        max_length=MAX_DESCRIPTION_LENGTH,
        widget=forms.Textarea(attrs={"rows": 2}),
        error_messages={"required": gettext_lazy("Describe what the test is for.")},
    )
    method = forms.ChoiceField(
        label=gettext_lazy("Collection"),
        error_messages={"required": gettext_lazy("Choose a collection method.")},
    )
    lab_account = forms.ChoiceField(
        label=gettext_lazy("Lab account"),
        required=False,
        help_text=gettext_lazy(
            "The test is offered only for orders under this account. Leave blank for all accounts."
        ),
    )
    fasting = forms.BooleanField(label=gettext_lazy("Fasting required"), required=False)
    markers = forms.TypedMultipleChoiceField(
        label=gettext_lazy("Markers"),
        coerce=int,
        error_messages={
            "required": gettext_lazy("Choose at least one marker."),
            "invalid_choice": gettext_lazy(
                "One of these markers can no longer be ordered at this lab."
            ),
        },
    )

    def __init__(self, *args: Any, lab: Lab, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lab = lab
        methods = [
            (m, gettext(vocabulary.term("order.method", m).label)) for m in lab.collection_methods
        ]
        self._set_choices("method", methods)
        accounts = LabAccount.objects.filter(
            lab=lab.slug, status__in=ORDERABLE_ACCOUNTS, missing_since=None
        ).order_by("account_name", "id")
        self._set_choices(
            "lab_account", [("", gettext("All accounts")), *((a.pk, str(a)) for a in accounts)]
        )
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
