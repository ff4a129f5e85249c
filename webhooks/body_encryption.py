"""Encrypt the bodies of events two minutes after receipt.

Encryption on receipt would add a seventh to the cost of receiving, and the same to the cost of
applying, mostly because PostgreSQL stores incompressible values outside of the table. Two minutes
later nearly all events have been applied, and neither a sender nor a page waits. Readers accept
both forms: see `models.decrypted_body`.

Bodies are encrypted in the order of receipt. So all unencrypted bodies are newer than the newest
encrypted one, and after a killed run the next one continues without a stored position. Older
unencrypted bodies, received by an earlier release, are left to `manage.py rotatekeys`.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Final

from django.db import connection, transaction
from django.utils import timezone

from backoffice.core import binary_rows
from backoffice.core.encryption import cipher
from webhooks import event_log
from webhooks.models import body_encryption_context

MIN_AGE: Final = timedelta(minutes=2)
STEP: Final = 500
BYTES: Final = 32 * 1024 * 1024
"""Approximate total size of the bodies in one transaction; `STEP` is their largest number. Workers
that apply events never wait for these rows; this job waits for at most one batch of theirs.
"""
MAX_EVENTS: Final = 200_000
"""Number of latest events that one run examines. Older ones are also left to `rotatekeys`."""

_BEFORE_SQL: Final = """
SELECT id, octet_length(body), substring(body FROM 1 FOR 1) FROM webhooks_event
WHERE id < %s AND body IS NOT NULL ORDER BY id DESC LIMIT %s
"""
_BODIES_SQL: Final = """
SELECT id, message_id, body FROM webhooks_event WHERE id = ANY(%s) AND body IS NOT NULL
ORDER BY id FOR NO KEY UPDATE
"""


def encrypt_bodies(seconds: float | None = None) -> int:
    """Encrypt all bodies that are old enough, or for about `seconds`. Return the number."""
    ends = None if seconds is None else time.monotonic() + seconds
    unencrypted = _unencrypted()
    encrypted = 0
    while unencrypted and (ends is None or time.monotonic() < ends):
        encrypted += _encrypt(_take_step(unencrypted))
    return encrypted


def _unencrypted() -> list[tuple[int, int]]:
    """Return event ids and sizes of unencrypted bodies, newest first, up to an encrypted one."""
    at = event_log.last_event_before(timezone.now() - MIN_AGE) + 1
    numbers: list[tuple[int, int]] = []
    while len(numbers) < MAX_EVENTS and (rows := binary_rows.fetch_all(_BEFORE_SQL, [at, STEP])):
        for number, size, head in rows:
            if cipher.is_encrypted(head):
                return numbers
            numbers.append((number, size))
        at = rows[-1][0]
    return numbers


def _take_step(unencrypted: list[tuple[int, int]]) -> list[int]:
    """Remove the oldest events from the list, enough for one transaction. Return their ids."""
    numbers: list[int] = []
    bytes_left = BYTES
    while unencrypted and len(numbers) < STEP and bytes_left > 0:
        number, size = unencrypted.pop()
        numbers.append(number)
        bytes_left -= size
    return numbers


def _encrypt(numbers: list[int]) -> int:
    with transaction.atomic(durable=True):
        rows = [
            (cipher.encrypt_bytes(body, body_encryption_context(message_id)), number)
            for number, message_id, body in binary_rows.fetch_all(_BODIES_SQL, [numbers])
            if not cipher.is_encrypted(body)
        ]
        with connection.cursor() as cursor:
            cursor.executemany("UPDATE webhooks_event SET body = %s WHERE id = %s", rows)
    return len(rows)
