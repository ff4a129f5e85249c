"""Shared parts of the measurements: clocks, goals, growth, profiles, tables and files."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER: Final = Path(os.environ.get("BENCH_FOLDER") or ROOT / "var" / "bench")
SCALE: Final = 10
"""How many times smaller the data is that growth is compared with."""
_STARTED_AT: Final = time.monotonic()


@dataclass
class Goal:
    """One measured goal.

    `value` and `goal` are texts for people, `met` is the verdict, and `missed` says by how much it
    was missed. `name` begins with the number of the goal.
    """

    name: str
    value: str
    goal: str
    met: bool
    missed: str = ""


def at_least(name: str, measured: float, limit: float, template: str = "{:.2f}") -> Goal:
    met = measured >= limit
    difference = "" if met else f"{100 * (1 - measured / limit):.0f} % short"
    return Goal(name, template.format(measured), f">= {template.format(limit)}", met, difference)


def at_most(name: str, measured: float, limit: float, template: str = "{:.2f}") -> Goal:
    met = measured <= limit
    difference = "" if met else f"{100 * (measured / limit - 1):.0f} % over"
    return Goal(name, template.format(measured), f"<= {template.format(limit)}", met, difference)


@dataclass(frozen=True)
class Growth:
    """The cost of one unit of work, at a tenth of the size and at the full size."""

    work: str
    unit: str
    small: int
    large: int
    before: float
    after: float

    def line(self) -> str:
        return (
            f"{self.work:44.44} {self.small:>9,} {self.before:10,.2f}  {self.large:>9,}"
            f" {self.after:10,.2f} {self.unit:18} {self.after / self.before:6.2f} times"
        )


def report(
    name: str, goals: list[Goal], figures: dict[str, object], growth: Sequence[Growth] = ()
) -> int:
    """Print the table, write `var/bench/<name>.json`; 0 when every goal is met, else 1."""
    seconds = round(time.monotonic() - _STARTED_AT)
    print_goals(goals)
    print_growth(growth)
    FOLDER.mkdir(parents=True, exist_ok=True)
    content = {
        "goals": [asdict(goal) for goal in goals],
        "growth": [asdict(row) for row in growth],
        "figures": figures,
        "seconds": seconds,
    }
    (FOLDER / f"{name}.json").write_text(json.dumps(content, indent=2) + "\n")
    return 0 if all(goal.met for goal in goals) else 1


def print_goals(goals: Sequence[Goal]) -> None:
    width = max((len(goal.name) for goal in goals), default=0)
    print()
    for goal in goals:
        verdict = "met" if goal.met else f"NOT MET {goal.missed}".rstrip()
        print(f"{goal.name:{width}}  {goal.value:>22}  goal {goal.goal:20} {verdict}")


def print_growth(growth: Sequence[Growth]) -> None:
    if growth:
        print("\nhow cost grows: a unit of work at a tenth of the size, and at the whole")
    for row in growth:
        print(f"  {row.line()}")


@dataclass
class TimeSpent:
    """Seconds of one piece of work: wall-clock time, and processor time of this thread."""

    wall: float = 0.0
    cpu: float = 0.0

    @contextmanager
    def measure(self) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.thread_time()
        try:
            yield
        finally:
            self.wall += time.perf_counter() - wall
            self.cpu += time.thread_time() - cpu


def median_ratio(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the median ratio of adjacent rounds, so that other load affects both sides."""
    return statistics.median(own / reference for own, reference in zip(first, second, strict=True))


class Profile:
    """Measures where the time of this thread goes: SQL statements, Python and waiting."""

    def __init__(self) -> None:
        self.statements: dict[str, TimeSpent] = defaultdict(TimeSpent)
        self.total = TimeSpent()

    @contextmanager
    def measure_thread(self) -> Iterator[None]:
        from django.db import connection

        with connection.execute_wrapper(self._execute), self.total.measure():
            yield

    def _execute(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        with self.statements[" ".join(sql.split())[:90]].measure():
            return execute(sql, params, many, context)

    @property
    def sql(self) -> TimeSpent:
        times = self.statements.values()
        return TimeSpent(sum(item.wall for item in times), sum(item.cpu for item in times))

    def show(self, work: str, count: int = 6) -> None:
        total, sql = self.total, self.sql
        python = total.cpu - sql.cpu
        waiting = max(0.0, total.wall - sql.wall - python)
        print(f"\nwhere {total.wall:.2f} s of {work} go:")
        parts = {"statements": sql.wall, "Python": python, "COPY and other waiting": waiting}
        for name, seconds in parts.items():
            print(f"  {seconds:7.2f} s  {100 * seconds / total.wall:3.0f} %  {name}")
        slowest = sorted(self.statements.items(), key=lambda item: -item[1].wall)
        for statement, spent in slowest[:count]:
            print(f"  {spent.wall:7.2f} s         {statement}")


def explain(
    goals: Sequence[Goal], numbers: str, description: str, work: Callable[[], object]
) -> None:
    """Repeat the work with a profile and print it, if a goal with one of these numbers is
    missed."""
    if all(goal.met for goal in goals if goal.name.split()[0] in numbers.split()):
        return
    profile = Profile()
    with profile.measure_thread():
        work()
    profile.show(description)


def execute(statement: str) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(statement)


def size_of(*tables: str) -> int:
    """Return the bytes on disk, with indexes."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest(%s::text[]) AS name",
            [list(tables)],
        )
        return int(cursor.fetchone()[0])


_MEASURED: Final = """
import resource, subprocess, sys
status = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)
"""
"""Linux counts for a process the memory of its parent at its start, so the parent must be small."""


def peak_of(command: list[str], environment: dict[str, str]) -> tuple[float, int]:
    """Run a command; return its wall-clock seconds and its peak memory in MB."""
    measuring_command = [sys.executable, "-c", _MEASURED, *command]
    started_at = time.perf_counter()
    process = subprocess.run(
        measuring_command, cwd=ROOT, env=environment, check=False, stdout=subprocess.PIPE
    )
    seconds = time.perf_counter() - started_at
    if process.returncode:
        raise SystemExit(f"{' '.join(command[1:4])} failed with status {process.returncode}")
    return seconds, int(process.stdout) // (1024 * 1024 if sys.platform == "darwin" else 1024)
