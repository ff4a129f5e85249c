"""A world to ask about: nothing moves in it, so SQL and HTTP see the same."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import psycopg
import pytest

from backoffice.service import Service
from tests.sandboxes import Sandbox, running

OTHER_TEAM = "7ea00000-0000-4000-8000-000000000002"


@pytest.fixture(scope="package", params=[False, True], ids=["default", "as-specified"])
def as_specified(request: pytest.FixtureRequest) -> bool:
    """Which form the sandboxes of these tests have."""
    return bool(request.param)


@pytest.fixture(scope="package")
def asked_sandbox(as_specified: bool) -> Iterator[Sandbox]:
    """With an account of another team only, and an order with a notice, which chance may spare."""
    with running(users=120, orders=900, seed=13, as_specified=as_specified) as sandbox:
        _make_rare_things(sandbox)
        yield sandbox


def _make_rare_things(sandbox: Sandbox) -> None:
    with psycopg.connect(sandbox.database_url) as connection:
        connection.execute(
            "INSERT INTO sandbox_labaccount (id, lab_id, org_id, status, delegated_flow,"
            " provider_account_id, allowed_billing, team_id_allowlist) SELECT %s, lab_id, org_id,"
            " status, delegated_flow, 'T2', allowed_billing, ARRAY[%s::uuid]"
            " FROM sandbox_labaccount WHERE org_id IS NOT NULL LIMIT 1",
            [UUID(int=2), OTHER_TEAM],
        )
        connection.execute(
            "UPDATE sandbox_order SET has_abn = true,"
            " fixed_part = replace(fixed_part, '\"has_abn\":false', '\"has_abn\":true')"
            " WHERE number = (SELECT min(number) FROM sandbox_order"
            " WHERE team_id <> %s AND method = 'walk_in_test')",
            [OTHER_TEAM],
        )


@pytest.fixture(scope="package")
def client(asked_sandbox: Sandbox) -> Iterator[Service]:
    with asked_sandbox.service() as service:
        yield service
