"""The form to create a token."""

from __future__ import annotations

import uuid
from typing import Final

from django import forms

from backoffice.accounts.access import PERMISSIONS
from backoffice.api.tokens import DAYS, SCOPES

_LENGTHS: Final = ((30, "30 days"), (90, "90 days"), (DAYS, "A year"), (0, "Until it is revoked"))


class TokenForm(forms.Form):
    """The values of a new token. The cleaned `days` is None for a token that never expires."""

    form_id = forms.UUIDField(initial=uuid.uuid4, widget=forms.HiddenInput)
    account = forms.CharField(
        label="Service account",
        max_length=150,
        help_text="The program that will use it, such as reporting. A new name creates an "
        "account, which nobody can sign in with.",
        widget=forms.TextInput({"autocomplete": "off", "spellcheck": "false"}),
    )
    name = forms.CharField(
        label="What it is for",
        max_length=80,
        required=False,
        help_text="So that somebody can tell later whether it is still needed.",
        widget=forms.TextInput({"autocomplete": "off"}),
    )
    scopes = forms.MultipleChoiceField(
        label="Scopes",
        choices=[(scope, PERMISSIONS[scope].capitalize()) for scope in SCOPES],
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Check at least one: a token for nothing is of no use."},
    )
    days = forms.TypedChoiceField(
        label="Valid for",
        choices=_LENGTHS,
        coerce=lambda days: int(days) or None,
        empty_value=None,
        initial=DAYS,
        widget=forms.RadioSelect,
    )
