"""The form of the preferences of each staff member, such as theme, time zone and date format."""

from __future__ import annotations

from typing import Final
from zoneinfo import available_timezones

from django import forms
from django.conf import settings

THEMES: Final = (("", "Same as the system"), ("light", "Light"), ("dark", "Dark"))
DENSITIES: Final = (
    ("compact", "Compact: most rows on a page"),
    ("default", "Normal"),
    ("touch", "Tall: easy to tap"),
)
DATES: Final = (("False", "Nov 25, 2026"), ("True", "25 Nov 2026"))
TIMES: Final = (("False", "2:30 PM"), ("True", "14:30"))


def _is_true(text: str) -> bool:
    return text == "True"


class PreferencesForm(forms.Form):
    """The fields of `User` that all users may change for themselves."""

    theme = forms.ChoiceField(
        label="Theme", choices=THEMES, required=False, widget=forms.RadioSelect
    )
    density = forms.ChoiceField(label="Row height", choices=DENSITIES, widget=forms.RadioSelect)
    single_keys = forms.BooleanField(label="Single-key shortcuts", required=False)
    day_first = forms.TypedChoiceField(
        label="Dates", choices=DATES, coerce=_is_true, widget=forms.RadioSelect
    )
    hours_24 = forms.TypedChoiceField(
        label="Times", choices=TIMES, coerce=_is_true, widget=forms.RadioSelect
    )
    language = forms.ChoiceField(
        label="Language", choices=settings.LANGUAGES, widget=forms.RadioSelect
    )
    time_zone = forms.CharField(
        label="Your time zone",
        max_length=64,
        help_text="Times are shown in this zone unless another one is named, for example "
        "America/New_York.",
        widget=forms.TextInput({"list": "zones", "autocomplete": "off", "spellcheck": "false"}),
    )

    def clean_time_zone(self) -> str:
        """Return the IANA name of the zone. Case and spaces are ignored: `america/new york`."""
        typed: str = self.cleaned_data["time_zone"]
        zone_key = typed.strip().replace(" ", "_").lower()
        for name in available_timezones():
            if name.lower() == zone_key:
                return name
        raise forms.ValidationError(
            "There is no time zone of this name. Type a region and a city, such as America/Chicago."
        )
