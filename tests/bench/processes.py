"""Processor time and memory of processes, as the system reports them. Linux only."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def process_tree(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    children: dict[int, list[int]] = defaultdict(list)
    for path in Path("/proc").glob("[0-9]*"):
        if fields := _stat(int(path.name)):
            children[int(fields[1])].append(int(path.name))
    pids = [pid]
    for member in pids:
        pids += children[member]
    return pids


def alive(pid: int) -> bool:
    """Return whether the process runs. An ended process that waits to be collected does not."""
    return (_stat(pid) or "Z")[0] != "Z"


def parent_of(pid: int) -> int:
    return int(_stat(pid)[1])


def processor_seconds(pid: int) -> float:
    """Return the processor seconds of a process and its descendants, with those that have ended."""
    return sum(
        sum(map(int, fields[11:15] if member == pid else fields[11:13])) / _TICK
        for member in process_tree(pid)
        if (fields := _stat(member))
    )


def memory_of(pid: int) -> dict[str, float]:
    """Return the MB of a process and its descendants by kind. Shared pages are divided.

    A process whose command line has no known kind counts as the kind of its parent.
    """
    kinds: dict[int, str] = {}
    sizes: dict[str, float] = defaultdict(float)
    for member in process_tree(pid):
        if fields := _stat(member):
            kinds[member] = _kind(_command(member)) or kinds.get(int(fields[1]), "other")
            sizes[kinds[member]] += _megabytes(member)
    return {name: round(size, 1) for name, size in sorted(sizes.items())}


KINDS_BY_COMMAND = {
    " beat ": "beat",
    "granian": "web",
    "-m sandbox": "sandbox",
    "postgres": "PostgreSQL",
    "valkey": "Redis",
    "redis-server": "Redis",
    "backoffice.devtools.launcher": "launcher",
}


def _kind(command: str) -> str:
    if "--queues " in command:
        return f"worker {command.split('--queues ')[1].split()[0]}"
    return next((name for text, name in KINDS_BY_COMMAND.items() if text in command), "")


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
        pass  # It belongs to another user, or it ended.
    return 0.0


def _stat(pid: int) -> list[str]:
    """Return the fields of `/proc/<pid>/stat` after the name: state, parent, and so on.

    Empty if the process has ended.
    """
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
