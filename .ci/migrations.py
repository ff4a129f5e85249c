"""Migrations that may run while the old release still answers: the rules, for `./run check`.

A release is replaced while people work: for a while old code meets new tables. So a migration adds;
what it replaces goes with a later release. Indexes on tables with rows are made CONCURRENTLY, in a
migration of their own (`atomic = False`). `manage.py migrate` sees to it that no lock is waited for
longer than two seconds.

The first migration of each app runs on empty tables.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import django
from django_migration_linter import MigrationLinter

NOT_ASKED = (
    "RUNPYTHON_REVERSIBLE",  # nobody goes back: the release before reads the new tables
    "RUNSQL_REVERSIBLE",
    "RUNPYTHON_MODEL_IMPORT",
    "RUNPYTHON_MODEL_VARIABLE_NAME",
)


SAFE = {
    ("pages", "0002_bulk_row_key_as_text"),
    # An older worker cannot record a row of a bulk action: the row waits for the next worker.
}
"""Migrations that break a rule and are safe nevertheless."""


class Linter(MigrationLinter):
    def should_ignore_migration(
        self, app_label: str, migration_name: str, *_: Any, **__: Any
    ) -> bool:
        from backoffice.management.commands.migrate import product_apps  # After django.setup().

        if (app_label, migration_name) in SAFE:
            return True
        number = migration_name.split("_")[0]
        return app_label not in product_apps() or not number.isdigit() or int(number) == 1


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backoffice.settings")
    django.setup()
    linter = Linter(
        path=os.getcwd(),
        no_cache=True,
        analyser_string="postgresql",
        exclude_migration_tests=NOT_ASKED,
        all_warnings_as_errors=True,
        quiet=["ok", "ignore"],
    )
    linter.lint_all_migrations()
    linter.print_summary()
    return 1 if linter.has_errors or not linter.nb_total else 0


if __name__ == "__main__":
    sys.exit(main())
