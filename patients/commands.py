"""What staff may ask about patients: one class per write."""

from __future__ import annotations

from backoffice.outbox import Command

COMMANDS: tuple[type[Command], ...] = ()
"""Delivered by `patients.tasks.deliver`."""
