"""Rotate the encryption key of second factors. Their secrets are in a JSON column of allauth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from allauth.mfa.models import Authenticator
from django.db import transaction

from backoffice.accounts.second_factor import ENCRYPTION_CONTEXT
from backoffice.core.encryption import cipher
from backoffice.service.json_text import JsonObject

_NAMES: Final = ("secret", "seed")
"""Secrets of authenticator apps and of recovery codes. Passkeys have only public keys."""
_HASH_LIST: Final = "migrated_codes"
"""Hashes of recovery codes (`recovery_codes.py`)."""


class SecondFactorSecrets:
    name: Final = "secrets of second factors"

    def count(self) -> Counter[int | None]:
        stored = Authenticator.objects.values_list("data", flat=True)
        return Counter(
            cipher.key_id_of(text) for data in stored for text in _encrypted_values(data)
        )

    def encrypt_again(self) -> Iterator[int]:
        for key in Authenticator.objects.order_by("pk").values_list("pk", flat=True):
            with transaction.atomic(durable=True):
                rows = Authenticator.objects.select_for_update(skip_locked=True)
                changed = any(_rotate(row) for row in rows.filter(pk=key))
            if changed:
                yield 1


def _encrypted_values(data: JsonObject) -> list[str]:
    return [*(data[name] for name in _NAMES if name in data), *data.get(_HASH_LIST, ())]


def _rotate(row: Authenticator) -> bool:
    old = [
        text
        for text in _encrypted_values(row.data)
        if cipher.key_id_of(text) != cipher.current_key_id()
    ]
    try:
        encrypted = {
            text: cipher.encrypt(cipher.decrypt(text, ENCRYPTION_CONTEXT), ENCRYPTION_CONTEXT)
            for text in old
        }
    except cipher.DecryptionError:
        return False
    for name in row.data.keys() & set(_NAMES):
        row.data[name] = encrypted.get(row.data[name], row.data[name])
    if _HASH_LIST in row.data:
        row.data[_HASH_LIST] = [encrypted.get(text, text) for text in row.data[_HASH_LIST]]
    row.save(update_fields=["data"])
    return bool(encrypted)
