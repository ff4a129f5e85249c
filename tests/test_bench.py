"""Every measurement of `./run bench` finishes, in a small size, and reports its goals.

Figures are not checked: what a machine that runs tests measures means nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from backoffice.devtools.launcher import PROOFS
from tests import databases
from tests.bench import list_comparison

ROOT = Path(__file__).resolve().parent.parent
SMALL_SIZES: Final = {
    "mirror": {"BENCH_ORDERS": "200", "BENCH_ROUNDS": "1"},
    "inbox": {"BENCH_ROUNDS": "1", "BENCH_REQUESTS": "40", "BENCH_EVENTS": "80"},
    "wearables": {"BENCH_SAMPLES": "6000", "BENCH_ROUNDS": "1"},
    "commands": {"BENCH_ROUNDS": "1"},
    "workers": {
        "BENCH_ROUNDS": "1",
        "BENCH_EVENTS": "80",
        "BENCH_SYNC": "10",
    },
    "pages": {"BENCH_ORDERS": "300", "BENCH_SMALL": "300", "BENCH_EVERY": "60"},
    "demo": {"BENCH_PACKAGES": "kept", "BENCH_OPENED": "0"},
}
GOAL_NUMBERS: Final = {
    "mirror": {"1", "2", "3", "4"},
    "inbox": {"5", "6"},
    "wearables": {"7", "8", "9"},
    "pages": {"10", "10b", "11", "12"},
    "commands": {"13"},
    "workers": {"14"},
    "demo": {"15"},
}
TIMEOUT_SECONDS: Final = 300


@pytest.fixture
def database() -> Iterator[str]:
    """An own database. Generated data sets beside it are dropped, too."""
    url = databases.migrated_database(os.environ["DATABASE_URL"])
    yield url
    databases.drop(url)
    maintenance_url = urlunsplit(urlsplit(url)._replace(path="/postgres"))
    with closing(psycopg.connect(maintenance_url, autocommit=True)) as connection:
        worlds = connection.execute("SELECT datname FROM pg_database WHERE datname ~ '^world_300_'")
        for (name,) in worlds.fetchall():
            connection.execute(
                sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            )


def test_every_goal_has_a_measurement() -> None:
    assert set(PROOFS["bench"]) == SMALL_SIZES.keys() == GOAL_NUMBERS.keys()
    numbers = {number for some in GOAL_NUMBERS.values() for number in some}
    assert numbers == {*map(str, range(1, 16)), "10b"}


@pytest.mark.parametrize("name", SMALL_SIZES)
def test_measurement_finishes_and_reports_goals(name: str, database: str, tmp_path: Path) -> None:
    done, report = _measure(name, database, tmp_path / f"{name}.json")
    assert {goal["name"].split()[0] for goal in report["goals"]} == GOAL_NUMBERS[name]
    for goal in report["goals"]:
        assert goal["value"] and goal["goal"] and goal["met"] in (True, False), goal
        assert goal["name"] in done.stdout
        assert goal["met"] or f"NOT MET {goal['missed']}" in done.stdout
    assert done.returncode == (0 if all(goal["met"] for goal in report["goals"]) else 1)
    if name == "pages":
        _check_compared_lists(report["figures"]["lists"])


def _check_compared_lists(pages: list[dict[str, Any]]) -> None:
    """Check that the three lists show the same number of orders."""
    assert len(pages) == 5
    for page in pages:
        matches = page["matches"]
        assert matches.keys() == list_comparison.PATHS.keys()
        assert len(set(matches.values())) == 1 and int(matches["ours"]) > 0, page


def _measure(
    name: str, database: str, written: Path
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Run a measurement in a small size; return its process and the report that it has written."""
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        "DATABASE_URL": database,
        "LOCAL": "1",
        "BENCH_FOLDER": str(written.parent),
        **SMALL_SIZES[name],
    }
    done = subprocess.run(
        [sys.executable, "-m", f"tests.bench.{name}"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr[-3000:]
    assert written.exists(), f"{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    return done, json.loads(written.read_text())
