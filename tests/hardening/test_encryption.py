"""Encrypted values decrypt only unchanged, in their place and with their key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from backoffice.core.encryption import cipher
from backoffice.core.encryption.cipher import (
    DecryptionError,
    decrypt,
    decrypt_bytes,
    encrypt,
    encrypt_bytes,
)

PLACE = "people.secret:1"
OLD, NEW = {1: b"o" * 32}, {2: b"n" * 32}


@given(st.text(), st.text())
def test_encrypted_value_decrypts_in_its_place(text: str, place: str) -> None:
    text, place = (part.encode("utf-8", "replace").decode() for part in (text, place))
    assert decrypt(encrypt(text, place), place) == text
    assert decrypt_bytes(encrypt_bytes(text.encode(), place), place) == text.encode()


def test_equal_values_have_different_ciphertexts() -> None:
    one, other = encrypt("canary", PLACE), encrypt("canary", PLACE)
    assert one != other and "canary" not in one
    assert b"canary" not in encrypt_bytes(b"canary", PLACE)


def test_value_moved_to_another_row_does_not_decrypt() -> None:
    with pytest.raises(DecryptionError, match="changed or moved"):
        decrypt(encrypt("canary", PLACE), "people.secret:2")
    with pytest.raises(DecryptionError, match="changed or moved"):
        decrypt_bytes(encrypt_bytes(b"canary", PLACE), "people.other:1")


def test_any_changed_byte_is_detected() -> None:
    whole = encrypt_bytes(b"canary", PLACE)
    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= 1
        with pytest.raises(DecryptionError):
            decrypt_bytes(bytes(changed), PLACE)


@pytest.mark.parametrize(
    "token",
    ["", "canary", "sealed:", "sealed:1:", "sealed:1:1:", "sealed:1:x:YQ==", "sealed:2:1:YQ=="],
)
def test_invalid_token_error_does_not_quote_the_token(token: str) -> None:
    with pytest.raises(DecryptionError) as error:
        decrypt(token, PLACE)
    assert "canary" not in str(error.value)
    with pytest.raises(DecryptionError):
        decrypt_bytes(token.encode(), PLACE)


def test_first_key_encrypts_and_all_keys_decrypt(settings: Settings) -> None:
    settings.FIELD_KEYS = OLD
    old = encrypt("canary", PLACE)
    assert cipher.key_id_of(old) == cipher.current_key_id() == 1
    settings.FIELD_KEYS = {**NEW, **OLD}
    new = encrypt("canary", PLACE)
    assert cipher.key_id_of(new) == cipher.current_key_id() == 2
    assert decrypt(old, PLACE) == decrypt(new, PLACE) == "canary"
    settings.FIELD_KEYS = NEW
    assert decrypt(new, PLACE) == "canary"
    with pytest.raises(DecryptionError, match="has no key 1"):
        decrypt(old, PLACE)
    settings.FIELD_KEYS = {1: b"x" * 32}
    with pytest.raises(DecryptionError, match="Key 1 does not decrypt"):
        decrypt(old, PLACE)


def test_key_id_shows_whether_value_is_encrypted() -> None:
    assert cipher.key_id_of("canary") is None and cipher.key_id_of(b'{"data":1}') is None
    assert cipher.key_id_of(encrypt_bytes(b"", PLACE)) == cipher.current_key_id()
