"""Form fields for states and countries of addresses (specification, address shapes)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import phonenumbers
from django import forms
from django.utils.translation import gettext

STATES: Final = tuple(
    re.findall(
        "..",
        "ALAKAZARCACOCTDEDCFLGAHIIDILINIAKSKYLAMEMDMAMIMNMSMOMTNENVNHNJ"
        "NMNYNCNDOHOKORPARISCSDTNTXUTVTVAWAWVWIWYASGUMPPRVIFMMHPWAEAPAA",
    )
)
"""State codes of the postal service: states, territories, associated states, military mail."""
US: Final = "US"
US_MAIL: Final = frozenset({US, "PR", "VI", "GU", "AS", "MP", "FM", "MH", "PW", "UM"})
"""Countries where the US postal service delivers: addresses have a state and a ZIP code."""
COUNTRIES: Final = tuple(sorted(US_MAIL | set(phonenumbers.SUPPORTED_REGIONS)))
_US_NAMES: Final = {"USA", "UNITED STATES", "UNITED STATES OF AMERICA"}
_ZIP: Final = re.compile(r"[0-9]{5}(-[0-9]{4})?")


class StateField(forms.CharField):
    """A state as two letters, or any text outside of the United States."""

    widget = forms.TextInput(attrs={"list": "states", "autocapitalize": "characters"})

    def clean(self, value: Any) -> str:
        text: str = super().clean(value)
        return text.upper() if len(text) == 2 else text


class CountryField(forms.CharField):
    """A country as two letters. An empty value means the United States."""

    widget = forms.TextInput(attrs={"list": "countries", "autocapitalize": "characters"})

    def clean(self, value: Any) -> str:
        text: str = super().clean(value)
        code = text.upper().replace(".", "")
        if not code or code in _US_NAMES:
            return US
        if code not in COUNTRIES:
            raise forms.ValidationError(
                gettext("Use the two-letter country code, such as US or CA.")
            )
        return code


def check_place(
    data: Mapping[str, str], prefix: str, add_error: Callable[[str, str], None]
) -> None:
    """Check state and ZIP code of an address where the US postal service delivers."""
    if (data.get(f"{prefix}country") or US) not in US_MAIL:
        return
    state, code = data.get(f"{prefix}state"), data.get(f"{prefix}zip")
    if state and state not in STATES:
        add_error(f"{prefix}state", gettext("Use the two-letter state code, such as AZ, PR or AE."))
    if code and not _ZIP.fullmatch(code):
        add_error(
            f"{prefix}zip", gettext("Enter a ZIP code with 5 or 9 digits: 85001 or 85001-0123.")
        )
