"""`python -m tests.bench.worker KIND`: does what a Celery worker does on a message of beat, until
no work of this kind is left.

It prints "ready", starts when it reads a line, and prints its processor time at the end.
"""

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
from django.db.models.functions import Now  # noqa: E402

from backoffice.management.commands.sync import LOOKUP_TYPES, SYNCED_LISTS  # noqa: E402
from backoffice.sync.lookups import run_due_lookups  # noqa: E402
from backoffice.sync.models import (  # noqa: E402
    Lookup,  # noqa: E402
    SyncRun,  # noqa: E402
)
from backoffice.sync.runs import work_on_run  # noqa: E402
from webhooks import apply_events  # noqa: E402


def apply_inbox() -> None:
    apply_events.drain()


def run_sync() -> None:
    """Sync lists that no other worker syncs, then look up records, until neither is left."""
    lists = SyncRun.objects.filter(state__in=[SyncRun.State.DUE, SyncRun.State.RUNNING])
    records = Lookup.objects.filter(due_at__lte=Now())
    while lists.exists() or records.exists():
        worked = [work_on_run(synced_list) for synced_list in SYNCED_LISTS]
        if not run_due_lookups(LOOKUP_TYPES) and not any(worked):
            time.sleep(0.05)  # Another worker has the rest.


KINDS: dict[str, Callable[[], None]] = {"inbox": apply_inbox, "sync": run_sync}


def main() -> None:
    work = KINDS[sys.argv[1]]
    connection.ensure_connection()
    print("ready", flush=True)
    sys.stdin.readline()
    started_at = time.process_time()
    work()
    print(json.dumps({"cpu": time.process_time() - started_at}), flush=True)


if __name__ == "__main__":
    main()
