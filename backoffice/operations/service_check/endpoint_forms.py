"""Forms about webhook endpoints at the service."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils.translation import gettext, gettext_lazy

from backoffice.operations.service_check.webhooks import address, is_here
from backoffice.outbox.forms import CommandForm


class NewEndpointForm(CommandForm):
    """The URL of a new endpoint, which must belong to this installation."""

    url = forms.CharField(
        label=gettext_lazy("Address"),
        max_length=2048,
        help_text=gettext_lazy("Must be reachable from outside, without a redirect."),
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["url"].initial = address()

    def clean_url(self) -> str:
        url: str = self.cleaned_data["url"].strip()
        if not _host(url):
            raise ValidationError(
                gettext("Enter a full address, such as %(example)s") % {"example": address()}
            )
        if not is_here(url):
            words = gettext(
                "Events are received at %(address)s. Add other hosts to ALLOWED_HOSTS first."
            )
            raise ValidationError(words % {"address": address()})
        if settings.HTTPS_ONLY and urlsplit(url).scheme != "https":
            raise ValidationError(gettext("The address must start with https://"))
        return url


class SwitchForm(CommandForm):
    """Turn deliveries to an endpoint on or off."""

    to = forms.ChoiceField(choices=[("on", "on"), ("off", "off")], widget=forms.HiddenInput)


def _host(url: str) -> str:
    """Return the host of a URL; empty if it is not a valid URL."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
