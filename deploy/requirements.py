"""`python deploy/requirements.py > deploy/requirements.lock`: what runs in production.

The part of the top `requirements.lock` that `[project] dependencies` of pyproject.toml need,
directly or not, on any Python and machine, with its hashes. A test compares.
"""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
HEAD = "# The part of requirements.lock that runs in production: see deploy/requirements.py\n"


def subset() -> str:
    locked = _locked()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [Requirement(line) for line in project["dependencies"]]
    found: set[str] = set()
    seen: set[tuple[str, str]] = set()
    while wanted:
        one = wanted.pop()
        name = canonicalize_name(one.name)
        if name not in locked:
            continue  # for another platform
        found.add(name)
        for extra in ("", *sorted(one.extras)):
            if (name, extra) not in seen:
                seen.add((name, extra))
                wanted += _needed(name, extra)
    return HEAD + "".join(locked[name] for name in sorted(found))


def _needed(name: str, extra: str) -> list[Requirement]:
    """What a package needs for an extra, or without one. What only some Pythons or machines need is
    taken along: it is locked, too."""
    try:
        lines = requires(name) or []
    except PackageNotFoundError:
        return []
    found = []
    for line in lines:
        requirement = Requirement(line)
        extras = set(re.findall(r"extra == ['\"]([^'\"]+)", str(requirement.marker or "")))
        if (extra in extras) if extra else not extras:
            found.append(requirement)
    return found


def _locked() -> dict[str, str]:
    """Lines of the lock by package."""
    found: dict[str, str] = {}
    name = ""
    for line in (ROOT / "requirements.lock").read_text().splitlines(keepends=True):
        if match := re.match(r"([A-Za-z0-9._-]+)==", line):
            name = canonicalize_name(match[1])
            found[name] = ""
        if name and not line.startswith("#"):
            found[name] += line
    return found


if __name__ == "__main__":
    print(subset(), end="")
