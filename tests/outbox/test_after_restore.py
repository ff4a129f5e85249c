"""G6, P22: a restored backup is older than the state of the service. Nothing is done twice.

`./run chaos restore` tests every kind of command, and a million events.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.outbox.cases import CASES
from tests.outbox.database_restore import empty_database, lose_and_restore_database

KINDS = ("order.create", "order.cancel", "patient.create", "insurance.create", "appointment.book")
"""Kinds sent again with the same key, to the same effect, or never; with and without a lookup."""


@pytest.mark.usefixtures("transactional_db")
def test_commands_sent_after_backup_are_not_sent_again(tmp_path: Path) -> None:
    cases = [case for case in CASES if case.command_type.kind in KINDS]
    assert len(cases) == len(KINDS)
    with empty_database() as empty:
        assert lose_and_restore_database(empty, tmp_path, cases) == len(KINDS) + 3
