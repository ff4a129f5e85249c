"""Is the service still telling us what happens? Silence, clocks that differ, refused deliveries.

The sender switches an endpoint off after days of failures, and then nothing tells that anything is
missing. So the rhythm of receipt is learned from the latest events: when nothing came for much
longer than usual although a sync finds orders that took a step, that is silence. It is shown, and
the service is asked to send again what we may have missed. Of device data it sends nothing twice:
that is read, from where the silence began. The sync itself goes on reading orders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Any, Final

import msgspec
from django.db.models import Subquery, Sum
from django.db.models.functions import Now
from django.utils import timezone

from backoffice import sync
from backoffice.models import Lookup, SyncRun
from backoffice.service import Service, signing
from orders.models import Order
from patients.wearables.backfills import BACKFILL, BackfillRange
from patients.wearables.models import HistoricalPull
from webhooks.models import Event, Refusal

SHORTEST_SILENCE: Final = timedelta(minutes=15)
"""Shorter pauses are never called silence."""
LONGEST_USUAL_PAUSE: Final = timedelta(hours=6)
"""Nor is any pause usual that is longer: a quiet weekend must not teach us to miss the next day."""
TIMES_USUAL: Final = 2
"""Silence is a pause this many times the longest of the recent ones."""
RHYTHM_EVENTS: Final = 200
"""Latest events whose rhythm is usual."""
SEARCHED_EVENTS: Final = 2_000
"""Latest events among which a silence that has just ended is looked for: many may come at once."""
STEP_GRACE: Final = timedelta(minutes=2)
"""A sync may well see a step before its event arrives; and clocks differ a little."""
UNANNOUNCED_STATUSES: Final = ("partial_results",)
"""Steps that the service announces only to teams that asked for it (webhooks, chapter 5)."""
RESEND_INTERVAL: Final = timedelta(minutes=30)
"""Between two requests to send again what one silence swallowed."""
MAX_RESEND_WINDOW: Final = timedelta(days=60)
"""The service sends no more than this again (orders.md 11)."""
OVERLAP: Final = timedelta(minutes=5)
MAX_SKEW: Final = timedelta(seconds=60)
"""Beyond 5 minutes deliveries are refused; this is far enough to say so before."""
REFUSED_WITHIN: Final = timedelta(hours=24)
STALE_REASON: Final = signing.Stale.reason
STALE_WITHIN: Final = timedelta(hours=1)
"""So long a refusal for its time says that clocks differ: nothing that is refused is stored."""
UNVERIFIED_REASONS: Final = (signing.Forged.reason, signing.Unsigned.reason, "misshapen signature")
FLOODED_WITHIN: Final = timedelta(minutes=15)
CONFLICT_WITHIN: Final = timedelta(hours=24)

MAX_BACKFILLS: Final = 5_000
"""Series of device data that are read after silence began, those fetched last first: each is a call
of its own, and there may be half an hour for all of them."""

RESEND: Final = "events-resent"


@dataclass(frozen=True, slots=True)
class DeliveryHealth:
    """How well we hear the service."""

    last: datetime | None
    """When the latest event was received."""
    usual_pause: timedelta
    """The longest pause that is not remarkable."""
    unannounced_step_at: datetime | None
    """When an order took a step, as a sync found, that no event has told."""
    skew: timedelta
    """How far our clock is ahead of the signed times of recent deliveries."""
    now: datetime
    has_stale_refusals: bool = False
    """Whether genuine deliveries were refused of late for their time: `skew` is then theirs."""

    @property
    def pause(self) -> timedelta | None:
        return self.now - self.last if self.last else None

    @property
    def is_silent(self) -> bool:
        return self.unannounced_step_at is not None and (
            self.pause is None or self.pause > self.usual_pause
        )

    @property
    def clocks_differ(self) -> bool:
        return abs(self.skew) > MAX_SKEW

    @property
    def is_our_clock_ahead(self) -> bool:
        return self.skew > timedelta()


def read(now: datetime | None = None) -> DeliveryHealth:
    """How well we hear the service: three queries."""
    now = now or timezone.now()
    latest = list(
        Event.objects.order_by("-pk").values_list("received_at", "sent_at")[: RHYTHM_EVENTS + 1]
    )
    last = latest[0][0] if latest else None
    stale = _latest_stale_offset()
    return DeliveryHealth(
        last=last,
        usual_pause=_usual_pause([received for received, _ in latest]),
        unannounced_step_at=_unannounced_step(last, now),
        skew=_skew(latest) if stale is None else -stale,
        now=now,
        has_stale_refusals=stale is not None,
    )


def _latest_stale_offset() -> timedelta | None:
    """How far the time of the latest delivery refused for it was ahead of ours; None: none was of
    late. By the clock of the database, since ours may be the wrong one."""
    late = Refusal.objects.filter(reason=STALE_REASON, last_at__gte=Now() - STALE_WITHIN)
    found = (
        late.exclude(seconds_off=None).order_by("-last_at").values_list("seconds_off", flat=True)
    )
    seconds = found.first()
    return None if seconds is None else timedelta(seconds=seconds)


def is_flooded() -> bool:
    """Whether deliveries that nobody signed for us have been flooding in of late."""
    floods = Refusal.objects.filter(
        reason__in=UNVERIFIED_REASONS, flood_at__gte=Now() - FLOODED_WITHIN
    )
    return floods.exists()


def has_body_conflicts(now: datetime | None = None) -> bool:
    """Whether a message came again of late under its id with another body."""
    since = (now or timezone.now()) - CONFLICT_WITHIN
    return Event.objects.filter(body_conflict=True, last_received_at__gte=since).exists()


def recent_refusals(now: datetime | None = None) -> list[dict[str, Any]]:
    """Deliveries turned away at the door of late, by reason, most first: one query."""
    since = (now or timezone.now()) - REFUSED_WITHIN
    rows = Refusal.objects.filter(hour__gte=since - timedelta(hours=1)).values("reason")
    found = rows.annotate(count=Sum("times")).order_by("-count", "reason")
    return [{"reason": row["reason"], "count": row["count"]} for row in found]


def _usual_pause(received: list[datetime]) -> timedelta:
    pauses = [abs(later - earlier) for later, earlier in pairwise(received)]
    return min(
        max(SHORTEST_SILENCE, TIMES_USUAL * max(pauses, default=timedelta())), LONGEST_USUAL_PAUSE
    )


def _unannounced_step(last: datetime | None, now: datetime) -> datetime | None:
    """The latest step of an order after the last event. Where none was ever received, steps count
    since we began to look."""
    began = SyncRun.objects.filter(resource="orders").order_by("created_at").values("created_at")
    since: Any = Subquery(began[:1]) if last is None else last + STEP_GRACE
    orders = Order.objects.filter(
        updated_at__gt=since, last_event_at__gt=since, last_event_at__lt=now - STEP_GRACE
    )
    steps = orders.exclude(low_level_status__in=UNANNOUNCED_STATUSES).order_by("-updated_at", "-pk")
    return steps.values_list("last_event_at", flat=True).first()


def _skew(latest: list[tuple[datetime, datetime]]) -> timedelta:
    """Signed times are those of the attempt, so receipt follows within a second or so."""
    seconds = [(received - sent).total_seconds() for received, sent in latest[:50]]
    return timedelta(seconds=median(seconds)) if seconds else timedelta()


# The sweep


class Gap(msgspec.Struct, frozen=True, array_like=True):
    """Where a silence began, as the key of its look-up: the last event before it and its receipt.
    Whatever arrives later, all since then is asked for. Number 0: no event was ever received."""

    number: int
    began: datetime | None

    def key(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def of(cls, key: str) -> Gap:
        return msgspec.json.decode(key, type=cls)


def schedule_resends() -> bool:
    """See to it that what a silence swallowed is asked for: one that lasts, or one that an event
    ended of late before it was noticed. True in silence."""
    delivery_health = read()
    latest = list(Event.objects.order_by("-pk").values_list("pk", "received_at")[:SEARCHED_EVENTS])
    gaps = [Gap(*latest[0]) if latest else Gap(0, None)] if delivery_health.is_silent else []
    gaps += _ended_gaps(latest, delivery_health.now)
    for key in [gap.key() for gap in gaps]:
        if not Lookup.objects.filter(kind=RESEND, key=key).exists():
            sync.mark(RESEND, [key])
    return delivery_health.is_silent


def _ended_gaps(latest: list[tuple[int, datetime]], now: datetime) -> list[Gap]:
    """Silences that ended of late. Whether a pause was one is asked as of its end."""
    found = []
    for place, ((_, ended), (number, began)) in enumerate(pairwise(latest), 1):
        if now - ended > RESEND_INTERVAL:
            break
        if ended - began > SHORTEST_SILENCE:
            before = [received for _, received in latest[place : place + RHYTHM_EVENTS + 1]]
            if ended - began > _usual_pause(before) and _unannounced_step(began, ended):
                found.append(Gap(number, began))
    return found


def _request_resend(service: Service, key: str) -> tuple[datetime, Any]:
    """Have everything sent again since the silence began."""
    began = Gap.of(key).began
    now = datetime.now(UTC)
    longest = now - MAX_RESEND_WINDOW + OVERLAP
    start = longest if began is None else min(max(began - OVERLAP, longest), now)
    return now, service.orders.resend_events(start_at=start, end_at=now)


def _next_resends(answers: Mapping[str, tuple[datetime, Any]]) -> dict[str, timedelta | None]:
    """Device data has no such call: give a reason to read what came since the silence began.

    An endpoint that is still switched off hears nothing of what is sent again: so it is asked for
    until an answer that was asked for after the silence had ended.
    """
    again: dict[str, timedelta | None] = {}
    for key, (asked_at, _) in answers.items():
        gap = Gap.of(key)
        if gap.began is not None:
            sync.mark(BACKFILL, _backfill_keys(gap.number, gap.began))
        ended = Event.objects.filter(pk__gt=gap.number, received_at__lt=asked_at)
        again[key] = None if ended.exists() else RESEND_INTERVAL
    return again


def _backfill_keys(number: int, received_at: datetime) -> list[str]:
    """Keys of the ranges to read. What is read counts as received with the last event, so that
    nothing pushed later is overwritten. Within a day the keys stay the same: a second reason to
    read finds the look-ups of the first."""
    start = (received_at - OVERLAP).replace(minute=0, second=0, microsecond=0)
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    pulled = HistoricalPull.objects.filter(
        status="success", missing_since=None, ended_at__isnull=False, days_with_data__gt=0
    ).order_by("-ended_at")
    return [
        BackfillRange(number, user, resource, provider, start, today + timedelta(days=1)).key()
        for user, resource, provider in pulled.values_list("user_id", "resource", "provider")[
            :MAX_BACKFILLS
        ]
        if user is not None
    ]


RESEND_LOOKUPS: Final = sync.Subject(
    kind=RESEND,
    fetch=_request_resend,
    store=_next_resends,
    absent_again=lambda key: RESEND_INTERVAL,
)
"""Asking is a look-up: it has a lease, waits longer each time it fails, and shows its error."""
