"""Form widgets that several apps share."""

from __future__ import annotations

from typing import Final

from django import forms

TO_THE_MINUTE: Final = "%Y-%m-%dT%H:%M"
"""The format in which browsers send a `datetime-local` field."""


class DateTimeLocalInput(forms.DateTimeInput):
    """An input for a date and a time without seconds, in the user's local time."""

    input_type = "datetime-local"

    def __init__(self) -> None:
        super().__init__(format=TO_THE_MINUTE)
