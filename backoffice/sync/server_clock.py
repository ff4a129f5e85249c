"""Two clocks: the service's, by which it selects what changed, and ours.

The service dates its answers (the Date header), and the next incremental run begins at the date of
the latest one. A header may be wrong: a date in the future would hide every change until then. So
dates are accepted within limits only, and the next run begins early enough to miss no change,
whichever of the latest answers had the wrong date.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Self

from django.conf import settings
from django.db.models import QuerySet

from backoffice.service import RecordPage
from backoffice.sync.models import SyncRun

MAX_AHEAD: Final = timedelta(minutes=5)
"""How far ahead of ours the service's clock may be. A synchronized clock is off by seconds, and
webhook signatures allow five minutes between the clocks. A header that is wrong by this much hides
nothing: by our clock, a window never begins after the latest run. If the service's clock really is
further ahead, runs only read more than needed."""
MAX_BEHIND: Final = timedelta(days=7)
"""How far behind ours the service's clock may be. Such a header hides nothing, but each run reads
everything since then again. If the service's clock really is that far behind, the times of its
changes are, too."""
MAX_JITTER: Final = timedelta(seconds=60)
"""A larger difference means that the service's clock was set or an answer has a wrong date: dates
have a precision of seconds, and an answer takes up to half a minute."""

_CHECKPOINT: Final = "clock"


@dataclass(frozen=True, slots=True)
class ClockReading:
    """Our clock when a list's first page was requested, and the Date header of the answer."""

    asked_at: datetime
    server_date: datetime | None

    @classmethod
    def from_page(cls, page: RecordPage[object]) -> Self:
        return cls(page.asked_at, page.server_date)

    @property
    def offset(self) -> timedelta:
        """How far the service's clock is ahead of ours, according to the header."""
        return (self.server_date or self.asked_at) - self.asked_at

    def plausible_date(self, previous: datetime | None) -> datetime:
        """Return the service's clock within limits; without a header, our own clock.

        The limits are around our clock, and not far behind the `previous` run's date, since our
        clock may be the wrong one.
        """
        earliest = min(self.asked_at, previous or self.asked_at) - MAX_BEHIND
        return min(max(self.asked_at + self.offset, earliest), self.asked_at + MAX_AHEAD)


@dataclass(frozen=True, slots=True)
class CompletedRun:
    """The two clocks at the beginning of a completed run."""

    asked_at: datetime
    server_date: datetime

    @property
    def offset(self) -> timedelta:
        return self.server_date - self.asked_at

    @classmethod
    def from_run(cls, run: SyncRun) -> Self:
        """Read the clocks of `run`.

        Runs of older releases stored the header alone, without limits: it is limited here to the
        time between the beginning and the end of the run.
        """
        clock_reading = run.checkpoint.get(_CHECKPOINT)
        began = run.started_at or run.created_at
        date = run.server_date or began
        if clock_reading is not None:
            return cls(datetime.fromisoformat(clock_reading["asked_at"]), date)
        return cls(
            began, min(max(date, began - MAX_BEHIND), (run.finished_at or began) + MAX_AHEAD)
        )


def set_server_date(run: SyncRun, reading: ClockReading | None) -> None:
    """Set the service's clock of a run when its first page is read."""
    if run.server_date is not None:
        return
    reading = reading or ClockReading(datetime.now(UTC), None)
    previous = _completed_runs(run.resource).values_list("server_date", flat=True).first()
    run.server_date = reading.plausible_date(previous)
    run.checkpoint = {
        **run.checkpoint,
        _CHECKPOINT: {
            "asked_at": reading.asked_at.isoformat(),
            "offset_seconds": reading.offset.total_seconds(),
        },
    }


def latest_window(resource: str) -> datetime | None:
    """Return where the next incremental run begins; None before the first completed run.

    It begins where the latest completed run began, by the service's clock, minus the overlap,
    which covers records that became visible late. Of the offsets of the latest two runs the
    smaller one counts, so one wrong header moves no window ahead. If the service's clock was set
    back, the changes since the run before are dated by the new clock, and the latest run did not
    ask for those: then the window begins there.
    """
    recent = [CompletedRun.from_run(run) for run in _completed_runs(resource)[:2]]
    if not recent:
        return None
    latest, previous = recent[0], recent[-1]
    begin = latest.asked_at + min(latest.offset, previous.offset)
    if latest.offset < previous.offset - MAX_JITTER:
        begin = min(begin, previous.asked_at + latest.offset)
    # A time in the future, from a time when our clock was wrong, would hide changes until then.
    latest_plausible = datetime.now(UTC) + MAX_AHEAD
    overlap = timedelta(seconds=settings.SYNC_OVERLAP_SECONDS)
    return min(begin - overlap, latest.asked_at, latest_plausible - overlap)


def _completed_runs(resource: str) -> QuerySet[SyncRun]:
    """Return completed runs, latest first by id, because times may be wrong."""
    done = SyncRun.objects.filter(resource=resource, state=SyncRun.State.DONE)
    return done.exclude(server_date=None).order_by("-pk")
