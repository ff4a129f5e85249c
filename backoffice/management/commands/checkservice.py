"""`manage.py checkservice`: check the connection of this installation to the service."""

from __future__ import annotations

import textwrap
import time
from argparse import SUPPRESS, ArgumentParser
from typing import Any, Final

from django.core.management.base import BaseCommand

from backoffice.core import service_client, service_team
from backoffice.management.commands.sync import warnings_only
from backoffice.operations import service_check
from backoffice.operations.service_check import (
    CheckFinding,
    DeliveryCheck,
    FindingOutcome,
    ServiceAnswers,
)
from backoffice.service import errors

TEAM_SECONDS: Final = 3.0
"""Seconds that `--team` waits for each answer. It is short because a start waits for it."""
POLL_SECONDS: Final = 0.2
INDENT: Final = 40
WIDTH: Final = 100


class Command(BaseCommand):
    help = (
        "Check address, keys, team, clocks, webhook endpoint and limits of the configured service,"
        " and say what is wrong and how to fix it. Exit code 1 if there is a problem. Changes"
        " nothing."
    )
    requires_system_checks: tuple[str, ...] = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        # Django adds this option only to commands that require checks, but scripts may pass it.
        parser.add_argument("--skip-checks", action="store_true", help=SUPPRESS)
        parser.add_argument(
            "--team",
            action="store_true",
            help="check only whether the key belongs to the team whose records are here: one line"
            " and exit code 1 if not; for use before a start",
        )
        parser.add_argument(
            "--no-event",
            action="store_true",
            help="do not have the service deliver an event again, and do not wait for it",
        )

    def handle(self, *args: Any, team: bool, no_event: bool, **options: Any) -> None:
        with warnings_only():
            if team:
                self._check_team()
                return
            with ServiceAnswers() as answers:
                delivery = DeliveryCheck() if no_event else self._resend(answers)
                findings = service_check.findings(answers, delivery)
                findings = [self._settled(finding, delivery) for finding in findings]
        for finding in findings:
            self._show(finding)
        problems = sum(finding.outcome is FindingOutcome.PROBLEM for finding in findings)
        if problems:
            self.stderr.write(f"{problems} problem{'s' if problems > 1 else ''}.")
            raise SystemExit(1)

    @staticmethod
    def _resend(answers: ServiceAnswers) -> DeliveryCheck:
        try:
            order = service_check.order_to_resend()
            return DeliveryCheck(service_check.resend_event(answers, order))
        except service_check.CannotSend as error:
            return DeliveryCheck(why_not=str(error))

    @staticmethod
    def _settled(finding: CheckFinding, delivery: DeliveryCheck) -> CheckFinding:
        """Return the finding; if it is pending, wait until the delivery has a result."""
        while finding.is_pending:
            time.sleep(POLL_SECONDS)
            finding = delivery.run()
        return finding

    def _show(self, finding: CheckFinding) -> None:
        style = {FindingOutcome.OK: self.style.SUCCESS, FindingOutcome.PROBLEM: self.style.ERROR}
        label = style.get(finding.outcome, self.style.WARNING)(f"{finding.outcome.label:22}")
        margin = " " * INDENT
        head, *rest = [*_wrapped(finding.words), *_wrapped(finding.remedy)]
        self.stdout.write(f"{label}{finding.title:18}{head}")
        for line in rest:
            self.stdout.write(margin + line)

    def _check_team(self) -> None:
        our_team = service_team.mirror_team()
        if our_team is None:
            return
        with service_client.new_service_client(attempts=1) as service:
            try:
                service_team.is_our_key(service_team.read_key_team(service, TEAM_SECONDS), our_team)
            except service_team.AnotherTeam as error:
                self.stderr.write(f"{error} See docs/operating.md, manage.py adoptteam.")
                raise SystemExit(1) from None
            except errors.ServiceError as error:
                self.stderr.write(f"The team of SERVICE_API_KEY could not be checked: {error}.")


def _wrapped(words: str) -> list[str]:
    """Wrap text without breaking URLs or names of settings. Return no line for an empty text."""
    width = WIDTH - INDENT
    return textwrap.wrap(words, width, break_long_words=False, break_on_hyphens=False)
