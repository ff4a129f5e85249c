"""Feeds: at every tick, new data of a few connections is announced in turn.

Nothing is announced while there is no endpoint; a feed that fell behind goes on a day back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet

from sandbox import event_queue
from sandbox.deliveries import connection_changes, sample_events
from sandbox.event_queue import Event
from sandbox.keyed_random import KeyedRandom
from sandbox.models import Connection, Feed, HistoricalPull, PullStep, User
from sandbox.wearables import data_events, historical_pulls
from sandbox.wearables.links import links
from sandbox.wearables.resources import BY_EVENT
from sandbox.wearables.wearers import millis

PERIOD = timedelta(minutes=15)  # between two looks at a connection, at speed 1
SHORTEST = timedelta(minutes=1)
LONGEST = timedelta(days=1)  # announced at once, and looked back at
MOST_FEEDS = 400
ENROLLED_AT_ONCE = 20
EVENTS_PER_TICK = 3.0
FEEDS_PER_TICK = 6
NEW_CONNECTION = timedelta(hours=20)  # between two that come, break or are mended, at speed 1


@dataclass(slots=True)
class Rate:
    """How many events were announced beyond the rate; only the thread of the world uses it."""

    owed: float = 0

    def tick(self) -> bool:
        """Return whether this tick may announce anything."""
        self.owed = max(0.0, self.owed - EVENTS_PER_TICK)
        return self.owed == 0


RATE = Rate()


def tick(at: datetime, speed: float) -> None:
    """Simulate one second of all wearers."""
    if not speed or not event_queue.has_endpoints() or not RATE.tick():
        return
    with transaction.atomic():
        _enroll(at, speed)
        for step in historical_pulls.due_steps(at, speed):
            historical_pulls.advance(step, at)
            RATE.owed += 1
    _change_connections(at, speed)
    with transaction.atomic():
        untold = Q(connection__status="connected") | Q(told_until__lt=F("connection__errored_at"))
        due = Feed.objects.select_for_update(skip_locked=True, of=("self",)).filter(
            untold, next_at__lte=at
        )
        for feed in due.order_by("next_at")[:FEEDS_PER_TICK]:
            RATE.owed += _announce_feed(feed, at, speed)
            if RATE.owed > EVENTS_PER_TICK:
                break


def _team() -> QuerySet[Connection]:
    return Connection.objects.filter(
        status="connected", user__team_id=settings.TEAM_ID, user__deleted_at__isnull=True
    )


def _enroll(at: datetime, speed: float) -> None:
    """Give connections a feed, up to a number of feeds. A new connection always gets one, from its
    beginning."""
    newest = _team().select_related("feed").order_by("-id")
    if Feed.objects.count() < MOST_FEEDS:
        newest = newest.filter(feed__isnull=True)
    found = [each for each in newest[:ENROLLED_AT_ONCE] if not hasattr(each, "feed")]
    historical_pulls.resume(found, at)
    for link in found:
        fresh = link.created_on > at - LONGEST
        told = link.created_on - timedelta(milliseconds=1) if fresh else at
        next_at = at if fresh else at + _gap(link.pk, speed, at)
        Feed.objects.create(connection=link, told_until=told, next_at=next_at)


def _gap(key: int, speed: float, at: datetime) -> timedelta:
    """Return the time until the next announcement, varied by 50%."""
    share = KeyedRandom("feed", key, at.isoformat()).uniform(0.5, 1.5)
    return max(SHORTEST, PERIOD / max(1.0, speed)) * share


def _announce_feed(feed: Feed, at: datetime, speed: float) -> int:
    """Announce what is new of a connection; return the number of events."""
    found = links(Connection.objects.filter(pk=feed.connection_id))
    after = max(feed.told_until, at - 2 * LONGEST)
    upto = min(at, after + LONGEST)
    events = [
        event
        for link in found
        for event in data_events.events_between(link, millis(after), millis(upto))
    ]
    event_queue.announce_all(events)
    feed.told_until = upto
    feed.next_at = at + _gap(feed.connection_id, speed, at)
    feed.save()
    return len(events)


def _change_connections(at: datetime, speed: float) -> None:
    """Now and then make, break or reconnect a connection."""
    rng = KeyedRandom("turn", at.isoformat())
    if not rng.chance(speed / NEW_CONNECTION.total_seconds()):
        return
    match rng.weighted_choice(((45, "connect"), (25, "fail"), (30, "mend"))):
        case "connect":
            connection_changes.connect(1, at.isoformat(), at)
        case "fail":
            connection_changes.fail(1, at.isoformat(), at)
        case _:
            reconnect(1, at.isoformat(), at)
    RATE.owed += 1


def reconnect(count: int, seed: object, at: datetime) -> list[str]:
    """Connect broken connections again; return the ids of their users."""
    broken = Connection.objects.filter(status="error", user__team_id=settings.TEAM_ID)
    events = []
    with transaction.atomic():
        rows = broken.select_for_update(of=("self",)).select_related("provider").order_by("-id")
        found = list(rows[: connection_changes.POOL])
        for link in KeyedRandom("mend", seed).sample(found, min(count, len(found))):
            if link.errored_at is not None:  # Data since then is announced.
                behind = Feed.objects.filter(connection=link, told_until__gt=link.errored_at)
                behind.update(told_until=link.errored_at)
            link.status, link.error_type, link.error_message = "connected", None, None
            link.errored_at = None
            link.save()
            data = sample_events.connection_created(
                str(link.user_id), link.provider, link.external_user_id, link.resource_availability
            )
            events.append(Event("provider.connection.created", link.user_id, data, at))
        event_queue.announce_all(events)
    return [str(event.user_id) for event in events]


def announce_days(
    users: Iterable[str] | int, days: int, resources: Iterable[str] | None, at: datetime
) -> dict[str, Any]:
    """Announce the last days of users, by id or of so many connected ones; return what was
    announced."""
    wanted = data_events.ALL if resources is None else frozenset(resources)
    if wanted - data_events.ALL:
        raise ValueError(f"there is no resource {sorted(wanted - data_events.ALL)[0]!r}")
    connections = _connected(users)
    told: dict[str, int] = {}
    count = sent = 0
    with transaction.atomic():
        for link in links(connections):
            events = data_events.events_of_days(link, days, wanted, millis(at))
            sent += len(event_queue.announce_all(events))
            for event in events:
                told[event.event_type] = told.get(event.event_type, 0) + 1
                if event.event_type.split(".")[2] in BY_EVENT:
                    count += len(event.data["data"])
    keys = sorted({str(key) for key in connections.values_list("user_id", flat=True)})
    return {"user_ids": keys, "events": told, "samples": count, "messages": sent}


def _connected(users: Iterable[str] | int) -> QuerySet[Connection]:
    everyone = User.objects.filter(team_id=settings.TEAM_ID, deleted_at__isnull=True)
    if isinstance(users, int):
        linked = everyone.filter(connections__status="connected").order_by("seq").distinct()
        chosen = list(linked.values_list("id", flat=True)[:users])
        return Connection.objects.filter(user_id__in=chosen)
    return Connection.objects.filter(user__in=everyone.filter(id__in=list(users)))


def announce_news(users: Iterable[str] | int, at: datetime) -> int:
    """Announce what is new of these users' connections, whatever the speed; return the number of
    events."""
    told = 0
    with transaction.atomic():
        for link in _connected(users).select_related("provider"):
            beginning = {"told_until": at, "next_at": at}
            feeds = Feed.objects.select_for_update()
            feed, is_new = feeds.get_or_create(connection=link, defaults=beginning)
            if not is_new:
                told += _announce_feed(feed, at, 1)
    return told


def backfill(
    users: Iterable[str] | int,
    resources: Iterable[str] | None,
    outcome: str | None,
    at: datetime,
    finished: bool,
) -> dict[str, Any]:
    """Pull the history of users again; `finished`: to the end at once. Return what was started."""
    with transaction.atomic():
        found = HistoricalPull.objects.none()
        for link in _connected(users):
            found |= HistoricalPull.objects.filter(
                user_id=link.user_id, provider_id=link.provider_id
            )
        if resources is not None:
            found = found.filter(resource__in=list(resources))
        keys = list(found.values_list("pk", flat=True))
        begun = historical_pulls.schedule(HistoricalPull.objects.filter(pk__in=keys), at, outcome)
        ended: list[str] = []
        if finished:
            steps = PullStep.objects.filter(pull_id__in=keys).select_related("pull")
            ended = historical_pulls.finish(steps, at)
    return {"pulls": begun, "succeeded": ended}
