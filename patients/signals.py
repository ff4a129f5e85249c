"""Signals that apps above this one may connect to."""

from typing import Final

from django.dispatch import Signal

demographics_stored: Final = Signal()
"""Sent inside the transaction that stores them, with `patients`: ids whose demographics changed."""
