"""Goals 10 to 12: pages at a million orders beside their SQL alone, and beside ten thousand orders.

Two worlds (`tests/bench/world`), two web servers as the launcher starts them, one kept connection
to each, logged in. Every address is asked for in turns: in the small world, in the large one, and
its own statements alone, over one connection, as they were when the page ran in this process.
`BENCH_ORDERS` and `BENCH_SMALL` change the sizes; `python -m tests.bench.pages WORD…` measures only
groups that contain one of the words, and says nothing of goals.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import django
import httpx
import psycopg

from tests.bench.common import ROOT, Goal, report
from tests.bench.world.keeping import kept

ORDERS: Final = int(os.environ.get("BENCH_ORDERS", "1000000"))
SMALL: Final = int(os.environ.get("BENCH_SMALL", "10000"))
ROUNDS, FEW_ROUNDS = 9, 3
BESIDE_SQL, BESIDE_SMALL, BESIDE_ROW = 3.0, 1.5, 20.0
WHO: Final = "administrator"


@dataclass
class Timed:
    """Milliseconds of one address, one figure per round."""

    group: str
    name: str
    path: str
    small: list[float] = field(default_factory=list)
    large: list[float] = field(default_factory=list)
    sql: list[float] = field(default_factory=list)
    queries: int = 0

    @property
    def beside_small(self) -> float:
        return statistics.median(self.large) / statistics.median(self.small)

    @property
    def beside_sql(self) -> float:
        return statistics.median(self.large) / statistics.median(self.sql)

    def line(self) -> str:
        middle = [statistics.median(each) for each in (self.small, self.large, self.sql)]
        shown = " ".join(f"{each:8.1f}" for each in middle)
        return (
            f"{self.group:26.26} {self.name:44.44} {shown}"
            f" {self.beside_small:7.2f} {self.beside_sql:7.2f} {self.queries:4d}"
        )


def main(words: Sequence[str]) -> int:
    server = os.environ["DATABASE_URL"]
    small, large = kept(server, SMALL), kept(server, ORDERS)
    os.environ.update(DATABASE_URL=large, LOCAL="1", LOG_LEVEL="ERROR")
    os.environ["DJANGO_SETTINGS_MODULE"] = "backoffice.settings"
    django.setup()
    pairs = list(zip(_cases(small), _cases(large), strict=True))
    chosen = [
        (one, other)
        for one, other in pairs
        if not words or any(word in f"{other['group']} {other['name']}" for word in words)
    ]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        lines = [
            stack.enter_context(_line(folder / f"{n}.log", url))
            for n, url in enumerate((small, large))
        ]
        alone = stack.enter_context(psycopg.connect(large, autocommit=True))
        timed = _measured(chosen, lines, alone)
        counts = _counts(alone)
    return _judged(timed, counts, words)


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
    from tests.bench.pages_cases import Samples, cases

    print(json.dumps([asdict(case) for case in cases(Samples.found())]))


class Line:
    """A kept connection of somebody who is logged in."""

    def __init__(self, url: str) -> None:
        from backoffice.management.commands.demo_users import PASSWORD

        with httpx.Client(base_url=url, timeout=60) as person:
            page = person.get("/accounts/login/").text
            token = re.search(r'csrfmiddlewaretoken" value="([^"]+)', page)
            assert token is not None, page
            given = {
                "username": WHO,
                "password": PASSWORD,
                "csrfmiddlewaretoken": token.group(1),
            }
            answer = person.post("/accounts/login/", data=given, headers={"referer": url})
            assert answer.status_code == 302, answer.status_code
            cookies = "; ".join(f"{name}={value}" for name, value in person.cookies.items())
            token = re.search(r'csrfmiddlewaretoken" value="([^"]+)', person.get("/labs/").text)
            assert token is not None, "no form on the page"
            self.token = token.group(1)
        parts = urlsplit(url)
        self.headers = {"Referer": url, "Cookie": cookies, "Host": f"{parts.hostname}:{parts.port}"}
        self.http = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=120)

    def ask(self, path: str, posted: dict[str, str]) -> float:
        """Milliseconds until the whole answer is there."""
        body = urlencode({**posted, "csrfmiddlewaretoken": self.token}) if posted else None
        form = {"Content-Type": "application/x-www-form-urlencoded"} if posted else {}
        begun = time.perf_counter()
        self.http.request(
            "POST" if posted else "GET", path, body=body, headers={**self.headers, **form}
        )
        answer = self.http.getresponse()
        text = answer.read()
        spent = time.perf_counter() - begun
        assert answer.status in (200, 302), (path, answer.status, text[-500:])
        return 1000 * spent

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()


def _line(log: Path, address: str) -> Any:
    from contextlib import contextmanager

    from tests.sync.house import House
    from tests.webhooks.sending import receiving

    @contextmanager
    def opened() -> Any:
        house = House(address, "http://127.0.0.1:9", log)
        with receiving(house, workers=2) as url, Line(url) as line:
            yield line

    return opened()


def _measured(
    pairs: Iterable[tuple[dict[str, Any], dict[str, Any]]],
    lines: Sequence[Line],
    alone: psycopg.Connection[Any],
) -> list[Timed]:
    heads = [f"{head:>8}" for head in (f"{SMALL:,}", f"{ORDERS:,}", "SQL", "/small", "/SQL")]
    print(f"{'milliseconds':72}{' '.join(heads)}  queries")
    found = []
    for one, other in pairs:
        timed = Timed(other["group"], other["name"], other["path"])
        statements = _statements(other["path"], other["posted"])
        timed.queries = len(statements)
        rounds = FEW_ROUNDS if other["seldom"] else ROUNDS
        for number in range(rounds + 1):
            spent = (
                lines[0].ask(one["path"], one["posted"]),
                lines[1].ask(other["path"], other["posted"]),
                _spent(alone, statements),
            )
            if number:  # The first round warms.
                for kept_in, milliseconds in zip(
                    (timed.small, timed.large, timed.sql), spent, strict=True
                ):
                    kept_in.append(milliseconds)
        found.append(timed)
        print(timed.line(), flush=True)
    return found


def _statements(path: str, posted: dict[str, str]) -> list[str]:
    """What the page asks of the large world, ready to be asked again."""
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    from backoffice.models import User

    client = Client(headers={"host": "127.0.0.1"})
    client.force_login(User.objects.get(username=WHO))
    ask = partial(client.post, path, posted) if posted else partial(client.get, path)
    ask()
    with CaptureQueriesContext(connection) as captured:
        answer = ask()
    assert answer.status_code in (200, 302), (path, answer.status_code)
    return [_READ_IN_PARTS.sub("", query["sql"]) for query in captured.captured_queries]


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

    from backoffice.models import User
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


def _judged(timed: Sequence[Timed], counts: tuple[float, float], words: Sequence[str]) -> int:
    goals = []
    measures: tuple[tuple[str, str, float, Callable[[Timed], float]], ...] = (
        ("10", "its SQL alone", BESIDE_SQL, lambda one: one.beside_sql),
        ("11", f"{SMALL:,} orders", BESIDE_SMALL, lambda one: one.beside_small),
    )
    for number, beside, goal, ratio in measures:
        for group in dict.fromkeys(one.group for one in timed):
            some = sorted((one for one in timed if one.group == group), key=ratio)
            worst, middle = some[-1], some[len(some) // 2]
            goals.append(
                Goal(
                    f"{number} {group} beside {beside} ({worst.name:.40})",
                    f"{ratio(worst):.2f}, middle {ratio(middle):.2f}",
                    f"<= {goal} times",
                    ratio(worst) <= goal,
                )
            )
    times = counts[0] / counts[1]
    goals.append(
        Goal(
            "12 counts beside one row",
            f"{times:.1f} times",
            f"<= {BESIDE_ROW:.0f} times",
            times <= BESIDE_ROW,
        )
    )
    figures: dict[str, object] = {
        "orders": ORDERS,
        "small": SMALL,
        "counts_ms": round(counts[0], 3),
        "one_row_ms": round(counts[1], 3),
        "pages": [
            {
                "group": one.group,
                "name": one.name,
                "small_ms": round(statistics.median(one.small), 2),
                "large_ms": round(statistics.median(one.large), 2),
                "sql_ms": round(statistics.median(one.sql), 2),
                "queries": one.queries,
            }
            for one in timed
        ],
    }
    return report("pages" if not words else "pages-some", goals, figures)


if __name__ == "__main__":
    if sys.argv[1:] == ["--cases"]:
        _print_cases()
    else:
        sys.exit(main(sys.argv[1:]))
