"""What every chaos run shares: proofs one after the other, their verdicts, a file of goals."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest import mock

import django.db.models  # noqa: F401  # the next but one cannot be the first of Django's to come
from django.core.management import call_command
from django.db.backends.postgresql.operations import DatabaseOperations

from tests import emptying
from tests.bench.common import Goal, report
from tests.sync.house import Houses

Proof = Callable[[Path, Houses], list[Goal]]


def run(name: str, proofs: Sequence[Proof], figures: dict[str, object]) -> int:
    """Run the proofs the command line names, else all; 0 when every goal is met, else 1."""
    goals: list[Goal] = []
    wanted = sys.argv[1:] or [proof.__name__ for proof in proofs]
    with tempfile.TemporaryDirectory(prefix="chaos-") as place:
        folder = Path(place)
        houses = Houses(os.environ["DATABASE_URL"], folder)
        try:
            for proof in proofs:
                if proof.__name__ not in wanted:
                    continue
                print(f"{proof.__name__}: {(proof.__doc__ or '').splitlines()[0]}", flush=True)
                begun = time.monotonic()
                try:
                    goals += proof(folder, houses)
                except Exception:
                    # A proof that breaks off is a proof that failed; the others still run.
                    traceback.print_exc()
                    goals.append(Goal(proof.__name__, "broke off", "no error", False))
                figures[f"{proof.__name__}_seconds"] = round(time.monotonic() - begun, 1)
        finally:
            houses.close()
    return report(name, goals, figures)


def emptied_database() -> None:
    """Our tables, without a row: also those that refuse to have any taken away."""
    call_command("migrate", verbosity=0)
    with mock.patch.object(DatabaseOperations, "sql_flush", emptying.statements):
        call_command("flush", interactive=False, verbosity=0)
