"""`manage.py rotatekeys [--count]`: encrypt everything with the first of `FIELD_KEYS`."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections import Counter
from typing import Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from backoffice.accounts.second_factor_rotation import SecondFactorSecrets
from backoffice.core.encryption import cipher
from backoffice.core.key_rotation import EncryptedStore, encrypted_columns
from labs.reports.storage import StoredReportFiles

ROUNDS: Final = 5
WAIT: Final = 1.0
"""Seconds, times the number of the round, before values that were in use are tried again."""


class Command(BaseCommand):
    help = (
        "Seal everything anew that is not sealed under the first of FIELD_KEYS, beside everything "
        "else that runs, and count what is under which key. May be stopped and started again."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--count", action="store_true", help="change nothing, only count")

    def handle(self, *args: Any, count: bool, **options: Any) -> None:
        stores: list[EncryptedStore] = [
            StoredReportFiles(),
            SecondFactorSecrets(),
            *encrypted_columns(),
        ]
        if not count:
            for store in stores:
                self._encrypt(store)
        left: Counter[int | None] = Counter()
        for store in stores:
            counts = store.count()
            left += counts
            self.stdout.write(f"{store.name}: {_format_counts(counts)}")
        self.stdout.write(f"All together: {_format_counts(left)}")
        del left[cipher.current_key_id()]
        if not count and left:
            raise CommandError(
                f"Not under key {cipher.current_key_id()}: {_format_counts(left)}. What stands"
                " under a key that FIELD_KEYS has not cannot be read; anything else was being"
                " worked on: run this again."
            )

    def _encrypt(self, store: EncryptedStore) -> None:
        done = 0
        for round_number in range(ROUNDS):
            for changed in store.encrypt_again():
                done += changed
                if changed and self.stdout.isatty():
                    self.stdout.write(f"\r{store.name}: {done:,} sealed anew", ending="")
            left = store.count()
            del left[cipher.current_key_id()]
            if not set(left) & {None, *settings.FIELD_KEYS}:
                break
            time.sleep(WAIT * round_number)
        if done:
            self.stdout.write(f"\r{store.name}: {done:,} sealed anew")


def _format_counts(counts: Counter[int | None]) -> str:
    """Format counts by key id, such as `key 2: 1,200, not sealed: 3`."""
    parts = [
        f"{'not sealed' if key is None else f'key {key}'}: {counts[key]:,}"
        for key in sorted(counts, key=lambda key: key or 0)
    ]
    return ", ".join(parts) or "nothing"
