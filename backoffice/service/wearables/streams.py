"""Measurements during one workout. Interface: wearables, chapter 5."""

from __future__ import annotations

from backoffice.service.payload import Payload, Reader

Measured = list[float | None] | None


class WorkoutStreamPayload(Payload):
    """Parallel arrays; each may be empty or None.

    ``time`` is in Unix seconds. ``heartrate`` and ``cadence`` are in beats, turns, or steps a
    minute. ``velocity_smooth`` is in m/s, ``lat`` and ``lng`` are in degrees, ``distance`` is
    cumulative, ``power`` is in watts, and ``temperature`` is in Celsius.
    """

    time: Measured = None
    heartrate: Measured = None
    cadence: Measured = None
    altitude: Measured = None
    velocity_smooth: Measured = None
    lat: Measured = None
    lng: Measured = None
    distance: Measured = None
    power: Measured = None
    resistance: Measured = None
    temperature: Measured = None


WORKOUT_STREAM = Reader(WorkoutStreamPayload)
