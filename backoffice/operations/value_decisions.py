"""Decisions of administrators on unknown values."""

from __future__ import annotations

from typing import Final

from django.db import connection, transaction
from django.db.models import Max
from django.http import HttpRequest
from django.utils import timezone

from backoffice.accounts.access import staff_user
from backoffice.audit.recording import record_change
from backoffice.core.models import UnknownValue

_LOCK_DECISIONS: Final = "SELECT pg_advisory_xact_lock(hashtext('decide on an unknown value'))"


class DecidedMeanwhile(Exception):
    """Another person decided after the page was shown."""


def decide(
    request: HttpRequest, row: UnknownValue, bucket: str, label: str, shown_decision: str
) -> None:
    """Save the decision with the next number, and record it in the audit trail.

    Without bucket and label, the decision is taken back. `shown_decision` is the number of the
    decision that the page showed. Raises DecidedMeanwhile; then nothing is saved.
    """
    with transaction.atomic():
        # The lock makes decisions commit in the order of their numbers. So a process that has read
        # one number has read all smaller ones.
        with connection.cursor() as cursor:
            cursor.execute(_LOCK_DECISIONS)
        row.refresh_from_db()
        if shown_decision != str(row.decision):
            raise DecidedMeanwhile
        before = _audited_values(row)
        if (row.bucket, row.label) == (bucket, label):
            return
        last = UnknownValue.objects.aggregate(last=Max("decision"))["last"]
        row.bucket, row.label, row.decision = bucket, label, last + 1
        row.decided_at, row.decided_by = timezone.now(), staff_user(request)
        row.spread_at, row.moved = None, 0
        row.save()
        record_change(
            request,
            "unknown value",
            [f"{row.vocabulary}: {row.value}"],
            before=before,
            after=_audited_values(row),
        )


def _audited_values(row: UnknownValue) -> dict[str, str]:
    return {"bucket": row.bucket, "words": row.label}
