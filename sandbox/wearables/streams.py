"""Streams of one workout and of one sleep (wearables.md 5), found by the summary's id."""

from __future__ import annotations

from math import cos, sin
from typing import Any

from sandbox.wearables.links import Link
from sandbox.wearables.resources import DATA_SOURCES, PROVIDERS_WITH_STREAMS
from sandbox.wearables.samples import held_measures, sample
from sandbox.wearables.summaries import summary_at
from sandbox.wearables.wearers import SPORTS, keyed_python_random

Record = dict[str, Any]
STEP = 5  # seconds between the points of a stream
HOME = (40.0, -100.0)  # a field where nobody lives


def workout_stream(link: Link, place: int, day: int, as_of: int) -> Record | None:
    """WorkoutStream of a day's workout; None while there is no such workout or no stream."""
    workout = link.who.workout(day)
    if (
        link.provider not in PROVIDERS_WITH_STREAMS
        or summary_at(link, place, "workouts", day, 0, as_of) is None
    ):
        return None
    if workout is None:
        return None
    slug = SPORTS[workout.sport][2]
    dice = keyed_python_random(link.who.seed, "stream", link.who.user_id, day)
    speed = (2.9, 6.8, 0.9)[workout.sport]
    times = range(workout.start // 1000, workout.end // 1000, STEP)
    pace = [round(speed * dice.uniform(0.85, 1.15), 2) for _ in times]
    outside = slug != "swimming"
    covered = 0.0
    distance = []
    for each in pace:
        covered += each * STEP
        distance.append(round(covered, 1))
    turns = [each / 900 for each in distance]
    return {
        "time": list(times),
        "heartrate": [link.who.resting + 62 + dice.randint(0, 32) for _ in times],
        "cadence": [dice.randint(78, 172) for _ in times] if outside else None,
        "altitude": [round(80 + 20 * sin(each / 3), 1) for each in turns] if outside else None,
        "velocity_smooth": pace,
        "lat": [round(HOME[0] + 0.004 * sin(each), 6) for each in turns] if outside else None,
        "lng": [round(HOME[1] + 0.004 * cos(each), 6) for each in turns] if outside else None,
        "distance": distance,
        "power": [dice.randint(90, 320) for _ in times] if slug == "cycling" else None,
        "resistance": [],
        "temperature": None,
    }


def stream_event(link: Link, place: int, day: int, as_of: int) -> Record | None:
    """`data` of a workout stream event (webhooks.md 4.6); None without a stream."""
    workout = summary_at(link, place, "workouts", day, 0, as_of)
    if workout is None or link.provider not in PROVIDERS_WITH_STREAMS:
        return None
    return {
        "user_id": link.who.user_id,
        "source": workout["source"],
        "workout_id": workout["id"],
        "provider_id": workout["provider_id"],
        "message": "The stream of this workout can be read now.",
        "sport": workout["sport"],
    }


def sleep_stream(link: Link, place: int, day: int, number: int, as_of: int) -> Record | None:
    """Sleep stream: what the same source measured during the night."""
    sleep = summary_at(link, place, "sleep", day, number, as_of)
    if sleep is None:
        return None
    night = link.who.night(day)
    found: Record = {}
    seen = link.seen(as_of)
    for name in ("hrv", "heartrate", "hypnogram", "respiratory_rate"):
        found[name] = []
        if name in DATA_SOURCES[place].timeseries and not number:
            found[name] = [
                sample(link.who, place, name, at_day, each, seen)
                for at_day, each in held_measures(link, place, name, night.start, night.end, as_of)
            ]
    return found
