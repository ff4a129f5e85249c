"""`manage.py demo_past`: do the work of earlier days for a demo, as made-up staff.

The first sync brings all results of the past. While it runs, this command signs results that are
more than 12 hours old. Critical ones are acknowledged and called first. Exceptions that are more
than two days old are marked as handled. Newer results and exceptions wait for review, as on a
normal day. Local use only.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection, transaction
from django.utils import timezone

from backoffice.accounts.models import User
from backoffice.audit.recording import record_follow_up
from backoffice.core.vocabulary import NEEDS_ACTION
from backoffice.devtools.progress import SyncProgress
from orders.exceptions.cards import HANDLED
from orders.models import Handling, Order, Review
from orders.models.review import OPEN_CRITICAL, READ_BACK
from orders.results import critical_calls, sign_off
from orders.results.reviewed_elsewhere import sign

NIGHT: Final = timedelta(hours=12)
TROUBLE: Final = timedelta(days=2)
REASON: Final = "Dealt with before this demo began"
LAST_SECONDS: Final = 30.0


class Command(BaseCommand):
    help = (
        "Sign results from before last night that the first sync of a demo brings. Local use only."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--last-seconds",
            type=float,
            default=LAST_SECONDS,
            help="seconds to wait for the last lookups of the first sync. Default: %(default)s.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.LOCAL or settings.MANAGEMENT_ENV == "production":
            raise CommandError("Nobody has read these results. This command requires LOCAL=1.")
        clinician = User.objects.get(username="clinician")
        evening = timezone.now() - NIGHT
        ends = None
        while ends is None or time.monotonic() < ends:
            nearly_over = SyncProgress.on(connection.connection).nearly_over
            if nearly_over and ends is None:
                ends = time.monotonic() + options["last_seconds"]
            sign(evening, clinician)
            _settle_critical_values(evening, clinician)
            _handle(timezone.now() - TROUBLE, clinician)
            time.sleep(1)


def _handle(before: datetime, by: User) -> None:
    old = Order.objects.filter(bucket=NEEDS_ACTION, last_event_at__lt=before, handling=None)
    with transaction.atomic(durable=True):
        rows = list(old.values_list("pk", "last_event_id", "user_id"))
        Handling.objects.bulk_create(
            Handling(order_id=pk, event_id=event, outcome=HANDLED, reason=REASON, by=by, at=before)
            for pk, event, _ in rows
        )
        if rows:
            record_follow_up(by, "exception", [row[0] for row in rows], [row[2] for row in rows])


def _settle_critical_values(before: datetime, by: User) -> None:
    old = Review.objects.filter(OPEN_CRITICAL, order__last_event_at__lt=before, version__gt=0)
    for order_id, patient in old.order_by("since").values_list("pk", "user_id"):
        _settle_critical_value(order_id, patient, by)


def _settle_critical_value(order_id: UUID, patient: UUID | None, by: User) -> None:
    """Acknowledge the critical value, record a call, and sign, as the pages do."""
    with transaction.atomic(durable=True):
        review = sign_off.lock_review(order_id)
        if review.critical_since is None:
            return
        critical_calls.acknowledge(review, review.version, by)
        critical_calls.record_call(
            review, review.version, by, recipient="Made-up physician", outcome=READ_BACK
        )
        sign_off.sign(order_id, review.version, by)
        record_follow_up(by, "sign result", [order_id], [patient])
