"""Whether the service still delivers events: silence, clock skew, refused deliveries.

The sender disables an endpoint after days of failures. After that, no message shows that events are
missing. So the usual pause is computed from the latest events. The service is silent if no event
came for much longer than usual although a sync finds orders that changed. Pages then show the
silence, and the service is asked to send the missed events again. It does not send device data
again, so these are read, from the beginning of the silence. The sync continues to read orders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Final, TypeAlias

import msgspec
from django.db.models import Subquery, Sum
from django.db.models.functions import Now
from django.utils import timezone

from backoffice.service import Record, Service, signing
from backoffice.service.orders import ResentOrders
from backoffice.sync.lookups import LookupType, schedule_lookups
from backoffice.sync.models import Lookup, SyncRun
from orders.models import Order
from patients.wearables.backfills import BACKFILL, BackfillRange
from patients.wearables.models import HistoricalPull
from webhooks.models import Event, Refusal

SHORTEST_SILENCE: Final = timedelta(minutes=15)
"""Shorter pauses never count as silence."""
LONGEST_USUAL_PAUSE: Final = timedelta(hours=6)
"""Longest pause that counts as usual. So a silent day is noticed even after a quiet weekend."""
TIMES_USUAL: Final = 2
"""A pause is silence if it is this many times as long as the longest recent pause."""
RHYTHM_EVENTS: Final = 200
"""Latest events from which the usual pause is computed."""
SEARCHED_EVENTS: Final = 2_000
"""Latest events that are searched for a silence that has just ended: many may arrive at once."""
STEP_GRACE: Final = timedelta(minutes=2)
"""Tolerance: a sync may see a step before its event arrives, and clocks differ a little."""
UNANNOUNCED_STATUSES: Final = ("partial_results",)
"""Statuses that the service announces only to teams that opted in (webhooks, chapter 5)."""
RESEND_INTERVAL: Final = timedelta(minutes=30)
"""Time between two requests to send the events of one silence again."""
MAX_RESEND_WINDOW: Final = timedelta(days=60)
"""Longest period of events that the service sends again (orders.md 11)."""
OVERLAP: Final = timedelta(minutes=5)
MAX_SKEW: Final = timedelta(seconds=60)
"""Skew from which a warning is shown. Deliveries are refused only from 5 minutes on."""
REFUSED_WITHIN: Final = timedelta(hours=24)
STALE_REASON: Final = signing.Stale.reason
STALE_WITHIN: Final = timedelta(hours=1)
"""How long a delivery that was refused for its time shows a clock skew. Refused deliveries are not
stored, so no event shows the skew.
"""
UNVERIFIED_REASONS: Final = (signing.Forged.reason, signing.Unsigned.reason, "misshapen signature")
FLOODED_WITHIN: Final = timedelta(minutes=15)
CONFLICT_WITHIN: Final = timedelta(hours=24)

MAX_BACKFILLS: Final = 5_000
"""Most series of device data that are read after a silence, the most recently fetched first. Each
is one call, and there may be only half an hour for all calls.
"""

RESEND: Final = "events-resent"


@dataclass(frozen=True, slots=True)
class RefusalCount:
    """How many deliveries were recently refused for a reason."""

    reason: str
    count: int


@dataclass(frozen=True, slots=True)
class DeliveryHealth:
    """The state of the deliveries of the service."""

    last: datetime | None
    """When the latest event was received."""
    usual_pause: timedelta
    """The longest pause that is not silence."""
    unannounced_step_at: datetime | None
    """When an order changed without an event about it, as found by a sync."""
    skew: timedelta
    """Our clock minus the signed times of recent deliveries."""
    now: datetime
    has_stale_refusals: bool = False
    """Whether deliveries with a valid signature were recently refused for their time. Then `skew`
    is the skew of these deliveries.
    """

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
    """Return the state of the deliveries: three queries."""
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
    """Return the signed time of the latest delivery refused for its time, minus our time.

    None if none was refused recently. "Recently" is by the clock of the database, because the clock
    of this server may be wrong.
    """
    late = Refusal.objects.filter(reason=STALE_REASON, last_at__gte=Now() - STALE_WITHIN)
    offsets = (
        late.exclude(seconds_off=None).order_by("-last_at").values_list("seconds_off", flat=True)
    )
    seconds = offsets.first()
    return None if seconds is None else timedelta(seconds=seconds)


def is_flooded() -> bool:
    """Return whether many deliveries recently had no valid signature."""
    floods = Refusal.objects.filter(
        reason__in=UNVERIFIED_REASONS, flood_at__gte=Now() - FLOODED_WITHIN
    )
    return floods.exists()


def has_body_conflicts(now: datetime | None = None) -> bool:
    """Return whether a message was recently repeated with the same id and another body."""
    since = (now or timezone.now()) - CONFLICT_WITHIN
    return Event.objects.filter(body_conflict=True, last_received_at__gte=since).exists()


def recent_refusals(now: datetime | None = None) -> list[RefusalCount]:
    """Return recently refused deliveries by reason, the most frequent first: one query."""
    since = (now or timezone.now()) - REFUSED_WITHIN
    rows = Refusal.objects.filter(hour__gte=since - timedelta(hours=1)).values("reason")
    counted = rows.annotate(count=Sum("times")).order_by("-count", "reason")
    return [RefusalCount(row["reason"], row["count"]) for row in counted]


def _usual_pause(received: list[datetime]) -> timedelta:
    pauses = [abs(later - earlier) for later, earlier in pairwise(received)]
    return min(
        max(SHORTEST_SILENCE, TIMES_USUAL * max(pauses, default=timedelta())), LONGEST_USUAL_PAUSE
    )


def _unannounced_step(last: datetime | None, now: datetime) -> datetime | None:
    """Return when an order last changed after the last event; None if no order did.

    If no event was ever received, changes since the first sync run count.
    """
    began = SyncRun.objects.filter(resource="orders").order_by("created_at").values("created_at")
    since: Subquery | datetime = Subquery(began[:1]) if last is None else last + STEP_GRACE
    orders = Order.objects.filter(
        updated_at__gt=since, last_event_at__gt=since, last_event_at__lt=now - STEP_GRACE
    )
    steps = orders.exclude(low_level_status__in=UNANNOUNCED_STATUSES).order_by("-updated_at", "-pk")
    return steps.values_list("last_event_at", flat=True).first()


def _skew(latest: list[tuple[datetime, datetime]]) -> timedelta:
    """Return the median skew.

    A signed time is that of the attempt, about a second before receipt.
    """
    seconds = [(received - sent).total_seconds() for received, sent in latest[:50]]
    return timedelta(seconds=median(seconds)) if seconds else timedelta()


# Requests for missed events


ResendAnswer: TypeAlias = tuple[datetime, Record[ResentOrders]]
"""When the service was asked to send events again, and its answer."""


class Gap(msgspec.Struct, frozen=True, array_like=True):
    """The beginning of a silence, as the key of its lookup.

    It is the last event before the silence, and its time of receipt. All events since then are
    requested, whatever arrives later. Number 0: no event was ever received.
    """

    number: int
    began: datetime | None

    def key(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def parse(cls, key: str) -> Gap:
        return msgspec.json.decode(key, type=cls)


def schedule_resends() -> bool:
    """Schedule requests to send missed events again. Return whether the service is silent.

    A silence that lasts is covered, and one that an event ended recently before it was noticed.
    """
    delivery_health = read()
    latest = list(Event.objects.order_by("-pk").values_list("pk", "received_at")[:SEARCHED_EVENTS])
    gaps = [Gap(*latest[0]) if latest else Gap(0, None)] if delivery_health.is_silent else []
    gaps += _ended_gaps(latest, delivery_health.now)
    for key in [gap.key() for gap in gaps]:
        if not Lookup.objects.filter(kind=RESEND, key=key).exists():
            schedule_lookups(RESEND, [key])
    return delivery_health.is_silent


def _ended_gaps(latest: list[tuple[int, datetime]], now: datetime) -> list[Gap]:
    """Return silences that ended recently. Each pause is judged by the state at its end."""
    gaps = []
    for index, ((_, ended), (number, began)) in enumerate(pairwise(latest), 1):
        if now - ended > RESEND_INTERVAL:
            break
        if ended - began > SHORTEST_SILENCE:
            before = [received for _, received in latest[index : index + RHYTHM_EVENTS + 1]]
            if ended - began > _usual_pause(before) and _unannounced_step(began, ended):
                gaps.append(Gap(number, began))
    return gaps


def _request_resend(service: Service, key: str) -> ResendAnswer:
    """Ask the service to send again all events since the silence began."""
    began = Gap.parse(key).began
    now = datetime.now(UTC)
    longest = now - MAX_RESEND_WINDOW + OVERLAP
    start = longest if began is None else min(max(began - OVERLAP, longest), now)
    return now, service.orders.resend_events(start_at=start, end_at=now)


def _next_resends(answers: Mapping[str, ResendAnswer]) -> dict[str, timedelta | None]:
    """Schedule reads of device data, and return when each request is repeated.

    The service cannot send device data again, so they are read. A disabled endpoint does not
    receive what is sent again. So the request is repeated until one was sent after the end of the
    silence.
    """
    again: dict[str, timedelta | None] = {}
    for key, (asked_at, _) in answers.items():
        gap = Gap.parse(key)
        if gap.began is not None:
            schedule_lookups(BACKFILL, _backfill_keys(gap.number, gap.began))
        ended = Event.objects.filter(pk__gt=gap.number, received_at__lt=asked_at)
        again[key] = None if ended.exists() else RESEND_INTERVAL
    return again


def _backfill_keys(number: int, received_at: datetime) -> list[str]:
    """Return the keys of the ranges to read.

    The data read counts as received with the last event, so that it does not overwrite data that
    was delivered later. The keys stay the same within a day, so a second call finds the lookups of
    the first.
    """
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


RESEND_LOOKUPS: Final = LookupType(
    kind=RESEND,
    fetch=_request_resend,
    store=_next_resends,
    retry_missing_after=lambda key: RESEND_INTERVAL,
)
"""The request is a lookup: it has a lease, waits longer after each failure, shows its error."""
