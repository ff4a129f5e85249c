"""The head of the audit chain, remembered outside the database.

A person who owns the database can remove the newest entries together with their seals, and the
rest is still a valid chain. So each sealing writes the last seal (the head, `N:MAC`) to the log,
to Redis, and to the file `AUDIT_HEAD_FILE` if it is set. Before the next sealing, the chain must
still contain the remembered head. If it does not, a check records the finding, and no other head
is written until an administrator accepts the present end (`manage.py verifyaudit --accept`).
"""

from __future__ import annotations

import logging
from datetime import datetime
from pathlib import Path
from typing import Final

import redis
from django.conf import settings
from django.core.cache import cache
from django.db import connection
from django.utils import timezone

from backoffice.audit import seals, verification
from backoffice.audit.models import AuditCheck, AuditSeal

logger = logging.getLogger(__name__)

_TAIL_BYTES: Final = 4_096
"""Bytes read from the end of the file: many lines, of which the last is used."""


def seal_and_remember(seconds: float | None = None) -> None:
    """Seal new entries for about `seconds`, and remember the new head.

    If the chain no longer contains the remembered head, record that, seal the entries, and keep the
    remembered head.
    """
    last = remembered_head()
    lost = bool(last) and not is_in_chain(last)
    if lost:
        logger.error("audit trail no longer holds its last recorded end, seal %s", last)
        _record_finding(last)
    seals.seal(seconds=seconds)
    head = seals.head()
    if not lost and head and head != last:
        remember_head(head)


def is_in_chain(head: str) -> bool:
    number, _, _ = head.partition(":")
    seal = AuditSeal.objects.filter(n=int(number)).first() if number.isdigit() else None
    return seal is not None and seals.head_of(seal) == head


def remembered_head() -> str:
    """Return the head that was written last, from the file or else from Redis; "" for none."""
    return _last_of_file(settings.AUDIT_HEAD_FILE) or _in_cache()


def remember_head(head: str, now: datetime | None = None) -> None:
    """Write `head` to the log, to the file, and to Redis."""
    logger.info("audit trail ends with seal %s", head)
    if settings.AUDIT_HEAD_FILE:
        moment = (now or timezone.now()).isoformat(timespec="seconds")
        try:
            with settings.AUDIT_HEAD_FILE.open("a") as file:
                file.write(f"{moment} {head}\n")
        except OSError as error:
            logger.error("AUDIT_HEAD_FILE cannot be written: %s", error.strerror)
    try:
        cache.set(_cache_key(), head, timeout=None)
    except redis.RedisError as error:
        logger.warning("Redis does not remember the audit trail's end: %s", type(error).__name__)


def _last_of_file(path: Path | None) -> str:
    """Return the head in the last line; "" if there is no file, no line, or no right to read it."""
    if path is None:
        return ""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            lines = file.read().decode("ascii", "replace").splitlines()
    except OSError:
        return ""
    return lines[-1].rpartition(" ")[2] if lines else ""


def _in_cache() -> str:
    try:
        return str(cache.get(_cache_key()) or "")
    except redis.RedisError:
        return ""


def _cache_key() -> str:
    """Return a key specific to this database: a restored or recreated one gets another key."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT oid FROM pg_database WHERE datname = current_database()")
        return f"audit:head:{settings.DATABASES['default']['NAME']}:{cursor.fetchone()[0]}"


def _record_finding(head: str) -> None:
    """Record one check with the finding, unless the latest check has it already."""
    latest = AuditCheck.objects.latest_finished()
    if latest is None or not any(
        verification.lost_head_finding(head) == words for words in latest.trouble
    ):
        verification.save_check(verification.check_chain(heads=[head]))
