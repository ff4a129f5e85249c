"""`./run chaos restore`: restore a backup of a million events (P22) and lost commands (G6).

The run writes `var/bench/chaos-restore.json` and exits non-zero when a proof fails. `CHAOS_EVENTS`
(1,000,000) sets the number of events.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backoffice.settings")
os.environ.setdefault("LOCAL", "1")
os.environ.setdefault("LOG_LEVEL", "ERROR")
django.setup()

from tests.bench.common import Goal  # noqa: E402
from tests.chaos.common import empty_all_tables, run  # noqa: E402
from tests.outbox.cases import CASES  # noqa: E402
from tests.outbox.database_restore import empty_database, lose_and_restore_database  # noqa: E402
from tests.sync.back_office import BackOffice, BackOffices  # noqa: E402

EVENTS = int(os.environ.get("CHAOS_EVENTS", "1000000"))
SECONDS = 120
INSERT_EVENTS = """
INSERT INTO webhooks_event (message_id, sent_at, body, body_digest, state, event_type)
SELECT 'msg_' || n, now(), convert_to(rpad('{"n": ' || n, 700, ' ') || '}', 'UTF8'), '\\x00',
 'done', 'labtest.order.updated'
FROM generate_series(1, %s) AS n
"""


def large_backup(folder: Path, back_offices: BackOffices) -> list[Goal]:
    """P22: back up a million events, restore them and compare the number of rows."""
    full = back_offices.build("http://127.0.0.1:1", REPORT_FOLDER=str(folder / "reports"))
    full.query(INSERT_EVENTS, [EVENTS])
    with empty_database() as empty:
        started = time.monotonic()
        full.manage("backup", str(folder / "backup"))
        written = time.monotonic()
        restored = BackOffice(empty, "http://127.0.0.1:1", folder / "restored", full.settings)
        restored.manage("restore", str(folder / "backup"))
        seconds = time.monotonic() - started
        rows = restored.value("SELECT count(*) FROM webhooks_event")
    extent = f"{EVENTS:,} events, {written - started:.0f} s to write"
    return [
        Goal(f"P22 backup and restore ({extent})", f"{seconds:.0f} s", f"{SECONDS} s",
             seconds <= SECONDS),
        Goal("P22 rows lost", str(EVENTS - rows), "0", rows == EVENTS),
    ]  # fmt: skip


def service_ahead_of_backup(folder: Path, _: BackOffices) -> list[Goal]:
    """G6: the service holds the effects of commands that the backup does not contain."""
    empty_all_tables()
    ahead_folder = folder / "ahead"
    ahead_folder.mkdir()
    with empty_database() as empty:
        count = lose_and_restore_database(empty, ahead_folder, CASES)
    return [Goal(f"P22 done twice, or not at all, of {count} commands", "0", "0", True)]


if __name__ == "__main__":
    sys.exit(run("chaos-restore", (large_backup, service_ahead_of_backup), {"events": EVENTS}))
