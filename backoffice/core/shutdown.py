"""Whether this worker was asked to end, for loops that would begin the next piece of work.

Celery lets running tasks come to their end, and tells only its main process that it is stopping.
The processes that work were forked from that one: they share a byte of its memory.
"""

from __future__ import annotations

import mmap
from typing import Any, Final

from celery.signals import worker_shutting_down

_flag: Final = mmap.mmap(-1, 1)


def is_requested() -> bool:
    """True once this worker is to finish what it has in hand and begin nothing else."""
    return _flag[0] != 0


@worker_shutting_down.connect
def request_shutdown(**_: Any) -> None:
    _flag[0] = 1
