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
        "Encrypt again everything that is not encrypted with the first of FIELD_KEYS, while "
        "everything else runs, and count the values of each key. Can be stopped and restarted."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--count", action="store_true", help="only count, change nothing")

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
        self.stdout.write(f"Total: {_format_counts(left)}")
        del left[cipher.current_key_id()]
        if not count and left:
            raise CommandError(
                f"Not encrypted with key {cipher.current_key_id()}: {_format_counts(left)}. Values"
                " of a key that is not in FIELD_KEYS cannot be read. Other values were in use: run"
                " this again."
            )

    def _encrypt(self, store: EncryptedStore) -> None:
        done = 0
        for round_number in range(ROUNDS):
            for changed in store.encrypt_again():
                done += changed
                if changed and self.stdout.isatty():
                    self.stdout.write(f"\r{store.name}: {done:,} encrypted again", ending="")
            left = store.count()
            del left[cipher.current_key_id()]
            if not set(left) & {None, *settings.FIELD_KEYS}:
                break
            time.sleep(WAIT * round_number)
        if done:
            self.stdout.write(f"\r{store.name}: {done:,} encrypted again")


def _format_counts(counts: Counter[int | None]) -> str:
    """Format counts by key id, such as `key 2: 1,200, not sealed: 3`."""
    parts = [
        f"{'not encrypted' if key is None else f'key {key}'}: {counts[key]:,}"
        for key in sorted(counts, key=lambda key: key or 0)
    ]
    return ", ".join(parts) or "nothing"
