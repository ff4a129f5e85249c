"""`manage.py verifyaudit`: verify that the audit trail was not changed."""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError
from datetime import datetime, time
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone
from django.utils.dateparse import parse_date

from backoffice.audit import chain_head, verification
from backoffice.audit.recording import record_console_action

BROKEN, UNKNOWN_KEY = 1, 3


def day(text: str) -> datetime:
    try:
        date_value = parse_date(text)
    except ValueError:
        date_value = None
    if date_value is None:
        raise ArgumentTypeError("write a day as YYYY-MM-DD")
    return timezone.make_aware(datetime.combine(date_value, time.min))


def end(text: str) -> str:
    if not re.fullmatch(r"\d{1,18}:[0-9a-f]{64}", text):
        raise ArgumentTypeError("write the end as an earlier run printed it: NUMBER:CODE")
    return text


class Command(BaseCommand):
    help = (
        "Recompute all seals of the audit trail and report problems. Exit code 0: none. 1: the "
        "trail is broken. 3: seals were made with a key that is not set (AUDIT_KEY)."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--since", type=day, metavar="DAY", help="only what was sealed since this day"
        )
        parser.add_argument(
            "--head",
            type=end,
            action="append",
            default=[],
            metavar="N:CODE",
            help="an end that an earlier run printed and the trail must still have",
        )

        parser.add_argument(
            "--accept",
            action="store_true",
            help="after a restore: record the current end as the one to continue from",
        )

    def handle(
        self, *args: Any, since: datetime | None, head: list[str], accept: bool, **options: Any
    ) -> None:
        if accept:
            self._accept()
            return
        if not head and (last := chain_head.remembered_head()):
            head = [last]
        after = verification.last_seal_before(since) if since else 0
        result = verification.check_chain(after=after, heads=head, progress=self._progress)
        self.stdout.write(
            f"{result.seals:,} seals over {result.entries:,} entries checked"
            f"{f', {result.removed:,} removed because of their age' if result.removed else ''}."
            f" Not yet sealed: {result.unsealed:,}."
        )
        for words in result.findings:
            self.stderr.write(self.style.ERROR(words))
        if result.unknown_key:
            self.stderr.write(
                f"{result.unknown_key:,} seals were made with another key, so only their entries "
                "were checked. Name the earlier key in AUDIT_KEY or SECRET_KEY_FALLBACKS."
            )
        self.stdout.write(f"Head: {result.head or 'none'}")
        if result.troubles or result.unknown_key:
            raise SystemExit(BROKEN if result.troubles else UNKNOWN_KEY)

    def _accept(self) -> None:
        """Accept the present end of the chain, if the chain has no findings.

        The audit entry of this action has the end that was remembered before.
        """
        result = verification.check_chain()
        if result.troubles:
            for words in result.findings:
                self.stderr.write(self.style.ERROR(words))
            raise SystemExit(BROKEN)
        before = chain_head.remembered_head()
        record_console_action(
            "audit trail", [], f"end accepted; remembered before: {before or 'none'}"
        )
        verification.save_check(result)
        chain_head.remember_head(result.head)
        self.stdout.write(f"Continuing from: {result.head or 'none'}")

    def _progress(self, result: verification.CheckResult) -> None:
        if self.stderr.isatty():
            self.stderr.write(f"\r{result.entries:,} entries", ending="")
