"""`python -m tests.outbox.deliverer`: workers of the outbox that end or stop at any line.

Everything is loaded once; for each line of JSON on its standard input it forks a worker, which
does what Celery's do, and answers with a line. See `tests/outbox/workers.py` for who asks.

    {"at": ["delivery.py:_begin:return", "transport.py:read:call"], "signal": "KILL"}
        works until nothing is due; gets the signal when these moments have come, in this order
    {"go_on": 123}      lets a stopped worker go on, to its end
    {"kill": 123}       kills a stopped worker
    {"loop": true}      works on and on, until somebody kills it
    {"for": 1.0}        works for so many seconds
    {"rest": true}      waits until those have ended
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import django

from backoffice.devtools.embedded import dies_with_parent

IDLE_SECONDS = 0.02


def main() -> None:
    django.setup()
    from tests.outbox.desk import COMMANDS

    def work(seconds: float) -> int:
        from backoffice import outbox

        return outbox.deliver(COMMANDS, seconds)

    ringing: list[int] = []
    for line in sys.stdin:
        asked = json.loads(line)
        if "rest" in asked:
            answer: dict[str, Any] = {"ended": [_gone(pid) for pid in ringing]}
            ringing.clear()
        elif "go_on" in asked:
            os.kill(asked["go_on"], signal.SIGCONT)
            answer = _ended(asked["go_on"])
        elif "kill" in asked:
            os.kill(asked["kill"], signal.SIGKILL)
            answer = _ended(asked["kill"])
        else:
            orphaned = dies_with_parent(signal.SIGKILL)
            pid = os.fork()
            if pid == 0:
                orphaned()
                _work(work, asked)
            beside = asked.get("loop") or asked.get("for")
            answer = {"pid": pid} if beside else _ended(pid)
            if asked.get("for"):
                ringing.append(pid)
        print(json.dumps(answer), flush=True)
        _bury()


def _work(work: Callable[[float], int], asked: dict[str, Any]) -> None:
    code = 0
    try:
        if asked.get("loop") or asked.get("for"):
            _for(work, asked.get("for", math.inf))
            os._exit(0)
        sys.settrace(Moments(asked.get("at", ()), asked.get("signal", "KILL")))
        while work(5):
            pass
    except BaseException as error:
        print(f"deliverer: {type(error).__name__} {error}", file=sys.stderr, flush=True)
        code = 1
    os._exit(code)


def _for(work: Callable[[float], int], seconds: float) -> None:
    from django.db import Error, close_old_connections

    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        close_old_connections()
        try:
            if not work(5):
                time.sleep(IDLE_SECONDS)
        except Error as error:
            print(f"deliverer: {type(error).__name__}", file=sys.stderr, flush=True)
            time.sleep(0.2)


class Moments:
    """Sends this process a signal when functions are called or return, one after the other."""

    def __init__(self, moments: Sequence[str], name: str) -> None:
        self._left = [moment.split(":") for moment in moments]
        self._signal = signal.Signals[f"SIG{name}"]

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if not self._left:
            return None
        file, function, when = self._left[0]
        code = frame.f_code
        if code.co_name != function or not code.co_filename.endswith(f"/{file}"):
            return None
        if when == "call":
            self._come()
            return None
        return self._leaving

    def _leaving(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "return":
            self._come()
        return self._leaving

    def _come(self) -> None:
        self._left.pop(0)
        if not self._left:
            os.kill(os.getpid(), self._signal)


def _ended(pid: int) -> dict[str, Any]:
    """How it went: killed, stopped (and still there), or ended with a code."""
    _, status = os.waitpid(pid, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        return {"pid": pid, "went": "stopped"}
    if os.WIFSIGNALED(status):
        return {"pid": pid, "went": "killed"}
    return {"pid": pid, "went": "ended", "code": os.WEXITSTATUS(status)}


def _gone(pid: int) -> int:
    """Once it has ended; it may be buried already."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
    return pid


def _bury() -> None:
    """Workers that somebody killed."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


if __name__ == "__main__":
    main()
