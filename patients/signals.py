"""Signals for apps that import this one."""

from typing import Final

from django.dispatch import Signal

demographics_stored: Final = Signal()
"""Sent inside the transaction that stores demographics. `patients`: the ids that changed."""
