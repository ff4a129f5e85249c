"""Sealed values: they open in their place, under their key, unchanged, and nowhere else."""

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

HERE = "people.secret:1"
OLD, NEW = {1: b"o" * 32}, {2: b"n" * 32}


@given(st.text(), st.text())
def test_what_is_sealed_opens_in_its_place(text: str, place: str) -> None:
    text, place = (part.encode("utf-8", "replace").decode() for part in (text, place))
    assert decrypt(encrypt(text, place), place) == text
    assert decrypt_bytes(encrypt_bytes(text.encode(), place), place) == text.encode()


def test_equal_values_look_different_and_say_nothing() -> None:
    one, other = encrypt("canary", HERE), encrypt("canary", HERE)
    assert one != other and "canary" not in one
    assert b"canary" not in encrypt_bytes(b"canary", HERE)


def test_a_value_moved_to_another_row_does_not_open() -> None:
    with pytest.raises(DecryptionError, match="changed or moved"):
        decrypt(encrypt("canary", HERE), "people.secret:2")
    with pytest.raises(DecryptionError, match="changed or moved"):
        decrypt_bytes(encrypt_bytes(b"canary", HERE), "people.other:1")


def test_every_changed_byte_is_noticed() -> None:
    whole = encrypt_bytes(b"canary", HERE)
    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= 1
        with pytest.raises(DecryptionError):
            decrypt_bytes(bytes(changed), HERE)


@pytest.mark.parametrize(
    "token",
    ["", "canary", "sealed:", "sealed:1:", "sealed:1:1:", "sealed:1:x:YQ==", "sealed:2:1:YQ=="],
)
def test_what_is_no_token_is_told_without_quoting_it(token: str) -> None:
    with pytest.raises(DecryptionError) as told:
        decrypt(token, HERE)
    assert "canary" not in str(told.value)
    with pytest.raises(DecryptionError):
        decrypt_bytes(token.encode(), HERE)


def test_the_first_key_seals_and_all_open(settings: Settings) -> None:
    settings.FIELD_KEYS = OLD
    old = encrypt("canary", HERE)
    assert cipher.key_id_of(old) == cipher.current_key_id() == 1
    settings.FIELD_KEYS = {**NEW, **OLD}
    new = encrypt("canary", HERE)
    assert cipher.key_id_of(new) == cipher.current_key_id() == 2
    assert decrypt(old, HERE) == decrypt(new, HERE) == "canary"
    settings.FIELD_KEYS = NEW
    assert decrypt(new, HERE) == "canary"
    with pytest.raises(DecryptionError, match="has no key 1"):
        decrypt(old, HERE)
    settings.FIELD_KEYS = {1: b"x" * 32}
    with pytest.raises(DecryptionError, match="Key 1 does not decrypt"):
        decrypt(old, HERE)


def test_a_stored_value_tells_whether_it_is_sealed() -> None:
    assert cipher.key_id_of("canary") is None and cipher.key_id_of(b'{"data":1}') is None
    assert cipher.key_id_of(encrypt_bytes(b"", HERE)) == cipher.current_key_id()
