"""`manage.py migrate`, replacing Django's: safe while people work.

A migration that waits for a lock blocks every query behind it. So it waits two seconds at most,
gives up, and tries again. A migration that builds indexes CONCURRENTLY (`atomic = False`) blocks
nobody and may wait. An index that it left invalid is dropped before the next try. If two of these
commands run at once, the second waits for the first.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from django.apps import apps
from django.core.management.base import CommandError, CommandParser
from django.core.management.commands import migrate
from django.db import DEFAULT_DB_ALIAS, OperationalError, connections
from django.db.migrations import Migration
from django.db.migrations.recorder import MigrationRecorder
from psycopg import errors, sql

from backoffice.operations import database_roles

LOCK_TIMEOUT: Final = "2s"
TRIES: Final = 10
PAUSE: Final = 3.0
"""Seconds between two tries. Queries that waited behind the first try run meanwhile."""
LOCK_CHECK_SECONDS: Final = 0.5
"""Seconds between two tries to take the advisory lock of another migration."""
ONE_AT_A_TIME: Final = 7_246_015_113
"""Key of the advisory lock."""
PRODUCT: Final = frozenset({"backoffice", "labs", "orders", "patients", "webhooks"})
"""Top-level packages of our apps."""
_INVALID_INDEXES: Final = """
SELECT indexrelid::regclass::text FROM pg_index
JOIN pg_class ON pg_class.oid = indexrelid
WHERE NOT indisvalid AND relnamespace = 'public'::regnamespace
AND indexrelid NOT IN (SELECT index_relid FROM pg_stat_progress_create_index)
"""
"""Invalid indexes, except those that are being built now."""


def product_apps() -> list[str]:
    """Return the labels of our installed apps."""
    return [
        config.label
        for config in apps.get_app_configs()
        if config.name.partition(".")[0] in PRODUCT
    ]


def _migration_names(app: str) -> set[str]:
    folder = Path(apps.get_app_config(app).path) / "migrations"
    return {path.stem for path in folder.glob("0*.py")}


class Command(migrate.Command):
    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--lock-timeout",
            default=LOCK_TIMEOUT,
            help="How long a try waits for a lock, as PostgreSQL writes it. Default: %(default)s.",
        )
        parser.add_argument(
            "--tries", type=int, default=TRIES, help="Number of tries. Default: %(default)s."
        )
        parser.add_argument(
            "--pause",
            type=float,
            default=PAUSE,
            help="Seconds between two tries. Default: %(default)s.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        self.connection = connections[options.get("database") or DEFAULT_DB_ALIAS]
        self.lock_timeout: str = options["lock_timeout"]
        if (
            self.connection.vendor != "postgresql"
            or options.get("plan")
            or options.get("check_unapplied")
        ):
            super().handle(*args, **options)
            return
        self._wait_for_others()
        try:
            self._refuse_another_version()
            self._migrate_with_retries(args, options)
        finally:
            if self.connection.is_usable():
                self._execute("RESET lock_timeout")
                self._execute("SELECT pg_advisory_unlock(%s)", ONE_AT_A_TIME)

    def _wait_for_others(self) -> None:
        """Take the advisory lock by polling.

        A statement that waits for the lock would hold a snapshot. If the other command builds an
        index CONCURRENTLY, it waits for all snapshots, so the two would wait for each other.
        """
        with self.connection.cursor() as cursor:
            while True:
                cursor.execute("SELECT pg_try_advisory_lock(%s)", [ONE_AT_A_TIME])
                if cursor.fetchone()[0]:
                    return
                time.sleep(LOCK_CHECK_SECONDS)

    def _refuse_another_version(self) -> None:
        """Raise CommandError if the database has migrations of a different branch of the product.

        Our migrations cannot continue from those. An older release on the database of a later one
        is accepted: it has no migrations to add.
        """
        applied = MigrationRecorder(self.connection).applied_migrations()
        if any(label == "backoffice" for label, _ in applied):
            raise CommandError(
                "The tables of this database are from an early version of the project and cannot be"
                " migrated. Use a new database, or for a demo run ./run demo --anew."
            )
        for app in product_apps():
            applied_names = {name for label, name in applied if label == app}
            known_names = _migration_names(app)
            if applied_names - known_names and known_names - applied_names:
                raise CommandError(
                    "Another version of the back office created tables in this database"
                    f" ({app}.{max(applied_names - known_names)}). Use that version, or another"
                    " database for this one."
                )

    def _migrate_with_retries(self, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        tries, pause = options["tries"], options["pause"]
        for tries_left in reversed(range(tries)):
            self._drop_invalid_indexes()
            try:
                super().handle(*args, **options)
                self._wait_for_locks(self.lock_timeout)
                database_roles.refresh()
            except OperationalError as error:
                if not isinstance(error.__cause__, errors.LockNotAvailable):
                    raise
                if not tries_left:
                    raise CommandError(
                        f"A table stayed locked through {tries} tries of {self.lock_timeout}."
                        " End what holds the lock (see pg_stat_activity), and run this again."
                    ) from None
                self.stderr.write(f"A table is in use; trying again in {pause:.0f} s.")
                time.sleep(pause)
            else:
                return

    def migration_progress_callback(
        self, action: str, migration: Migration | None = None, fake: bool = False
    ) -> None:
        if migration is not None and action in ("apply_start", "unapply_start"):
            self._wait_for_locks(self.lock_timeout if migration.atomic else "0")
        super().migration_progress_callback(action, migration, fake)

    def _drop_invalid_indexes(self) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(_INVALID_INDEXES)
            for (name,) in cursor.fetchall():
                cursor.execute(sql.SQL("DROP INDEX CONCURRENTLY {}").format(sql.SQL(name)))

    def _wait_for_locks(self, longest: str) -> None:
        self._execute("SELECT set_config('lock_timeout', %s, false)", longest)

    def _execute(self, statement: str, *values: str | int) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values)
