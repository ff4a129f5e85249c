"""The first sync from a sandbox that answers only in the forms of the specification."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.sandboxes import Sandbox, running
from tests.sync import compare
from tests.sync.back_office import BackOffices
from tests.sync.conftest import SyncedMirror
from tests.sync.expected import ALL_CHECKS

# Differences between the specification's forms and the sandbox's tables: a user without a fallback
# time zone has UTC, demographics have no country, and a pull without a range has the time at which
# it was scheduled. An account without notes or business units has empty values.
EXPECTED_DIFFERENCES = re.compile(
    r"users: .* column 3: 'UTC', not None"
    r"|demographics: .* column 12: '', not 'US'"
    r"|lab accounts: .* column \d: ('', not None|\[\], not None)"
    r"|historical pulls: .* column [34]: datetime.*, not None"
)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with running(users=60, orders=250, seed=5, as_specified=True) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def synced(sandbox: Sandbox, back_offices: BackOffices) -> SyncedMirror:
    back_office = back_offices.build(sandbox.url)
    back_office.sync()
    return SyncedMirror(sandbox, back_office)


def test_first_sync_of_specified_forms(synced: SyncedMirror) -> None:
    # Orders as received differ between the forms. Their columns and the records of lists do not.
    checks = [check for check in ALL_CHECKS if check.name != "orders as received"]
    found = compare.differences(synced.sandbox, synced.back_office, checks)
    found += compare.list_differences(synced.sandbox, synced.back_office)
    found += compare.single_differences(synced.sandbox, synced.back_office, 40, result_sample=40)
    found = [line for line in found if not EXPECTED_DIFFERENCES.fullmatch(line)]
    assert found == [], "\n".join([f"{len(found)} differences", *found[:60]])
    assert synced.back_office.value("SELECT count(*) FROM mirror_unreadrecord") == 0
    assert synced.back_office.value("SELECT count(*) FROM core_unknownvalue") == 0
    failed = "SELECT count(*) FROM sync_lookup WHERE looked_at IS NULL OR error <> ''"
    assert synced.back_office.value(failed) == 0
