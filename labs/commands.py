"""What staff may ask about the catalogue and lab accounts: one class per write."""

from __future__ import annotations

from backoffice.outbox import Command

COMMANDS: tuple[type[Command], ...] = ()
"""Delivered by `labs.tasks.deliver`."""
