"""`manage.py resumesending`: release the hold on sending after a restore."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from backoffice.core import heartbeats
from backoffice.outbox.models import CommandRecord


class Command(BaseCommand):
    help = "Resume sending after a restore. Refuses while outcomes are still unknown."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--yes", action="store_true", help="resume even while outcomes are unknown"
        )

    def handle(self, *args: Any, yes: bool, **options: Any) -> None:
        unknown = CommandRecord.objects.filter(state=CommandRecord.State.UNCERTAIN).count()
        if unknown and not yes:
            self.stderr.write(
                f"The outcome of {unknown} requests is still being looked up. Wait for that, or"
                " add --yes. Either way they are looked up before they are sent."
            )
            raise SystemExit(1)
        message = (
            "Sending resumed." if heartbeats.release_hold(None) else "Sending was not on hold."
        )
        self.stdout.write(message)
