"""Sealing values with AES-256-GCM, so that a stolen dump or backup does not show them.

    bytes   version (1) ‖ key id (1) ‖ nonce (12) ‖ ciphertext and tag
    text    "sealed:<version>:<key id>:<base64 of nonce, ciphertext and tag>"

Every value is bound to its place, such as "patients_insurance.member_id:<id of the row>": moved to
another row or column it does not open. `FIELD_KEYS` holds the keys: the first seals, all open.
Columns are sealed by the fields of `sealing.py`; `manage.py rotatekeys` seals anew under the first
key what another one sealed, and what was stored before there were keys.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from functools import lru_cache
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

VERSION: Final = 1
NONCE_LENGTH: Final = 12
_HEADER_LENGTH: Final = 2
_PREFIX: Final = f"sealed:{VERSION}:"


class DecryptionError(ValueError):
    """Sealed under a key that is not there, for another place, or changed since. The words name
    the key at most, never the value."""


def encrypt(text: str, place: str) -> str:
    key_id, cipher = _current_key()
    nonce = os.urandom(NONCE_LENGTH)
    packed = nonce + cipher.encrypt(nonce, text.encode(), place.encode())
    return f"{_PREFIX}{key_id}:{b64encode(packed).decode()}"


def decrypt(token: str, place: str) -> str:
    """The text of a token; raises CannotOpen."""
    key_id, _, packed = token.removeprefix(_PREFIX).partition(":")
    try:
        if not token.startswith(_PREFIX):
            raise ValueError
        return _decrypt(int(key_id), b64decode(packed, validate=True), place).decode()
    except DecryptionError:
        raise
    except ValueError:
        raise DecryptionError("This is no sealed value.") from None


def encrypt_bytes(content: bytes, place: str) -> bytes:
    key_id, cipher = _current_key()
    nonce = os.urandom(NONCE_LENGTH)
    return bytes((VERSION, key_id)) + nonce + cipher.encrypt(nonce, content, place.encode())


def decrypt_bytes(content: bytes, place: str) -> bytes:
    """The content of what `encrypt_bytes` gave; raises CannotOpen."""
    if content[:1] != bytes((VERSION,)) or len(content) <= _HEADER_LENGTH + NONCE_LENGTH:
        raise DecryptionError("This is no sealed value.")
    return _decrypt(content[1], content[_HEADER_LENGTH:], place)


def is_encrypted(value: str | bytes) -> bool:
    """Whether a stored value is sealed, or stands there from before there were keys."""
    if isinstance(value, str):
        return value.startswith(_PREFIX)
    return value[:1] == bytes((VERSION,))


def key_id_of(value: str | bytes) -> int | None:
    """Id of the key that sealed a stored value; None where it is not sealed."""
    if not is_encrypted(value):
        return None
    if isinstance(value, str):
        said = value.removeprefix(_PREFIX).partition(":")[0]
        return int(said) if said.isdigit() else None
    return value[1] if len(value) > 1 else None


def current_key_id() -> int:
    """Id of the key that seals."""
    return _current_key()[0]


def _current_key() -> tuple[int, AESGCM]:
    key_id: int = next(iter(settings.FIELD_KEYS))
    return key_id, _cipher(settings.FIELD_KEYS[key_id])


def _decrypt(key_id: int, packed: bytes, place: str) -> bytes:
    key = settings.FIELD_KEYS.get(key_id)
    if key is None:
        raise DecryptionError(f"FIELD_KEYS has no key {key_id}, which sealed this value.")
    try:
        return _cipher(key).decrypt(packed[:NONCE_LENGTH], packed[NONCE_LENGTH:], place.encode())
    except (InvalidTag, ValueError):
        raise DecryptionError(
            f"Key {key_id} does not open this value: it is another key, or the value was changed "
            "or moved."
        ) from None


@lru_cache(maxsize=16)
def _cipher(key: bytes) -> AESGCM:
    return AESGCM(key)
