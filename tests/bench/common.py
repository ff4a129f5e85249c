"""What every measurement shares: clocks, a table on the screen, a file of goals."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass
class Goal:
    """One measured goal: `value` and `goal` are text for people, `met` the verdict."""

    name: str
    value: str
    goal: str
    met: bool


def report(name: str, goals: list[Goal], figures: dict[str, object]) -> int:
    """Print the table, write `var/bench/<name>.json`; 0 when every goal is met, else 1."""
    width = max(len(goal.name) for goal in goals)
    print()
    for goal in goals:
        verdict = "met" if goal.met else "NOT MET"
        print(f"{goal.name:{width}}  {goal.value:>22}  goal {goal.goal:20} {verdict}")
    folder = ROOT / "var" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    content = {"goals": [asdict(goal) for goal in goals], "figures": figures}
    (folder / f"{name}.json").write_text(json.dumps(content, indent=2) + "\n")
    return 0 if all(goal.met for goal in goals) else 1


@dataclass
class Spent:
    """Seconds of one piece of work: by the clock, and of this thread's processor time."""

    wall: float = 0.0
    cpu: float = 0.0

    @contextmanager
    def timed(self) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.thread_time()
        try:
            yield
        finally:
            self.wall += time.perf_counter() - wall
            self.cpu += time.thread_time() - cpu


def peak_of(command: list[str], environment: dict[str, str]) -> tuple[float, int]:
    """Run a command to its end; seconds by the clock and its peak memory in MB."""
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command[1:4])} failed with status {status}")
    return time.perf_counter() - started, _megabytes(usage)


def _megabytes(usage: resource.struct_rusage) -> int:
    return usage.ru_maxrss // (1024 * 1024 if sys.platform == "darwin" else 1024)
