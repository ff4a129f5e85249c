"""What staff may ask about the catalogue and lab accounts: one class per write."""

from __future__ import annotations

from backoffice.outbox import Command
from labs.allowlists import SetAllowlist

COMMANDS: tuple[type[Command], ...] = (SetAllowlist,)
"""Delivered by `labs.tasks.deliver`."""
