"""Paging drift (reliability P18): the list changes before each page, and no row is skipped."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from tests.sandboxes import Sandbox
from tests.sync import compare
from tests.sync.expected import ORDERS as ORDER_CHECKS
from tests.sync.house import House
from tests.sync.standin import Asked, forwarding, serving

LONG_AGO = "2000-01-01T00:00:00+00:00"


@dataclass
class Drifted:
    """What one seed did: `skipped` are rows that did not change and did not arrive."""

    seed: int
    pages: int
    changed: int
    placed: int
    skipped: list[str]
    left: list[str]


def drift(
    sandbox: Sandbox, house: House, seed: int, changes: int = 20, inserts: int = 3
) -> Drifted:
    """Walks all orders into an empty mirror by the incremental run, while before each page
    `changes` orders move and `inserts` are placed; then once more in quiet."""
    house.query("TRUNCATE orders_order, orders_orderevent, orders_transaction CASCADE")
    house.query("DELETE FROM backoffice_syncrun")
    house.query(
        'INSERT INTO backoffice_syncrun (resource, "full", state, window_start, checkpoint,'
        " attempts, fence, fetched, created, changed, unchanged, older, unseen, unreadable,"
        f" drifted, error) SELECT 'orders', kind, state, '{LONG_AGO}', '{{}}', 0, 0, 0, 0, 0, 0,"
        " 0, 0, 0, 0, '' FROM (VALUES (true, 'done'), (false, 'due')) AS v(kind, state)"
    )
    lock, moved, placed = threading.Lock(), set[str](), set[str]()
    pages = 0

    def before(asked: Asked) -> None:
        nonlocal pages
        if asked.path != "/v3/orders":
            return
        with lock:
            pages += 1
            number = seed * 10_000 + pages
            body = {"orders": changes, "seed": number}
            moved.update(sandbox.control("change", body)["order_ids"])
            placed.update(sandbox.control("place", {"orders": inserts})["order_ids"])

    with serving(forwarding(sandbox.url, before)) as url:
        house.sync("orders", SERVICE_BASE_URL=url)
    # A redraw changes the orders of its group as well.
    group = "SELECT id::text FROM sandbox_order WHERE transaction_id IN (SELECT transaction_id"
    touched = {
        row[0]
        for row in sandbox.query(
            f"{group} FROM sandbox_order WHERE id = ANY(%s::uuid[]))", [list(moved | placed)]
        )
    }
    found = compare.differences(sandbox, house, ORDER_CHECKS[:1])
    skipped = [line for line in found if not any(key in line for key in touched)]
    house.sync("orders")
    left = compare.differences(sandbox, house, ORDER_CHECKS)
    return Drifted(seed, pages, len(moved), len(placed), skipped, left)


def deletions(sandbox: Sandbox, house: House, count: int, seed: int) -> list[str]:
    """Users deleted before each page of the list that are not flagged after one sweep more.

    `house` holds all users before.
    """
    gone: list[str] = []

    def before(asked: Asked) -> None:
        if asked.path.rstrip("/") == "/v2/user" and len(gone) < 3 * count:
            body = {"count": count, "seed": seed * 100 + len(gone)}
            gone.extend(sandbox.control("delete_users", body)["user_ids"])

    with serving(forwarding(sandbox.url, before)) as url:
        house.sync("users", SERVICE_BASE_URL=url)
    assert gone
    house.sync("users")
    house.query("DELETE FROM backoffice_lookup WHERE kind <> 'users'")
    house.sync("look-ups")
    rows = house.query("SELECT id::text FROM patients_patient WHERE missing_since IS NULL")
    return sorted(set(gone) & {row[0] for row in rows})
