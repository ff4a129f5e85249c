"""`manage.py reviewed_elsewhere --before 2026-11-01 --by NAME`: sign results reviewed elsewhere.

The first sync brings all results of the past, and all of them wait for review. This command signs
those that were reviewed in another system, with a note about that. It does not sign critical or
partial results, results that name another person, results with a value that is not interpreted,
and newer results. It prints how many older results are left, by reason.

With `--critical` the clinician confirms that somebody was notified of the critical results, and
the command signs those, too. Otherwise a new critical result would be hard to find among thousands
of old ones.
"""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from django.db import connection, transaction

from backoffice.accounts.access import may
from backoffice.accounts.models import User
from backoffice.audit.recording import record_follow_up

BATCH_SIZE: Final = 1_000
NOTE: Final = "Reviewed in another system, before this office was in use"

RECIPIENT: Final = "whoever the other system names"

# Why a result is not signed with the others, the most serious reason first. The one parameter is
# whether critical results are signed.
_REASON: Final = """
 CASE WHEN review.identity = 'different' THEN 'name somebody else'
  WHEN review.critical_since IS NOT NULL AND NOT %s THEN 'are critical (see --critical)'
  WHEN review.kind = 'partial' THEN 'are partial'
  WHEN review.kind NOT IN ('final', 'corrected') THEN 'have an unknown status'
  WHEN review.has_uninterpreted THEN 'have values that are not interpreted' END
"""
_COUNT_REMAINING: Final = f"""
SELECT {_REASON}, count(*) FROM orders_review AS review
JOIN orders_order AS o ON o.id = review.order_id
WHERE review.version > review.signed AND review.version > 0 AND o.last_event_at < %s
GROUP BY 1 ORDER BY 2 DESC, 1
"""

# Locks the reviews as the page for signing does, and signs the newest version of each result.
_SIGN: Final = f"""
WITH chosen AS (
 SELECT review.order_id, review.version, review.user_id, review.critical_since
 FROM orders_review AS review JOIN orders_order AS o ON o.id = review.order_id
 WHERE review.version > review.signed AND review.version > 0
  AND o.last_event_at < %s AND {_REASON} IS NULL
 ORDER BY review.order_id LIMIT %s FOR UPDATE OF review
), critical AS (
 SELECT chosen.order_id, chosen.version, v.critical FROM chosen
 JOIN orders_resultversion v ON v.order_id = chosen.order_id AND v.number = chosen.version
 WHERE chosen.critical_since IS NOT NULL
), acknowledged AS (
 INSERT INTO orders_criticalacknowledgement (order_id, version, by_id, "values")
 SELECT order_id, version, %s, critical FROM critical
), called AS (
 INSERT INTO orders_criticalcall
  (order_id, version, by_id, "values", recipient, outcome, note, made_by_service_network, source)
 SELECT order_id, version, %s, critical, %s, 'reached_no_read_back', '', false, %s FROM critical
), signed AS (
 INSERT INTO orders_signature (order_id, version, kind, by_id, note, tells)
 SELECT order_id, version, 'signed', %s, %s, '' FROM chosen
)
SELECT order_id, user_id, critical_since IS NOT NULL FROM chosen
"""


class Command(BaseCommand):
    help = "Sign results that were reviewed elsewhere before a day."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--before", required=True, help="day (UTC) whose start is the limit")
        parser.add_argument("--by", required=True, help="log-in name of the clinician who says so")
        parser.add_argument(
            "--critical",
            action="store_true",
            help="also critical ones, about which people were told",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            before = datetime.strptime(options["before"], "%Y-%m-%d").replace(tzinfo=UTC)
        except ValueError as error:
            raise CommandError("--before is a day like 2026-11-01") from error
        by = User.objects.filter(username=options["by"]).first()
        if by is None or not may(by, "results.sign"):
            raise CommandError("--by is the log-in name of somebody who may sign results")
        critical = options["critical"]
        self.stdout.write(f"{sign(before, by, critical=critical)} results signed")
        for reason, count in count_remaining(before, critical=critical):
            self.stdout.write(f"{count} results left for review: they {reason}")


def sign(before: datetime, by: User, *, critical: bool = False) -> int:
    """Sign the waiting results that are older than `before`. Return how many were signed."""
    count = 0
    while signed := _sign_batch(before, by, critical):
        count += signed
    return count


def count_remaining(before: datetime, *, critical: bool = False) -> list[tuple[str, int]]:
    """Return how many older results are left for review, by reason."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNT_REMAINING, [critical, before])
        return [(reason, count) for reason, count in cursor.fetchall() if reason]


def _sign_batch(before: datetime, by: User, critical: bool) -> int:
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            _SIGN, [before, critical, BATCH_SIZE, by.pk, by.pk, RECIPIENT, NOTE, by.pk, NOTE]
        )
        rows: list[tuple[UUID, UUID | None, bool]] = cursor.fetchall()
        _record(by, "sign result", rows)
        for kind in ("acknowledge critical", "critical call"):
            _record(by, kind, [row for row in rows if row[2]])
    return len(rows)


def _record(by: User, kind: str, rows: list[tuple[UUID, UUID | None, bool]]) -> None:
    if rows:
        record_follow_up(by, kind, [row[0] for row in rows], [row[1] for row in rows])
