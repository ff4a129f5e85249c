"""`manage.py backup FOLDER`: back up the database and the uploaded reports."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from backoffice.operations import backups


class Command(BaseCommand):
    help = "Write a backup to a new folder. Work can continue meanwhile."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, help="is created; must not exist yet")

    def handle(self, *args: Any, folder: Path, **options: Any) -> None:
        manifest = backups.write(folder.resolve())
        rows = sum(int(count) for count, _ in manifest.tables.values())
        size = sum(length for length, _ in manifest.files.values())
        self.stdout.write(
            f"{folder}: {rows:,} rows and {len(manifest.files) - 1:,} files as of"
            f" {manifest.moment:%Y-%m-%d %H:%M:%S} UTC, {size / 2**20:,.1f} MB"
        )
