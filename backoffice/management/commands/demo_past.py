"""`manage.py demo_past`: what made-up staff did before today, so that a demo begins as a day does.

The first sync brings every result there ever was. Those from before yesterday are signed, critical
ones after a call that is on record; what is newer waits. Local use only.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone

from backoffice import audit
from backoffice.models import User
from orders.models import Review
from orders.reviewing import criticals, signing
from orders.reviewing.models import OPEN_CRITICAL, READ_BACK


class Command(BaseCommand):
    help = "Sign the results of a demo that are older than a day. Local use only."

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.LOCAL or settings.MANAGEMENT_ENV == "production":
            raise CommandError("Nobody read these results: this is for LOCAL=1 only.")
        clinician = User.objects.get(username="clinician")
        day = timezone.now() - timedelta(days=1)
        call_command("reviewed_elsewhere", before=f"{day:%Y-%m-%d}", by="clinician")
        old = Review.objects.filter(
            OPEN_CRITICAL, order__last_event_at__lt=_midnight(day), version__gt=0
        )
        for order_id, patient in old.order_by("since").values_list("pk", "user_id"):
            _tell(order_id, patient, clinician)


def _midnight(day: datetime) -> datetime:
    return day.replace(hour=0, minute=0, second=0, microsecond=0)


def _tell(order_id: UUID, patient: UUID | None, by: User) -> None:
    """Acknowledge, call, sign, as the pages do."""
    with transaction.atomic(durable=True):
        review = signing.held(order_id)
        if review.critical_since is None:
            return
        criticals.acknowledge(review, review.version, by)
        criticals.record_call(
            review, review.version, by, recipient="Made-up physician", outcome=READ_BACK
        )
        signing.sign(order_id, review.version, by)
        audit.followed(by, "sign result", [order_id], [patient])
