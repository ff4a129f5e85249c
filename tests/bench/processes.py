"""What the system tells of processes: processor time, and memory by what they are. Linux only."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def family(pid: int) -> list[int]:
    """A process and all below it."""
    below: dict[int, list[int]] = defaultdict(list)
    for path in Path("/proc").glob("[0-9]*"):
        if fields := _stat(int(path.name)):
            below[int(fields[1])].append(int(path.name))
    found = [pid]
    for one in found:
        found += below[one]
    return found


def alive(pid: int) -> bool:
    """Whether it runs; one that has ended and waits to be collected does not."""
    return (_stat(pid) or "Z")[0] != "Z"


def parent_of(pid: int) -> int:
    return int(_stat(pid)[1])


def processor_seconds(pid: int) -> float:
    """Of a process and of all below it, those that have ended included."""
    return sum(
        sum(map(int, fields[11:15] if one == pid else fields[11:13])) / _TICK
        for one in family(pid)
        if (fields := _stat(one))
    )


def memory_of(pid: int) -> dict[str, float]:
    """MB of a process and those below it, by what they do; shared pages are shared out. One whose
    command line says nothing does what its parent does."""
    does: dict[int, str] = {}
    found: dict[str, float] = defaultdict(float)
    for one in family(pid):
        if fields := _stat(one):
            does[one] = _what(_command(one)) or does.get(int(fields[1]), "other")
            found[does[one]] += _megabytes(one)
    return {name: round(size, 1) for name, size in sorted(found.items())}


SIGNS = {
    " beat ": "beat",
    "granian": "web",
    "-m sandbox": "sandbox",
    "postgres": "PostgreSQL",
    "valkey": "Redis",
    "redis-server": "Redis",
    "backoffice.devtools.launcher": "launcher",
}


def _what(words: str) -> str:
    if "--queues " in words:
        return f"worker {words.split('--queues ')[1].split()[0]}"
    return next((name for sign, name in SIGNS.items() if sign in words), "")


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""


def _megabytes(pid: int) -> float:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass  # Of another user, or gone.
    return 0.0


def _stat(pid: int) -> list[str]:
    """Fields of `/proc/<pid>/stat` after the name: state, parent, …; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
