"""`manage.py resumesending`: release the hold on sending after a restore."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from backoffice.core import heartbeats
from backoffice.outbox.models import CommandRecord


class Command(BaseCommand):
    help = "Let sending go on after a restore; says first what is not settled yet."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--yes", action="store_true", help="also while outcomes are unknown")

    def handle(self, *args: Any, yes: bool, **options: Any) -> None:
        unknown = CommandRecord.objects.filter(state=CommandRecord.State.UNCERTAIN).count()
        if unknown and not yes:
            self.stderr.write(
                f"The outcome of {unknown} requests is still being looked up: wait for that, or"
                " say --yes. They are looked up either way before they are sent."
            )
            raise SystemExit(1)
        message = (
            "Sending goes on." if heartbeats.release_hold(None) else "Sending was not on hold."
        )
        self.stdout.write(message)
