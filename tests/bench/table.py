"""`python -m tests.bench.table NAME…`: print the reports of these measurements as one table."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from string import ascii_lowercase

from tests.bench.common import FOLDER, Goal, Growth, print_goals, print_growth


def main(names: Sequence[str]) -> int:
    goals: list[Goal] = []
    growth: list[Growth] = []
    seconds_by_name: dict[str, int] = {}
    for name in names:
        path = FOLDER / f"{name}.json"
        if not path.exists():
            goals.append(Goal(f"? {name}", "broke off", "its end", False))
            continue
        report = json.loads(path.read_text())
        goals += [Goal(**goal) for goal in report["goals"]]
        growth += [Growth(**row) for row in report["growth"]]
        seconds_by_name[name] = report["seconds"]
    print_goals(sorted(goals, key=_number))
    print_growth(growth)
    parts = ", ".join(f"{name} {seconds} s" for name, seconds in seconds_by_name.items())
    minutes, seconds = divmod(sum(seconds_by_name.values()), 60)
    print(f"\nseconds of each: {parts}; together {minutes} min {seconds} s")
    missed = [goal.name for goal in goals if not goal.met]
    print(f"{len(goals) - len(missed)} met, {len(missed)} missed")
    return 1 if missed else 0


def _number(goal: Goal) -> int:
    """Return the number of a goal: 10 for "10" and for "10b"."""
    first = goal.name.split()[0].rstrip(ascii_lowercase)
    return int(first) if first.isdigit() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
