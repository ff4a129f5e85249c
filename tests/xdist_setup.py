"""Several pytest processes in parallel (`-n`), each with its own Redis database.

`-p` loads this module before Django reads its settings. pytest-django gives each process its own
PostgreSQL test database.

Files are distributed in the order below, so that no process is left with a long file at the end,
and folder by folder, so that each process starts once what the tests of a folder share.
"""

from __future__ import annotations

import os
from urllib.parse import urlsplit

import pytest

from tests import databases  # noqa: F401 - what all processes copy goes with the first, this one

SLOWEST_FOLDERS = (
    *("browser", "tests", "sync", "outbox", "webhooks", "access", "operations", "sandbox"),
    *("hardening", "contract", "reviewing", "labs"),
)
"""Folders of tests, including `tests` itself; the others follow."""

worker = os.environ.get("PYTEST_XDIST_WORKER", "")
if worker:
    number = int(worker.removeprefix("gw")) + 1
    url = os.environ["REDIS_URL"].partition("?")[0]
    if url.startswith("unix:"):
        os.environ["REDIS_URL"] = f"{url}?db={number}"
    else:
        os.environ["REDIS_URL"] = urlsplit(url)._replace(path=f"/{number}").geturl()


def _sort_key(item: pytest.Item) -> tuple[int, str]:
    folder = item.path.parent.name
    return SLOWEST_FOLDERS.index(folder) if folder in SLOWEST_FOLDERS else len(
        SLOWEST_FOLDERS
    ), str(item.path)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_sort_key)
