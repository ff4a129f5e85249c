"""Measurements during one workout. Interface: wearables, chapter 5."""

from __future__ import annotations

from backoffice.service.payload import Payload, Reader

Measurements = list[float | None] | None


class WorkoutStreamPayload(Payload):
    """Parallel arrays; each may be empty or None.

    ``time`` is in Unix seconds. ``heartrate`` and ``cadence`` are in beats, turns, or steps a
    minute. ``velocity_smooth`` is in m/s, ``lat`` and ``lng`` are in degrees, ``distance`` is
    cumulative, ``power`` is in watts, and ``temperature`` is in Celsius.
    """

    time: Measurements = None
    heartrate: Measurements = None
    cadence: Measurements = None
    altitude: Measurements = None
    velocity_smooth: Measurements = None
    lat: Measurements = None
    lng: Measurements = None
    distance: Measurements = None
    power: Measurements = None
    resistance: Measurements = None
    temperature: Measurements = None


WORKOUT_STREAM = Reader(WorkoutStreamPayload)
