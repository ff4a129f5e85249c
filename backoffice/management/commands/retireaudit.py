"""`manage.py retireaudit [--dry-run]`: remove expired audit entries."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from backoffice.audit import retention


class Command(BaseCommand):
    help = (
        "Remove audit entries older than AUDIT_KEEP_YEARS, a thousand at a time; their seals "
        "stay. You can stop it at any time; the next run continues."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only show how many there are")

    def handle(self, *args: Any, dry_run: bool, **options: Any) -> None:
        if settings.AUDIT_HOLD:
            raise CommandError("nothing is removed while AUDIT_HOLD is set")
        if not settings.AUDIT_KEEP_YEARS:
            self.stdout.write("AUDIT_KEEP_YEARS is 0: entries are kept forever.")
            return
        due = retention.removal_backlog()
        self.stdout.write(
            f"{due.entries:,} entries under {due.seals:,} seals are older than "
            f"{settings.AUDIT_KEEP_YEARS} years."
        )
        if dry_run:
            return
        taken = retention.remove_expired()
        self.stdout.write(f"{taken:,} removed.")
        if taken < due.entries:
            raise CommandError("the other entries stay; see manage.py verifyaudit")
