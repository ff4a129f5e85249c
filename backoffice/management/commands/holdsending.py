"""`manage.py holdsending MOMENT`: hold sending after a recovery that `restore` did not do."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from backoffice.operations import restore


class Command(BaseCommand):
    help = (
        "After PostgreSQL's own recovery, before any worker starts: nothing is sent until a person"
        " allows it, and what was open is looked up."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("moment", help="the database shows, such as 2026-11-22T10:00:00+00:00")

    def handle(self, *args: Any, moment: str, **options: Any) -> None:
        try:
            backup_moment = datetime.fromisoformat(moment)
        except ValueError:
            backup_moment = None
        if backup_moment is None or backup_moment.tzinfo is None:
            raise CommandError("Say the moment with its zone: 2026-11-22T10:00:00+00:00.")
        restore.hold(backup_moment)
        self.stdout.write("Sending is on hold until manage.py resumesending, or System > Status.")
