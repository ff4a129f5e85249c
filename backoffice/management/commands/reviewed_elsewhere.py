"""`manage.py reviewed_elsewhere --before 2026-11-01 --by NAME`: sign results reviewed elsewhere.

The first sync brings all results of the past, and all of them wait for review. This command signs
those that were reviewed in another system, with a note about that. It does not sign critical or
partial results, results that name another person, results with a value that is not interpreted,
and newer results. It prints how many older results are left, by reason.

With `--critical` the clinician confirms that somebody was notified of the critical results, and
the command signs those, too. Otherwise a new critical result would be hard to find among thousands
of old ones.
"""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from backoffice.accounts.access import may
from backoffice.accounts.models import User
from orders.results.reviewed_elsewhere import count_remaining, sign


class Command(BaseCommand):
    help = "Sign results that were reviewed elsewhere before a day."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--before", required=True, help="day (UTC); results from before it starts are signed"
        )
        parser.add_argument("--by", required=True, help="username of the clinician who confirms it")
        parser.add_argument(
            "--critical",
            action="store_true",
            help="include critical results; confirms that people were notified of them",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            before = datetime.strptime(options["before"], "%Y-%m-%d").replace(tzinfo=UTC)
        except ValueError as error:
            raise CommandError("--before must be a day such as 2026-11-01") from error
        by = User.objects.filter(username=options["by"]).first()
        if by is None or not may(by, "results.sign"):
            raise CommandError("--by must be the username of someone who may sign results")
        critical = options["critical"]
        self.stdout.write(f"{sign(before, by, critical=critical)} results signed")
        for reason, count in count_remaining(before, critical=critical):
            self.stdout.write(f"{count} results left for review: they {reason}")
