"""The API against its own description, with a property-based tester.

All checks of the tester are active except one: it expects any text to be a valid cursor, but an
invented cursor is refused.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.access.served_data_set import Site

_CASES: Final = re.compile(r"^\s*(\d+) generated", re.M)
_OPERATIONS: Final = re.compile(r"Tested: (\d+)")


@dataclass(frozen=True)
class TestRun:
    """The result of a run; `output` is the output of the tester."""

    accepted: bool
    cases: int
    operations: int
    output: str


def run_tester(site: Site, folder: Path, *options: str) -> TestRun:
    """Run the tester with the token of a service account, in a folder for its files."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{site.url}/api/schema/"),
            *("--header", f"Authorization: Token {site.token}", "--no-color"),
            *("--checks", "all", "--exclude-checks", "positive_data_acceptance"),
            *options,
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    output = done.stdout + done.stderr
    cases, operations = (
        int(found[1]) if (found := shape.search(output)) else 0 for shape in (_CASES, _OPERATIONS)
    )
    return TestRun(done.returncode == 0, cases, operations, output)
