"""The clock of the simulated world: real UTC plus a stored offset."""

from datetime import UTC, datetime, timedelta

from sandbox.models import World


def real_now() -> datetime:
    return datetime.now(UTC)


def now() -> datetime:
    """Return the current time of the world."""
    return real_now() + offset()


def offset() -> timedelta:
    """Return how far the world is ahead of real time; negative if it is behind."""
    return World.objects.values_list("clock_offset", flat=True).get(id=1)


def advance(seconds: float) -> datetime:
    """Move the clock of the world forward; return its new time."""
    moved: timedelta = offset() + timedelta(seconds=seconds)
    World.objects.filter(id=1).update(clock_offset=moved)
    return real_now() + moved
