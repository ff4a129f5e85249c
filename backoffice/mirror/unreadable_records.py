"""Records that could not be read into columns: kept whole, visible, until they can."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from backoffice.models import UnreadRecord
from backoffice.service import DroppedField
from backoffice.service.json_text import replace_in_text

LONGEST_KEY: Final = 1000
NAMED: Final = 20
"""Parts of one record that are named at most."""


def key_from_raw(raw: bytes) -> str:
    """The id in a record that could not be read into its type, else a digest of it."""
    try:
        found = msgspec.json.decode(raw)
    except (ValueError, RecursionError):
        found = None
    for name in ("id", "user_id", "npi", "slug", "payor_code"):
        if isinstance(found, dict) and isinstance(found.get(name), str | int):
            return str(found[name])
    return _digest(raw)


def save_unreadable(
    resource: str, key: str, path: str, reason: str, record: bytes, *, is_stored: bool = False
) -> bool:
    """Keep a record that could not be read into columns, whole and visible; False if it is.

    `is_stored`: only the parts at `path` were left out.
    """
    text, key = _text(record), _storable(key)
    held = UnreadRecord.objects.filter(resource=resource, key=key).first()
    if held is not None and held.record == text and held.is_stored == is_stored:
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
    """Keep a record that was stored but for these parts; False if it is kept already."""
    paths = ", ".join(part.path for part in dropped[:NAMED])
    reasons = ", ".join(dict.fromkeys(part.reason for part in dropped[:NAMED]))
    if len(dropped) > NAMED:
        paths += f" and {len(dropped) - NAMED} more"
    return save_unreadable(resource, key, paths, reasons, record, is_stored=True)


def clear_unreadable(resource: str, keys: Iterable[str]) -> None:
    """These records could be read after all."""
    unread = UnreadRecord.objects.filter(resource=resource)
    if unread.exists():
        unread.filter(key__in=[_storable(key) for key in keys]).delete()


def _storable(key: str) -> str:
    """PostgreSQL has no NUL in a text, and no index holds a long one."""
    plain = key.encode("utf-8", "replace")
    return _digest(plain) if len(plain) > LONGEST_KEY else _text(plain)


def _text(raw: bytes) -> str:
    return replace_in_text(raw.decode("utf-8", "replace"))


def _digest(raw: bytes) -> str:
    return hashlib.blake2b(raw, digest_size=16).hexdigest()
