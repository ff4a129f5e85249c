"""Read a list of the service to its end without skipping a row.

A few threads fetch a few pages ahead; the pages are returned in order, in batches of about a
thousand records. Lists change while they are read: a new row moves others to later pages (they are
read twice, harmless), a deleted row moves others to earlier pages (they would be skipped), so a
list that shrank is read again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import pairwise
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Generic, TypeVar

from django.utils.translation import gettext_noop

from backoffice.service import Record, RecordPage, Unreadable
from backoffice.sync.server_clock import ClockReading

T = TypeVar("T")

PAGES_AHEAD = 4
BATCH_SIZE = 1_000
MAX_PAGES = 100_000
WINDOW_PAGES = 20
MAX_ATTEMPTS = 3
WAIT_CALLBACK_SECONDS = 5.0
_NO_END = gettext_noop("the list has no end")


class PaginationError(Exception):
    """The list cannot be read: it repeats itself, never ends or keeps shrinking."""


@dataclass
class Batch(Generic[T]):
    """Records of consecutive pages.

    `checkpoint` is where a later task may resume once this batch is stored. `total` is the length
    of the list according to the service, `clock` the two clocks at the list's first page.
    """

    records: list[Record[T]] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    checkpoint: dict[str, object] = field(default_factory=dict)
    total: int | None = None
    clock: ClockReading | None = None

    def add(self, page: RecordPage[T]) -> None:
        self.records += page.records
        self.unreadable += page.unreadable

    def __len__(self) -> int:
        return len(self.records) + len(self.unreadable)


def in_background(
    batches: Iterator[Batch[T]], waiting: Callable[[], None] = lambda: None
) -> Generator[Batch[T], None, None]:
    """Yield `batches`, read a little ahead in a thread, so that fetching and writing overlap.

    `waiting` is called every few seconds while the service has not sent the next batch.
    """
    ready: Queue[Batch[T] | BaseException | None] = Queue(maxsize=2)
    stopped = Event()

    def put(item: Batch[T] | BaseException | None) -> None:
        while not stopped.is_set():
            with suppress(Full):
                return ready.put(item, timeout=0.1)

    def fetch_all() -> None:
        try:
            for batch in batches:
                put(batch)
                if stopped.is_set():
                    return
            put(None)
        except BaseException as error:  # Raised again where the batches are read.
            put(error)

    thread = Thread(target=fetch_all, name="fetch-batches", daemon=True)
    thread.start()
    try:
        while True:
            try:
                item = ready.get(timeout=WAIT_CALLBACK_SECONDS)
            except Empty:
                waiting()
                continue
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stopped.set()
        thread.join()


def single_batch(fetch: Callable[[], RecordPage[T]]) -> Iterator[Batch[T]]:
    """Yield the one batch of a list without pages."""
    page = fetch()
    batch: Batch[T] = Batch(total=_size(page), clock=ClockReading.from_page(page))
    batch.add(page)
    yield batch


def batches_by_cursor(
    fetch: Callable[[str | None], RecordPage[T]], at_most: int = MAX_PAGES
) -> Iterator[Batch[T]]:
    """Yield a list paged by an opaque cursor; pages before the end may be short, even empty."""
    cursor: str | None = None
    cursors: set[str] = set()
    batch: Batch[T] = Batch()
    for _ in range(at_most):
        page = fetch(cursor)
        batch.clock = batch.clock or ClockReading.from_page(page)
        batch.total = page.total
        batch.add(page)
        cursor = page.next_cursor
        if cursor is None:
            yield batch
            return
        if cursor in cursors:
            raise PaginationError(gettext_noop("the service repeated a cursor"))
        cursors.add(cursor)
        if len(batch) >= BATCH_SIZE:
            yield batch
            batch = Batch(clock=batch.clock)
    raise PaginationError(_NO_END)


def batches_by_number(
    fetch: Callable[[int], RecordPage[T]],
    size: int,
    key: Callable[[T], object],
    at_most: int = MAX_PAGES,
) -> Iterator[Batch[T]]:
    """Yield a list paged by number, from 1; read it again if rows moved while it was read.

    The list may grow at its end. A repeated record shows that rows were inserted before it, and
    that pages fetched out of order may have missed one; a smaller total shows deleted rows.
    """
    for attempt in range(1, MAX_ATTEMPTS + 1):
        seen_keys: set[object] = set()
        first: RecordPage[T] | None = None
        totals: list[int | None] = []
        read = 0
        batch: Batch[T] = Batch()
        for page in _pages_by_number(fetch, size, at_most):
            first = first or page
            totals.append(page.total)
            if len(totals) == at_most:
                raise PaginationError(_NO_END)
            seen_keys.update(key(record.data) for record in page.records)
            seen_keys.update(item.raw for item in page.unreadable)
            read += _size(page)
            batch.total, batch.clock = page.total, ClockReading.from_page(first)
            batch.add(page)
            if len(batch) >= BATCH_SIZE:
                yield batch
                batch = Batch()
        yield batch
        if read > len(seen_keys) and attempt < MAX_ATTEMPTS:
            continue
        known_totals = [total for total in totals if total is not None]
        if len(known_totals) < len(totals) or known_totals[0] <= min(*known_totals, len(seen_keys)):
            return
    raise PaginationError(gettext_noop("the list kept shrinking while it was read"))


def batches_by_creation(
    fetch: Callable[[datetime | None, int], RecordPage[T]],
    size: int,
    since: datetime | None,
    created_at: Callable[[T], datetime],
    key: Callable[[T], object],
    window: int = WINDOW_PAGES,
) -> Iterator[Batch[T]]:
    """Yield a list sorted by creation, oldest first; `fetch(start, page)` can begin at a time.

    After every `window` pages the query starts again at the creation time of the last record, so
    no page number is large, a checkpoint is a time, and a killed run resumes there. The pages of a
    window are fetched in parallel. If rows moved among them, the window is read again one page at
    a time: then no inserted or deleted row can hide another.
    """
    start, ties = since, 1
    clock: ClockReading | None = None
    careful_pages = 0
    while True:
        at_most = ties if careful_pages else window * ties
        pages = list(_pages_by_number(partial(fetch, start), size, at_most))
        moments = [[created_at(record.data) for record in page.records] for page in pages]
        if any(later < earlier for page in moments for earlier, later in pairwise(page)):
            raise PaginationError(gettext_noop("the list is not sorted as requested"))
        if not careful_pages and len(pages) > 1 and _has_moved_rows(pages, moments, key):
            careful_pages = len(pages)
            continue
        careful_pages = max(0, careful_pages - 1)
        clock = clock or ClockReading.from_page(pages[0])
        for batch in _group_into_batches(pages, clock):
            yield _with_checkpoint(batch, created_at)
        if len(pages) < at_most or _is_last(pages, size):
            return
        latest = max((moment for page in moments for moment in page), default=start)
        if start is not None and latest is not None and latest < start:
            raise PaginationError(gettext_noop("the list does not begin where requested"))
        # More records may have the same creation time than one window can return.
        start, ties = latest, 1 if latest != start else ties * 2


def _has_moved_rows(
    pages: list[RecordPage[T]], moments: list[list[datetime]], key: Callable[[T], object]
) -> bool:
    """Return whether rows were inserted or deleted while these pages were fetched."""
    keys = [key(record.data) for page in pages for record in page.records]
    in_order = [moment for page in moments for moment in page]
    totals = [page.total for page in pages if page.total is not None]
    return (
        len(set(keys)) < len(keys)
        or any(later < earlier for earlier, later in pairwise(in_order))
        or any(total < totals[0] for total in totals)
    )


def _is_last(pages: list[RecordPage[T]], size: int) -> bool:
    last = pages[-1]
    if last.total is None:
        return _size(last) == 0
    return last.total <= len(pages) * size and _size(last) < size


def _group_into_batches(pages: list[RecordPage[T]], clock: ClockReading) -> Iterator[Batch[T]]:
    batch: Batch[T] = Batch(clock=clock)
    for page in pages:
        batch.total = page.total
        batch.add(page)
        if len(batch) >= BATCH_SIZE:
            yield batch
            batch = Batch(clock=clock)
    if len(batch) or not any(_size(page) for page in pages):
        yield batch


def _pages_by_number(
    fetch: Callable[[int], RecordPage[T]], size: int, at_most: int
) -> Iterator[RecordPage[T]]:
    """Yield pages 1, 2, … in order until the end is certain.

    The end is a short page at or past `total`; without a total, two empty pages.
    """
    page = fetch(1)
    yield page
    number, empty, previous = 1, 0, page
    with ThreadPoolExecutor(PAGES_AHEAD, thread_name_prefix="pages") as threads:
        while number < at_most:
            ahead = -(-page.total // size) if page.total is not None else 0
            if ahead > number:
                for page in _fetch_ahead(
                    threads, fetch, range(number + 1, min(ahead, at_most) + 1)
                ):
                    _refuse_repetition(previous, page)
                    previous = page
                    yield page
                number = min(ahead, at_most)
                continue
            if page.total is not None and _size(page) < size:
                return
            number += 1
            page = fetch(number)
            _refuse_repetition(previous, page)
            previous = page
            empty = empty + 1 if _size(page) == 0 else 0
            if empty == 2 or (empty and page.total is not None):
                return
            yield page


def _fetch_ahead(
    threads: ThreadPoolExecutor, fetch: Callable[[int], RecordPage[T]], numbers: Iterable[int]
) -> Iterator[RecordPage[T]]:
    """Yield these pages in order, fetched a few pages ahead."""
    waiting: deque[Future[RecordPage[T]]] = deque()
    try:
        for number in numbers:
            waiting.append(threads.submit(fetch, number))
            if len(waiting) > PAGES_AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def _refuse_repetition(previous: RecordPage[T], page: RecordPage[T]) -> None:
    if page.records and [r.raw for r in page.records] == [r.raw for r in previous.records]:
        raise PaginationError(gettext_noop("the service repeated a page"))


def _with_checkpoint(batch: Batch[T], created_at: Callable[[T], datetime]) -> Batch[T]:
    if batch.records:
        batch.checkpoint = {"since": created_at(batch.records[-1].data).isoformat()}
    return batch


def _size(page: RecordPage[T]) -> int:
    return len(page.records) + len(page.unreadable)
