"""Goal 10b: the orders list beside those that clinics would get elsewhere (`pages_peers`).

All three read the same database through the same kind of web server, in turns.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from backoffice.pages.lists.forms import SIZE
from backoffice.pages.paging.pages import Sort
from orders.models import Order
from orders.order_list.filters import SORTS
from tests.bench.common import Goal, at_least
from tests.bench.page_client import PageClient, served_client
from tests.bench.pages_cases import cursor_of_page

GROUP: Final = "orders beside other lists"
ROUNDS: Final = 5
DEEP_PAGE: Final = 10_000
NAME: Final = "Mock"
"""The beginning of last names with one spelling: ours also finds other spellings of a name."""
PATHS: Final = {"ours": "/orders/", "admin": "/admin/orders/order/", "tables": "/orders/"}
LEAST_RATIOS: Final = {"admin": 15.0, "tables": 5.0}
_MATCHES: Final = re.compile(rb"(\d[\d,]*\+?) (?:match|order)(?:e?s)?\b")


@dataclass
class ComparedPage:
    """The same page of the three lists, with the milliseconds of each round."""

    name: str
    paths: dict[str, str]
    matches: dict[str, str] = field(default_factory=dict)
    """How many orders match, as each list shows it."""
    times: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in PATHS})

    def measure(self, clients: dict[str, PageClient]) -> None:
        row_counts = set()
        for name, client in clients.items():
            text, milliseconds = client.fetch(self.paths[name], {})
            self.times[name].append(milliseconds)
            found = _MATCHES.search(text)
            self.matches[name] = found[1].decode().replace(",", "") if found else ""
            row_counts.add(text.rpartition(b"<table")[2].count(b"<tr"))
        assert len(row_counts) == 1, f"{self.name}: {row_counts} rows on one page"

    def milliseconds(self, name: str) -> float:
        return statistics.median_low(self.times[name])

    def ratio(self, name: str) -> float:
        return self.milliseconds(name) / self.milliseconds("ours")

    def line(self) -> str:
        times = " ".join(f"{self.milliseconds(name):8.1f}" for name in PATHS)
        ratios = " ".join(f"{self.ratio(name):8.1f}" for name in LEAST_RATIOS)
        return f"{GROUP:26.26} {self.name:60.60} {times} {ratios}"


def measure_lists(folder: Path, database_url: str) -> list[ComparedPage]:
    """Measure each page in turns, and print the times and ratios. Logs are in the folder.

    The models read the same database.
    """
    pages = list(_pages())
    with (
        served_client(folder / "ours.log", database_url) as ours,
        served_client(
            folder / "peers.log", database_url, "tests.bench.pages_peers:web", "/admin/"
        ) as peers,
    ):
        clients = {name: ours if name == "ours" else peers for name in PATHS}
        for _ in range(ROUNDS):
            for page in pages:
                page.measure(clients)
    headings = (*PATHS, *(f"/{name}" for name in LEAST_RATIOS))
    print(f"\n{'milliseconds':87} {' '.join(f'{heading:>8}' for heading in headings)}")
    for page in pages:
        print(page.line(), flush=True)
    return pages


def _pages() -> Iterator[ComparedPage]:
    yield _page("unfiltered", {}, {}, {})
    yield _page(
        "status",
        {"status": "completed"},
        {"low_level_status": "completed"},
        {"status": "completed"},
    )
    yield _page("name prefix", {"patient_name": NAME}, {"q": NAME}, {"name": NAME})
    yield _page(
        "status and method",
        {"status": "completed", "order_type": "testkit"},
        {"low_level_status": "completed", "method": "testkit"},
        {"status": "completed", "method": "testkit"},
    )
    orders = Order.objects.all()
    number = min(DEEP_PAGE, -(-orders.count() // SIZE))
    cursor = cursor_of_page(orders, Sort(SORTS["created_at"], descending=True), number, SIZE)
    yield _page(f"page {number:,}", {"after": cursor}, {"p": str(number)}, {"page": str(number)})


def _page(
    name: str, ours: dict[str, str], admin: dict[str, str], tables: dict[str, str]
) -> ComparedPage:
    queries = {"ours": ours, "admin": admin, "tables": tables}
    return ComparedPage(
        name,
        {peer: f"{path}?{urlencode(queries[peer])}" for peer, path in PATHS.items()},
    )


def list_goals(pages: Sequence[ComparedPage]) -> list[Goal]:
    """Return a goal for each of the other lists; none if no page was measured."""
    if not pages:
        return []
    return [
        at_least(
            f"10b beside {name}, middle of {len(pages)} pages of the orders list",
            statistics.median(page.ratio(name) for page in pages),
            limit,
            "{:.1f} times",
        )
        for name, limit in LEAST_RATIOS.items()
    ]


def list_figures(pages: Sequence[ComparedPage]) -> list[dict[str, object]]:
    return [
        {
            "name": page.name,
            "matches": page.matches,
            "milliseconds": {name: round(page.milliseconds(name), 2) for name in PATHS},
        }
        for page in pages
    ]
