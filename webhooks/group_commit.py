"""One commit for the deliveries that arrive at the same time: threads that wait, wait together.

The first thread that comes stores its row at once, with those of threads that only wait for their
turn to run. Those that come meanwhile are taken along by the next: nobody waits for company, and
under load a statement and a commit carry as many rows as there are threads. A thread is told
"stored" after the commit that held its row; where that failed, for whatever reason, it stores its
row alone and learns its own outcome.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence

RowValues = tuple[object, ...]


class _WaitingRow:
    """A row that waits to be taken along. `turn` is free once it was, or once it is to lead."""

    __slots__ = ("is_leader", "is_stored", "row", "turn")

    def __init__(self, row: RowValues) -> None:
        self.row = row
        self.turn = threading.Lock()
        self.turn.acquire()
        self.is_stored = self.is_leader = False


class GroupCommit:
    """`write(rows)` commits several rows that differ in their first column, or raises."""

    def __init__(self, write: Callable[[Sequence[RowValues]], object], most: int) -> None:
        self._write = write
        self._most = most
        self._lock = threading.Lock()
        self._busy = False
        self._waiting: list[_WaitingRow] = []

    def store(self, row: RowValues) -> bool:
        """True once the row is committed; False when the caller must store it by itself."""
        mine = _WaitingRow(row)
        with self._lock:
            wait = self._busy
            if wait:
                self._waiting.append(mine)
            self._busy = True
        if wait:
            mine.turn.acquire()
            if not mine.is_leader:
                return mine.is_stored
        os.sched_yield()  # to those about to come: interpreter and processor
        with self._lock:
            places = [mine, *self._take_waiting(mine)]
        try:
            self._write([place.row for place in places])
            for place in places:
                place.is_stored = True
        except Exception:
            # One row may be to blame: each thread tries its own and meets the error itself.
            return False
        finally:
            self._wake_others(places)
        return True

    def _take_waiting(self, mine: _WaitingRow) -> list[_WaitingRow]:
        """Waiting rows to take along. A repeat of one that goes now has to come after it."""
        taken: list[_WaitingRow] = []
        left: list[_WaitingRow] = []
        seen = {mine.row[0]}
        for place in self._waiting:
            if len(taken) + 1 < self._most and place.row[0] not in seen:
                seen.add(place.row[0])
                taken.append(place)
            else:
                left.append(place)
        self._waiting = left
        return taken

    def _wake_others(self, places: Sequence[_WaitingRow]) -> None:
        """Those taken along go their way; the first that still waits leads the next."""
        with self._lock:
            if self._waiting:
                leader = self._waiting.pop(0)
                leader.is_leader = True
                leader.turn.release()
            else:
                self._busy = False
        for place in places[1:]:
            place.turn.release()
