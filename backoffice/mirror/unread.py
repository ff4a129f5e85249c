"""Records that could not be read into columns: kept whole, visible, until they can."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

import msgspec

from backoffice.models import UnreadRecord

LONGEST_KEY: Final = 1000


def key_of(raw: bytes) -> str:
    """The id in a record that could not be read into its type, else a digest of it."""
    try:
        found = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        found = None
    for name in ("id", "user_id", "npi", "slug", "payor_code"):
        if isinstance(found, dict) and isinstance(found.get(name), str | int):
            return str(found[name])
    return _digest(raw)


def keep_unread(resource: str, key: str, path: str, reason: str, record: bytes) -> bool:
    """Keep a record that could not be read into columns, whole and visible; False if it is."""
    text, key = _text(record), _storable(key)
    held = UnreadRecord.objects.filter(resource=resource, key=key).first()
    if held is not None and held.record == text:
        return False
    UnreadRecord.objects.bulk_create(
        [UnreadRecord(resource=resource, key=key, path=path, reason=reason, record=text)],
        update_conflicts=True,
        unique_fields=["resource", "key"],
        update_fields=["path", "reason", "record", "last_seen"],
    )
    return True


def now_read(resource: str, keys: Iterable[str]) -> None:
    """These records could be read after all."""
    unread = UnreadRecord.objects.filter(resource=resource)
    if unread.exists():
        unread.filter(key__in=[_storable(key) for key in keys]).delete()


def _storable(key: str) -> str:
    """PostgreSQL has no NUL in a text, and no index holds a long one."""
    plain = key.encode("utf-8", "replace")
    return _digest(plain) if len(plain) > LONGEST_KEY else _text(plain)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace").replace("\x00", "\ufffd")


def _digest(raw: bytes) -> str:
    return hashlib.blake2b(raw, digest_size=16).hexdigest()
