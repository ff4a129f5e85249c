"""`python -m tests.bench.worker KIND`: what a Celery worker does when beat rings, until nothing of
this kind is left to do. It says when it is ready, begins when it is told to, and ends by saying
what it took."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backoffice.settings")
django.setup()

from django.db import connection  # noqa: E402

import orders.sync  # noqa: E402
from backoffice import sync  # noqa: E402
from backoffice.models import SyncRun  # noqa: E402
from orders.sync.orders import SWEEP  # noqa: E402
from webhooks import applying  # noqa: E402


def inbox() -> None:
    applying.drain()


def lookups() -> None:
    sync.drain(orders.sync.SUBJECTS)


def sweep() -> None:
    runs = SyncRun.objects.filter(resource="orders", full=True).exclude(state="done")
    while runs.exists():
        if sync.work(SWEEP) is None:
            time.sleep(0.05)  # Another has it.


KINDS: dict[str, Callable[[], None]] = {"inbox": inbox, "look-ups": lookups, "sweep": sweep}


def main() -> None:
    work = KINDS[sys.argv[1]]
    connection.ensure_connection()
    print("ready", flush=True)
    sys.stdin.readline()
    begun = time.process_time()
    work()
    print(json.dumps({"cpu": time.process_time() - begun}), flush=True)


if __name__ == "__main__":
    main()
