"""Two clocks: the service's, by which it selects what changed, and ours.

The service dates its answers (the Date header), and the next reading of changes begins where the
latest one was dated. A header may be wrong: one that lies in the future would hide every change
until then. So it is believed within limits only, and the next reading begins where no change can
be missed, whichever of the latest answers was dated wrongly.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self

from django.conf import settings

from backoffice.models import SyncRun
from backoffice.service import Page

AHEAD: Final = timedelta(minutes=5)
"""How far ahead of ours the service's clock is believed to be. A synchronized clock is off by
seconds, and five minutes are what signatures of deliveries allow between the clocks. Even a header
that is wrong by this much hides nothing: a window never begins after the latest run, by our clock.
A clock that really is further ahead only costs reading more than needed."""
BEHIND: Final = timedelta(days=7)
"""How far behind it is believed to be. Such a header hides nothing, but everything since is read
again with each run; and a clock that really is that far behind dates its changes so, too."""
JUMP: Final = timedelta(seconds=60)
"""Beyond this the service's clock was set, or an answer was dated wrongly: dates have seconds, and
an answer takes up to half a minute."""

_CHECKPOINT: Final = "clock"


@dataclass(frozen=True, slots=True)
class ClockReading:
    """Our clock when a list's first page was asked for, and the Date header of the answer."""

    asked_at: datetime
    server_date: datetime | None

    @classmethod
    def of(cls, page: Page[Any]) -> Self:
        return cls(page.asked_at, page.server_date)

    @property
    def offset(self) -> timedelta:
        """How far the service's clock is ahead of ours, as the header has it."""
        return (self.server_date or self.asked_at) - self.asked_at

    def plausible_date(self, previous: datetime | None) -> datetime:
        """The service's clock within limits: around ours, and not far behind the `previous` run's
        (ours may be the wrong one). Without a header, our own clock."""
        earliest = min(self.asked_at, previous or self.asked_at) - BEHIND
        return min(max(self.asked_at + self.offset, earliest), self.asked_at + AHEAD)


@dataclass(frozen=True, slots=True)
class CompletedRun:
    """The two clocks at the beginning of a run that came to its end."""

    asked_at: datetime
    server_date: datetime

    @property
    def offset(self) -> timedelta:
        return self.server_date - self.asked_at

    @classmethod
    def of(cls, run: SyncRun) -> Self:
        """Runs of older releases have the header alone, believed without limits: it is limited to
        the time between the beginning and the end of the run."""
        noted = run.checkpoint.get(_CHECKPOINT)
        began = run.started_at or run.created_at
        date = run.server_date or began
        if noted is not None:
            return cls(datetime.fromisoformat(noted["asked_at"]), date)
        return cls(began, min(max(date, began - BEHIND), (run.finished_at or began) + AHEAD))


def note(run: SyncRun, reading: ClockReading | None) -> None:
    """Set the service's clock of a run, at the first page it reads."""
    if run.server_date is not None:
        return
    reading = reading or ClockReading(datetime.now(UTC), None)
    previous = _completed(run.resource).values_list("server_date", flat=True).first()
    run.server_date = reading.plausible_date(previous)
    run.checkpoint = {
        **run.checkpoint,
        _CHECKPOINT: {
            "asked_at": reading.asked_at.isoformat(),
            "offset_seconds": reading.offset.total_seconds(),
        },
    }


def latest_window(resource: str) -> datetime | None:
    """Where the next incremental run begins; None before the first run came to its end.

    It begins where the latest completed run began, by the service's clock, less the overlap, which
    covers records that became visible late. Of the offsets of the latest two runs the smaller one
    counts: one wrong header moves no window ahead. Where the service's clock went back, what
    changed since the run before is dated by the new clock, and the latest run has not asked for
    that: so the window begins there.
    """
    recent = [CompletedRun.of(run) for run in _completed(resource)[:2]]
    if not recent:
        return None
    latest, before = recent[0], recent[-1]
    begin = latest.asked_at + min(latest.offset, before.offset)
    if latest.offset < before.offset - JUMP:
        begin = min(begin, before.asked_at + latest.offset)
    # A time to come, left by a clock of ours that was wrong, would hide what changes until then.
    latest_plausible = datetime.now(UTC) + AHEAD
    overlap = timedelta(seconds=settings.SYNC_OVERLAP_SECONDS)
    return min(begin - overlap, latest.asked_at, latest_plausible - overlap)


def _completed(resource: str) -> Any:
    """Runs that came to their end, the latest first, whatever any clock says."""
    done = SyncRun.objects.filter(resource=resource, state=SyncRun.State.DONE)
    return done.exclude(server_date=None).order_by("-pk")
