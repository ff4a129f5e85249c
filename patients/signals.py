"""Signals that apps above this one connect to."""

from typing import Final

from django.dispatch import Signal

demographics_stored: Final = Signal()
"""Sent inside the transaction that stores demographics. `patients`: the ids that changed."""
