"""Goal 15: `./run demo` in a new copy of the source tree, from the command to a full page of
orders.

Packages are installed again from the cache of this machine; with `BENCH_PACKAGES=kept` those of
this checkout are used. The memory of every process is then measured, idle and after some work.
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
from tests.bench.page_client import PageClient  # noqa: E402
from tests.bench.processes import memory_of  # noqa: E402

GOAL_SECONDS: Final = 30
TIMEOUT_SECONDS: Final = 300
FULL_PAGE: Final = 50
"""Number of orders on a full page."""
OPENED_PAGES: Final = int(os.environ.get("BENCH_OPENED", "20"))
"""Number of times each page is opened before memory is measured again."""
NOT_COPIED: Final = (".git", ".venv", "var", ".*_cache")
STEPS: Final = ("Making", "Installing", "Starting", "Bringing", "Back office")
REMOVED_SETTINGS: Final = ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "PYTHONPATH")


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        tree = Path(name) / "tree"
        Path(name).chmod(0o711)  # Servers that root starts run as another user.
        reuse_packages = os.environ.get("BENCH_PACKAGES") == "kept"
        not_copied = NOT_COPIED if reuse_packages else (*NOT_COPIED, "__pycache__")
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*not_copied))
        if reuse_packages:
            (tree / ".venv").symlink_to((ROOT / ".venv").resolve())
        with _demo(tree) as (process, url):
            started_at = time.perf_counter()
            step_times = _step_times(process, tree, started_at)
            with PageClient(url) as client:
                seconds = _seconds_to_full_page(client, started_at)
                idle = memory_of(process.pid)
                for _ in range(OPENED_PAGES):
                    for path in ("/orders/", "/today/", "/patients/"):
                        client.time_page(path, {})
                busy = memory_of(process.pid)
    print("\nmemory in MB, shared pages shared out: at the first full page, after a while")
    for kind in busy:
        print(f"  {kind:16} {idle.get(kind, 0):7.1f} {busy[kind]:7.1f}")
    print(f"  {'together':16} {sum(idle.values()):7.1f} {sum(busy.values()):7.1f}")
    goals = [_goal(seconds)]
    if not goals[0].met:
        print("\nwhere the seconds go: " + ", ".join(f"{k} {v:.1f}" for k, v in step_times.items()))
    figures: dict[str, object] = {"marks": step_times, "memory_mb": busy, "memory_mb_idle": idle}
    return report("demo", goals, figures)


def _goal(seconds: float) -> Goal:
    return at_most("15 ./run demo to a page full of orders", seconds, GOAL_SECONDS, "{:.1f} s")


@contextlib.contextmanager
def _demo(tree: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Start `./run demo` as a person does, on free ports."""
    port, sandbox_port = free_port(), free_port()
    environment = {
        name: value for name, value in os.environ.items() if name not in REMOVED_SETTINGS
    }
    environment |= {"PORT": str(port), "SANDBOX_PORT": str(sandbox_port)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with (tree.parent / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, str(tree / "run"), "demo"],
            cwd=tree,
            env=environment,
            stdout=log,
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


def _step_times(
    process: subprocess.Popen[bytes], tree: Path, started_at: float
) -> dict[str, float]:
    """Return the seconds until each step was printed, up to the address of the back office."""
    step_times: dict[str, float] = {}
    log = tree.parent / "log"
    while not any(line.startswith(STEPS[-1]) for line in step_times):
        now = time.perf_counter() - started_at
        output = log.read_text(errors="replace")
        assert process.poll() is None and now < TIMEOUT_SECONDS, (
            f"the demo ended:\n{output[-3000:]}"
        )
        for line in output.splitlines():
            if line.strip().startswith(STEPS):
                step_times.setdefault(" ".join(line.split())[:40], round(now, 1))
        time.sleep(0.1)
    return step_times


def _seconds_to_full_page(client: PageClient, started_at: float) -> float:
    """Return the seconds until the order list shows a full page."""
    while True:
        text, _ = client.fetch("/orders/", {})
        seconds = time.perf_counter() - started_at
        if text.count(b"data-pick") >= FULL_PAGE:
            return seconds
        assert seconds < TIMEOUT_SECONDS, "no page full of orders"
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
