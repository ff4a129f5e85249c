"""Split `requirements.lock` into its parts, with hashes: run `python deploy/requirements.py`.

`deploy/requirements.lock` is what runs in production: what `[project] dependencies` of
pyproject.toml need, directly or not, on any Python and machine. What its own lock adds is for
`backoffice/devtools/embedded/`. `./run demo` installs these two and no more. A test compares.
"""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
HEAD = "# The part of requirements.lock that {}: see deploy/requirements.py\n"


def parts() -> dict[str, str]:
    """Return the content of each lock file by path."""
    locked = _locked()
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    production = _closure(declared["project"]["dependencies"], locked)
    embedded = _closure(declared["dependency-groups"]["embedded"], locked) - production
    return {
        "deploy/requirements.lock": _text("runs in production", production, locked),
        "backoffice/devtools/embedded/requirements.lock": _text(
            "embedded servers add", embedded, locked
        ),
    }


def _text(does: str, names: set[str], locked: dict[str, str]) -> str:
    return HEAD.format(does) + "".join(locked[name] for name in sorted(names))


def _closure(dependencies: list[str], locked: dict[str, str]) -> set[str]:
    wanted = [Requirement(line) for line in dependencies]
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
    return found


def _needed(name: str, extra: str) -> list[Requirement]:
    """Return what a package requires for an extra, or without one.

    Requirements of some Python versions or platforms only are included: they are locked, too.
    """
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
    """Return the lines of the lock by package."""
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
    for path, text in parts().items():
        (ROOT / path).write_text(text)
