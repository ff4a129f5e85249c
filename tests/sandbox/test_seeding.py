"""The made-up world: the same for the same seed, and sound in itself."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.sandbox import soundness
from tests.sandboxes import Sandbox, SandboxFactory

EPOCH = "2026-03-01T12:00:00+00:00"
TABLES = (
    "appointment",
    "appointmentevent",
    "connection",
    "diagnosiscode",
    "expectedresult",
    "historicalpull",
    "insurance",
    "lab",
    "labaccount",
    "labtest",
    "marker",
    "order",
    "orderevent",
    "ordertransaction",
    "payor",
    "physician",
    "provider",
    "pscsite",
    "servicearea",
    "shipment",
    "user",
    "userinfo",
)


@pytest.fixture(scope="module")
def seeded(sandbox_factory: SandboxFactory) -> Sandbox:
    return sandbox_factory(users=120, orders=2500, seed=11, epoch=EPOCH)


def _contents(sandbox: Sandbox) -> dict[str, list[tuple[Any, ...]]]:
    with psycopg.connect(sandbox.database_url) as connection:
        return {
            table: connection.execute(
                f'SELECT t::text FROM "sandbox_{table}" t ORDER BY 1'.encode()
            ).fetchall()
            for table in TABLES
        }


def test_same_seed_and_epoch_make_the_same_world(
    seeded: Sandbox, sandbox_factory: SandboxFactory
) -> None:
    again = sandbox_factory(users=120, orders=2500, seed=11, epoch=EPOCH)
    first, second = _contents(seeded), _contents(again)
    for table in TABLES:
        assert first[table], f"{table} is empty"
        assert first[table] == second[table], table


def test_another_seed_makes_another_world(seeded: Sandbox, sandbox_factory: SandboxFactory) -> None:
    other = sandbox_factory(users=120, orders=2500, seed=12, epoch=EPOCH)
    assert _contents(other)["order"] != _contents(seeded)["order"]


def test_numbers_histories_records_and_transactions_are_sound(seeded: Sandbox) -> None:
    soundness.numbering(seeded)
    soundness.records(seeded)
    assert soundness.transactions(seeded) == {"active", "completed", "cancelled"}
    seen = soundness.histories(seeded)
    # The interesting branches have all been taken.
    lows_seen = {after for *_, after in seen}
    assert lows_seen >= {
        "corrected",
        "redraw_available",
        "partial_results",
        "lab_processing_blocked",
        "sample_error",
        "lost",
        "do_not_process",
        "problem_in_transit_lab",
        "problem_in_transit_customer",
        "failure_to_deliver_to_customer",
        "failure_to_deliver_to_lab",
        "registered",
        "appointment_cancelled",
    }
    assert ("at_home_phlebotomy", False, "appointment_scheduled", "appointment_scheduled") in seen


def test_redraws_join_their_parents(seeded: Sandbox) -> None:
    rows = seeded.query(
        "SELECT c.transaction_id = p.transaction_id, c.created_at > e.created_at, "
        "p.moving_part LIKE '%' || c.id::text || '%', c.moving_part LIKE '%' || p.id || '%' "
        "FROM sandbox_order c JOIN sandbox_order p ON p.id = c.parent_id "
        "JOIN sandbox_orderevent e ON e.order_id = p.number AND e.status LIKE '%redraw_available' "
        "WHERE c.origin = 'redraw'"
    )
    assert rows
    assert all(all(row) for row in rows)
    parents = seeded.query(
        "SELECT count(*) FROM sandbox_order WHERE low_level_status = 'redraw_available'"
    )
    assert parents[0][0] == len(rows)


def test_users_are_distinct_and_have_what_orders_need(seeded: Sandbox) -> None:
    shares = seeded.query(
        "SELECT count(*), count(i.user_id), count(*) FILTER (WHERE u.client_user_id LIKE 'stock%')"
        " FROM sandbox_user u LEFT JOIN sandbox_userinfo i ON i.user_id = u.id"
    )[0]
    assert shares[0] == 125
    assert 0.8 < shares[1] / shares[0] < 0.97
    assert shares[2] == 1
    insured = seeded.query(
        "SELECT count(*) FROM sandbox_order WHERE billing_type = 'commercial_insurance'"
    )
    assert insured[0][0] > 0
    dangling = seeded.query(
        "SELECT count(*) FROM sandbox_order o WHERE billing_type = 'commercial_insurance' AND "
        "NOT EXISTS (SELECT 1 FROM sandbox_insurance n WHERE n.user_id = o.user_id "
        "AND n.is_primary AND n.created_at <= o.created_at "
        "AND o.fixed_part LIKE '%' || n.id::text || '%')"
    )
    assert dangling[0][0] == 0
