"""`manage.py databaseroles`: print the SQL of the database roles; `--apply` runs it."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from backoffice.operations import database_roles


class Command(BaseCommand):
    help = "Print the SQL that creates and limits the database roles; --apply runs it."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--apply", action="store_true", help="run it as the owner of the tables"
        )
        parser.add_argument(
            "--prefix", default=database_roles.PREFIX, help="prefix of the names (default: bo)"
        )

    def handle(self, *args: Any, apply: bool, prefix: str, **options: Any) -> None:
        lines = list(database_roles.statements(prefix))
        if not apply:
            self.stdout.write("\n".join(lines))
            return
        database_roles.apply(iter(lines))
        self.stdout.write(
            f"Created and limited {prefix}_web, {prefix}_worker and {prefix}_audit. Give each a"
            r" password (psql: \password), and put it into DATABASE_URL of its processes."
        )
