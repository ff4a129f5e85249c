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

Row = tuple[object, ...]


class _Place:
    """A row that waits to be taken along. `turn` is free once it was, or once it is to lead."""

    __slots__ = ("leads", "row", "stored", "turn")

    def __init__(self, row: Row) -> None:
        self.row = row
        self.turn = threading.Lock()
        self.turn.acquire()
        self.stored = self.leads = False


class Group:
    """`write(rows)` commits several rows that differ in their first column, or raises."""

    def __init__(self, write: Callable[[Sequence[Row]], object], most: int) -> None:
        self._write = write
        self._most = most
        self._lock = threading.Lock()
        self._busy = False
        self._waiting: list[_Place] = []

    def store(self, row: Row) -> bool:
        """True once the row is committed; False when the caller must store it by itself."""
        mine = _Place(row)
        with self._lock:
            wait = self._busy
            if wait:
                self._waiting.append(mine)
            self._busy = True
        if wait:
            mine.turn.acquire()
            if not mine.leads:
                return mine.stored
        os.sched_yield()  # to those about to come: interpreter and processor
        with self._lock:
            places = [mine, *self._company(mine)]
        try:
            self._write([place.row for place in places])
            for place in places:
                place.stored = True
        except Exception:
            # One row may be to blame: each thread tries its own and meets the error itself.
            return False
        finally:
            self._go_on(places)
        return True

    def _company(self, mine: _Place) -> list[_Place]:
        """Waiting rows to take along. A repeat of one that goes now has to come after it."""
        taken: list[_Place] = []
        left: list[_Place] = []
        seen = {mine.row[0]}
        for place in self._waiting:
            if len(taken) + 1 < self._most and place.row[0] not in seen:
                seen.add(place.row[0])
                taken.append(place)
            else:
                left.append(place)
        self._waiting = left
        return taken

    def _go_on(self, places: Sequence[_Place]) -> None:
        """Those taken along go their way; the first that still waits leads the next."""
        with self._lock:
            if self._waiting:
                leader = self._waiting.pop(0)
                leader.leads = True
                leader.turn.release()
            else:
                self._busy = False
        for place in places[1:]:
            place.turn.release()
