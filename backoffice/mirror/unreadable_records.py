"""Records that could not be read into columns: saved whole and shown until they can be read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from backoffice.mirror.models import UnreadRecord
from backoffice.service import DroppedField
from backoffice.service.json_text import replace_in_text

MAX_KEY_BYTES: Final = 1000
MAX_NAMED_PARTS: Final = 20
"""How many parts of one record are listed."""


def key_from_raw(raw: bytes) -> str:
    """Return the id in an unreadable record, else a digest of the record."""
    try:
        record = msgspec.json.decode(raw)
    except (ValueError, RecursionError):
        record = None
    for name in ("id", "user_id", "npi", "slug", "payor_code"):
        if isinstance(record, dict) and isinstance(record.get(name), str | int):
            return str(record[name])
    return _digest(raw)


def save_unreadable(
    resource: str, key: str, path: str, reason: str, record: bytes, *, is_stored: bool = False
) -> bool:
    """Save a record that could not be read into columns; return False if it is saved already.

    `is_stored`: the record was mirrored, and only the parts at `path` were left out.
    """
    text, key = _text(record), _storable_key(key)
    stored = UnreadRecord.objects.filter(resource=resource, key=key).first()
    if stored is not None and stored.record == text and stored.is_stored == is_stored:
        return False
    UnreadRecord.objects.bulk_create(
        [
            UnreadRecord(
                resource=resource,
                key=key,
                path=path,
                reason=reason,
                record=text,
                is_stored=is_stored,
            )
        ],
        update_conflicts=True,
        unique_fields=["resource", "key"],
        update_fields=["path", "reason", "record", "is_stored", "last_seen"],
    )
    return True


def save_partly_readable(
    resource: str, key: str, dropped: Sequence[DroppedField], record: bytes
) -> bool:
    """Save a record that was mirrored without these parts; return False if it is saved already."""
    paths = ", ".join(part.path for part in dropped[:MAX_NAMED_PARTS])
    reasons = ", ".join(dict.fromkeys(part.reason for part in dropped[:MAX_NAMED_PARTS]))
    if len(dropped) > MAX_NAMED_PARTS:
        paths += f" and {len(dropped) - MAX_NAMED_PARTS} more"
    return save_unreadable(resource, key, paths, reasons, record, is_stored=True)


def clear_unreadable(resource: str, keys: Iterable[str]) -> None:
    """Delete the saved records with these keys, because they could be read now."""
    unreadable = UnreadRecord.objects.filter(resource=resource)
    if unreadable.exists():
        unreadable.filter(key__in=[_storable_key(key) for key in keys]).delete()


def _storable_key(key: str) -> str:
    """Return a key that PostgreSQL can store (no NUL in text) and index (not too long)."""
    plain = key.encode("utf-8", "replace")
    return _digest(plain) if len(plain) > MAX_KEY_BYTES else _text(plain)


def _text(raw: bytes) -> str:
    return replace_in_text(raw.decode("utf-8", "replace"))


def _digest(raw: bytes) -> str:
    return hashlib.blake2b(raw, digest_size=16).hexdigest()
