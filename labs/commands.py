"""Commands about lab tests and lab accounts: one class per write to the service."""

from __future__ import annotations

from backoffice.outbox.command import Command
from labs.allowlists import SetAllowlist
from labs.lab_tests import ArchiveLabTest, CreateLabTest, RenameLabTest, RestoreLabTest

COMMANDS: tuple[type[Command], ...] = (
    SetAllowlist,
    CreateLabTest,
    RenameLabTest,
    ArchiveLabTest,
    RestoreLabTest,
)
"""Delivered by `labs.tasks.deliver`."""
