"""Check that tests, proofs of `./run` and files exist that the documents of evidence name.

`python -m tests.evidence` is a step of `./run check`. It reads the tests and does not run them.
"""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

from backoffice.devtools.launcher import PROOFS

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = ("docs/faults.md", "docs/asvs.csv", "docs/specification.md")
FILE = re.compile(r"[\w./-]+\.(py|md|html|toml|lock|js|css|csv|yml|yaml|conf)")


@cache
def functions_of(path: str) -> frozenset[str]:
    """Return the functions that a file defines, without running it."""
    tree = ast.parse((ROOT / path).read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def exists(name: str) -> bool:
    """Return whether a test, a proof of `./run` or a file exists. Other words are not names."""
    path, _, test = name.partition("::")
    if test:
        return (ROOT / path).is_file() and test in functions_of(path)
    if command := re.fullmatch(r"\./run (bench|chaos) (\w+)", name):
        return command[2] in PROOFS[command[1]]
    return not FILE.fullmatch(name) or (ROOT / name).is_file()


def missing_names(text: str) -> list[str]:
    """Return the names between backticks in a text that do not exist."""
    return [name for name in re.findall(r"`([^`]+)`", text) if not exists(name)]


def main() -> int:
    """Print the names in the documents that do not exist, and return 1 if there is any."""
    unknown = [
        (name, one) for name in DOCUMENTS for one in missing_names((ROOT / name).read_text())
    ]
    for document, name in unknown:
        print(f"{document} names {name}, which does not exist")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
