"""Group commit: store deliveries that arrive at the same time by one statement and one commit.

Each request runs in its own thread and stores one row. If no write is running, a thread becomes the
leader: it writes its own row, together with the rows of threads that already wait. Rows that arrive
during that write wait. When it ends, the first of them becomes the next leader and writes all of
them. So no thread waits for a group to become full: an idle server commits each row at once, and
under load one commit has as many rows as there are threads.

`GroupCommit.store` returns True after the commit of the row. If that commit failed, for whatever
reason, it returns False. The caller then stores its row by itself and gets the error of its own
row, not of another one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence

RowValues = tuple[object, ...]


class _WaitingRow:
    """A row that waits to be written.

    `wake_up` is released when another thread has written the row, or when its own thread is the
    next leader.
    """

    __slots__ = ("is_leader", "is_stored", "row", "wake_up")

    def __init__(self, row: RowValues) -> None:
        self.row = row
        self.wake_up = threading.Lock()
        self.wake_up.acquire()
        self.is_stored = self.is_leader = False


class GroupCommit:
    """Collect the rows of several threads and write them together.

    `write(rows)` commits rows that differ in their first column, or raises. `max_rows` is the
    largest number of rows in one call.
    """

    def __init__(self, write: Callable[[Sequence[RowValues]], object], max_rows: int) -> None:
        self._write = write
        self._max_rows = max_rows
        self._lock = threading.Lock()
        self._busy = False
        self._waiting: list[_WaitingRow] = []

    def store(self, row: RowValues) -> bool:
        """Return True once the row is committed, False if the caller must store it by itself."""
        own_row = _WaitingRow(row)
        with self._lock:
            wait = self._busy
            if wait:
                self._waiting.append(own_row)
            self._busy = True
        if wait:
            own_row.wake_up.acquire()
            if not own_row.is_leader:
                return own_row.is_stored
        # Let threads that are about to call `store` run first, so that this write includes their
        # rows.
        os.sched_yield()
        with self._lock:
            batch = [own_row, *self._take_waiting(own_row)]
        try:
            self._write([waiting.row for waiting in batch])
            for waiting in batch:
                waiting.is_stored = True
        except Exception:
            # One invalid row may be the cause. Each thread stores its own row and gets its own
            # error.
            return False
        finally:
            self._wake_others(batch)
        return True

    def _take_waiting(self, own_row: _WaitingRow) -> list[_WaitingRow]:
        """Return the waiting rows that this write includes.

        One statement cannot have two rows of the same key, so the later one continues to wait.
        """
        batch: list[_WaitingRow] = []
        left: list[_WaitingRow] = []
        row_keys = {own_row.row[0]}
        for waiting in self._waiting:
            if len(batch) + 1 < self._max_rows and waiting.row[0] not in row_keys:
                row_keys.add(waiting.row[0])
                batch.append(waiting)
            else:
                left.append(waiting)
        self._waiting = left
        return batch

    def _wake_others(self, batch: Sequence[_WaitingRow]) -> None:
        """Wake the threads of written rows, and make the first waiting thread the leader."""
        with self._lock:
            if self._waiting:
                leader = self._waiting.pop(0)
                leader.is_leader = True
                leader.wake_up.release()
            else:
                self._busy = False
        for waiting in batch[1:]:
            waiting.wake_up.release()
