"""Preferences of each staff member: theme, row height, shortcuts, time zone."""

from __future__ import annotations

from typing import Any, Final
from zoneinfo import available_timezones

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from backoffice.accounts.access import signed_in
from backoffice.accounts.models import User
from backoffice.accounts.views.sign_in import set_theme_cookie

THEMES: Final = (("", "Same as the system"), ("light", "Light"), ("dark", "Dark"))
DENSITIES: Final = (
    ("compact", "Compact: most rows on a page"),
    ("default", "Normal"),
    ("touch", "Tall: easy to tap"),
)


class PreferencesForm(forms.Form):
    """The fields of `User` that all users may change for themselves."""

    theme = forms.ChoiceField(
        label="Theme", choices=THEMES, required=False, widget=forms.RadioSelect
    )
    density = forms.ChoiceField(label="Row height", choices=DENSITIES, widget=forms.RadioSelect)
    single_keys = forms.BooleanField(label="Single-key shortcuts", required=False)
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


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def preferences(request: HttpRequest) -> HttpResponse:
    """Show and save the preferences. They apply from the next page on."""
    user = request.user
    assert isinstance(user, User)
    if request.method != "POST":
        initial = {name: getattr(user, name) for name in PreferencesForm.base_fields}
        return _page(request, PreferencesForm(initial=initial))
    form = PreferencesForm(request.POST)
    if not form.is_valid():
        return _page(request, form, status=400)
    User.objects.filter(pk=user.pk).update(**form.cleaned_data)
    messages.success(request, "Preferences saved")
    response = HttpResponseRedirect(reverse("preferences"))
    set_theme_cookie(response, form.cleaned_data["theme"])
    return response


def _page(request: HttpRequest, form: PreferencesForm, status: int = 200) -> HttpResponse:
    context: dict[str, Any] = {"form": form, "zones": sorted(available_timezones())}
    return render(request, "preferences/page.html", context, status=status)
