"""The small world behind a running web server, for visitors from outside."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from tests.sync.house import ROOT, House, Houses
from tests.webhooks.sending import receiving

NOBODY: str = "http://127.0.0.1:9"
"""Where the service should be and is not."""


@dataclass(frozen=True)
class Site:
    """`paths`: one real address of each route. Every form takes the token `FORM_TOKEN`."""

    url: str
    house: House
    cookie: str
    sessions: dict[str, str]
    token: str
    paths: list[str]


@contextlib.contextmanager
def serving(houses: Houses) -> Iterator[Site]:
    """Rates are so high that nothing hides behind a 429."""
    rates = {"API_RATE": "100000000/min", "API_FAILED_RATE": "100000000/min"}
    house = houses.build(NOBODY, REPORT_FOLDER=str(houses.logs / "reports"), **rates)
    filled = subprocess.run(
        [sys.executable, "-m", "tests.access.world"],
        cwd=ROOT,
        env=house.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert filled.returncode == 0, filled.stderr
    told = json.loads(filled.stdout.splitlines()[-1])
    with receiving(house) as url:
        yield Site(url=url, house=house, **told)
