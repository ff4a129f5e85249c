"""`manage.py heartbeat QUEUE`: exit with 1 if no worker answered on the queue recently."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from backoffice.celery import QUEUES
from backoffice.core import heartbeats
from backoffice.operations.status import QUEUE_SILENT


class Command(BaseCommand):
    help = "Show when a worker last answered on a queue. Exit code 1 if that is too long ago."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("queue", choices=QUEUES)

    def handle(self, *args: Any, queue: str, **options: Any) -> None:
        age = heartbeats.heartbeat_ages().get(queue)
        if age is None or age > QUEUE_SILENT:
            self.stderr.write("never" if age is None else f"{age:.0f} s ago")
            sys.exit(1)
        self.stdout.write(f"{age:.0f} s ago")
