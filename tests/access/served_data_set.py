"""The small data set behind a running web server, for external clients."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from tests.sync.back_office import ROOT, BackOffice, BackOffices
from tests.webhooks.sending import receiving

UNUSED_URL: str = "http://127.0.0.1:9"
"""The URL of the service, which does not run."""


@dataclass(frozen=True)
class Site:
    """A running site.

    `paths` holds one existing URL of each route. All forms accept `FORM_TOKEN`.
    """

    url: str
    back_office: BackOffice
    cookie: str
    sessions: dict[str, str]
    token: str
    paths: list[str]


@contextlib.contextmanager
def serve_small_data_set(back_offices: BackOffices) -> Iterator[Site]:
    """Run the site. Rate limits are so high that no response is a 429."""
    rates = {"API_RATE": "100000000/min", "API_FAILED_RATE": "100000000/min"}
    back_office = back_offices.build(
        UNUSED_URL, REPORT_FOLDER=str(back_offices.logs / "reports"), **rates
    )
    fill_path = subprocess.run(
        [sys.executable, "-m", "tests.access.data_set"],
        cwd=ROOT,
        env=back_office.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert fill_path.returncode == 0, fill_path.stderr
    values = json.loads(fill_path.stdout.splitlines()[-1])
    with receiving(back_office) as url:
        yield Site(url=url, back_office=back_office, **values)
