"""`manage.py retireaudit [--dry-run]`: remove expired audit entries."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from backoffice.audit import retention


class Command(BaseCommand):
    help = (
        "Take away audit entries older than AUDIT_KEEP_YEARS, a thousand at a time; their seals "
        "stay. Stop it whenever you like: the next run goes on."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only say how many they are")

    def handle(self, *args: Any, dry_run: bool, **options: Any) -> None:
        if settings.AUDIT_HOLD:
            raise CommandError("nothing is taken away while AUDIT_HOLD is set")
        if not settings.AUDIT_KEEP_YEARS:
            self.stdout.write("AUDIT_KEEP_YEARS is 0: entries are kept for ever.")
            return
        due = retention.removal_backlog()
        self.stdout.write(
            f"{due.entries:,} entries under {due.seals:,} seals are older than "
            f"{settings.AUDIT_KEEP_YEARS} years."
        )
        if dry_run:
            return
        taken = retention.remove_expired()
        self.stdout.write(f"{taken:,} taken away.")
        if taken < due.entries:
            raise CommandError("the others stay: see manage.py verifyaudit")
