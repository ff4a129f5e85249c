"""Forms about webhook endpoints at the service."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError

from backoffice.operations.service_check.webhooks import address, is_here
from backoffice.outbox import CommandForm


class NewEndpointForm(CommandForm):
    """Where events are to be delivered: an address of this installation."""

    url = forms.CharField(
        label="Address",
        max_length=2048,
        help_text="Reached from outside, without a redirect.",
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["url"].initial = address()

    def clean_url(self) -> str:
        url: str = self.cleaned_data["url"].strip()
        if not _host(url):
            raise ValidationError(f"This is not an address. Enter one such as {address()}")
        if not is_here(url):
            raise ValidationError(
                f"Events are received at {address()}. Other hosts must be in ALLOWED_HOSTS."
            )
        if settings.HTTPS_ONLY and urlsplit(url).scheme != "https":
            raise ValidationError("The address must begin with https://")
        return url


class SwitchForm(CommandForm):
    """Whether deliveries are to begin again, or to stop."""

    to = forms.ChoiceField(choices=[("on", "on"), ("off", "off")], widget=forms.HiddenInput)


def _host(url: str) -> str:
    """The host that an address names; empty where it is no address."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
