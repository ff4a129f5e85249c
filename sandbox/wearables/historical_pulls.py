"""Historical pulls: scheduled, in progress, perhaps retrying, done or failed.

A success is announced by an event (webhooks.md 4.5); introspection shows all (users.md 7).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db.models import QuerySet

from sandbox import event_queue, specification_forms
from sandbox.event_queue import Event
from sandbox.keyed_random import KeyedRandom
from sandbox.models import Connection, HistoricalPull, PullStep
from sandbox.people import PULL_ERRORS

OPEN = ("scheduled", "in_progress", "retrying")
WAITS = {"scheduled": (10, 90), "in_progress": (40, 1500), "retrying": (300, 900)}  # seconds
MOST_ATTEMPTS = 4
HISTORY_DAYS = {"band-one": 270, "ring-two": 180, "scale-three": 365, "phone-four": 30}
SHORTEST_DAYS = 14
STEPS_PER_TICK = 3
COVERED = 0.97  # of the days have data
SUCCESS, FAILURE = "success", "failure"


def resume(connections: Iterable[Connection], at: datetime) -> None:
    """Resume the unfinished pulls of these connections."""
    for link in connections:
        pulls = HistoricalPull.objects.filter(user_id=link.user_id, provider_id=link.provider_id)
        for pull in pulls.filter(status__in=OPEN, step__isnull=True):
            _wait(PullStep(pull=pull), at)


def schedule(pulls: QuerySet[HistoricalPull], at: datetime, outcome: str | None) -> int:
    """Schedule pulls again, with this outcome; return how many."""
    count = 0
    for pull in pulls.select_for_update():
        days = HISTORY_DAYS.get(pull.provider_id, SHORTEST_DAYS)
        pull.status, pull.error_details = "scheduled", None
        pull.scheduled_at, pull.started_at, pull.ended_at = at, None, None
        start = at - timedelta(days=days)
        if not pull.days_with_data or pull.range_start is None or start < pull.range_start:
            pull.range_start = start
        pull.range_end = at
        pull.release = pull.release or f"{at:%Y-%m}.1"
        pull.trace_id = pull.trace_id or f"trace-{KeyedRandom('trace', pull.pk).integer64():016x}"
        pull.save()
        PullStep.objects.filter(pull=pull).delete()
        _wait(PullStep(pull=pull, outcome=outcome), at)
        count += 1
    return count


def due_steps(at: datetime, pace: float) -> list[PullStep]:
    """Return a few due steps, locked; needs a transaction."""
    found = PullStep.objects.select_for_update(skip_locked=True, of=("self",))
    ready = found.select_related("pull").order_by("since")[: 50 * STEPS_PER_TICK]
    return [step for step in ready if step.since + step.dwell / pace <= at][:STEPS_PER_TICK]


def finish(steps: Iterable[PullStep], at: datetime) -> list[str]:
    """Move each pull to its end at once, or to the open state that is its outcome; return the
    resources that succeeded."""
    ended = []
    for step in steps:
        pull, wanted = step.pull, step.outcome
        while pull.status in OPEN and pull.status != wanted:
            advance(step, at)
        if pull.status == SUCCESS:
            ended.append(pull.resource)
    return ended


def advance(step: PullStep, at: datetime) -> None:
    """Move a pull one step; needs a transaction."""
    pull = step.pull
    rng = KeyedRandom("pull", pull.pk, step.attempts, pull.status)
    if pull.status != "in_progress":
        pull.status, pull.started_at, pull.error_details = "in_progress", at, None
        pull.range_end = pull.range_end or pull.scheduled_at or at
        days = HISTORY_DAYS.get(pull.provider_id, SHORTEST_DAYS)
        pull.range_start = pull.range_start or pull.range_end - timedelta(days=days)
        step.attempts += 1
        pull.save()
        _wait(step, at)
        return
    outcome = step.outcome or rng.weighted_choice(((78, SUCCESS), (4, FAILURE), (18, "retrying")))
    if outcome == "retrying" and step.attempts < MOST_ATTEMPTS:
        pull.status, pull.error_details = "retrying", rng.choice(PULL_ERRORS["retrying"])
        pull.save()
        step.outcome = None if step.outcome is None else SUCCESS  # asked for once is enough
        _wait(step, at)
        return
    pull.ended_at = at
    if outcome == SUCCESS:
        _succeed(pull, at)
    else:
        pull.status = FAILURE
        spent = outcome == "retrying"
        pull.error_details = "retry_quota_exhausted" if spent else rng.choice(PULL_ERRORS[FAILURE])
    pull.save()
    step.delete()


def _succeed(pull: HistoricalPull, at: datetime) -> None:
    assert pull.range_start is not None and pull.range_end is not None
    pull.status = SUCCESS
    pull.days_with_data = round((pull.range_end - pull.range_start).days * COVERED)
    data = {
        "user_id": pull.user_id,
        "start_date": pull.range_start,
        "end_date": pull.range_end,
        "provider": pull.provider_id,
    }
    if pull.provider_id in ("band-one", "phone-four"):  # some still send the flag
        data["is_final"] = True
    event_queue.announce_all(
        [
            Event(
                f"historical.data.{pull.resource}.created",
                pull.user_id,
                specification_forms.history_pulled(data),
                at,
            )
        ]
    )


def _wait(step: PullStep, at: datetime) -> None:
    low, high = WAITS[step.pull.status or "scheduled"]
    seconds = KeyedRandom("pull wait", step.pull_id, step.attempts, step.pull.status).uniform(
        low, high
    )
    step.since, step.dwell = at, timedelta(seconds=seconds)
    step.save()
