"""Tell running tasks that their worker is shutting down.

Loops check this before they begin the next piece of work. Celery lets running tasks finish and
signals the shutdown only to its main process. The pool processes are forked from it and share one
byte of its memory.
"""

from __future__ import annotations

import mmap
from typing import Any, Final

from celery.signals import worker_shutting_down

_flag: Final = mmap.mmap(-1, 1)


def is_requested() -> bool:
    """Return True once this worker should finish its current work and begin nothing else."""
    return _flag[0] != 0


@worker_shutting_down.connect
def request_shutdown(**_: Any) -> None:
    _flag[0] = 1
