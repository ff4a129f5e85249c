"""Restore a backup into an empty database, and hold sending afterwards.

The service kept changing after the time of the backup. So nothing is sent automatically: sending
is on hold until a person releases it. Open commands are looked up at the service first, lists are
read again, and the webhook events since the backup are requested again.

The restore writes the hold as its first row, before any command is in the database. If a later
step fails, nothing is sent.
"""

from __future__ import annotations

import shutil
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Final

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import Error as DatabaseError
from django.db import connection, transaction
from django.db.migrations.loader import MigrationLoader
from django.utils.translation import gettext_noop

from backoffice.accounts.models import StaffSession
from backoffice.core.models import Heartbeat, Hold
from backoffice.operations import backups, dumps
from backoffice.operations.backups import Manifest
from backoffice.pages.lists import bulk
from backoffice.pages.models import BulkRun
from backoffice.sync.lookups import schedule_lookups
from backoffice.sync.models import SyncRun
from backoffice.sync.runs import request_run
from orders.sync import ALL_ORDERS
from webhooks import silence
from webhooks.models import Event

MAYBE_SENT: Final = gettext_noop("Restored from a backup. It may have been sent since then.")

# The command may have been sent after the backup, with the idempotency key in the row.
_DOUBT_COMMANDS: Final = """
UPDATE outbox_commandrecord SET state = 'uncertain', doubted = true, hindrance = %s,
 sent_at = coalesce(sent_at, requested_at), first_sent_at = coalesce(first_sent_at, requested_at),
 keyed_at = coalesce(keyed_at, requested_at)
WHERE state IN ('waiting', 'sending')
"""
_SCHEDULE_LOOKUPS: Final = """
UPDATE outbox_commandrecord SET lease_token = NULL, lease_until = NULL, due_at = now(),
 looks = 0, settle_until = now() + make_interval(secs => %s)
WHERE state IN ('uncertain', 'undecided')
"""
_DOUBT_REPORTS: Final = """
UPDATE labs_report SET state = 'uncertain', lease_until = NULL, doubted = true,
 sent_at = coalesce(sent_at, due_at)
WHERE state IN ('stored', 'sending')
"""
# Uses only columns that every release has, because later migrations have not run yet.
_HOLD: Final = """
INSERT INTO core_hold (restored_to) SELECT %s
WHERE NOT EXISTS (SELECT FROM core_hold WHERE released_at IS NULL)
"""
_HOLD_TABLE: Final = Hold._meta.db_table
_DROP_ADVICE: Final = "Sending is on hold. Drop this database before you restore into another one."


def restore(folder: Path) -> Manifest:
    """Restore a backup and return its manifest. Raises CommandError.

    If a check fails, the database is unchanged. If a later step fails, nothing is sent: sending is
    on hold, or the database has no command yet.
    """
    manifest = backups.read_manifest(folder)
    _refuse_newer(manifest)
    _refuse_full_database()
    _restore_reports(folder)
    _restore_rows(folder, manifest)
    try:
        mark_open_uncertain()
        call_command("migrate", verbosity=0, interactive=False)
        end_earlier_work()
    except (CommandError, DatabaseError, ImproperlyConfigured) as error:
        raise CommandError(
            f"All rows are restored, and sending is on hold. Then this failed: {error}\nFix that,"
            " run manage.py migrate, and then"
            f" manage.py holdsending {manifest.moment.isoformat()}"
        ) from error
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
        raise CommandError("The database has tables. Restore into an empty database.")


def _restore_reports(folder: Path) -> None:
    """Copy the report files. An existing file is never overwritten.

    Raises CommandError if an existing file has other contents.
    """
    source = folder / backups.REPORTS
    for path in sorted(source.rglob("*")):
        if path.is_file():
            target = settings.REPORT_FOLDER / path.relative_to(source)
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                shutil.copy2(path, target)
            elif target.read_bytes() != path.read_bytes():
                raise CommandError(f"{target} already exists with other contents.")


def _restore_rows(folder: Path, manifest: Manifest) -> None:
    """Restore the empty tables, set the hold, then restore all other rows, indexes, constraints."""
    dump, program = str(folder / backups.DUMP), dumps.program("pg_restore")
    name = str(connection.settings_dict["NAME"])
    command = (
        program,
        "--exit-on-error",
        "--no-owner",
        "--no-privileges",
        f"--dbname={name}",
    )
    toc_lines = dumps.finish(dumps.start([program, "--list", dump]), "pg_restore").splitlines()
    hold_lines = [line for line in toc_lines if _is_hold_line(line)]
    other_lines = [line for line in toc_lines if line not in hold_lines]
    with tempfile.TemporaryDirectory() as lists:
        first, rest = Path(lists) / "first", Path(lists) / "rest"
        first.write_text("\n".join(hold_lines))
        rest.write_text("\n".join(other_lines))
        _run([*command, "--section=pre-data", dump])
        _run([*command, "--section=data", f"--use-list={first}", dump])
        _compare({_HOLD_TABLE: manifest.tables.get(_HOLD_TABLE, [])}, only=True)
        hold_sending(manifest.moment)
        try:
            both = ("--section=data", "--section=post-data")
            _run([*command, "--jobs=2", *both, f"--use-list={rest}", dump])
            _compare({name: sums for name, sums in manifest.tables.items() if name != _HOLD_TABLE})
        except CommandError as error:
            raise CommandError(f"{error}\n{_DROP_ADVICE}") from error


def _is_hold_line(line: str) -> bool:
    """Return whether a line of `pg_restore --list` is about the rows or the sequence of holds.

    Such a line is `4711; 0 16442 TABLE DATA public core_hold OWNER`.
    """
    words = line.split()
    return words[3:5] in (["TABLE", "DATA"], ["SEQUENCE", "SET"]) and words[6] in (
        *(_HOLD_TABLE, f"{_HOLD_TABLE}_id_seq"),
    )


def _run(command: list[str]) -> None:
    dumps.finish(dumps.start(command), "pg_restore")


def _compare(expected: dumps.Contents, *, only: bool = False) -> None:
    """Raise CommandError if tables of the database differ from `expected`.

    `only`: compare only these tables. Otherwise `expected` must have all tables of the database
    except the table of holds.
    """
    with dumps.snapshot_connection() as snapshot:
        restored = dumps.contents(snapshot, tables=expected.keys() if only else None)
    if not only:
        restored.pop(_HOLD_TABLE, None)
    differing = sorted(
        name
        for name in expected.keys() | restored.keys()
        if expected.get(name) != restored.get(name)
    )
    if differing:
        raise CommandError(
            f"What was restored differs from the backup, in {', '.join(differing[:5])}."
        )


def hold(restored_to: datetime) -> None:
    """Prepare a database of an earlier time, before a worker starts on it."""
    hold_sending(restored_to)
    mark_open_uncertain()
    end_earlier_work()


def hold_sending(restored_to: datetime) -> None:
    """Put sending on hold until a person releases it."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(_HOLD, [restored_to])


def mark_open_uncertain() -> None:
    """Mark open commands and reports as uncertain and make them due for a lookup.

    They may have been sent after the backup.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(_DOUBT_COMMANDS, [MAYBE_SENT])
        cursor.execute(_SCHEDULE_LOOKUPS, [settings.OUTBOX_SETTLE_SECONDS])
        cursor.execute(_DOUBT_REPORTS)


def end_earlier_work() -> None:
    """End the work of the earlier time, and request what the service changed since then."""
    with transaction.atomic(durable=True):
        # A person may have stopped a bulk action after the backup. Stop all open ones: people who
        # still need one start it again for the remaining rows.
        bulk.stop_open_runs(BulkRun.objects.all())
        # A person may have signed out after the backup: end all sessions.
        StaffSession.objects.all().delete()
        Heartbeat.objects.all().delete()
        SyncRun.objects.filter(state__in=[SyncRun.State.DUE, SyncRun.State.RUNNING]).delete()
    request_run(ALL_ORDERS)
    latest = Event.objects.order_by("-pk").values_list("pk", "received_at").first()
    schedule_lookups(silence.RESEND, [silence.Gap(*(latest or (0, None))).key()])
