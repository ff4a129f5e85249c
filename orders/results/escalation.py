"""Notify staff who may acknowledge of critical results that nobody acknowledged in time.

Each critical result is escalated once.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from django.db.models import CharField, Exists, F, OuterRef, Q, Value
from django.db.models.functions import Cast, Concat
from django.utils import timezone

from backoffice.accounts.models import User
from backoffice.team.actions import people_who_may
from backoffice.team.models import Notification
from backoffice.team.notifications import notify
from orders.models.critical import CriticalAnnouncement
from orders.models.order import Order
from orders.models.review import ResultVersion, Review

ESCALATION_DELAY: Final = timedelta(minutes=30)
RECENT_PERIOD: Final = timedelta(days=3)
"""Orders without a status event in this period are skipped, because the first sync reads results of
years.
"""
NOTIFICATION_KIND: Final = "critical-waits"
BATCH_SIZE: Final = 50


def escalate_criticals(now: datetime | None = None) -> int:
    """Notify of unacknowledged critical results; return how many notifications were created.

    The delay counts from the first critical version that nobody has acknowledged. Later versions,
    with the same values or others, do not restart it.
    """
    now = now or timezone.now()
    occasion = Concat(Value("version "), Cast(OuterRef("critical_since"), CharField()))
    already = Notification.objects.filter(
        kind=NOTIFICATION_KIND,
        subject_type="result",
        subject_id=Cast(OuterRef("pk"), CharField()),
        about=occasion,
    )
    old = Order.objects.filter(pk=OuterRef("pk"), last_event_at__lt=now - RECENT_PERIOD)
    received = ResultVersion.objects.filter(
        order_id=OuterRef("pk"),
        critical_since__gt=OuterRef("acknowledged"),
        received_at__lt=now - ESCALATION_DELAY,
    )
    announced = CriticalAnnouncement.objects.filter(
        pk=OuterRef("pk"), first_heard_at__lt=now - ESCALATION_DELAY
    )
    waiting = Review.objects.filter(
        ~Exists(already),
        ~Exists(old),
        Exists(received) | Q(Exists(announced), acknowledged__lt=0),
        critical_since__isnull=False,
        acknowledged__lt=F("critical_since"),
    )
    batch = list(waiting.order_by("since").only("critical_since")[:BATCH_SIZE])
    if not batch:
        return 0
    people: list[User] = list(people_who_may("results.acknowledge"))
    return sum(
        notify(people, NOTIFICATION_KIND, "result", row.pk, about=f"version {row.critical_since}")
        for row in batch
    )
