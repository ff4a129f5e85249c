"""Widgets that forms of several apps share."""

from __future__ import annotations

from typing import Final

from django import forms

TO_THE_MINUTE: Final = "%Y-%m-%dT%H:%M"
"""As a browser sends the value of a field for a date and a time."""


class DateTimeLocalInput(forms.DateTimeInput):
    """A date and a time by the clock of whoever types them, without seconds."""

    input_type = "datetime-local"

    def __init__(self) -> None:
        super().__init__(format=TO_THE_MINUTE)
