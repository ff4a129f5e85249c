"""Pagination of lists that misbehave (reliability S2-S6), by the real client over sockets."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from backoffice.service import Service
from backoffice.service.labs import LabTestPayload, MarkerPayload
from backoffice.service.orders import OrderPayload
from backoffice.sync.pagination import (
    WINDOW_PAGES,
    Batch,
    PaginationError,
    batches_by_creation,
    batches_by_cursor,
    batches_by_number,
    in_background,
)
from tests.sync.stub_server import IncomingRequest, Reply, serving

SIZE = 10
Markers = Iterator[Batch[MarkerPayload]]


def marker(number: int) -> dict[str, Any]:
    return {"id": number, "name": f"Marker {number}", "slug": f"marker-{number}"}


def read_numbered(
    answer: Callable[[IncomingRequest], Reply], at_most: int | None = None
) -> list[int]:
    """Read a list with numbered pages. Return the ids in the order of arrival."""
    more = {} if at_most is None else {"at_most": at_most}
    with serving(answer) as url, Service(url, "sk_test") as client:
        batches = batches_by_number(
            lambda number: client.labs.markers(number, SIZE),
            SIZE,
            key=lambda marker: marker.id,
            **more,
        )
        return [record.data.id for batch in batches for record in batch.records]


class NumberedPages:
    """A list of markers with numbered pages. `requested` are the page numbers requested."""

    def __init__(self, count: int) -> None:
        self.rows = list(range(1, count + 1))
        self.requested: list[int] = []

    def page(self, number: int) -> list[int]:
        return self.rows[(number - 1) * SIZE : number * SIZE]

    def total(self) -> Any:
        return len(self.rows)

    def before_page(self, number: int) -> None:
        """Change the list before a page is served."""

    def __call__(self, request: IncomingRequest) -> Reply:
        number = request.number("page", 1)
        self.requested.append(number)
        self.before_page(number)
        rows = [marker(each) for each in self.page(number)]
        return Reply({"markers": rows, "total": self.total(), "page": number, "size": SIZE})


@pytest.mark.parametrize("count", [0, 1, SIZE - 1, SIZE, SIZE + 1, 10 * SIZE, 10 * SIZE + 3])
def test_numbered_pages_yield_the_whole_list(count: int) -> None:
    service = NumberedPages(count)
    assert read_numbered(service) == service.rows
    assert len(service.requested) <= count // SIZE + 2


class Shrinking(NumberedPages):
    """S2: the first rows disappear while later pages are read, in each of the first `passes`."""

    def __init__(self, count: int, passes: int) -> None:
        super().__init__(count)
        self.remaining, self.deleted = passes, set[int]()

    def before_page(self, number: int) -> None:
        if number == 5 and self.remaining:
            self.remaining -= 1
            self.deleted.update(self.rows[:7])
            self.rows = self.rows[7:]


@pytest.mark.parametrize("passes", [1, 2])
def test_rows_deleted_between_pages_lose_no_other_row(passes: int) -> None:
    service = Shrinking(100, passes)
    seen = set(read_numbered(service))
    assert set(service.rows) <= seen
    assert service.requested.count(1) == passes + 1


def test_list_that_keeps_shrinking_is_an_error() -> None:
    service = Shrinking(100, passes=9)
    with pytest.raises(PaginationError, match="shrinking"):
        read_numbered(service)
    assert service.requested.count(1) == 3


class Growing(NumberedPages):
    """Several rows appear at the front while pages are read."""

    def before_page(self, number: int) -> None:
        if number in (3, 6) and len(self.rows) < 106:
            self.rows = [self.rows[0] - 3, self.rows[0] - 2, self.rows[0] - 1, *self.rows]


def test_rows_inserted_between_pages_lose_no_row() -> None:
    service = Growing(0)
    service.rows = list(range(100, 200))
    assert set(range(100, 200)) <= set(read_numbered(service))


class UnevenPages(NumberedPages):
    """S3: a list with short and empty pages before its end."""

    SIZES = (10, 3, 0, 10, 10, 7, 10, 10, 10, 10, 10, 10)

    def page(self, number: int) -> list[int]:
        start = sum(self.SIZES[: number - 1])
        size = self.SIZES[number - 1] if number <= len(self.SIZES) else SIZE
        return self.rows[start : start + size]


def test_short_and_empty_pages_do_not_end_the_list() -> None:
    service = UnevenPages(100)
    assert read_numbered(service) == service.rows
    assert max(service.requested) <= 13


@pytest.mark.parametrize("total", [None, "absent", "120", "many", -1])
@pytest.mark.parametrize("count", [120, 117])
def test_unusable_total_is_ignored(total: object, count: int) -> None:
    """S4: when `total` is null, absent, text or nonsense, two empty pages end the list."""
    service = NumberedPages(count)

    def answer(request: IncomingRequest) -> Reply:
        reply = service(request)
        reply.body["total"] = str(count) if total == "120" else total
        if total == "absent":
            del reply.body["total"]
        return reply

    assert read_numbered(answer) == service.rows
    assert max(service.requested) <= 12 + 3


def test_repeated_page_is_an_error() -> None:
    """S5: a service that repeats the same page for ever is an error."""

    class RepeatingPage(NumberedPages):
        def page(self, number: int) -> list[int]:
            return self.rows[:SIZE]

    service = RepeatingPage(100)
    with pytest.raises(PaginationError, match="repeated a page"):
        read_numbered(service)
    assert len(service.requested) < 12


@pytest.mark.parametrize("total", [None, 10_000_000])
def test_endless_list_is_an_error(total: int | None) -> None:
    """S5: a list with new rows for ever is an error, not a complete list."""

    class EndlessPages(NumberedPages):
        def page(self, number: int) -> list[int]:
            return list(range(number * SIZE, number * SIZE + SIZE))

        def total(self) -> int | None:
            return total

    service = EndlessPages(0)
    with pytest.raises(PaginationError):
        read_numbered(service, at_most=20)
    assert len(service.requested) <= 3 * (20 + 5)


# Cursors


def read_by_cursor(
    answer: Callable[[IncomingRequest], Reply], at_most: int | None = None
) -> list[UUID]:
    more = {} if at_most is None else {"at_most": at_most}
    with serving(answer) as url, Service(url, "sk_test") as client:
        batches: Iterator[Batch[LabTestPayload]] = batches_by_cursor(
            lambda cursor: client.labs.lab_tests(SIZE, cursor), **more
        )
        return [record.data.id for batch in batches for record in batch.records]


def lab_test(number: int) -> dict[str, Any]:
    return {"id": str(UUID(int=number)), "name": f"Test {number}"}


def test_cursor_list_ends_only_without_a_cursor() -> None:
    """S3: only a missing cursor ends the list."""
    pages = [[1, 2, 3], [], [4], [], [], [5, 6], []]

    def answer(request: IncomingRequest) -> Reply:
        index = int(request.query.get("next_cursor", "0"))
        following = str(index + 1) if index + 1 < len(pages) else None
        return Reply({"data": [lab_test(n) for n in pages[index]], "next_cursor": following})

    assert [each.int for each in read_by_cursor(answer)] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("length", [1, 3])
def test_repeated_cursor_is_an_error(length: int) -> None:
    requested: list[int] = []

    def answer(request: IncomingRequest) -> Reply:
        index = int(request.query.get("next_cursor", "0"))
        requested.append(index)
        return Reply({"data": [lab_test(index)], "next_cursor": str(index % length + 1)})

    with pytest.raises(PaginationError, match="repeated a cursor"):
        read_by_cursor(answer)
    assert len(requested) == length + 1


def test_endless_cursors_are_an_error() -> None:
    def answer(request: IncomingRequest) -> Reply:
        index = int(request.query.get("next_cursor", "0"))
        return Reply({"data": [], "next_cursor": str(index + 1)})

    with pytest.raises(PaginationError):
        read_by_cursor(answer, at_most=30)


# Pages by creation date

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class OrdersByCreation:
    """Orders from a start date on, oldest first. `minute_of` gives the minute of each order."""

    def __init__(self, count: int, minute_of: Callable[[int], int] = lambda index: index) -> None:
        self.rows = [(index, EPOCH + timedelta(minutes=minute_of(index))) for index in range(count)]
        self.requested: list[tuple[str, int]] = []

    def before_page(self) -> None:
        """Change the list before a page is served."""

    def __call__(self, request: IncomingRequest) -> Reply:
        number = request.number("page", 1)
        self.requested.append((request.query.get("start_date", ""), number))
        if len(self.requested) > 300:
            return Reply({"detail": "the paging does not end"}, 400)
        self.before_page()
        start = datetime.fromisoformat(request.query.get("start_date", EPOCH.isoformat()))
        rows = [row for row in self.rows if row[1] >= start]
        page = [self.order(*row) for row in rows[(number - 1) * SIZE : number * SIZE]]
        return Reply({"orders": page, "total": len(rows), "page": number, "size": SIZE})

    def order(self, index: int, moment: datetime) -> dict[str, Any]:
        at, key = moment.isoformat(), str(UUID(int=index))
        return {"id": key, "user_id": key, "team_id": key, "created_at": at, "updated_at": at}


def read_by_creation(
    answer: Callable[[IncomingRequest], Reply],
    since: datetime | None = None,
    window: int = WINDOW_PAGES,
) -> list[int]:
    with serving(answer) as url, Service(url, "sk_test") as client:
        batches: Iterator[Batch[OrderPayload]] = batches_by_creation(
            lambda start, number: client.orders.list(page=number, size=SIZE, start_date=start),
            SIZE,
            since=since,
            created_at=lambda order: order.created_at,
            key=lambda order: order.id,
            window=window,
        )
        return [record.data.id.int for batch in batches for record in batch.records]


@pytest.mark.parametrize("count", [0, 1, SIZE, 20 * SIZE, 20 * SIZE + 1, 47 * SIZE + 3])
def test_pages_by_creation_yield_the_whole_list(count: int) -> None:
    service = OrdersByCreation(count)
    assert sorted(set(read_by_creation(service))) == list(range(count))
    assert max(number for _, number in service.requested) <= 21


def test_pages_by_creation_resume_at_a_moment() -> None:
    service = OrdersByCreation(300)
    assert set(read_by_creation(service, EPOCH + timedelta(minutes=250))) == set(range(250, 300))


def test_window_grows_past_many_records_of_one_moment() -> None:
    """More orders have one timestamp than a window holds. The window grows past them."""
    service = OrdersByCreation(900, minute_of=lambda index: 0 if index < 700 else index)
    assert sorted(set(read_by_creation(service))) == list(range(900))


def test_orders_placed_while_paging_lose_no_order() -> None:
    class GrowingOrders(OrdersByCreation):
        def before_page(self) -> None:
            index = len(self.rows)
            self.rows.append((index, EPOCH + timedelta(minutes=index)))

    service = GrowingOrders(450)
    assert set(range(450)) <= set(read_by_creation(service))


def test_orders_deleted_while_paging_lose_no_other_order() -> None:
    class ShrinkingOrders(OrdersByCreation):
        def before_page(self) -> None:
            if len(self.requested) in (3, 30):
                del self.rows[2:6]  # Later rows move to pages already read.

    service = ShrinkingOrders(450)
    seen = set(read_by_creation(service))
    assert len(service.rows) < 450
    assert {index for index, _ in service.rows} <= seen


def test_unsorted_list_is_an_error() -> None:
    service = OrdersByCreation(50)
    service.rows.reverse()
    with pytest.raises(PaginationError, match="not sorted"):
        read_by_creation(service)


class UpdatingOrders(OrdersByCreation):
    """Older orders are updated while the list is read. They appear anywhere in the list, `count`
    before each of the first 15 pages."""

    def __init__(self, rows: int, count: int, seed: int) -> None:
        super().__init__(rows)
        self.count, self.random = count, random.Random(seed)

    def before_page(self) -> None:
        if len(self.requested) > 15:
            return
        for _ in range(self.count):
            index = 10_000 + len(self.rows)
            seconds = self.random.randrange(1, 60 * len(self.rows))
            self.rows.append((index, EPOCH + timedelta(seconds=seconds)))
        self.rows.sort(key=lambda row: row[1])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("count", [1, SIZE, 3 * SIZE])
def test_orders_updated_while_paging_lose_no_order(count: int, seed: int) -> None:
    """Even when more than a page of orders is inserted, there is no error and no order is lost."""
    service = UpdatingOrders(200, count, seed)
    assert set(range(200)) <= set(read_by_creation(service, window=1))
    assert len(service.rows) == 200 + 15 * count


class MovingRows(OrdersByCreation):
    """Rows are inserted at the front after page 5 is answered and before page 4 is."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.fifth, self.moved = threading.Event(), False

    def __call__(self, request: IncomingRequest) -> Reply:
        number = request.number("page", 1)
        if number == 4 and not self.moved:
            assert self.fifth.wait(10)
            self.moved = True
            early = [(20_000 + n, EPOCH + timedelta(seconds=n)) for n in range(1, 5)]
            self.rows = [self.rows[0], *early, *self.rows[1:]]
        reply = super().__call__(request)
        if number == 5:
            self.fifth.set()
        return reply


def test_rows_moved_between_pages_are_read_again_page_by_page() -> None:
    """Page 4 repeats rows of page 3. Its own last rows are on page 5, which was answered before."""
    service = MovingRows(450)
    seen = read_by_creation(service)
    assert service.moved
    assert {index for index, _ in service.rows} <= set(seen)
    second_pass = service.requested[WINDOW_PAGES : WINDOW_PAGES + 10]
    assert [number for _, number in second_pass] == [1] * 10


def test_list_that_starts_before_requested_date_is_an_error() -> None:
    """Rows from before the requested start would make the paging loop for ever."""

    class EarlyStart(OrdersByCreation):
        def __call__(self, request: IncomingRequest) -> Reply:
            first = "start_date" not in request.query
            rows = [self.order(*row) for row in self.rows[: SIZE if first else SIZE - 1]]
            return Reply({"orders": rows, "total": 99, "page": 1, "size": SIZE})

    service = EarlyStart(SIZE)
    with pytest.raises(PaginationError, match="does not begin where requested"):
        read_by_creation(service, window=1)
    later = EPOCH + timedelta(days=9)
    with pytest.raises(PaginationError, match="does not begin where requested"):
        read_by_creation(service, later, window=1)


@pytest.mark.parametrize("window", [1, WINDOW_PAGES])
@pytest.mark.parametrize("start", [0, 13])
@pytest.mark.parametrize("same", [SIZE - 1, SIZE, SIZE + 1, 4 * SIZE, 47, 250])
@pytest.mark.parametrize("after", [0, 1, 25])
def test_records_of_one_moment_may_fill_more_than_a_page(
    window: int, start: int, same: int, after: int
) -> None:
    """They are at the start, in the middle or at the end, and may fill the last page exactly."""
    end = start + same
    service = OrdersByCreation(end + after, lambda index: start if start <= index < end else index)
    assert set(read_by_creation(service, window=window)) == set(range(end + after))


# Background thread


def test_background_error_is_raised_to_the_reader() -> None:
    def broken() -> Markers:
        yield Batch()
        raise PaginationError("the list broke")

    batches = in_background(broken())
    next(batches)
    with pytest.raises(PaginationError, match="broke"):
        next(batches)


def test_background_paging_stops_when_reader_closes() -> None:
    """After the reader stops, no thread continues fetching."""
    count = 0

    def endless() -> Markers:
        nonlocal count
        while True:
            count += 1
            yield Batch()

    batches = in_background(endless())
    next(batches)
    batches.close()
    reached = count
    time.sleep(0.3)
    assert count == reached < 8
