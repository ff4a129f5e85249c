"""A backup is restored that knows less than the service: the small proof and the large one."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from backoffice.models import CommandRecord
from tests import databases
from tests.outbox import workers
from tests.outbox.proving import proving
from tests.outbox.scene import Case
from tests.outbox.storm import Asked, prepared
from tests.outbox.workers import environment
from tests.sandboxes import running
from tests.sync.house import House

State = CommandRecord.State
SETTLE = 1
NEVER_SENT = ("order.create", "order.cancel", "patient.create")
"""Kinds that are asked once more, and reach nobody before the loss."""


@contextlib.contextmanager
def empty_database() -> Iterator[str]:
    """Address of a new database without tables."""
    url = os.environ["DATABASE_URL"]
    name = f"test_restored_{os.getpid()}"
    made = urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
    databases.drop(made)
    with psycopg.connect(url, autocommit=True) as door:
        door.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield made
    finally:
        databases.drop(made)


def lost_and_restored(empty: str, tmp_path: Path, cases: Sequence[Case]) -> int:
    """One command of each kind is asked, backed up and sent; the database is lost and restored into
    an empty one. Asserts that nothing is done twice, or not at all; returns how many commands."""
    folder = tmp_path / "backup"
    settings = {"OUTBOX_SETTLE_SECONDS": str(SETTLE), "REPORT_FOLDER": str(tmp_path / "reports")}
    with (
        running(users=30, orders=40, seed=51) as sandbox,
        proving(sandbox, environment(), tmp_path / "log") as proof,
    ):
        live = House(environment()["DATABASE_URL"], sandbox.url, tmp_path / "live", settings)
        sent = prepared(proof, cases)
        unsent = prepared(proof, [case for case in cases if case.kind.kind in NEVER_SENT])
        live.manage("backup", str(folder))
        CommandRecord.objects.filter(pk__in=[one.row.pk for one in unsent]).delete()
        proof.workers.work()
        for one in sent:
            one.row.refresh_from_db()
            assert one.row.state == State.DONE, (one.row.kind, one.row.state, one.row.refusal)
        restored = House(empty, sandbox.url, tmp_path / "restored", settings)
        restored.manage("restore", str(folder))
        after = proof.last_write()
        with workers.ready(restored.environment(), tmp_path / "workers") as others:
            _settled(restored, others)
            assert proof.writes(after) == [], "on hold, nothing is sent"
            waiting = [state for _, state in _states(restored, unsent)]
            assert waiting == ["waiting"] * len(unsent)
            restored.manage("resumesending")
            _settled(restored, others)
        for one in (*sent, *unsent):
            effects = one.case.effects(proof.scene, one.command, one.row.pk) - one.before
            assert effects == 1, one.case.kind.kind
    for one, (kind, state) in zip(sent, _states(restored, sent), strict=True):
        # Where a look-up cannot tell what happened, a person decides: nothing is sent again.
        assert state in ({"done"} if one.case.finds else {"done", "undecided"}), (kind, state)
    assert {state for _, state in _states(restored, unsent)} == {"done"}
    return len(sent) + len(unsent)


def _states(house: House, asked: list[Asked]) -> list[tuple[str, str]]:
    found = {
        key: (kind, state)
        for key, kind, state in house.query("SELECT id, kind, state FROM backoffice_commandrecord")
    }
    return [found[one.row.pk] for one in asked]


def _settled(house: House, others: workers.Workers) -> None:
    """Nothing is under way but what waits for a person or for the hold."""
    ends = time.monotonic() + 60
    while time.monotonic() < ends:
        house.query("UPDATE backoffice_commandrecord SET due_at = now() WHERE due_at > now()")
        others.work()
        if not house.value(
            "SELECT count(*) FROM backoffice_commandrecord WHERE state IN ('sending', 'uncertain')"
        ):
            return
        time.sleep(0.3)
    raise AssertionError(house.query("SELECT kind, state, looks FROM backoffice_commandrecord"))
