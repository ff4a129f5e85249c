"""The form to create a token."""

from __future__ import annotations

import uuid
from typing import Final

from django import forms
from django.utils.translation import gettext, gettext_lazy

from backoffice.accounts.access import PERMISSIONS
from backoffice.api.tokens import DAYS, SCOPES

_LENGTHS: Final = (
    (30, gettext_lazy("30 days")),
    (90, gettext_lazy("90 days")),
    (DAYS, gettext_lazy("1 year")),
    (0, gettext_lazy("Until revoked")),
)


def _scope_choices() -> list[tuple[str, str]]:
    return [(scope, gettext(PERMISSIONS[scope]).capitalize()) for scope in SCOPES]


class TokenForm(forms.Form):
    """The values of a new token. The cleaned `days` is None for a token that never expires."""

    form_id = forms.UUIDField(initial=uuid.uuid4, widget=forms.HiddenInput)
    account = forms.CharField(
        label=gettext_lazy("Service account"),
        max_length=150,
        help_text=gettext_lazy(
            "Name of the program that uses the token, such as reporting. A new name creates an"
            " account that nobody can sign in with."
        ),
        widget=forms.TextInput({"autocomplete": "off", "spellcheck": "false"}),
    )
    name = forms.CharField(
        label=gettext_lazy("Purpose"),
        max_length=80,
        required=False,
        help_text=gettext_lazy("Shows others later whether the token is still needed."),
        widget=forms.TextInput({"autocomplete": "off"}),
    )
    scopes = forms.MultipleChoiceField(
        label=gettext_lazy("Scopes"),
        choices=_scope_choices,
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": gettext_lazy("Check at least one scope.")},
    )
    days = forms.TypedChoiceField(
        label=gettext_lazy("Valid for"),
        choices=_LENGTHS,
        coerce=lambda days: int(days) or None,
        empty_value=None,
        initial=DAYS,
        widget=forms.RadioSelect,
    )
