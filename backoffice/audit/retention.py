"""Remove expired entries, some seals at a time. Their seals stay as proof of the entries.

An entry expires `AUDIT_KEEP_YEARS` after it was sealed, together with all entries of its seal.
Before the removal, the entries are verified once more: entries that do not match their seal stay,
for people to examine. The seals stay for good, and a further seal records the removal, so nothing
else can be removed unnoticed.
"""

from __future__ import annotations

import hashlib
import logging
import time
from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.db import connection, transaction
from django.db.models import DurationField, Func, QuerySet, Sum, Value
from django.db.models.functions import Now
from django.utils import timezone

from backoffice.audit import seals, verification
from backoffice.audit.models import AuditEntry, AuditSeal

logger = logging.getLogger(__name__)

_DELETE: Final = f"DELETE FROM {AuditEntry._meta.db_table} WHERE id BETWEEN %s AND %s"


@dataclass(frozen=True, slots=True)
class RemovalBacklog:
    """The number of expired seals and entries."""

    seals: int
    entries: int


def removal_backlog() -> RemovalBacklog:
    totals = _expired_seals().aggregate(rows=Sum("rows"))
    return RemovalBacklog(_expired_seals().count(), totals["rows"] or 0)


def remove_expired(seconds: float | None = None) -> int:
    """Remove expired entries, all of them or for about `seconds`. Return how many.

    Each step commits by itself, so an interrupted run loses nothing and the next run continues.
    """
    ends = None if seconds is None else time.monotonic() + seconds
    removed = 0
    while step := _remove_next():
        removed += step
        if ends is not None and time.monotonic() >= ends:
            break
    return removed


def _remove_next() -> int:
    with transaction.atomic():
        seals.lock_chain()
        chosen: list[AuditSeal] = []
        rows = 0
        for seal in _expired_seals().order_by("to_id")[: seals.MAX_ENTRIES]:
            if chosen and rows + seal.rows > seals.MAX_ENTRIES:
                break
            chosen.append(seal)
            rows += seal.rows
        if not chosen:
            return 0
        result = verification.check_chain(after=chosen[0].n - 1, until=chosen[-1].n)
        if result.troubles:
            logger.error("audit entries stay: what has grown old does not fit its seals")
            return 0
        _remove(chosen, rows)
    return rows


def _remove(chosen: list[AuditSeal], rows: int) -> None:
    from_id, to_id = chosen[0].from_id, chosen[-1].to_id
    years = str(settings.AUDIT_KEEP_YEARS)
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('backoffice.audit_keep_years', %s, true)", [years])
        cursor.execute(_DELETE, [from_id, to_id])
        if cursor.rowcount != rows:
            raise RuntimeError(f"{cursor.rowcount} entries where {rows} were sealed")
    _seal_removal(chosen, rows)


def _seal_removal(chosen: list[AuditSeal], rows: int) -> None:
    digest = hashlib.sha256(b"".join(bytes(seal.mac) for seal in chosen)).digest()
    seals.append(
        AuditSeal(
            removal=True,
            from_id=chosen[0].from_id,
            to_id=chosen[-1].to_id,
            rows=rows,
            digest=digest,
            at=timezone.now(),
        )
    )


def _expired_seals() -> QuerySet[AuditSeal]:
    """Return seals of expired entries; none while a hold is set, or without an expiry."""
    if not settings.AUDIT_KEEP_YEARS or settings.AUDIT_HOLD:
        return AuditSeal.objects.none()
    rows = AuditSeal.objects.filter(removal=False)
    last_removal = AuditSeal.objects.latest_removal()
    if last_removal is not None:
        rows = rows.filter(to_id__gt=last_removal.to_id)
    # One hour more than the trigger requires of the entries: their times come from another clock.
    age = Func(
        Value(settings.AUDIT_KEEP_YEARS),
        template="make_interval(years => %(expressions)s, hours => 1)",
        output_field=DurationField(),
    )
    return rows.filter(at__lt=Now() - age)
