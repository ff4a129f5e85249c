"""`manage.py restore FOLDER`: restore a backup into an empty database, and hold sending."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from backoffice.operations import restore


class Command(BaseCommand):
    help = (
        "Restore a backup into an empty database. Nothing is sent until a person resumes sending."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path)

    def handle(self, *args: Any, folder: Path, **options: Any) -> None:
        manifest = restore.restore(folder.resolve())
        self.stdout.write(
            f"Restored to {manifest.moment:%Y-%m-%d %H:%M:%S} UTC. Every table and file matches"
            " the manifest.\nSending is on hold. Start the workers and let them look up the"
            " requests that were open. Then resume sending under System > Status or with manage.py"
            " resumesending."
        )
