"""What the documents of evidence name exists: tests, proofs of `./run`, files.

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
    """The tests a file defines, read and not run."""
    tree = ast.parse((ROOT / path).read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def is_there(name: str) -> bool:
    """Whether a test, a proof of `./run` or a file exists; other words are no names."""
    path, _, test = name.partition("::")
    if test:
        return (ROOT / path).is_file() and test in functions_of(path)
    if command := re.fullmatch(r"\./run (bench|chaos) (\w+)", name):
        return command[2] in PROOFS[command[1]]
    return not FILE.fullmatch(name) or (ROOT / name).is_file()


def missing(text: str) -> list[str]:
    """What a text names between backticks that is not there."""
    return [name for name in re.findall(r"`([^`]+)`", text) if not is_there(name)]


def main() -> int:
    """Name what the documents name and nobody has; 1 when there is any."""
    lost = [(name, one) for name in DOCUMENTS for one in missing((ROOT / name).read_text())]
    for document, name in lost:
        print(f"{document} names {name}, which does not exist")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
