"""Secrets of second factors, for `rekeying`: they lie inside of a JSON column of django-allauth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from allauth.mfa.models import Authenticator
from django.db import transaction

from backoffice import encryption
from backoffice.accounts.second_factor import PLACE

_NAMES: Final = ("secret", "seed")
"""Of an authenticator app, and of recovery codes. Passkeys have none: their keys are public."""


class FactorSecrets:
    name: Final = "secrets of second factors"

    def count(self) -> Counter[int | None]:
        kept = Authenticator.objects.values_list("data", flat=True)
        return Counter(
            encryption.key_of(data[name]) for data in kept for name in _NAMES if name in data
        )

    def seal_anew(self) -> Iterator[int]:
        for key in Authenticator.objects.order_by("pk").values_list("pk", flat=True):
            with transaction.atomic(durable=True):
                rows = Authenticator.objects.select_for_update(skip_locked=True)
                changed = any(_sealed_anew(row) for row in rows.filter(pk=key))
            if changed:
                yield 1


def _sealed_anew(row: Authenticator) -> bool:
    old = {
        name: row.data[name]
        for name in _NAMES
        if name in row.data and encryption.key_of(row.data[name]) != encryption.writing_key()
    }
    try:
        plain = {name: encryption.opened(text, PLACE) for name, text in old.items()}
    except encryption.CannotOpen:
        return False
    row.data |= {name: encryption.sealed(text, PLACE) for name, text in plain.items()}
    row.save(update_fields=["data"])
    return bool(plain)
