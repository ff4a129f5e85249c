"""Seals: every minute a digest over the new entries, chained with a secret key.

    digest   SHA-256 over the SHA-256 of each entry, by id (`ENTRY_TEXT` is the text of an entry)
    mac      HMAC of the seal and of the previous mac, with a key that is not in the database

So a changed, removed, or inserted entry is noticed, and so is a changed seal. A missing end is
noticed by comparison with a mac that is stored outside the database (`head`). A chain over the
entries themselves would make every page wait for every other page.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from backoffice.audit.models import AuditEntry, AuditSeal
from backoffice.core.models import Installation

MAX_ENTRIES: Final = 1_000
"""Entries under one seal; also the most that retention removes in one transaction."""
LOCK: Final = 5_280_131
"""Key of the PostgreSQL advisory lock for adding a seal."""
FORM: Final = 1
_ENTRIES: Final = AuditEntry._meta.db_table

# The text does not depend on session settings: times are in microseconds. A new column needs a new
# form of the text; each seal stores the form that it was made with.
ENTRY_TEXT: Final = """ROW(e.id, (extract(epoch FROM e.at) * 1000000)::bigint, e.actor_id,
 e.actor_kind, e.action, e.object_type, e.object_ids, e.patient_ids, e.route, e.request_id, e.ip,
 e.outcome, e.reason, e.row_count, e.before, e.after)::text"""
DIGEST: Final = (
    f"sha256(coalesce(string_agg(sha256(convert_to({ENTRY_TEXT}, 'UTF8')), '' ORDER BY e.id), ''))"
)
_NEXT: Final = f"""
SELECT count(*), min(e.id), max(e.id), {DIGEST}
FROM (SELECT * FROM {_ENTRIES} WHERE id > %s AND id <= %s ORDER BY id LIMIT {MAX_ENTRIES}) AS e
"""
_WRITERS: Final = f"""
SELECT virtualtransaction FROM pg_locks
WHERE relation = '{_ENTRIES}'::regclass AND mode = 'RowExclusiveLock'
 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
 AND pid IS DISTINCT FROM pg_backend_pid()
"""


def seal(now: datetime | None = None, seconds: float | None = None) -> int:
    """Seal all settled entries, or as many as fit into about `seconds`. Return how many."""
    ends = None if seconds is None else time.monotonic() + seconds
    last, sealed = last_settled_id(), 0
    while last is not None and (rows := _seal_next(last, now or timezone.now())):
        sealed += rows
        if ends is not None and time.monotonic() >= ends:
            break
    return sealed


def last_settled_id(wait_seconds: float = 3.0) -> int | None:
    """Return the id up to which no new entry can appear; None if `wait_seconds` do not suffice.

    Ids are assigned before entries commit. A transaction that has an id smaller than the greatest
    visible one has held a lock on the table since then, and holds it until it ends. So wait for the
    present holders of the lock, as PostgreSQL does before it builds an index concurrently.
    """
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT max(id) FROM {_ENTRIES}")
        last: int | None = cursor.fetchone()[0]
        writers, ends = _writers(), time.monotonic() + wait_seconds
        while writers:
            if time.monotonic() >= ends:
                return None
            time.sleep(0.01)
            writers &= _writers()
    return last


def _writers() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(_WRITERS)
        return {row[0] for row in cursor.fetchall()}


def _seal_next(last: int, now: datetime) -> int:
    """Add one seal over entries up to `last`. Return how many it covers; 0 if all are sealed."""
    with transaction.atomic(), connection.cursor() as cursor:
        lock_chain()
        before = AuditSeal.objects.latest_of_entries()
        sealed_to = before.to_id if before else 0
        cursor.execute(_NEXT, [sealed_to, last])
        rows, first, to_id, digest = cursor.fetchone()
        if rows:
            from_id = sealed_to + 1 if before else first
            if before is None:
                record_first_entry(first)
            append(AuditSeal(from_id=from_id, to_id=to_id, rows=rows, digest=digest, at=now))
    return int(rows)


def record_first_entry(first: int) -> None:
    """Store once where the trail begins: the first id may belong to an entry that was rolled back.

    A chain that is created again later begins elsewhere, which is noticed.
    """
    Installation.objects.filter(audit_first_entry=None).update(audit_first_entry=first)


def first_entry() -> int | None:
    """Return the id of the first entry of the trail; None before the first sealing."""
    return Installation.objects.values_list("audit_first_entry", flat=True).first()


def lock_chain() -> None:
    """Let nobody else add a seal until this transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])


def append(seal: AuditSeal) -> None:
    """Append a seal to the chain, which the caller has locked."""
    before = AuditSeal.objects.end_of_chain()
    key_id, key = next(iter(keys().items()))
    seal.n = before.n + 1 if before else 1
    seal.prev = bytes(before.mac) if before else b""
    seal.form, seal.key_id = FORM, key_id
    seal.mac = compute_mac(seal, key)
    seal.save(force_insert=True)


def compute_mac(seal: AuditSeal, key: bytes) -> bytes:
    moment = seal.at.astimezone(UTC).isoformat(timespec="microseconds")
    parts = (
        seal.n,
        int(seal.removal),
        seal.from_id,
        seal.to_id,
        seal.rows,
        seal.form,
        seal.key_id,
        moment,
    )
    text = "|".join(map(str, parts)).encode()
    return hmac.digest(key, b"|".join((text, bytes(seal.digest), bytes(seal.prev))), "sha256")


def head() -> str:
    """Return `N:MAC` of the last seal, to be remembered; "" without one."""
    last = AuditSeal.objects.end_of_chain()
    return head_of(last) if last else ""


def head_of(seal: AuditSeal) -> str:
    return f"{seal.n}:{bytes(seal.mac).hex()}"


def keys() -> Mapping[str, bytes]:
    """Return the keys by key id. The first one makes new seals; the others made earlier ones."""
    texts = settings.AUDIT_KEYS or [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    return _keys(tuple(texts))


@lru_cache(maxsize=8)
def _keys(texts: tuple[str, ...]) -> Mapping[str, bytes]:
    purpose = b"backoffice: seals of the audit trail"
    derived = [hmac.digest(text.encode(), purpose, "sha256") for text in texts]
    return {hashlib.sha256(key).hexdigest()[:8]: key for key in derived}


def flush_index_pending_lists() -> int:
    """Flush the pending lists of the GIN indexes of entries. Return the number of pages.

    Otherwise PostgreSQL flushes them after thousands of entries, during somebody's page. A database
    function of the owner of the indexes does it, because workers do not own them.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT audit_clean_entry_indexes()")
        return int(cursor.fetchone()[0])
