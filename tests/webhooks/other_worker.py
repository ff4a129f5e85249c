"""What another worker does at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.db import connections, transaction


@contextmanager
def elsewhere(act: Callable[[], object], seconds: float = 10) -> Iterator[None]:
    """Another worker has done this, in a transaction that stays open to the end of the block, or
    for so long where the block waits for it."""
    done, over = threading.Event(), threading.Event()

    def work() -> None:
        try:
            with transaction.atomic():
                act()
                done.set()
                over.wait(seconds)
        finally:
            connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    assert done.wait(10)
    try:
        yield
    finally:
        over.set()
        thread.join()
