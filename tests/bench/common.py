"""What every measurement shares: clocks, goals, growth, where time goes, a table, a file."""

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
"""How much smaller the size is with which growth is told."""
_BEGUN: Final = time.monotonic()


@dataclass
class Goal:
    """One measured goal: `value` and `goal` are text for people, `met` the verdict; `missed` says
    by how much. `name` begins with the number of the goal."""

    name: str
    value: str
    goal: str
    met: bool
    missed: str = ""


def at_least(name: str, measured: float, limit: float, words: str = "{:.2f}") -> Goal:
    met = measured >= limit
    short = "" if met else f"{100 * (1 - measured / limit):.0f} % short"
    return Goal(name, words.format(measured), f">= {words.format(limit)}", met, short)


def at_most(name: str, measured: float, limit: float, words: str = "{:.2f}") -> Goal:
    met = measured <= limit
    over = "" if met else f"{100 * (measured / limit - 1):.0f} % over"
    return Goal(name, words.format(measured), f"<= {words.format(limit)}", met, over)


@dataclass(frozen=True)
class Growth:
    """What one unit of some work costs at a tenth of the size, and at the whole."""

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
    seconds = round(time.monotonic() - _BEGUN)
    print_goals(goals)
    print_growth(growth)
    FOLDER.mkdir(parents=True, exist_ok=True)
    content = {
        "goals": [asdict(goal) for goal in goals],
        "growth": [asdict(one) for one in growth],
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
    for one in growth:
        print(f"  {one.line()}")


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


def beside(ours: Sequence[float], others: Sequence[float]) -> float:
    """Ratio of neighbouring turns, so that what else the machine does weighs on both."""
    return statistics.median(mine / other for mine, other in zip(ours, others, strict=True))


class Profile:
    """Where the time of this thread goes while it is open: each statement, Python, waiting."""

    def __init__(self) -> None:
        self.statements: dict[str, Spent] = defaultdict(Spent)
        self.whole = Spent()

    @contextmanager
    def taken(self) -> Iterator[None]:
        from django.db import connection

        with connection.execute_wrapper(self._execute), self.whole.timed():
            yield

    def _execute(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        with self.statements[" ".join(sql.split())[:90]].timed():
            return execute(sql, params, many, context)

    @property
    def sql(self) -> Spent:
        some = self.statements.values()
        return Spent(sum(one.wall for one in some), sum(one.cpu for one in some))

    def show(self, what: str, most: int = 6) -> None:
        whole, sql = self.whole, self.sql
        python = whole.cpu - sql.cpu
        waiting = max(0.0, whole.wall - sql.wall - python)
        print(f"\nwhere {whole.wall:.2f} s of {what} go:")
        parts = {"statements": sql.wall, "Python": python, "COPY and other waiting": waiting}
        for name, seconds in parts.items():
            print(f"  {seconds:7.2f} s  {100 * seconds / whole.wall:3.0f} %  {name}")
        slowest = sorted(self.statements.items(), key=lambda one: -one[1].wall)
        for statement, spent in slowest[:most]:
            print(f"  {spent.wall:7.2f} s         {statement}")


def explain(goals: Sequence[Goal], numbers: str, what: str, work: Callable[[], object]) -> None:
    """Where a goal of these numbers is missed: do the work once more, and say where time goes."""
    if all(goal.met for goal in goals if goal.name.split()[0] in numbers.split()):
        return
    profile = Profile()
    with profile.taken():
        work()
    profile.show(what)


def execute(statement: str) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(statement)


def size_of(*tables: str) -> int:
    """Bytes on disk, indexes included."""
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
"""Linux counts for a process what its parent held when it started it: a small parent is needed."""


def peak_of(command: list[str], environment: dict[str, str]) -> tuple[float, int]:
    """Run a command to its end; seconds by the clock and its peak memory in MB."""
    measured = [sys.executable, "-c", _MEASURED, *command]
    started = time.perf_counter()
    ended = subprocess.run(measured, cwd=ROOT, env=environment, check=False, stdout=subprocess.PIPE)
    seconds = time.perf_counter() - started
    if ended.returncode:
        raise SystemExit(f"{' '.join(command[1:4])} failed with status {ended.returncode}")
    return seconds, int(ended.stdout) // (1024 * 1024 if sys.platform == "darwin" else 1024)
