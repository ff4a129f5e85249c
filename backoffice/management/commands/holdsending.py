"""`manage.py holdsending MOMENT`: hold sending after a recovery that `restore` did not do."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from backoffice.operations import restore


class Command(BaseCommand):
    help = (
        "Put sending on hold. Run this after PostgreSQL's own recovery, before any worker starts."
        " Open requests are looked up, and nothing is sent until a person resumes sending."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "moment",
            help="time that the database was restored to, such as 2026-11-22T10:00:00+00:00",
        )

    def handle(self, *args: Any, moment: str, **options: Any) -> None:
        try:
            backup_moment = datetime.fromisoformat(moment)
        except ValueError:
            backup_moment = None
        if backup_moment is None or backup_moment.tzinfo is None:
            raise CommandError("Write the time with its zone, such as 2026-11-22T10:00:00+00:00.")
        restore.hold(backup_moment)
        self.stdout.write(
            "Sending is on hold. Resume it with manage.py resumesending or under System > Status."
        )
