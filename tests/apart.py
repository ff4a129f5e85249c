"""Several pytest processes side by side (`-n`): each has a Redis database of its own.

Loaded by `-p` before Django reads its settings. PostgreSQL's test databases are named apart by
pytest-django.

Files are handed out in the order below, so nobody is left alone with a long one at the end; and
folder by folder, so what a folder shares is started once by each process.
"""

from __future__ import annotations

import os
from urllib.parse import urlsplit

import pytest

from tests import databases  # noqa: F401 - what all processes copy goes with the first, this one

LONGEST = (
    *("browser", "tests", "sync", "outbox", "webhooks", "access", "operations", "sandbox"),
    *("hardening", "contract", "reviewing", "labs"),
)
"""Folders of tests, `tests` itself among them; the others follow."""

worker = os.environ.get("PYTEST_XDIST_WORKER", "")
if worker:
    number = int(worker.removeprefix("gw")) + 1
    url = os.environ["REDIS_URL"].partition("?")[0]
    if url.startswith("unix:"):
        os.environ["REDIS_URL"] = f"{url}?db={number}"
    else:
        os.environ["REDIS_URL"] = urlsplit(url)._replace(path=f"/{number}").geturl()


def _when(item: pytest.Item) -> tuple[int, str]:
    folder = item.path.parent.name
    return LONGEST.index(folder) if folder in LONGEST else len(LONGEST), str(item.path)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_when)
