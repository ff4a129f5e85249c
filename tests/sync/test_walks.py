"""Walks to the end of lists that misbehave (reliability S2-S6), by the real client over sockets."""

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
from backoffice.service.labs import LabTest, Marker
from backoffice.service.orders import Order
from backoffice.sync.pagination import (
    WINDOW_PAGES,
    Batch,
    PaginationError,
    batches_by_creation,
    batches_by_cursor,
    batches_by_number,
    in_background,
)
from tests.sync.standin import Asked, Reply, serving

SIZE = 10
Markers = Iterator[Batch[Marker]]


def marker(number: int) -> dict[str, Any]:
    return {"id": number, "name": f"Marker {number}", "slug": f"marker-{number}"}


def walked(answer: Callable[[Asked], Reply], at_most: int | None = None) -> list[int]:
    """Ids of a numbered list, in the order they came."""
    more = {} if at_most is None else {"at_most": at_most}
    with serving(answer) as url, Service(url, "sk_test") as service:
        batches = batches_by_number(
            lambda number: service.labs.markers(number, SIZE),
            SIZE,
            key=lambda marker: marker.id,
            **more,
        )
        return [record.data.id for batch in batches for record in batch.records]


class Numbered:
    """A list of markers paged by number; `asked` are the pages that were fetched."""

    def __init__(self, count: int) -> None:
        self.rows = list(range(1, count + 1))
        self.asked: list[int] = []

    def page(self, number: int) -> list[int]:
        return self.rows[(number - 1) * SIZE : number * SIZE]

    def total(self) -> Any:
        return len(self.rows)

    def before(self, number: int) -> None:
        """Something happens at the service."""

    def __call__(self, asked: Asked) -> Reply:
        number = asked.number("page", 1)
        self.asked.append(number)
        self.before(number)
        rows = [marker(each) for each in self.page(number)]
        return Reply({"markers": rows, "total": self.total(), "page": number, "size": SIZE})


@pytest.mark.parametrize("count", [0, 1, SIZE - 1, SIZE, SIZE + 1, 10 * SIZE, 10 * SIZE + 3])
def test_whole_list(count: int) -> None:
    listed = Numbered(count)
    assert walked(listed) == listed.rows
    assert len(listed.asked) <= count // SIZE + 2


class Shrinking(Numbered):
    """S2: the first rows disappear while later pages are read, for so many walks."""

    def __init__(self, count: int, walks: int) -> None:
        super().__init__(count)
        self.left, self.gone = walks, set[int]()

    def before(self, number: int) -> None:
        if number == 5 and self.left:
            self.left -= 1
            self.gone.update(self.rows[:7])
            self.rows = self.rows[7:]


@pytest.mark.parametrize("walks", [1, 2])
def test_rows_deleted_between_pages(walks: int) -> None:
    listed = Shrinking(100, walks)
    seen = set(walked(listed))
    assert set(listed.rows) <= seen
    assert listed.asked.count(1) == walks + 1


def test_list_that_keeps_shrinking() -> None:
    listed = Shrinking(100, walks=9)
    with pytest.raises(PaginationError, match="shrinking"):
        walked(listed)
    assert listed.asked.count(1) == 3


class Growing(Numbered):
    """Rows appear at the front while pages are read, several at a time and out of order."""

    def before(self, number: int) -> None:
        if number in (3, 6) and len(self.rows) < 106:
            self.rows = [self.rows[0] - 3, self.rows[0] - 2, self.rows[0] - 1, *self.rows]


def test_rows_inserted_between_pages() -> None:
    listed = Growing(0)
    listed.rows = list(range(100, 200))
    assert set(range(100, 200)) <= set(walked(listed))


class Uneven(Numbered):
    """S3: short and empty pages before the end."""

    SIZES = (10, 3, 0, 10, 10, 7, 10, 10, 10, 10, 10, 10)

    def page(self, number: int) -> list[int]:
        start = sum(self.SIZES[: number - 1])
        size = self.SIZES[number - 1] if number <= len(self.SIZES) else SIZE
        return self.rows[start : start + size]


def test_short_and_empty_pages() -> None:
    listed = Uneven(100)
    assert walked(listed) == listed.rows
    assert max(listed.asked) <= 13


@pytest.mark.parametrize("total", [None, "absent", "120", "many", -1])
@pytest.mark.parametrize("count", [120, 117])
def test_total_that_says_nothing(total: object, count: int) -> None:
    """S4: `total` null, absent, as text, or nonsense: two empty pages are the end."""
    listed = Numbered(count)

    def answer(asked: Asked) -> Reply:
        reply = listed(asked)
        reply.body["total"] = str(count) if total == "120" else total
        if total == "absent":
            del reply.body["total"]
        return reply

    assert walked(answer) == listed.rows
    assert max(listed.asked) <= 12 + 3


def test_page_that_repeats() -> None:
    """S5: the same page for ever is no list."""

    class Stuck(Numbered):
        def page(self, number: int) -> list[int]:
            return self.rows[:SIZE]

    listed = Stuck(100)
    with pytest.raises(PaginationError, match="repeated a page"):
        walked(listed)
    assert len(listed.asked) < 12


@pytest.mark.parametrize("total", [None, 10_000_000])
def test_list_without_end(total: int | None) -> None:
    """S5: new rows for ever are given up, not taken for a whole list."""

    class Endless(Numbered):
        def page(self, number: int) -> list[int]:
            return list(range(number * SIZE, number * SIZE + SIZE))

        def total(self) -> int | None:
            return total

    listed = Endless(0)
    with pytest.raises(PaginationError):
        walked(listed, at_most=20)
    assert len(listed.asked) <= 3 * (20 + 5)


# Cursors


def by_cursors(answer: Callable[[Asked], Reply], at_most: int | None = None) -> list[UUID]:
    more = {} if at_most is None else {"at_most": at_most}
    with serving(answer) as url, Service(url, "sk_test") as service:
        batches: Iterator[Batch[LabTest]] = batches_by_cursor(
            lambda cursor: service.labs.lab_tests(SIZE, cursor), **more
        )
        return [record.data.id for batch in batches for record in batch.records]


def lab_test(number: int) -> dict[str, Any]:
    return {"id": str(UUID(int=number)), "name": f"Test {number}"}


def test_cursor_past_short_and_empty_pages() -> None:
    """S3: only the missing cursor is the end."""
    pages = [[1, 2, 3], [], [4], [], [], [5, 6], []]

    def answer(asked: Asked) -> Reply:
        place = int(asked.query.get("next_cursor", "0"))
        following = str(place + 1) if place + 1 < len(pages) else None
        return Reply({"data": [lab_test(n) for n in pages[place]], "next_cursor": following})

    assert [each.int for each in by_cursors(answer)] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("length", [1, 3])
def test_cursor_that_repeats(length: int) -> None:
    asked_for: list[int] = []

    def answer(asked: Asked) -> Reply:
        place = int(asked.query.get("next_cursor", "0"))
        asked_for.append(place)
        return Reply({"data": [lab_test(place)], "next_cursor": str(place % length + 1)})

    with pytest.raises(PaginationError, match="repeated a cursor"):
        by_cursors(answer)
    assert len(asked_for) == length + 1


def test_cursors_without_end() -> None:
    def answer(asked: Asked) -> Reply:
        place = int(asked.query.get("next_cursor", "0"))
        return Reply({"data": [], "next_cursor": str(place + 1)})

    with pytest.raises(PaginationError):
        by_cursors(answer, at_most=30)


# By creation

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Created:
    """Orders, a minute apart unless `apart` says so, served from a moment on, oldest first."""

    def __init__(self, count: int, apart: Callable[[int], int] = lambda place: place) -> None:
        self.rows = [(place, EPOCH + timedelta(minutes=apart(place))) for place in range(count)]
        self.asked: list[tuple[str, int]] = []

    def before(self) -> None:
        """Something happens at the service."""

    def __call__(self, asked: Asked) -> Reply:
        number = asked.number("page", 1)
        self.asked.append((asked.query.get("start_date", ""), number))
        if len(self.asked) > 300:
            return Reply({"detail": "the walk does not end"}, 400)
        self.before()
        start = datetime.fromisoformat(asked.query.get("start_date", EPOCH.isoformat()))
        rows = [row for row in self.rows if row[1] >= start]
        page = [self.order(*row) for row in rows[(number - 1) * SIZE : number * SIZE]]
        return Reply({"orders": page, "total": len(rows), "page": number, "size": SIZE})

    def order(self, place: int, moment: datetime) -> dict[str, Any]:
        at, key = moment.isoformat(), str(UUID(int=place))
        return {"id": key, "user_id": key, "team_id": key, "created_at": at, "updated_at": at}


def created(
    answer: Callable[[Asked], Reply], since: datetime | None = None, window: int = WINDOW_PAGES
) -> list[int]:
    with serving(answer) as url, Service(url, "sk_test") as service:
        batches: Iterator[Batch[Order]] = batches_by_creation(
            lambda start, number: service.orders.list(page=number, size=SIZE, start_date=start),
            SIZE,
            since=since,
            created_at=lambda order: order.created_at,
            key=lambda order: order.id,
            window=window,
        )
        return [record.data.id.int for batch in batches for record in batch.records]


@pytest.mark.parametrize("count", [0, 1, SIZE, 20 * SIZE, 20 * SIZE + 1, 47 * SIZE + 3])
def test_by_creation(count: int) -> None:
    listed = Created(count)
    assert sorted(set(created(listed))) == list(range(count))
    assert max(number for _, number in listed.asked) <= 21


def test_by_creation_resumes() -> None:
    listed = Created(300)
    assert set(created(listed, EPOCH + timedelta(minutes=250))) == set(range(250, 300))


def test_many_records_of_one_moment() -> None:
    """More of one moment than a window holds: the window grows until it gets past them."""
    listed = Created(900, apart=lambda place: 0 if place < 700 else place)
    assert sorted(set(created(listed))) == list(range(900))


def test_by_creation_while_orders_are_placed() -> None:
    class Busy(Created):
        def before(self) -> None:
            place = len(self.rows)
            self.rows.append((place, EPOCH + timedelta(minutes=place)))

    listed = Busy(450)
    assert set(range(450)) <= set(created(listed))


def test_by_creation_while_orders_disappear() -> None:
    class Losing(Created):
        def before(self) -> None:
            if len(self.asked) in (3, 30):
                del self.rows[2:6]  # and those behind move to pages already read

    listed = Losing(450)
    seen = set(created(listed))
    assert len(listed.rows) < 450
    assert {place for place, _ in listed.rows} <= seen


def test_list_in_another_order() -> None:
    listed = Created(50)
    listed.rows.reverse()
    with pytest.raises(PaginationError, match="not sorted"):
        created(listed)


class Changes(Created):
    """Older orders are updated while the list is walked: they come in anywhere, `count` before
    each of the first so many pages."""

    def __init__(self, rows: int, count: int, seed: int) -> None:
        super().__init__(rows)
        self.count, self.random = count, random.Random(seed)

    def before(self) -> None:
        if len(self.asked) > 15:
            return
        for _ in range(self.count):
            place = 10_000 + len(self.rows)
            seconds = self.random.randrange(1, 60 * len(self.rows))
            self.rows.append((place, EPOCH + timedelta(seconds=seconds)))
        self.rows.sort(key=lambda row: row[1])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("count", [1, SIZE, 3 * SIZE])
def test_changes_while_older_orders_are_updated(count: int, seed: int) -> None:
    """More than a page comes in among the pages: no error, and nothing that was there is missed."""
    listed = Changes(200, count, seed)
    assert set(range(200)) <= set(created(listed, window=1))
    assert len(listed.rows) == 200 + 15 * count


class MovingOnce(Created):
    """While page 4 is on its way, after page 5 was answered, rows come in at the front."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.fifth, self.moved = threading.Event(), False

    def __call__(self, asked: Asked) -> Reply:
        number = asked.number("page", 1)
        if number == 4 and not self.moved:
            assert self.fifth.wait(10)
            self.moved = True
            early = [(20_000 + n, EPOCH + timedelta(seconds=n)) for n in range(1, 5)]
            self.rows = [self.rows[0], *early, *self.rows[1:]]
        reply = super().__call__(asked)
        if number == 5:
            self.fifth.set()
        return reply


def test_rows_that_move_among_pages_are_walked_again_a_page_at_a_time() -> None:
    """Page 4 repeats rows of page 3, and its own last rows are on the page answered before."""
    listed = MovingOnce(450)
    seen = created(listed)
    assert listed.moved
    assert {place for place, _ in listed.rows} <= set(seen)
    again = listed.asked[WINDOW_PAGES : WINDOW_PAGES + 10]
    assert [number for _, number in again] == [1] * 10


def test_list_that_does_not_begin_where_asked() -> None:
    """Rows from before the moment asked for would have the walk go round for ever."""

    class Early(Created):
        def __call__(self, asked: Asked) -> Reply:
            first = "start_date" not in asked.query
            rows = [self.order(*row) for row in self.rows[: SIZE if first else SIZE - 1]]
            return Reply({"orders": rows, "total": 99, "page": 1, "size": SIZE})

    listed = Early(SIZE)
    with pytest.raises(PaginationError, match="does not begin where asked"):
        created(listed, window=1)
    later = EPOCH + timedelta(days=9)
    with pytest.raises(PaginationError, match="does not begin where asked"):
        created(listed, later, window=1)


@pytest.mark.parametrize("window", [1, WINDOW_PAGES])
@pytest.mark.parametrize("start", [0, 13])
@pytest.mark.parametrize("same", [SIZE - 1, SIZE, SIZE + 1, 4 * SIZE, 47, 250])
@pytest.mark.parametrize("after", [0, 1, 25])
def test_more_of_one_moment_than_a_page(window: int, start: int, same: int, after: int) -> None:
    """At the beginning, in the middle, at the end; also where they fill the last page exactly."""
    end = start + same
    listed = Created(end + after, lambda place: start if start <= place < end else place)
    assert set(created(listed, window=window)) == set(range(end + after))


# In the background


def test_error_of_a_walk_is_raised_where_it_is_read() -> None:
    def broken() -> Markers:
        yield Batch()
        raise PaginationError("the list broke")

    batches = in_background(broken())
    next(batches)
    with pytest.raises(PaginationError, match="broke"):
        next(batches)


def test_walk_ends_when_nobody_reads() -> None:
    """A reader that stops does not leave a thread fetching."""
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
