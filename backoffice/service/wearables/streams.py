"""What was measured during one workout. Interface: wearables, chapter 5."""

from __future__ import annotations

from backoffice.service.payload import Payload, Reader

Measured = list[float | None] | None


class WorkoutStream(Payload):
    """Parallel arrays, any of them empty or None. ``time`` in unix seconds; beats, turns or steps
    a minute; ``velocity_smooth`` in m/s, ``lat`` and ``lng`` in degrees, ``distance`` cumulative,
    ``power`` in watts, ``temperature`` in Celsius."""

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


WORKOUT_STREAM = Reader(WorkoutStream)
