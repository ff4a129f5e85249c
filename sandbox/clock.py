"""The world's clock: real UTC plus a stored offset."""

from datetime import UTC, datetime, timedelta

from sandbox.models import World


def real_now() -> datetime:
    return datetime.now(UTC)


def now() -> datetime:
    """The time in the world."""
    return real_now() + offset()


def offset() -> timedelta:
    """How far the world is ahead of real time (negative: behind)."""
    return World.objects.values_list("clock_offset", flat=True).get(id=1)


def advance(seconds: float) -> datetime:
    """Moves the world's clock; returns the new time there."""
    moved: timedelta = offset() + timedelta(seconds=seconds)
    World.objects.filter(id=1).update(clock_offset=moved)
    return real_now() + moved
