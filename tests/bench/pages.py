"""Goals 10 to 12: pages at a million orders beside their SQL alone, and beside ten thousand orders.

Two worlds (`tests/bench/world`), two web servers as the launcher starts them, one kept connection
to each, logged in. Every address is asked for in turns: in the small world, in the large one, and
its own statements alone, over one connection, as they were when the page ran in this process. What
comes near a limit is asked for again later, more often. Combinations of filters are compared with
the small world alone.
Where fewer rows of a list are found in the small world, that is another page: a row costs what it
shows, among however many orders it stands. The worlds are then compared by a page of as many rows
in both (`size=`), and what the page took as it came is told beside.
`BENCH_ORDERS` and `BENCH_SMALL` change the sizes; `python -m tests.bench.pages WORD…` measures only
groups that contain one of the words; with `BENCH_EVERY=20` it asks for one address of twenty.
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
from tests.bench.person import WHO, Line
from tests.bench.world.keeping import kept

ORDERS: Final = int(os.environ.get("BENCH_ORDERS", "1000000"))
SMALL: Final = int(os.environ.get("BENCH_SMALL", "10000"))
EVERY: Final = int(os.environ.get("BENCH_EVERY", "1"))
FEW_ROUNDS, SELDOM_ROUNDS, MORE_ROUNDS = 4, 2, 5
PASSES: Final = 2
NEAR: Final = 0.9
"""What comes so near to a limit is asked for more often."""
BESIDE_SQL, BESIDE_SMALL, BESIDE_ROW = 3.0, 1.5, 20.0
_ROW: Final = b"<tr"
_SIZED: Final = ("/orders/?", "/patients/?")
"""Lists of which one may ask for so many rows."""
WORST: Final = 10
"""So many of the combinations of filters are listed."""


@dataclass
class Timed:
    """Milliseconds of one address, one figure per round."""

    group: str
    name: str
    path: str
    posted: dict[str, str]
    seldom: bool
    small_path: str
    """The same address in the small world, which names things of its own."""
    small: list[float] = field(default_factory=list)
    large: list[float] = field(default_factory=list)
    sql: list[float] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)
    small_rows: int = 0
    large_rows: int = 0
    even_small: list[float] = field(default_factory=list)
    even_large: list[float] = field(default_factory=list)
    """Of a page with as many rows as there are in the small world, where those are fewer."""

    def ask(self, rounds: int, lines: Sequence[Line], alone: psycopg.Connection[Any]) -> None:
        for _ in range(rounds):
            few, spent = lines[0].answer(self.small_path, self.posted)
            self.small.append(spent)
            many, spent = lines[1].answer(self.path, self.posted)
            self.large.append(spent)
            self.small_rows, self.large_rows = few.count(_ROW), many.count(_ROW)
            if self.shows_more and self.path.startswith(_SIZED):
                # One row is the head of the table.
                size = f"&size={max(1, self.small_rows - 1)}"
                self.even_small.append(lines[0].answer(self.small_path + size, {})[1])
                self.even_large.append(lines[1].answer(self.path + size, {})[1])
            if not self.seldom:
                self.sql.append(_spent(alone, self.statements))

    @property
    def beside_small(self) -> float:
        """Of pages of one length."""
        if self.even_large:
            return middle(self.even_large) / middle(self.even_small)
        return self.as_it_came

    @property
    def as_it_came(self) -> float:
        return middle(self.large) / middle(self.small)

    @property
    def beside_sql(self) -> float:
        return middle(self.large) / middle(self.sql)

    @property
    def shows_more(self) -> bool:
        """Among many orders more of them fit: the page is a longer one."""
        return self.large_rows > self.small_rows

    @property
    def near(self) -> bool:
        return self.beside_small > NEAR * BESIDE_SMALL or (
            not self.seldom and self.beside_sql > NEAR * BESIDE_SQL
        )

    def line(self) -> str:
        shown = f"{middle(self.small):8.1f} {middle(self.large):8.1f}"
        ratio = f"{self.beside_small:7.2f}"
        if not self.seldom:
            shown += f" {middle(self.sql):8.1f}"
            ratio += f" {self.beside_sql:7.2f} {len(self.statements):4d}"
        if self.shows_more:
            ratio += f"  {self.as_it_came:.2f} with {self.large_rows} rows, not {self.small_rows}"
        return f"{self.group:26.26} {self.name:60.60} {shown} {ratio}"


def middle(milliseconds: Sequence[float]) -> float:
    """The lower one of two: the first time warms."""
    return statistics.median_low(milliseconds)


def main(words: Sequence[str]) -> int:
    server = os.environ["DATABASE_URL"]
    small, large = kept(server, SMALL), kept(server, ORDERS)
    os.environ.update(DATABASE_URL=large, LOCAL="1", LOG_LEVEL="ERROR")
    os.environ["DJANGO_SETTINGS_MODULE"] = "backoffice.settings"
    django.setup()
    pairs = list(zip(_cases(small), _cases(large), strict=True))
    chosen = [
        (one, other)
        for one, other in pairs[::EVERY]
        if not words or any(word in f"{other['group']} {other['name']}" for word in words)
    ]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        lines = [
            stack.enter_context(_line(folder / f"{n}.log", url))
            for n, url in enumerate((small, large))
        ]
        # The driver would prepare what it is asked often, with every value in place: nothing that a
        # page asks with values of its own ever has that.
        alone = stack.enter_context(psycopg.connect(large, autocommit=True, prepare_threshold=None))
        timed = _measured(chosen, lines, alone)
        counts = _counts(alone)
        sizes = _sizes(alone)
        goals = _judged(timed, counts)
        _explained(timed)
    figures = {**_figures(timed, counts), "bytes_an_order": sizes}
    return report("pages" if not words else "pages-some", goals, figures)


def _cases(address: str) -> list[dict[str, Any]]:
    """The addresses of one world, which names things of its own."""
    command = [sys.executable, "-m", "tests.bench.pages", "--cases"]
    environment = {**os.environ, "DATABASE_URL": address, "LOG_LEVEL": "ERROR", "LOCAL": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def _print_cases() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backoffice.settings")
    django.setup()
    from backoffice.accounts.models import User
    from tests.bench.pages_cases import Samples, cases

    who = User.objects.get(username=WHO)
    print(json.dumps([asdict(case) for case in cases(Samples.found(), who)]))


@contextmanager
def _line(log: Path, address: str) -> Iterator[Line]:
    from tests.sync.house import House
    from tests.webhooks.sending import receiving

    house = House(address, "http://127.0.0.1:9", log)
    with receiving(house, workers=2) as url, Line(url) as line:
        yield line


def _measured(
    pairs: Sequence[tuple[dict[str, Any], dict[str, Any]]],
    lines: Sequence[Line],
    alone: psycopg.Connection[Any],
) -> list[Timed]:
    """All of them once; then, twice, what is near a limit. The same moment would be slow for all
    rounds of one address: machines have bad seconds."""
    found = []
    for one, other in pairs:
        timed = Timed(**other, small_path=one["path"])
        if not timed.seldom:
            timed.statements = _statements(timed.path, timed.posted)
        timed.ask(SELDOM_ROUNDS if timed.seldom else FEW_ROUNDS, lines, alone)
        found.append(timed)
    for _ in range(PASSES):
        near = [timed for timed in found if timed.near]
        print(f"{len(near):,} of {len(found):,} are near a limit: asked again")
        for timed in near:
            timed.ask(MORE_ROUNDS, lines, alone)
    heads = [f"{head:>8}" for head in (f"{SMALL:,}", f"{ORDERS:,}", "SQL", "/small", "/SQL")]
    print(f"{'milliseconds':88}{' '.join(heads)}  queries")
    for timed in found:
        if timed.near or not timed.seldom:
            print(timed.line(), flush=True)
    return found


def _statements(path: str, posted: dict[str, str]) -> list[str]:
    """What the page asks of the large world, ready to be asked again."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    ask = _asking(path, posted)
    ask()
    with CaptureQueriesContext(connection) as captured:
        answer = ask()
    assert answer.status_code in (200, 302), (path, answer.status_code)
    return [_READ_IN_PARTS.sub("", query["sql"]) for query in captured.captured_queries]


def _asking(path: str, posted: dict[str, str]) -> Callable[[], Any]:
    """Opens a page of the large world in this process."""
    from django.test import Client

    from backoffice.accounts.models import User

    client = Client(headers={"host": "127.0.0.1"})
    client.force_login(User.objects.get(username=WHO))
    return partial(client.post, path, posted) if posted else partial(client.get, path)


_READ_IN_PARTS: Final = re.compile(r'^DECLARE "_django_curs_[^"]+" .*?CURSOR .*?FOR ')
"""What Django puts before a statement whose rows it reads in parts; alone it is read at once."""


def _spent(alone: psycopg.Connection[Any], statements: Sequence[str]) -> float:
    begun = time.perf_counter()
    for statement in statements:
        cursor = alone.execute(statement.encode())
        if cursor.description:
            cursor.fetchall()
    return 1000 * (time.perf_counter() - begun)


def _counts(alone: psycopg.Connection[Any]) -> tuple[float, float]:
    """Milliseconds of the counts of Today, and of reading one row, in turns."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from backoffice.accounts.models import User
    from orders.models import Order
    from orders.today.tiles import tiles

    who = User.objects.get(username=WHO)
    tiles(who)
    with CaptureQueriesContext(connection) as captured:
        tiles(who)
    counted = [query["sql"] for query in captured.captured_queries]
    some = Order.objects.values_list("pk", flat=True)[0]
    with CaptureQueriesContext(connection) as captured:
        Order.objects.only("low_level_status").get(pk=some)
    one = [query["sql"] for query in captured.captured_queries]
    spent: tuple[list[float], list[float]] = ([], [])
    for number in range(101):
        for kept_in, statements in zip(spent, (counted, one), strict=True):
            milliseconds = _spent(alone, statements)
            if number:
                kept_in.append(milliseconds)
    return statistics.median(spent[0]), statistics.median(spent[1])


def _sizes(alone: psycopg.Connection[Any]) -> dict[str, int]:
    """Bytes on disk for each order, indexes included, by table: those of a byte and more."""
    rows = alone.execute(
        "SELECT relname, pg_total_relation_size(oid) / %s FROM pg_class WHERE relkind = 'r'"
        " AND relnamespace = 'public'::regnamespace ORDER BY 2 DESC",
        [ORDERS],
    )
    return {name: each for name, each in rows if each}


_MEASURES: Final[tuple[tuple[str, str, float, Callable[[Timed], float]], ...]] = (
    ("10", "its SQL alone", BESIDE_SQL, lambda one: one.beside_sql),
    ("11", f"{SMALL:,} orders", BESIDE_SMALL, lambda one: one.beside_small),
)


def _judged(timed: Sequence[Timed], counts: tuple[float, float]) -> list[Goal]:
    goals = []
    for number, beside, limit, ratio in _MEASURES:
        for group in dict.fromkeys(one.group for one in timed):
            some = _sorted(timed, group, number, ratio)
            if some:
                worst, median = some[-1], some[len(some) // 2]
                goal = at_most(
                    f"{number} {group} beside {beside} ({worst.name:.60})",
                    ratio(worst), limit, "{:.2f} times",
                )  # fmt: skip
                goal.value = f"{ratio(worst):.2f}, middle {ratio(median):.2f}"
                goals.append(goal)
    goals.append(at_most("12 counts beside one row", counts[0] / counts[1], BESIDE_ROW,
                         "{:.1f} times"))  # fmt: skip
    return goals


def _sorted(
    timed: Sequence[Timed], group: str, number: str, ratio: Callable[[Timed], float]
) -> list[Timed]:
    """Those of a group for which this was measured, the worst one last."""
    some = (one for one in timed if one.group == group and not (number == "10" and one.seldom))
    return sorted(some, key=ratio)


def _explained(timed: Sequence[Timed]) -> None:
    """The worst combinations of filters; where time goes in the worst page of each group over a
    limit."""
    from tests.bench.pages_profile import explain_page

    combined = sorted((one for one in timed if one.seldom), key=lambda one: one.beside_small)
    if combined:
        slow = sum(one.beside_small > BESIDE_SMALL for one in combined)
        longer = sum(one.shows_more and one.as_it_came > BESIDE_SMALL for one in combined)
        print(
            f"\n{slow:,} of {len(combined):,} combinations of filters take more than"
            f" {BESIDE_SMALL} times as long with as many rows; {longer:,} do as they came, with"
            " more rows than in the small world. The worst:"
        )
    for one in reversed(combined[-WORST:]):
        print(f"  {one.line()}")
    shown: set[str] = set()
    for number, _, limit, ratio in _MEASURES:
        for group in dict.fromkeys(one.group for one in timed):
            some = _sorted(timed, group, number, ratio)
            if some and ratio(some[-1]) > limit and some[-1].path not in shown:
                shown.add(some[-1].path)
                explain_page(f"{group}, {some[-1].name}", _asking(some[-1].path, some[-1].posted))


def _figures(timed: Sequence[Timed], counts: tuple[float, float]) -> dict[str, object]:
    return {
        "orders": ORDERS,
        "small": SMALL,
        "counts_ms": round(counts[0], 3),
        "one_row_ms": round(counts[1], 3),
        "pages": [
            {
                "group": one.group,
                "name": one.name,
                "small_ms": round(middle(one.small), 2),
                "large_ms": round(middle(one.large), 2),
                "sql_ms": round(middle(one.sql), 2) if one.sql else None,
                "queries": len(one.statements) or None,
                "small_rows": one.small_rows,
                "large_rows": one.large_rows,
                "even_small_ms": round(middle(one.even_small), 2) if one.even_small else None,
                "even_large_ms": round(middle(one.even_large), 2) if one.even_large else None,
            }
            for one in timed
        ],
    }


if __name__ == "__main__":
    if sys.argv[1:] == ["--cases"]:
        _print_cases()
    else:
        sys.exit(main(sys.argv[1:]))
