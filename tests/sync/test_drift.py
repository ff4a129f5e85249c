"""A small version of P18: the list changes before each page."""

from __future__ import annotations

import pytest

from tests.sandboxes import Sandbox, SandboxFactory
from tests.sync.back_office import BackOffice, BackOffices
from tests.sync.drift import find_undetected_deletions, sync_during_changes


@pytest.fixture(scope="module")
def changing_sandbox(sandbox_factory: SandboxFactory) -> Sandbox:
    return sandbox_factory(users=700, orders=900, seed=17, speed=0)


@pytest.fixture(scope="module")
def back_office(changing_sandbox: Sandbox, back_offices: BackOffices) -> BackOffice:
    return back_offices.build(changing_sandbox.url)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_changes_between_pages_skip_no_order(
    changing_sandbox: Sandbox, back_office: BackOffice, seed: int
) -> None:
    """Before each page 20 orders change and 3 are placed. No unchanged order is skipped, and the
    next run brings the rest."""
    result = sync_during_changes(changing_sandbox, back_office, seed)
    assert result.pages >= 9 and result.changed >= 20 and result.inserted == 3 * result.pages
    assert result.skipped == []
    assert result.remaining == []


def test_users_deleted_between_pages_are_flagged(
    changing_sandbox: Sandbox, back_office: BackOffice
) -> None:
    """The next sweep finds the users that were deleted between the pages of their list."""
    back_office.sync("users")
    assert find_undetected_deletions(changing_sandbox, back_office, 8, seed=4) == []
