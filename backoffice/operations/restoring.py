"""From a backup into an empty database, and what holds after it.

The service went on after the moment that the backup shows. So nothing is sent again by itself:
sending is on hold until a person releases it, what was open then is looked up at the service first,
lists are read anew, and what the service told meanwhile is asked for again.
"""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path
from typing import Final

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection, transaction
from django.db.migrations.loader import MigrationLoader

from backoffice import sync
from backoffice.accounts.models import StaffSession
from backoffice.lists import bulk
from backoffice.lists.models import BulkRun
from backoffice.models import SyncRun
from backoffice.operations import backups, dumps
from backoffice.operations.backups import Manifest
from backoffice.upkeep import Heartbeat, Hold
from orders.sync import SWEEP
from webhooks import silence
from webhooks.models import Event

MAYBE_SENT: Final = "Restored from a backup: it may have been sent since then."

# It may have been sent after the backup, with the key that stands in the row.
_DOUBT_COMMANDS: Final = """
UPDATE backoffice_commandrecord SET state = 'uncertain', doubted = true, hindrance = %s,
 sent_at = coalesce(sent_at, requested_at), first_sent_at = coalesce(first_sent_at, requested_at),
 keyed_at = coalesce(keyed_at, requested_at)
WHERE state IN ('waiting', 'sending')
"""
_LOOK_NOW: Final = """
UPDATE backoffice_commandrecord SET lease_token = NULL, lease_until = NULL, due_at = now(),
 looks = 0, settle_until = now() + make_interval(secs => %s)
WHERE state IN ('uncertain', 'undecided')
"""
_DOUBT_REPORTS: Final = """
UPDATE labs_report SET state = 'uncertain', lease_until = NULL,
 sent_at = coalesce(sent_at, due_at)
WHERE state IN ('stored', 'sending')
"""


def restore(folder: Path) -> Manifest:
    """Raises CommandError; the database is left as it is where that was found out before, and to be
    dropped where it was not."""
    manifest = backups.manifest_of(folder)
    _refuse_newer(manifest)
    _refuse_full_database()
    program = dumps.program("pg_restore")
    _bring_reports(folder)
    name = str(connection.settings_dict["NAME"])
    dumps.finish(
        dumps.start(
            [
                *(program, "--exit-on-error", "--no-owner", "--no-privileges", "--jobs=2"),
                *(f"--dbname={name}", str(folder / backups.DUMP)),
            ]
        ),
        "pg_restore",
    )
    _compare(manifest)
    call_command("migrate", verbosity=0, interactive=False)
    hold(manifest.moment)
    return manifest


def _refuse_newer(manifest: Manifest) -> None:
    known = MigrationLoader(None).disk_migrations.keys()
    unknown = [f"{app} {name}" for app, name in manifest.migrations if (app, name) not in known]
    if unknown:
        raise CommandError(
            f"The backup is of another release ({manifest.version}), with migrations that are not"
            f" here: {', '.join(unknown[:3])}. Restore it with that release or a later one."
        )


def _refuse_full_database() -> None:
    if connection.introspection.table_names():
        raise CommandError("The database has tables: restore into an empty one.")


def _bring_reports(folder: Path) -> None:
    """Files that are there stay where they are the same, and are never overwritten."""
    source = folder / backups.REPORTS
    for path in sorted(source.rglob("*")):
        if path.is_file():
            place = settings.REPORT_FOLDER / path.relative_to(source)
            if not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                shutil.copy2(path, place)
            elif place.read_bytes() != path.read_bytes():
                raise CommandError(f"{place} is there already, with other contents.")


def _compare(manifest: Manifest) -> None:
    with dumps.door() as opened:
        found = dumps.contents(opened)
    wrong = sorted(
        name
        for name in manifest.tables.keys() | found.keys()
        if manifest.tables.get(name) != found.get(name)
    )
    if wrong:
        raise CommandError(
            f"What was restored differs from the backup, in {', '.join(wrong[:5])}. Drop this"
            " database."
        )


def hold(restored_to: datetime) -> None:
    """What is to be done before a worker starts on a database that shows an earlier moment."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        if not Hold.objects.filter(released_at=None).exists():
            Hold.objects.create(restored_to=restored_to)
        cursor.execute(_DOUBT_COMMANDS, [MAYBE_SENT])
        cursor.execute(_LOOK_NOW, [settings.OUTBOX_SETTLE_SECONDS])
        cursor.execute(_DOUBT_REPORTS)
        # What was stopped since does not go on: who still wants it, asks for the rest again.
        bulk.stop_open(BulkRun.objects.all())
        # Who has logged out since is not logged in again.
        StaffSession.objects.all().delete()
        Heartbeat.objects.all().delete()
        SyncRun.objects.filter(state__in=[SyncRun.State.DUE, SyncRun.State.RUNNING]).delete()
    sync.request(SWEEP)
    latest = Event.objects.order_by("-pk").values_list("pk", "received_at").first()
    sync.mark(silence.RESEND, [silence.Gap(*(latest or (0, None))).key()])
