"""Whether this worker was asked to end, for loops that would begin the next piece of work.

Celery lets running tasks come to their end, and tells only its main process that it is stopping.
The processes that work were forked from that one: they share a byte of its memory.
"""

from __future__ import annotations

import mmap
from typing import Any, Final

from celery.signals import worker_shutting_down

_asked: Final = mmap.mmap(-1, 1)


def asked() -> bool:
    """True once this worker is to finish what it has in hand and begin nothing else."""
    return _asked[0] != 0


@worker_shutting_down.connect
def ask(**_: Any) -> None:
    _asked[0] = 1
