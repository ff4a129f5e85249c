"""G6, P22: a backup is restored that knows less than the service. Nothing is done twice.

`./run chaos restore` does it with every kind of command, and with a million events.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.outbox.cases import CASES
from tests.outbox.restoring import empty_database, lost_and_restored

KINDS = ("order.create", "order.cancel", "patient.create", "insurance.create", "appointment.book")
"""Sent again with the same key, to the same effect, or never; found by a look-up, or by nobody."""


@pytest.mark.usefixtures("transactional_db")
def test_what_was_sent_after_the_backup_is_not_sent_again(tmp_path: Path) -> None:
    cases = [case for case in CASES if case.kind.kind in KINDS]
    assert len(cases) == len(KINDS)
    with empty_database() as empty:
        assert lost_and_restored(empty, tmp_path, cases) == len(KINDS) + 3
