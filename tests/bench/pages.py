"""Goals 10 to 12: pages with a million orders, compared with an empty page of the same frame and
with ten thousand orders, and the orders list beside those of other tools.

There are two data sets (`tests/bench/data_set`) and an empty database, three web servers as the
launcher starts them, and one persistent, signed-in connection to each. Every URL is requested in
turn on all of them; the empty page is the same page without filters (for the page of one record,
the list). Pages close to a limit are measured again later, more often.

Where the small data set has fewer rows of a list, its page is a different one: a row costs what it
shows, however many orders there are. The pages are then compared with the same number of rows
(`size=`), and the times of the original pages are printed, too.

Goal 10b: the orders list is also measured beside two lists that others would write with Django
admin and with django-tables2 (`tests/bench/list_comparison.py`).

`BENCH_ORDERS` and `BENCH_SMALL` change the sizes. `python -m tests.bench.pages WORD…` measures only
groups that contain one of the words. `BENCH_EVERY=20` measures one URL of twenty.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import django
import psycopg

from backoffice.devtools.embedded import make_database
from tests.bench.common import ROOT, Goal, at_most, report
from tests.bench.data_set.database_cache import database_with_orders
from tests.bench.page_client import USERNAME, PageClient, served_client

ORDERS: Final = int(os.environ.get("BENCH_ORDERS", "1000000"))
SMALL: Final = int(os.environ.get("BENCH_SMALL", "10000"))
EVERY: Final = int(os.environ.get("BENCH_EVERY", "1"))
FIRST_ROUNDS, COMBINATION_ROUNDS, REPEAT_ROUNDS = 4, 2, 5
REPEATS: Final = 2
NEAR_LIMIT: Final = 0.9
"""Pages above this share of a limit are measured again."""
MAX_ROW_RATIO: Final = 20.0
_ROW: Final = b"<tr"
_LISTS_WITH_SIZE: Final = ("/orders/?", "/patients/?")
"""Lists whose page size can be set."""
WORST_COUNT: Final = 10
"""This many pages of a group are printed."""


@dataclass
class PageTimes:
    """The milliseconds of one URL, one value per round."""

    group: str
    name: str
    path: str
    posted: dict[str, str]
    is_combination: bool
    small_path: str
    """The same URL on the small data set, which has its own IDs."""
    empty_path: str
    empty: list[float] = field(default_factory=list)
    small: list[float] = field(default_factory=list)
    large: list[float] = field(default_factory=list)
    small_rows: int = 0
    large_rows: int = 0
    same_rows_small: list[float] = field(default_factory=list)
    same_rows_large: list[float] = field(default_factory=list)
    """Times of a page with as many rows as the small data set has, if those are fewer."""

    def measure(self, rounds: int, clients: Sequence[PageClient]) -> None:
        for _ in range(rounds):
            self.empty.append(clients[2].fetch(self.empty_path, self.posted)[1])
            small_page, milliseconds = clients[0].fetch(self.small_path, self.posted)
            self.small.append(milliseconds)
            large_page, milliseconds = clients[1].fetch(self.path, self.posted)
            self.large.append(milliseconds)
            self.small_rows, self.large_rows = small_page.count(_ROW), large_page.count(_ROW)
            if self.has_more_rows and self.path.startswith(_LISTS_WITH_SIZE):
                # One row is the table head.
                size = f"&size={max(1, self.small_rows - 1)}"
                self.same_rows_small.append(clients[0].fetch(self.small_path + size, {})[1])
                self.same_rows_large.append(clients[1].fetch(self.path + size, {})[1])

    @property
    def small_ratio(self) -> float:
        """The ratio for pages with the same number of rows."""
        if self.same_rows_large:
            return lower_median(self.same_rows_large) / lower_median(self.same_rows_small)
        return self.original_ratio

    @property
    def original_ratio(self) -> float:
        return lower_median(self.large) / lower_median(self.small)

    @property
    def empty_ratio(self) -> float:
        return lower_median(self.large) / lower_median(self.empty)

    @property
    def has_more_rows(self) -> bool:
        """Whether the page of the large data set has more rows."""
        return self.large_rows > self.small_rows

    @property
    def is_near_limit(self) -> bool:
        return any(ratio(self) > NEAR_LIMIT * limits[1] for _, _, limits, ratio in _MEASURES)

    def line(self) -> str:
        times = (lower_median(times) for times in (self.empty, self.small, self.large))
        times_text = " ".join(f"{milliseconds:8.1f}" for milliseconds in times)
        ratios_text = f"{self.empty_ratio:8.2f} {self.small_ratio:8.2f}"
        if self.has_more_rows:
            ratios_text += (
                f"  {self.original_ratio:.2f} with {self.large_rows} rows, not {self.small_rows}"
            )
        return f"{self.group:26.26} {self.name:60.60} {times_text} {ratios_text}"


def lower_median(milliseconds: Sequence[float]) -> float:
    """Return the median, the lower one of two, because the first round warms caches."""
    return statistics.median_low(milliseconds)


def main(filters: Sequence[str]) -> int:
    server = os.environ["DATABASE_URL"]
    small, large = database_with_orders(server, SMALL), database_with_orders(server, ORDERS)
    os.environ.update(DATABASE_URL=large, LOCAL="1", LOG_LEVEL="ERROR")
    os.environ["DJANGO_SETTINGS_MODULE"] = "backoffice.settings"
    django.setup()
    from tests.bench import list_comparison

    def is_chosen(name: str) -> bool:
        return not filters or any(text in name for text in filters)

    pairs = list(zip(_read_cases(small), _read_cases(large), strict=True))
    chosen = [
        (small_case, large_case)
        for small_case, large_case in pairs[::EVERY]
        if is_chosen(f"{large_case['group']} {large_case['name']}")
    ]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        # The driver would prepare repeated statements with all values fixed.
        sql_connection = stack.enter_context(
            psycopg.connect(large, autocommit=True, prepare_threshold=None)
        )
        all_times: list[PageTimes] = []
        if chosen:
            urls = (small, large, _empty_database(server))
            with ExitStack() as servers:
                clients = [
                    servers.enter_context(served_client(folder / f"{position}.log", url))
                    for position, url in enumerate(urls)
                ]
                all_times = _measure_pages(chosen, clients)
        compared_pages: list[list_comparison.ComparedPage] = []
        if is_chosen(list_comparison.GROUP):
            compared_pages = list_comparison.measure_lists(folder, large)
        counts = _time_counts(sql_connection)
        sizes = _sizes(sql_connection)
        goals = [*_goals(all_times, counts), *list_comparison.list_goals(compared_pages)]
        _explain_slow_pages(all_times)
    figures = {
        **_figures(all_times, counts),
        "lists": list_comparison.list_figures(compared_pages),
        "bytes_an_order": sizes,
    }
    return report("pages" if not filters else "pages-some", goals, figures)


def _empty_database(server: str) -> str:
    """Return the URL of a database with users and nothing else."""
    address = make_database(server, "world_empty")
    environment = {**os.environ, "DATABASE_URL": address}
    for command in (["migrate", "-v0"], ["demo_users"]):
        subprocess.run(
            [sys.executable, "manage.py", *command],
            cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    return address


def _read_cases(address: str) -> list[dict[str, Any]]:
    """Return the URLs of one data set, which has its own IDs."""
    command = [sys.executable, "-m", "tests.bench.pages", "--cases"]
    environment = {**os.environ, "DATABASE_URL": address, "LOG_LEVEL": "ERROR", "LOCAL": "1"}
    process = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE)
    found_cases: list[dict[str, Any]] = json.loads(process.stdout)
    return found_cases


def _print_cases() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backoffice.settings")
    django.setup()
    from backoffice.accounts.models import User
    from tests.bench.pages_cases import Samples, cases

    user = User.objects.get(username=USERNAME)
    print(json.dumps([asdict(case) for case in cases(Samples.from_database(), user)]))


def _measure_pages(
    pairs: Sequence[tuple[dict[str, Any], dict[str, Any]]], clients: Sequence[PageClient]
) -> list[PageTimes]:
    """Measure every page once, then twice those near a limit.

    The rounds of one URL are spread, because a slow moment of the machine would affect all of them.
    """
    all_times = []
    for small_case, large_case in pairs:
        page_times = PageTimes(**large_case, small_path=small_case["path"])
        rounds = COMBINATION_ROUNDS if page_times.is_combination else FIRST_ROUNDS
        page_times.measure(rounds, clients)
        all_times.append(page_times)
    for _ in range(REPEATS):
        near_limit = [page_times for page_times in all_times if page_times.is_near_limit]
        print(f"{len(near_limit):,} of {len(all_times):,} are near a limit: measured again")
        for page_times in near_limit:
            page_times.measure(REPEAT_ROUNDS, clients)
    headings = ("empty", f"{SMALL:,}", f"{ORDERS:,}", "/empty", "/small")
    print(f"{'milliseconds':87} {' '.join(f'{heading:>8}' for heading in headings)}")
    for page_times in all_times:
        if page_times.is_near_limit or not page_times.is_combination:
            print(page_times.line(), flush=True)
    return all_times


def _page_opener(path: str, posted: dict[str, str]) -> Callable[[], Any]:
    """Return a function that opens a page of the large data set in this process."""
    from django.test import Client

    from backoffice.accounts.models import User

    client = Client(headers={"host": "127.0.0.1"})
    client.force_login(User.objects.get(username=USERNAME))
    return partial(client.post, path, posted) if posted else partial(client.get, path)


def _time_statements(sql_connection: psycopg.Connection[Any], statements: Sequence[str]) -> float:
    started_at = time.perf_counter()
    for statement in statements:
        cursor = sql_connection.execute(statement.encode())
        if cursor.description:
            cursor.fetchall()
    return 1000 * (time.perf_counter() - started_at)


def _time_counts(sql_connection: psycopg.Connection[Any]) -> tuple[float, float]:
    """Return the milliseconds of the counts of Today and of reading one row, measured in turn."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from backoffice.accounts.models import User
    from orders.models import Order
    from orders.today.tiles import tiles

    user = User.objects.get(username=USERNAME)
    tiles(user)
    with CaptureQueriesContext(connection) as captured:
        tiles(user)
    count_statements = [query["sql"] for query in captured.captured_queries]
    order_id = Order.objects.values_list("pk", flat=True)[0]
    with CaptureQueriesContext(connection) as captured:
        Order.objects.only("low_level_status").get(pk=order_id)
    row_statements = [query["sql"] for query in captured.captured_queries]
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(101):
        for target, statements in zip(times, (count_statements, row_statements), strict=True):
            milliseconds = _time_statements(sql_connection, statements)
            if number:
                target.append(milliseconds)
    return statistics.median(times[0]), statistics.median(times[1])


def _sizes(sql_connection: psycopg.Connection[Any]) -> dict[str, int]:
    """Return the bytes on disk per order and table, with indexes, of tables with at least one byte
    per order."""
    rows = sql_connection.execute(
        "SELECT relname, pg_total_relation_size(oid) / %s FROM pg_class WHERE relkind = 'r'"
        " AND relnamespace = 'public'::regnamespace ORDER BY 2 DESC",
        [ORDERS],
    )
    return {name: size for name, size in rows if size}


_MEASURES: Final[
    tuple[tuple[str, str, tuple[float, float, float | None], Callable[[PageTimes], float]], ...]
] = (
    ("10", "an empty page", (6.0, 12.0, 40.0), lambda times: times.empty_ratio),
    ("11", f"{SMALL:,} orders", (1.2, 2.0, None), lambda times: times.small_ratio),
)
"""Number and name of each goal, its limits for the middle page, for 95 of 100 and for all, and its
ratio."""


def _goals(all_times: Sequence[PageTimes], counts: tuple[float, float]) -> list[Goal]:
    goals = []
    for number, label, limits, ratio in _MEASURES if all_times else ():
        times = sorted(all_times, key=ratio)
        positions = (len(times) // 2, int(0.95 * (len(times) - 1)), len(times) - 1)
        for share, position, limit in zip(("middle", "95 of 100", "worst"), positions, limits,
                                          strict=True):  # fmt: skip
            name = f"{number} pages beside {label}, {share} ({times[position].name:.60})"
            if limit is not None:
                goals.append(at_most(name, ratio(times[position]), limit, "{:.2f} times"))
    goals.append(at_most("12 counts beside one row", counts[0] / counts[1], MAX_ROW_RATIO,
                         "{:.1f} times"))  # fmt: skip
    return goals


def _explain_slow_pages(all_times: Sequence[PageTimes]) -> None:
    """Print the figures of each group and its slowest pages, and where the time of the slowest page
    goes."""
    from tests.bench.pages_profile import explain_page

    for group in dict.fromkeys(times.group for times in all_times):
        group_times = [times for times in all_times if times.group == group]
        print(f"\n{group}, {len(group_times):,} pages")
        for _, label, _, ratio in _MEASURES:
            ratios = sorted(map(ratio, group_times))
            print(
                f"  beside {label}: middle {ratios[len(ratios) // 2]:.2f},"
                f" 95 of 100 {ratios[int(0.95 * (len(ratios) - 1))]:.2f}, worst {ratios[-1]:.2f}"
            )
        slowest = sorted(group_times, key=lambda times: times.small_ratio)
        for times in reversed(slowest[-WORST_COUNT:]):
            if times.is_near_limit:
                print(f"  {times.line()}")
    if all_times:
        worst = max(all_times, key=lambda times: times.empty_ratio)
        explain_page(f"{worst.group}, {worst.name}", _page_opener(worst.path, worst.posted))


def _figures(all_times: Sequence[PageTimes], counts: tuple[float, float]) -> dict[str, object]:
    return {
        "orders": ORDERS,
        "small": SMALL,
        "counts_ms": round(counts[0], 3),
        "one_row_ms": round(counts[1], 3),
        "pages": [
            {
                "group": one.group,
                "name": one.name,
                "small_ms": round(lower_median(one.small), 2),
                "large_ms": round(lower_median(one.large), 2),
                "empty_ms": round(lower_median(one.empty), 2),
                "small_rows": one.small_rows,
                "large_rows": one.large_rows,
                "even_small_ms": round(lower_median(one.same_rows_small), 2)
                if one.same_rows_small
                else None,
                "even_large_ms": round(lower_median(one.same_rows_large), 2)
                if one.same_rows_large
                else None,
            }
            for one in all_times
        ],
    }


if __name__ == "__main__":
    if sys.argv[1:] == ["--cases"]:
        _print_cases()
    else:
        sys.exit(main(sys.argv[1:]))
