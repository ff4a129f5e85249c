"""Goal 15: `./run demo` in a fresh copy of the tree, from the command to a page full of orders.

Packages are installed anew, out of the cache that this machine has; `BENCH_PACKAGES=kept` uses
those of this checkout. Then the memory of every process, idle and after a while of work.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backoffice.settings")
os.environ.setdefault("LOCAL", "1")
django.setup()

from backoffice.devtools.embedded import dies_with_parent, free_port  # noqa: E402
from tests.bench.common import ROOT, Goal, at_most, report  # noqa: E402
from tests.bench.person import Line  # noqa: E402
from tests.bench.processes import memory_of  # noqa: E402

SECONDS: Final = 30
MOST_SECONDS: Final = 300
FULL: Final = 50
"""Orders of a full page."""
OPENED: Final = int(os.environ.get("BENCH_OPENED", "20"))
"""Pages that are opened before memory is looked at again."""
NOT_COPIED: Final = (".git", ".venv", "var", ".*_cache")
STEPS: Final = ("Making", "Installing", "Starting", "Bringing", "Back office")
SETTINGS: Final = ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "PYTHONPATH")


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        tree = Path(name) / "tree"
        Path(name).chmod(0o711)  # The servers of root run as somebody else.
        kept = os.environ.get("BENCH_PACKAGES") == "kept"
        not_copied = NOT_COPIED if kept else (*NOT_COPIED, "__pycache__")
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*not_copied))
        if kept:
            (tree / ".venv").symlink_to((ROOT / ".venv").resolve())
        with _demo(tree) as (process, url):
            begun = time.perf_counter()
            marks = _marks(process, tree, begun)
            with Line(url) as line:
                whole = _full(line, begun)
                idle = memory_of(process.pid)
                for _ in range(OPENED):
                    for path in ("/orders/", "/today/", "/patients/"):
                        line.ask(path, {})
                busy = memory_of(process.pid)
    print("\nmemory in MB, shared pages shared out: at the first full page, after a while")
    for one in busy:
        print(f"  {one:16} {idle.get(one, 0):7.1f} {busy[one]:7.1f}")
    print(f"  {'together':16} {sum(idle.values()):7.1f} {sum(busy.values()):7.1f}")
    goals = [_goal(whole)]
    if not goals[0].met:
        print("\nwhere the seconds go: " + ", ".join(f"{k} {v:.1f}" for k, v in marks.items()))
    figures: dict[str, object] = {"marks": marks, "memory_mb": busy, "memory_mb_idle": idle}
    return report("demo", goals, figures)


def _goal(seconds: float) -> Goal:
    return at_most("15 ./run demo to a page full of orders", seconds, SECONDS, "{:.1f} s")


@contextlib.contextmanager
def _demo(tree: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """`./run demo` as a person starts it, on ports of its own."""
    port, sandbox_port = free_port(), free_port()
    given = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    given |= {"PORT": str(port), "SANDBOX_PORT": str(sandbox_port)}
    given.pop("PYTHONDONTWRITEBYTECODE", None)
    with (tree.parent / "said").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, str(tree / "run"), "demo"],
            cwd=tree,
            env=given,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=dies_with_parent(signal.SIGTERM),
        )
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(60)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _marks(process: subprocess.Popen[bytes], tree: Path, begun: float) -> dict[str, float]:
    """Seconds until the demo said what it does, up to its address."""
    marks: dict[str, float] = {}
    said = tree.parent / "said"
    while not any(line.startswith(STEPS[-1]) for line in marks):
        now = time.perf_counter() - begun
        words = said.read_text(errors="replace")
        assert process.poll() is None and now < MOST_SECONDS, f"the demo ended:\n{words[-3000:]}"
        for line in words.splitlines():
            if line.strip().startswith(STEPS):
                marks.setdefault(" ".join(line.split())[:40], round(now, 1))
        time.sleep(0.1)
    return marks


def _full(line: Line, begun: float) -> float:
    """Seconds until the list of orders is a whole page."""
    while True:
        text, _ = line.answer("/orders/", {})
        seconds = time.perf_counter() - begun
        if text.count(b"data-pick") >= FULL:
            return seconds
        assert seconds < MOST_SECONDS, "no page full of orders"
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
