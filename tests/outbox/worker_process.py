"""`python -m tests.outbox.worker_process`: outbox workers that are killed or stopped at any line.

It loads Django once. For each line of JSON on its standard input it forks a worker, which
delivers as Celery's workers do, and answers with a line. `tests/outbox/workers.py` calls it.

    {"at": ["delivery.py:_mark_sending:return", "transport.py:read:call"], "signal": "KILL"}
        works until nothing is due; gets the signal after these moments, in this order
    {"resume": 123}     lets a stopped worker run to its end
    {"kill": 123}       kills a stopped worker
    {"loop": true}      works until it is killed
    {"for": 1.0}        works for so many seconds in the background
    {"wait": true}      waits until the background workers have ended
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
    from tests.outbox.harness import COMMANDS

    def work(seconds: float) -> int:
        from backoffice.outbox.delivery import deliver

        return deliver(COMMANDS, seconds)

    background_pids: list[int] = []
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            answer: dict[str, Any] = {"ended": [_wait_for_end(pid) for pid in background_pids]}
            background_pids.clear()
        elif "resume" in request:
            os.kill(request["resume"], signal.SIGCONT)
            answer = _wait_for(request["resume"])
        elif "kill" in request:
            os.kill(request["kill"], signal.SIGKILL)
            answer = _wait_for(request["kill"])
        else:
            die_with_parent = dies_with_parent(signal.SIGKILL)
            pid = os.fork()
            if pid == 0:
                die_with_parent()
                _run_worker(work, request)
            in_background = request.get("loop") or request.get("for")
            answer = {"pid": pid} if in_background else _wait_for(pid)
            if request.get("for"):
                background_pids.append(pid)
        print(json.dumps(answer), flush=True)
        _reap_children()


def _run_worker(work: Callable[[float], int], request: dict[str, Any]) -> None:
    code = 0
    try:
        if request.get("loop") or request.get("for"):
            _work_for(work, request.get("for", math.inf))
            os._exit(0)
        sys.settrace(SignalAtFrames(request.get("at", ()), request.get("signal", "KILL")))
        while work(5):
            pass
    except BaseException as error:
        print(f"worker_process: {type(error).__name__} {error}", file=sys.stderr, flush=True)
        code = 1
    os._exit(code)


def _work_for(work: Callable[[float], int], seconds: float) -> None:
    from django.db import Error, close_old_connections

    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        close_old_connections()
        try:
            if not work(5):
                time.sleep(IDLE_SECONDS)
        except Error as error:
            print(f"worker_process: {type(error).__name__}", file=sys.stderr, flush=True)
            time.sleep(0.2)


class SignalAtFrames:
    """Trace function that signals this process after a sequence of calls and returns."""

    def __init__(self, moments: Sequence[str], name: str) -> None:
        self._frames_left = [moment.split(":") for moment in moments]
        self._signal = signal.Signals[f"SIG{name}"]

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if not self._frames_left:
            return None
        file, function, when = self._frames_left[0]
        code = frame.f_code
        if code.co_name != function or not code.co_filename.endswith(f"/{file}"):
            return None
        if when == "call":
            self._pass_frame()
            return None
        return self._trace_return

    def _trace_return(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "return":
            self._pass_frame()
        return self._trace_return

    def _pass_frame(self) -> None:
        self._frames_left.pop(0)
        if not self._frames_left:
            os.kill(os.getpid(), self._signal)


def _wait_for(pid: int) -> dict[str, Any]:
    """Wait for a worker. Return whether it was killed, stopped, or ended with a code."""
    _, status = os.waitpid(pid, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        return {"pid": pid, "outcome": "stopped"}
    if os.WIFSIGNALED(status):
        return {"pid": pid, "outcome": "killed"}
    return {"pid": pid, "outcome": "ended", "code": os.WEXITSTATUS(status)}


def _wait_for_end(pid: int) -> int:
    """Wait until a worker has ended. It may have been reaped already."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
    return pid


def _reap_children() -> None:
    """Reap workers that were killed."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


if __name__ == "__main__":
    main()
