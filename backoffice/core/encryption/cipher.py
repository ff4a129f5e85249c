"""Encrypt values with AES-256-GCM, so that a stolen dump or backup does not show them.

    bytes   version (1) ‖ key id (1) ‖ nonce (12) ‖ ciphertext and tag
    text    "sealed:<version>:<key id>:<base64 of nonce, ciphertext and tag>"

Every value is bound to its place, such as "patients_insurance.member_id:<id of the row>", which is
the associated data of the cipher: a value moved to another row or column cannot be decrypted.
`FIELD_KEYS` holds the keys: the first encrypts, all decrypt. The fields of `encrypted_fields.py`
encrypt columns. `manage.py rotatekeys` encrypts with the first key what has another key or none.
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
    """A value has a missing key, belongs to another place, or was changed.

    The message names the key, never the value.
    """


def encrypt(text: str, place: str) -> str:
    key_id, cipher = _current_key()
    nonce = os.urandom(NONCE_LENGTH)
    packed = nonce + cipher.encrypt(nonce, text.encode(), place.encode())
    return f"{_PREFIX}{key_id}:{b64encode(packed).decode()}"


def decrypt(token: str, place: str) -> str:
    """Return the text of a token. Raises DecryptionError."""
    key_id, _, packed = token.removeprefix(_PREFIX).partition(":")
    try:
        if not token.startswith(_PREFIX):
            raise ValueError
        return _decrypt(int(key_id), b64decode(packed, validate=True), place).decode()
    except DecryptionError:
        raise
    except ValueError:
        raise DecryptionError("This is not an encrypted value.") from None


def encrypt_bytes(content: bytes, place: str) -> bytes:
    key_id, cipher = _current_key()
    nonce = os.urandom(NONCE_LENGTH)
    return bytes((VERSION, key_id)) + nonce + cipher.encrypt(nonce, content, place.encode())


def decrypt_bytes(content: bytes, place: str) -> bytes:
    """Return the content that `encrypt_bytes` encrypted. Raises DecryptionError."""
    if content[:1] != bytes((VERSION,)) or len(content) <= _HEADER_LENGTH + NONCE_LENGTH:
        raise DecryptionError("This is not an encrypted value.")
    return _decrypt(content[1], content[_HEADER_LENGTH:], place)


def is_encrypted(value: str | bytes) -> bool:
    """Return whether a stored value is encrypted; False for one from before there were keys."""
    if isinstance(value, str):
        return value.startswith(_PREFIX)
    return value[:1] == bytes((VERSION,))


def key_id_of(value: str | bytes) -> int | None:
    """Return the id of the key of a stored value; None when the value is not encrypted."""
    if not is_encrypted(value):
        return None
    if isinstance(value, str):
        key_id = value.removeprefix(_PREFIX).partition(":")[0]
        return int(key_id) if key_id.isdigit() else None
    return value[1] if len(value) > 1 else None


def current_key_id() -> int:
    """Return the id of the key that encrypts."""
    return _current_key()[0]


def _current_key() -> tuple[int, AESGCM]:
    key_id: int = next(iter(settings.FIELD_KEYS))
    return key_id, _cipher(settings.FIELD_KEYS[key_id])


def _decrypt(key_id: int, packed: bytes, place: str) -> bytes:
    key = settings.FIELD_KEYS.get(key_id)
    if key is None:
        raise DecryptionError(f"FIELD_KEYS has no key {key_id}, which encrypted this value.")
    try:
        return _cipher(key).decrypt(packed[:NONCE_LENGTH], packed[NONCE_LENGTH:], place.encode())
    except (InvalidTag, ValueError):
        raise DecryptionError(
            f"Key {key_id} does not decrypt this value: it is another key, or the value was "
            "changed or moved."
        ) from None


@lru_cache(maxsize=16)
def _cipher(key: bytes) -> AESGCM:
    return AESGCM(key)
