"""Waiting for a condition, as every test waits: never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(done: Callable[[], object], seconds: float, what: str, every: float = 0.05) -> float:
    """Wait until `done()` is true. Return the seconds it took.

    Raise AssertionError that names `what` after `seconds`: far longer than it ever takes.
    """
    started = time.monotonic()
    while not done():
        assert time.monotonic() - started < seconds, f"not within {seconds:.0f} s: {what}"
        time.sleep(every)
    return time.monotonic() - started
