"""The mirror equals the service after each kind of trouble during a sync.

Each scenario leaves mirror and service equal, so they pass in any order and alone.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.sandboxes import Sandbox
from tests.sync import compare
from tests.sync.back_office import SYNC, BackOffice, BackOffices, end, running
from tests.sync.conftest import ORDERS, USERS, SyncedMirror
from tests.sync.expected import ALL_CHECKS, Check
from tests.sync.expected import ORDERS as ORDER_CHECKS
from tests.sync.stub_server import IncomingRequest, Reply, forwarding, serving
from tests.waiting import wait_until

Faults = Callable[..., None]


def assert_equal(synced: SyncedMirror, sample: int = 25) -> None:
    """Assert that all promoted columns and a sample of records, byte for byte, are equal."""
    found = compare.differences(synced.sandbox, synced.back_office)
    found += compare.single_differences(synced.sandbox, synced.back_office, sample)
    assert found == [], "\n".join([f"{len(found)} differences", *found[:20]])


def order_count(back_office: BackOffice) -> int:
    return int(back_office.value("SELECT count(*) FROM orders_order"))


def latest_run(back_office: BackOffice, resource: str = "orders") -> dict[str, object]:
    names = (
        "id, state, fence, fetched, created, changed, unchanged, older, unseen, error, checkpoint"
    )
    (row,) = back_office.query(
        f"SELECT {names} FROM sync_syncrun WHERE resource = %s ORDER BY id DESC LIMIT 1",
        [resource],
    )
    return dict(zip(names.split(", "), row, strict=True))


def make_lookups_due(back_office: BackOffice, count: int, but: str = "") -> None:
    """Make `count` lookups due, of all kinds except `but`."""
    back_office.query(
        "UPDATE sync_lookup SET due_at = now() WHERE (kind, key) IN (SELECT kind, key"
        " FROM sync_lookup WHERE kind <> %s ORDER BY md5(kind || key) LIMIT %s)",
        [but, count],
    )


def test_first_sync_equals_the_service(synced: SyncedMirror) -> None:
    assert order_count(synced.back_office) >= ORDERS
    assert synced.back_office.value("SELECT count(*) FROM patients_patient") >= USERS
    found = compare.differences(synced.sandbox, synced.back_office)
    found += compare.list_differences(synced.sandbox, synced.back_office)
    found += compare.single_differences(synced.sandbox, synced.back_office, 60, result_sample=200)
    assert found == [], "\n".join([f"{len(found)} differences", *found[:20]])
    assert synced.back_office.value("SELECT count(*) FROM mirror_unreadrecord") == 0
    assert synced.back_office.value("SELECT count(*) FROM core_unknownvalue") == 0
    never = "SELECT count(*) FROM sync_lookup WHERE looked_at IS NULL OR error <> ''"
    assert synced.back_office.value(never) == 0


@pytest.mark.parametrize("check", ALL_CHECKS, ids=lambda check: check.name.replace(" ", "-"))
def test_comparison_detects_a_deleted_row(synced: SyncedMirror, check: Check) -> None:
    """The other tests depend on this: each statement of the comparison can fail."""
    table = check.mirror.partition(" FROM ")[2].split()[0]
    with psycopg.connect(synced.back_office.database_url) as connection:
        rows = connection.execute(check.mirror.encode()).fetchall()
        connection.execute(
            f"DELETE FROM {table} WHERE ctid IN (SELECT ctid FROM {table} LIMIT 1)".encode()
        )
        left = connection.execute(check.mirror.encode()).fetchall()
        connection.rollback()
    assert len(left) <= len(rows) and left != rows


def test_second_sync_writes_nothing(synced: SyncedMirror) -> None:
    """Sweep, lists and lookups without changes rewrite no mirrored row."""
    synced.back_office.sync()
    before = synced.back_office.rows()
    lists = "providers users labs markers lab-tests lab-accounts physicians orders pulls"
    synced.back_office.sync("--full", *lists.split())
    # A catalog that is read again stores the time on the row of its account. Only that is written,
    # as `test_catalogs_of_all_accounts_are_as_served` proves.
    make_lookups_due(synced.back_office, 800, but="lab-account-catalog")
    synced.back_office.sync()
    assert synced.back_office.rows() == before
    sweep = synced.back_office.query(
        "SELECT state, created, changed, unchanged, unseen, drifted FROM sync_syncrun"
        " WHERE resource = 'orders' AND \"full\" ORDER BY id DESC LIMIT 1"
    )
    assert sweep[0][:3] == ("done", 0, 0) and sweep[0][3] >= ORDERS and sweep[0][4:] == (0, 0)
    assert synced.back_office.value("SELECT count(*) FROM mirror_drift") == 0


def test_row_digest_detects_a_rewritten_row(synced: SyncedMirror) -> None:
    """The test above depends on this."""
    before = synced.back_office.rows()
    synced.back_office.query(
        "UPDATE orders_order SET patient_name = patient_name"
        " WHERE id = (SELECT min(id::text)::uuid FROM orders_order)"
    )
    after = synced.back_office.rows()
    assert {table for table in before if before[table] != after[table]} == {"orders_order"}


def test_incremental_sync_brings_changed_orders(synced: SyncedMirror) -> None:
    """One incremental sync brings 500 random changes, some of them corrected results."""
    changed = set(synced.sandbox.control("change", {"orders": 400, "seed": 11})["order_ids"])
    corrected = synced.sandbox.control("change", {"orders": 100, "seed": 12, "corrected": True})
    changed |= set(corrected["order_ids"])
    assert len(changed) > 450
    synced.back_office.sync()
    assert latest_run(synced.back_office)["changed"] >= len(changed)  # type: ignore[operator]
    assert_equal(synced, sample=60)


def test_orders_placed_while_paging_are_synced(
    synced: SyncedMirror, back_offices: BackOffices
) -> None:
    """Orders are placed during a sweep into an empty mirror and during an incremental run. After
    the sweep only later orders are missing. After the incremental run none is."""
    back_office = back_offices.build(synced.sandbox.url)
    stop, placed = threading.Event(), []

    def place_orders() -> None:
        while not stop.wait(0.2):
            placed.extend(synced.sandbox.control("place", {"orders": 2})["order_ids"])

    thread = threading.Thread(target=place_orders)
    thread.start()
    try:
        back_office.sync("orders")
        synced.back_office.sync("users", "orders")
    finally:
        stop.set()
        thread.join()
    assert len(placed) >= 10
    assert compare.differences(synced.sandbox, back_office, ORDER_CHECKS) != []
    back_office.sync("orders")
    assert compare.differences(synced.sandbox, back_office, ORDER_CHECKS) == []
    synced.back_office.sync()
    assert_equal(synced)


def test_deleted_users_are_flagged_and_orders_stay(synced: SyncedMirror) -> None:
    """One list flags the deleted users and the rows that belong to them. Their orders stay."""
    deleted = synced.sandbox.control("delete_users", {"count": 15, "seed": 3})["user_ids"]
    assert len(deleted) == 15
    before = order_count(synced.back_office)
    synced.back_office.sync()
    flagged = synced.back_office.query(
        "SELECT id::text FROM patients_patient WHERE missing_since IS NOT NULL"
    )
    assert set(deleted) <= {row[0] for row in flagged}
    assert order_count(synced.back_office) == before
    assert_equal(synced)


def test_sync_succeeds_while_every_tenth_call_fails(synced: SyncedMirror, faults: Faults) -> None:
    """The service answers every tenth call of lists and lookups with 429 or 500."""
    synced.sandbox.control("change", {"orders": 150, "seed": 21})
    make_lookups_due(synced.back_office, 500)
    faults(rate=0.1, statuses=[429, 500], retry_after=0.05, seed=8)
    synced.back_office.sync("--full", "users", "orders", "pulls")
    synced.back_office.sync()
    report = synced.sandbox.control("status")["faults"]
    synced.sandbox.control("faults", method="DELETE")
    assert report["hit"]["status"] > 0.05 * report["seen"] > 20, report
    assert_equal(synced)


def spoil_reply(kind: str, reply: Reply) -> Reply:
    """S9: turn a reply into one that must not be accepted."""
    match kind:
        case "half":
            # The content length is that of the whole body, so the connection ends too early.
            return Reply(
                reply.payload[: len(reply.payload) // 2],
                200,
                {"content-length": str(len(reply.payload)), "connection": "close"},
            )
        case "html":
            return Reply(b"<html><body>Down for maintenance</body></html>", 200,
                         {"content-type": "text/html"})  # fmt: skip
        case "charset":
            return Reply(reply.payload.replace(b"Testperson", b"Testp\xe9rson"), 200)
        case _:
            body = gzip.compress(b'{"orders": [], "x": "' + b"a" * 200_000_000 + b'"}', 1)
            return Reply(body, 200, {"content-encoding": "gzip"})


def test_invalid_answers_are_not_stored_and_are_retried(synced: SyncedMirror) -> None:
    """S9: half an answer, HTML with status 200, a wrong charset and a gzip bomb are not stored.

    They are requested again, and memory stays small.
    """
    synced.sandbox.control("change", {"orders": 150, "seed": 31})
    synced.back_office.query("UPDATE sync_lookup SET due_at = now() WHERE kind = 'demographics'"
                      " AND key IN (SELECT key FROM sync_lookup"
                      " WHERE kind = 'demographics' ORDER BY md5(key) LIMIT 40)")  # fmt: skip
    pages = {1: "half", 3: "bomb"}
    details = {5: "html", 11: "half", 17: "bomb", 23: "charset"}
    seen: Counter[str] = Counter()
    done: set[str] = set()
    lock = threading.Lock()
    forward = forwarding(synced.sandbox.url, lambda request: None)

    def answer(request: IncomingRequest) -> Reply:
        reply = forward(request)
        plan = pages if request.path == "/v3/orders" else details
        name = "pages" if plan is pages else "details"
        with lock:
            seen[name] += 1
            kind = plan.get(seen[name], "")
            done.add(f"{name} {kind}")
        return spoil_reply(kind, reply) if kind else reply

    with (
        serving(answer) as url,
        running(
            synced.back_office.start(*SYNC, "orders", "look-ups", SERVICE_BASE_URL=url)
        ) as process,
    ):
        assert peak_megabytes(process, 120) < 300
    assert done >= {f"pages {kind}" for kind in pages.values()}
    assert done >= {f"details {kind}" for kind in details.values()}
    assert synced.back_office.value("SELECT count(*) FROM mirror_unreadrecord") == 0
    assert_equal(synced, sample=5)


def peak_megabytes(process: subprocess.Popen[bytes], seconds: float) -> int:
    """Return the peak memory of the process. It must end successfully."""
    peak = 0
    until = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < until:
        with contextlib.suppress(OSError, ValueError):
            status = Path(f"/proc/{process.pid}/status").read_text()
            # A zombie process has no VmHWM line.
            peak = max([peak, *(int(n) // 1024 for n in re.findall(r"VmHWM:\s+(\d+)", status))])
        time.sleep(0.1)
    assert process.poll() == 0
    return peak


def test_redirect_fails_the_run_and_is_not_followed(synced: SyncedMirror, faults: Faults) -> None:
    """S12: a redirect is not followed and fails the run visibly. The next sync catches up."""
    before = synced.back_office.rows()
    faults(rate=1.0, kinds=["redirect"], paths="/v3/orders")
    with running(synced.back_office.start(*SYNC, "orders")):
        wait_until(
            lambda: "Redirected" in str(latest_run(synced.back_office)["error"]),
            30,
            "run says redirected",
        )
    assert synced.back_office.rows() == before
    synced.sandbox.control("faults", method="DELETE")
    synced.back_office.query("UPDATE sync_syncrun SET due_at = now() WHERE state = 'due'")
    synced.back_office.expire_leases()  # Of the killed process.
    synced.back_office.sync("orders")
    assert_equal(synced, sample=5)


def test_killed_sweep_resumes_where_it_stopped(
    big_sandbox: Sandbox, back_offices: BackOffices
) -> None:
    """S15: after SIGKILL in the middle of the first sync, the same run resumes."""
    back_office = back_offices.build(big_sandbox.url)
    process = back_office.start(*SYNC, "orders")
    wait_until(lambda: order_count(back_office) >= 1_000, 60, "1,000 orders", every=0.01)
    end(process)
    before, run = order_count(back_office), latest_run(back_office)
    assert before < ORDERS and run["state"] == "running"
    assert process.returncode == -signal.SIGKILL
    back_office.sync("orders")
    again = latest_run(back_office)
    assert (again["id"], again["state"]) == (run["id"], "done")
    total = order_count(back_office)
    # It did not start over: at most one batch of a thousand was read twice.
    assert again["fetched"] <= total + 1_200  # type: ignore[operator]
    assert again["fence"] == 2
    assert compare.differences(big_sandbox, back_office, ORDER_CHECKS) == []


def test_killed_worker_loses_no_lookup(synced: SyncedMirror) -> None:
    """SIGKILL between the claim of a hundred lookups and their answers loses none of them."""
    changed = synced.sandbox.control("change", {"orders": 200, "seed": 41})["order_ids"]
    synced.back_office.sync("orders")
    make_lookups_due(synced.back_office, 300)
    due = synced.back_office.due()
    assert due > 300 and changed
    process = synced.back_office.start(*SYNC, "look-ups")
    wait_until(lambda: synced.back_office.due() < due, 60, "a first batch", every=0.01)
    end(process)
    assert 0 < synced.back_office.due() < due
    claimed = synced.back_office.value(
        "SELECT count(*) FROM sync_lookup WHERE lease_until IS NOT NULL"
    )
    assert claimed > 0, "the process held no claims when it was killed"
    synced.back_office.sync("look-ups")
    left = "SELECT count(*) FROM sync_lookup WHERE lease_until IS NOT NULL"
    assert synced.back_office.value(left) == 0
    assert_equal(synced)


def stop_outside_transaction(process: subprocess.Popen[bytes], back_office: BackOffice) -> None:
    """Send SIGSTOP while the process is in no transaction, so that it holds no row lock."""
    for _ in range(400):
        os.killpg(process.pid, signal.SIGSTOP)
        states = back_office.query(
            "SELECT state FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND state IS NOT NULL"
        )
        if states and all(state == "idle" for (state,) in states):
            return
        os.killpg(process.pid, signal.SIGCONT)
        time.sleep(0.01)
    raise AssertionError("never outside a transaction")


def test_paused_worker_writes_nothing_after_lease_expires(
    big_sandbox: Sandbox, back_offices: BackOffices
) -> None:
    """S16: a worker is paused for longer than its lease and wakes with orders in memory. It writes
    neither these orders nor the run."""
    back_office = back_offices.build(big_sandbox.url, LOG_LEVEL="INFO", SYNC_LEASE_SECONDS="600")
    answering = threading.Event()
    answering.set()

    def delay(request: object) -> None:
        time.sleep(0.05)
        assert answering.wait(60)

    with (
        serving(forwarding(big_sandbox.url, delay)) as slow,
        running(back_office.start(*SYNC, "orders", SERVICE_BASE_URL=slow)) as paused,
    ):
        wait_until(lambda: order_count(back_office) >= 1_000, 60, "1,000 orders", every=0.01)
        answering.clear()  # It waits for its next page and cannot finish.
        stop_outside_transaction(paused, back_office)
        answering.set()
        assert latest_run(back_office)["state"] == "running"
        back_office.expire_leases()
        back_office.sync("orders")
        run = latest_run(back_office)
        assert (run["state"], run["fence"]) == ("done", 2)
        assert compare.differences(big_sandbox, back_office, ORDER_CHECKS) == []
        # Any row that the paused process writes now would be visible.
        back_office.query("TRUNCATE orders_order, orders_orderevent, orders_transaction CASCADE")
        os.killpg(paused.pid, signal.SIGCONT)
        assert paused.wait(60) == 0, back_office.said()
    assert latest_run(back_office) == run
    assert order_count(back_office) == 0
    assert back_office.value("SELECT count(*) FROM orders_orderevent") == 0
    assert "another worker took over the run" in back_office.log.read_text()


def test_two_processes_sync_a_list_one_at_a_time(
    big_sandbox: Sandbox, back_offices: BackOffices
) -> None:
    """S16: two processes that sync the same list do so one after the other."""
    back_office = back_offices.build(big_sandbox.url, SYNC_LEASE_SECONDS="60")
    processes = [back_office.start(*SYNC, "pulls") for _ in range(2)]
    try:
        assert [process.wait(120) for process in processes] == [0, 0], back_office.said()
    finally:
        for process in processes:
            end(process)
    runs = back_office.query("SELECT fence, state, created FROM sync_syncrun ORDER BY id")
    assert {(fence, state) for fence, state, _ in runs} == {(1, "done")}, runs
    assert sum(created for _, _, created in runs) == runs[0][2] > 0
    pulls = [check for check in ALL_CHECKS if check.name == "historical pulls"]
    assert compare.differences(big_sandbox, back_office, pulls) == []


def test_record_is_stored_as_received(synced: SyncedMirror) -> None:
    """The stored record parses, and holds fields that no column has."""
    records = synced.back_office.query("SELECT record FROM orders_order LIMIT 200")
    assert len(records) == 200
    for (record,) in records:
        order = json.loads(record)
        assert order["lab_test"]["markers"] is not None and "requisition_form_url" in order
