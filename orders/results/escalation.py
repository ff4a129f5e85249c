"""A critical result that nobody has acknowledged in time is told to everybody who may: once."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.db.models import CharField, Exists, F, OuterRef, Q, Value
from django.db.models.functions import Cast, Concat
from django.utils import timezone

from backoffice.models import Notification, User
from backoffice.team import notify, people_who_may
from orders.models.critical import CriticalResult
from orders.models.order import Order
from orders.results.models import ResultVersion, Review

AFTER: Final = timedelta(minutes=30)
LATELY: Final = timedelta(days=3)
"""Of the order's last step: the first sync brings the critical results of years."""
KIND: Final = "critical-waits"
AT_ONCE: Final = 50


def tell_of_criticals() -> int:
    """Tell of critical results that wait for their first reader; how many people were told.

    Each waits from the first critical word that nobody has acknowledged: what comes later, the same
    values again or others, does not begin the half hour anew.
    """
    now = timezone.now()
    about = Concat(Value("version "), Cast(OuterRef("critical_since"), CharField()))
    already = Notification.objects.filter(
        kind=KIND,
        subject_type="result",
        subject_id=Cast(OuterRef("pk"), CharField()),
        about=about,
    )
    old = Order.objects.filter(pk=OuterRef("pk"), last_event_at__lt=now - LATELY)
    come = ResultVersion.objects.filter(
        order_id=OuterRef("pk"),
        critical_since__gt=OuterRef("acknowledged"),
        received_at__lt=now - AFTER,
    )
    announced = CriticalResult.objects.filter(pk=OuterRef("pk"), first_heard_at__lt=now - AFTER)
    waiting = Review.objects.filter(
        ~Exists(already),
        ~Exists(old),
        Exists(come) | Q(Exists(announced), acknowledged__lt=0),
        critical_since__isnull=False,
        acknowledged__lt=F("critical_since"),
    )
    found = list(waiting.order_by("since").only("critical_since")[:AT_ONCE])
    if not found:
        return 0
    people: list[User] = list(people_who_may("results.acknowledge"))
    return sum(
        notify(people, KIND, "result", row.pk, about=f"version {row.critical_since}")
        for row in found
    )
