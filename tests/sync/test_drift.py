"""P18 in small: the list changes before each page."""

from __future__ import annotations

import pytest

from tests.sandboxes import Sandbox, SandboxFactory
from tests.sync.drift import deletions, drift
from tests.sync.house import House, Houses


@pytest.fixture(scope="module")
def drifting(sandbox_factory: SandboxFactory) -> Sandbox:
    return sandbox_factory(users=700, orders=900, seed=17, speed=0)


@pytest.fixture(scope="module")
def house(drifting: Sandbox, houses: Houses) -> House:
    return houses.build(drifting.url)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_paging_drift(drifting: Sandbox, house: House, seed: int) -> None:
    """20 changes and 3 inserts before each page: no unchanged row is skipped, and the next run
    brings the rest."""
    done = drift(drifting, house, seed)
    assert done.pages >= 9 and done.changed >= 20 and done.placed == 3 * done.pages
    assert done.skipped == []
    assert done.left == []


def test_hard_deletes(drifting: Sandbox, house: House) -> None:
    """Users deleted between the pages of their list are found by the next sweep."""
    house.sync("users")
    assert deletions(drifting, house, 8, seed=4) == []
