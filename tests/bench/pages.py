"""Goals 10 to 12: pages with a million orders, compared with their SQL alone and with ten thousand
orders.

There are two data sets (`tests/bench/data_set`), two web servers as the launcher starts them, and
one persistent, signed-in connection to each. Every URL is requested in turn on the small data set
and on the large one, and its own SQL statements are run alone, over one connection, as they were
when the page ran in this process. Pages close to a limit are measured again later, more often.
Combinations of filters are only compared with the small data set.

Where the small data set has fewer rows of a list, its page is a different one: a row costs what it
shows, however many orders there are. The pages are then compared with the same number of rows
(`size=`), and the times of the original pages are printed, too.

`BENCH_ORDERS` and `BENCH_SMALL` change the sizes. `python -m tests.bench.pages WORD…` measures only
groups that contain one of the words. `BENCH_EVERY=20` measures one URL of twenty.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import django
import psycopg

from tests.bench.common import ROOT, Goal, at_most, report
from tests.bench.data_set.database_cache import database_with_orders
from tests.bench.page_client import USERNAME, PageClient

ORDERS: Final = int(os.environ.get("BENCH_ORDERS", "1000000"))
SMALL: Final = int(os.environ.get("BENCH_SMALL", "10000"))
EVERY: Final = int(os.environ.get("BENCH_EVERY", "1"))
FIRST_ROUNDS, COMBINATION_ROUNDS, REPEAT_ROUNDS = 4, 2, 5
REPEATS: Final = 2
NEAR_LIMIT: Final = 0.9
"""Pages above this share of a limit are measured again."""
MAX_SQL_RATIO, MAX_SMALL_RATIO, MAX_ROW_RATIO = 3.0, 1.5, 20.0
_ROW: Final = b"<tr"
_LISTS_WITH_SIZE: Final = ("/orders/?", "/patients/?")
"""Lists whose page size can be set."""
WORST_COUNT: Final = 10
"""This many combinations of filters are printed."""


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
    small: list[float] = field(default_factory=list)
    large: list[float] = field(default_factory=list)
    sql: list[float] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)
    small_rows: int = 0
    large_rows: int = 0
    same_rows_small: list[float] = field(default_factory=list)
    same_rows_large: list[float] = field(default_factory=list)
    """Times of a page with as many rows as the small data set has, if those are fewer."""

    def measure(
        self, rounds: int, clients: Sequence[PageClient], sql_connection: psycopg.Connection[Any]
    ) -> None:
        for _ in range(rounds):
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
            if not self.is_combination:
                self.sql.append(_time_statements(sql_connection, self.statements))

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
    def sql_ratio(self) -> float:
        return lower_median(self.large) / lower_median(self.sql)

    @property
    def has_more_rows(self) -> bool:
        """Whether the page of the large data set has more rows."""
        return self.large_rows > self.small_rows

    @property
    def is_near_limit(self) -> bool:
        return self.small_ratio > NEAR_LIMIT * MAX_SMALL_RATIO or (
            not self.is_combination and self.sql_ratio > NEAR_LIMIT * MAX_SQL_RATIO
        )

    def line(self) -> str:
        times_text = f"{lower_median(self.small):8.1f} {lower_median(self.large):8.1f}"
        ratios_text = f"{self.small_ratio:7.2f}"
        if not self.is_combination:
            times_text += f" {lower_median(self.sql):8.1f}"
            ratios_text += f" {self.sql_ratio:7.2f} {len(self.statements):4d}"
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
    pairs = list(zip(_read_cases(small), _read_cases(large), strict=True))
    chosen = [
        (small_case, large_case)
        for small_case, large_case in pairs[::EVERY]
        if not filters
        or any(text in f"{large_case['group']} {large_case['name']}" for text in filters)
    ]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        clients = [
            stack.enter_context(_page_client(folder / f"{position}.log", url))
            for position, url in enumerate((small, large))
        ]
        # The driver would prepare repeated statements with all values fixed. Statements of a page
        # have varying values, so they would not be prepared.
        sql_connection = stack.enter_context(
            psycopg.connect(large, autocommit=True, prepare_threshold=None)
        )
        all_times = _measure_pages(chosen, clients, sql_connection)
        counts = _time_counts(sql_connection)
        sizes = _sizes(sql_connection)
        goals = _goals(all_times, counts)
        _explain_slow_pages(all_times)
    figures = {**_figures(all_times, counts), "bytes_an_order": sizes}
    return report("pages" if not filters else "pages-some", goals, figures)


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


@contextmanager
def _page_client(log: Path, address: str) -> Iterator[PageClient]:
    from tests.sync.back_office import BackOffice
    from tests.webhooks.sending import receiving

    back_office = BackOffice(address, "http://127.0.0.1:9", log)
    with receiving(back_office, workers=2) as url, PageClient(url) as client:
        yield client


def _measure_pages(
    pairs: Sequence[tuple[dict[str, Any], dict[str, Any]]],
    clients: Sequence[PageClient],
    sql_connection: psycopg.Connection[Any],
) -> list[PageTimes]:
    """Measure every page once, then twice those near a limit.

    The rounds of one URL are spread, because a slow moment of the machine would affect all of them.
    """
    all_times = []
    for small_case, large_case in pairs:
        page_times = PageTimes(**large_case, small_path=small_case["path"])
        if not page_times.is_combination:
            page_times.statements = _statements(page_times.path, page_times.posted)
        page_times.measure(
            COMBINATION_ROUNDS if page_times.is_combination else FIRST_ROUNDS,
            clients,
            sql_connection,
        )
        all_times.append(page_times)
    for _ in range(REPEATS):
        near_limit = [page_times for page_times in all_times if page_times.is_near_limit]
        print(f"{len(near_limit):,} of {len(all_times):,} are near a limit: measured again")
        for page_times in near_limit:
            page_times.measure(REPEAT_ROUNDS, clients, sql_connection)
    headings = [f"{head:>8}" for head in (f"{SMALL:,}", f"{ORDERS:,}", "SQL", "/small", "/SQL")]
    print(f"{'milliseconds':88}{' '.join(headings)}  queries")
    for page_times in all_times:
        if page_times.is_near_limit or not page_times.is_combination:
            print(page_times.line(), flush=True)
    return all_times


def _statements(path: str, posted: dict[str, str]) -> list[str]:
    """Return the SQL statements of the page on the large data set, as they can be run again."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    open_page = _page_opener(path, posted)
    open_page()
    with CaptureQueriesContext(connection) as captured:
        answer = open_page()
    assert answer.status_code in (200, 302), (path, answer.status_code)
    return [_READ_IN_PARTS.sub("", query["sql"]) for query in captured.captured_queries]


def _page_opener(path: str, posted: dict[str, str]) -> Callable[[], Any]:
    """Return a function that opens a page of the large data set in this process."""
    from django.test import Client

    from backoffice.accounts.models import User

    client = Client(headers={"host": "127.0.0.1"})
    client.force_login(User.objects.get(username=USERNAME))
    return partial(client.post, path, posted) if posted else partial(client.get, path)


_READ_IN_PARTS: Final = re.compile(r'^DECLARE "_django_curs_[^"]+" .*?CURSOR .*?FOR ')
"""What Django puts before a statement whose rows it reads in parts.

Alone, the rows are read at once.
"""


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


_MEASURES: Final[tuple[tuple[str, str, float, Callable[[PageTimes], float]], ...]] = (
    ("10", "its SQL alone", MAX_SQL_RATIO, lambda one: one.sql_ratio),
    ("11", f"{SMALL:,} orders", MAX_SMALL_RATIO, lambda one: one.small_ratio),
)


def _goals(all_times: Sequence[PageTimes], counts: tuple[float, float]) -> list[Goal]:
    goals = []
    for number, label, limit, ratio in _MEASURES:
        for group in dict.fromkeys(one.group for one in all_times):
            sorted_times = _group_times(all_times, group, number, ratio)
            if sorted_times:
                worst, median = sorted_times[-1], sorted_times[len(sorted_times) // 2]
                goal = at_most(
                    f"{number} {group} beside {label} ({worst.name:.60})",
                    ratio(worst), limit, "{:.2f} times",
                )  # fmt: skip
                goal.value = f"{ratio(worst):.2f}, middle {ratio(median):.2f}"
                goals.append(goal)
    goals.append(at_most("12 counts beside one row", counts[0] / counts[1], MAX_ROW_RATIO,
                         "{:.1f} times"))  # fmt: skip
    return goals


def _group_times(
    all_times: Sequence[PageTimes], group: str, number: str, ratio: Callable[[PageTimes], float]
) -> list[PageTimes]:
    """Return those of a group for which this was measured, the slowest last."""
    times = (
        one
        for one in all_times
        if one.group == group and not (number == "10" and one.is_combination)
    )
    return sorted(times, key=ratio)


def _explain_slow_pages(all_times: Sequence[PageTimes]) -> None:
    """Print the slowest combinations of filters, and where the time goes in the slowest page of
    each group over a limit."""
    from tests.bench.pages_profile import explain_page

    combination_times = sorted(
        (one for one in all_times if one.is_combination), key=lambda one: one.small_ratio
    )
    if combination_times:
        slow_count = sum(one.small_ratio > MAX_SMALL_RATIO for one in combination_times)
        original_slow_count = sum(
            one.has_more_rows and one.original_ratio > MAX_SMALL_RATIO for one in combination_times
        )
        print(
            f"\n{slow_count:,} of {len(combination_times):,} combinations of filters take more than"
            f" {MAX_SMALL_RATIO} times as long with as many rows; {original_slow_count:,}"
            " do with their original rows, with more rows than in the small data set. The worst:"
        )
    for one in reversed(combination_times[-WORST_COUNT:]):
        print(f"  {one.line()}")
    explained_paths: set[str] = set()
    for number, _, limit, ratio in _MEASURES:
        for group in dict.fromkeys(one.group for one in all_times):
            group_times = _group_times(all_times, group, number, ratio)
            if (
                group_times
                and ratio(group_times[-1]) > limit
                and group_times[-1].path not in explained_paths
            ):
                explained_paths.add(group_times[-1].path)
                explain_page(
                    f"{group}, {group_times[-1].name}",
                    _page_opener(group_times[-1].path, group_times[-1].posted),
                )


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
                "sql_ms": round(lower_median(one.sql), 2) if one.sql else None,
                "queries": len(one.statements) or None,
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
