"""Restore a backup that is older than the state of the service."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from backoffice.outbox.models import CommandRecord
from tests import databases
from tests.outbox import workers
from tests.outbox.records import CommandCase
from tests.outbox.stress import PreparedCommand, enqueue_cases
from tests.outbox.worker_setup import set_up_workers
from tests.outbox.workers import environment
from tests.sandboxes import running
from tests.sync.back_office import BackOffice

State = CommandRecord.State
SETTLE_SECONDS = 1
UNSENT_KINDS = ("order.create", "order.cancel", "patient.create")
"""Kinds of the commands that are backed up and not sent before the database is lost."""


@contextlib.contextmanager
def empty_database() -> Iterator[str]:
    """Create a database without tables and yield its URL."""
    url = os.environ["DATABASE_URL"]
    name = f"test_restored_{os.getpid()}"
    database_url = urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
    databases.drop(database_url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield database_url
    finally:
        databases.drop(database_url)


def lose_and_restore_database(empty: str, tmp_path: Path, cases: Sequence[CommandCase]) -> int:
    """Enqueue one command of each kind, back up, send, and restore the backup into `empty`.

    Asserts that each command is carried out exactly once. Returns the number of commands.
    """
    folder = tmp_path / "backup"
    settings = {
        "OUTBOX_SETTLE_SECONDS": str(SETTLE_SECONDS),
        "REPORT_FOLDER": str(tmp_path / "reports"),
    }
    with (
        running(users=30, orders=40, seed=51) as sandbox,
        set_up_workers(sandbox, environment(), tmp_path / "log") as worker_setup,
    ):
        live = BackOffice(environment()["DATABASE_URL"], sandbox.url, tmp_path / "live", settings)
        sent = enqueue_cases(worker_setup, cases)
        unsent = enqueue_cases(
            worker_setup, [case for case in cases if case.command_type.kind in UNSENT_KINDS]
        )
        live.manage("backup", str(folder))
        CommandRecord.objects.filter(pk__in=[one.row.pk for one in unsent]).delete()
        worker_setup.workers.work()
        for one in sent:
            one.row.refresh_from_db()
            assert one.row.state == State.DONE, (one.row.kind, one.row.state, one.row.refusal)
        restored = BackOffice(empty, sandbox.url, tmp_path / "restored", settings)
        restored.manage("restore", str(folder))
        last_write = worker_setup.last_write_number()
        with workers.start_workers(
            restored.environment(), tmp_path / "workers"
        ) as restored_workers:
            _settle_all(restored, restored_workers)
            assert worker_setup.writes(last_write) == [], "on hold, nothing is sent"
            states = [state for _, state in _states(restored, unsent)]
            assert states == ["waiting"] * len(unsent)
            restored.manage("resumesending")
            _settle_all(restored, restored_workers)
        for one in (*sent, *unsent):
            effects = (
                one.case.count_effects(worker_setup.records, one.command, one.row.pk)
                - one.effects_before
            )
            assert effects == 1, one.case.command_type.kind
    for one, (kind, state) in zip(sent, _states(restored, sent), strict=True):
        # Where a lookup cannot tell what happened, a person decides: nothing is sent again.
        assert state in ({"done"} if one.case.lookup_confirms else {"done", "undecided"}), (
            kind,
            state,
        )
    assert {state for _, state in _states(restored, unsent)} == {"done"}
    return len(sent) + len(unsent)


def _states(back_office: BackOffice, prepared: list[PreparedCommand]) -> list[tuple[str, str]]:
    state_by_id = {
        key: (kind, state)
        for key, kind, state in back_office.query(
            "SELECT id, kind, state FROM outbox_commandrecord"
        )
    }
    return [state_by_id[one.row.pk] for one in prepared]


def _settle_all(back_office: BackOffice, restored_workers: workers.Workers) -> None:
    """Work until no command is under way, except those that wait for a person or are on hold."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        back_office.query("UPDATE outbox_commandrecord SET due_at = now() WHERE due_at > now()")
        restored_workers.work()
        if not back_office.value(
            "SELECT count(*) FROM outbox_commandrecord WHERE state IN ('sending', 'uncertain')"
        ):
            return
        time.sleep(0.3)
    raise AssertionError(back_office.query("SELECT kind, state, looks FROM outbox_commandrecord"))
