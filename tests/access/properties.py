"""The API against its own description: a property-based tester makes up requests from it.

Every check of the tester holds but one: it takes any text for a good cursor, and a cursor that was
made up is refused.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.access.served import Site

_CASES: Final = re.compile(r"^\s*(\d+) generated", re.M)
_OPERATIONS: Final = re.compile(r"Tested: (\d+)")


@dataclass(frozen=True)
class Tried:
    """How it went; `said` is what the tester prints."""

    accepted: bool
    cases: int
    operations: int
    said: str


def tried(site: Site, folder: Path, *words: str) -> Tried:
    """With the token of a service account, from a folder where the tester may leave its notes."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{site.url}/api/schema/"),
            *("--header", f"Authorization: Token {site.token}", "--no-color"),
            *("--checks", "all", "--exclude-checks", "positive_data_acceptance"),
            *words,
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    cases, operations = (
        int(found[1]) if (found := shape.search(said)) else 0 for shape in (_CASES, _OPERATIONS)
    )
    return Tried(done.returncode == 0, cases, operations, said)
