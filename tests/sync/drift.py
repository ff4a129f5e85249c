"""Sync while the list changes before each page (reliability P18). No row may be skipped."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from tests.sandboxes import Sandbox
from tests.sync import compare
from tests.sync.back_office import BackOffice
from tests.sync.expected import ORDERS as ORDER_CHECKS
from tests.sync.stub_server import IncomingRequest, forwarding, serving

LONG_AGO = "2000-01-01T00:00:00+00:00"


@dataclass
class DriftResult:
    """The outcome of one seed.

    `skipped` are rows that did not change and did not arrive. `remaining` are differences after
    the next run.
    """

    seed: int
    pages: int
    changed: int
    inserted: int
    skipped: list[str]
    remaining: list[str]


def sync_during_changes(
    sandbox: Sandbox, back_office: BackOffice, seed: int, changes: int = 20, inserts: int = 3
) -> DriftResult:
    """Sync all orders into an empty mirror by an incremental run.

    Before each page, `changes` orders change and `inserts` orders are placed. A second run follows
    without changes.
    """
    back_office.query("TRUNCATE orders_order, orders_orderevent, orders_transaction CASCADE")
    back_office.query("DELETE FROM sync_syncrun")
    back_office.query(
        'INSERT INTO sync_syncrun (resource, "full", state, window_start, checkpoint,'
        " attempts, fence, fetched, created, changed, unchanged, older, unseen, unreadable,"
        f" drifted, error) SELECT 'orders', kind, state, '{LONG_AGO}', '{{}}', 0, 0, 0, 0, 0, 0,"
        " 0, 0, 0, 0, '' FROM (VALUES (true, 'done'), (false, 'due')) AS v(kind, state)"
    )
    lock, changed_ids, inserted = threading.Lock(), set[str](), set[str]()
    pages = 0

    def on_request(request: IncomingRequest) -> None:
        nonlocal pages
        if request.path != "/v3/orders":
            return
        with lock:
            pages += 1
            number = seed * 10_000 + pages
            body = {"orders": changes, "seed": number}
            changed_ids.update(sandbox.control("change", body)["order_ids"])
            inserted.update(sandbox.control("place", {"orders": inserts})["order_ids"])

    with serving(forwarding(sandbox.url, on_request)) as url:
        back_office.sync("orders", SERVICE_BASE_URL=url)
    # A redraw changes the orders of its group as well.
    group = "SELECT id::text FROM sandbox_order WHERE transaction_id IN (SELECT transaction_id"
    touched = {
        row[0]
        for row in sandbox.query(
            f"{group} FROM sandbox_order WHERE id = ANY(%s::uuid[]))",
            [list(changed_ids | inserted)],
        )
    }
    found = compare.differences(sandbox, back_office, ORDER_CHECKS[:1])
    skipped = [line for line in found if not any(key in line for key in touched)]
    back_office.sync("orders")
    remaining = compare.differences(sandbox, back_office, ORDER_CHECKS)
    return DriftResult(seed, pages, len(changed_ids), len(inserted), skipped, remaining)


def find_undetected_deletions(
    sandbox: Sandbox, back_office: BackOffice, count: int, seed: int
) -> list[str]:
    """Return the users deleted between pages that one more sweep does not flag.

    The mirror must hold all users before the call.
    """
    deleted: list[str] = []

    def on_request(request: IncomingRequest) -> None:
        if request.path.rstrip("/") == "/v2/user" and len(deleted) < 3 * count:
            body = {"count": count, "seed": seed * 100 + len(deleted)}
            deleted.extend(sandbox.control("delete_users", body)["user_ids"])

    with serving(forwarding(sandbox.url, on_request)) as url:
        back_office.sync("users", SERVICE_BASE_URL=url)
    assert deleted
    back_office.sync("users")
    back_office.query("DELETE FROM sync_lookup WHERE kind <> 'users'")
    back_office.sync("look-ups")
    rows = back_office.query("SELECT id::text FROM patients_patient WHERE missing_since IS NULL")
    return sorted(set(deleted) & {row[0] for row in rows})
