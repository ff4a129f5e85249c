"""Shared by all chaos runs: run proofs one after the other and report their goals."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest import mock

import django.db.models  # noqa: F401  # must be imported before the PostgreSQL backend
from django.core.management import call_command
from django.db.backends.postgresql.operations import DatabaseOperations

from tests import table_clearing
from tests.bench.common import Goal, report
from tests.sync.back_office import BackOffices

Proof = Callable[[Path, BackOffices], list[Goal]]


def run(name: str, proofs: Sequence[Proof], figures: dict[str, object]) -> int:
    """Run the proofs named on the command line, or all. Return 0 when every goal is met, else 1."""
    goals: list[Goal] = []
    names = sys.argv[1:] or [proof.__name__ for proof in proofs]
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder_name:
        folder = Path(folder_name)
        back_offices = BackOffices(os.environ["DATABASE_URL"], folder)
        try:
            for proof in proofs:
                if proof.__name__ not in names:
                    continue
                print(f"{proof.__name__}: {(proof.__doc__ or '').splitlines()[0]}", flush=True)
                started = time.monotonic()
                try:
                    goals += proof(folder, back_offices)
                except Exception:
                    # A proof that raises has failed. The others still run.
                    traceback.print_exc()
                    goals.append(Goal(proof.__name__, "broke off", "no error", False))
                figures[f"{proof.__name__}_seconds"] = round(time.monotonic() - started, 1)
        finally:
            back_offices.close()
    return report(name, goals, figures)


def empty_all_tables() -> None:
    """Migrate the database and delete all rows, also of tables that refuse deletions."""
    call_command("migrate", verbosity=0)
    with mock.patch.object(DatabaseOperations, "sql_flush", table_clearing.flush_statements):
        call_command("flush", interactive=False, verbosity=0)
