"""Several pytest processes side by side (`-n`): each has a Redis database of its own.

Loaded by `-p` before Django reads its settings. PostgreSQL's test databases are named apart by
pytest-django.
"""

from __future__ import annotations

import os
from urllib.parse import urlsplit

worker = os.environ.get("PYTEST_XDIST_WORKER", "")
if worker:
    number = int(worker.removeprefix("gw")) + 1
    url = os.environ["REDIS_URL"].partition("?")[0]
    if url.startswith("unix:"):
        os.environ["REDIS_URL"] = f"{url}?db={number}"
    else:
        os.environ["REDIS_URL"] = urlsplit(url)._replace(path=f"/{number}").geturl()
