"""What is measured on one local day: lists of `Measure` for a source, a resource and a day.

Everything follows from the key (seed, user, provider, source type, resource, day), so a day can be
made again at any time; a few recent ones are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from math import cos, pi, sin
from random import Random
from typing import Any, NamedTuple

from sandbox.wearables.resources import DATA_SOURCES, RESOURCES
from sandbox.wearables.wearers import HOUR, MINUTE, Wearer, keyed_python_random

Extra = dict[str, Any]
Found = tuple[int, int, Any, str | None, Extra | None]  # at, end, value, type, further fields
LATE = 0.04  # of a day's hours reach the service hours later
DARK = 0.05  # of them never do: nobody wore it
QUIET_DAY = 0.03  # days without anything
CORRECTED = {"steps": 0.03, "distance": 0.03, "calories_active": 0.02, "glucose": 0.01}
FURTHEST = 12 * HOUR
"""No measure arrives or changes later than this after its end."""


class Measure(NamedTuple):
    """A measured value. It reaches the service at `arrives`; where `fixed` is set it reads
    `first` until then and `value` afterwards."""

    at: int
    end: int
    value: Any
    type: str | None
    extra: Extra | None
    arrives: int
    fixed: int | None
    first: Any
    workout: bool


@lru_cache(maxsize=64)
def measures(who: Wearer, place: int, resource: str, day: int) -> tuple[Measure, ...]:
    """Return what the source `DATA_SOURCES[place]` measures of a resource on a local day, by
    time."""
    offer = DATA_SOURCES[place]
    key = (who.seed, who.user_id, offer.provider, offer.source_type, day)
    dice = keyed_python_random(*key, resource)
    routine = keyed_python_random(*key)  # when it is worn is the same for all it measures
    if routine.random() < QUIET_DAY:
        return ()
    fate = [routine.random() for _ in range(26)]
    dense = resource in DENSE
    start = who.starts(day)
    share = 0 if resource == "hypnogram" else CORRECTED.get(resource, 0.002)
    found = []
    workout = resource.startswith("workout_")
    for at, end, value, kind, extra in _found(who, resource, offer.source_type, day, dice):
        luck = fate[min(25, max(0, (at - start) // HOUR))]
        if dense and luck < DARK:
            continue
        arrives = end
        if luck > 1 - LATE:
            arrives += 3 * HOUR + int((luck - 1 + LATE) / LATE * 5) * HOUR
        fixed, first = None, None
        if dice.random() < share and isinstance(value, int | float) and value > 1:
            fixed = arrives + (5 + int(dice.random() * 115)) * MINUTE
            first = type(value)(round(value * 0.7, 2))
        found.append(Measure(at, end, value, kind, extra, arrives, fixed, first, workout))
    return tuple(found)


def _found(who: Wearer, resource: str, source_type: str, day: int, dice: Random) -> Iterator[Found]:
    if resource == "glucose":
        return _read_glucose(who, day, dice, source_type)
    if resource in DENSE:
        return _dense(who, resource, day, dice)
    if resource in SPARSE:
        return _sparse(who, resource, day, dice, source_type)
    return SPECIAL[resource](who, day, dice)


# Dense ones: a value every `step`, along a curve of the day.
Curve = Callable[[Wearer, float, bool, bool, float], float | int | None]


def _heart(who: Wearer, hour: float, asleep: bool, training: bool, luck: float) -> int:
    if asleep:
        return round(who.resting - 4 + 3 * cos(hour * 0.9) + 4 * luck)
    if training:
        return round(who.resting + 62 + 30 * luck)
    return round(who.resting + 12 + 8 * sin((hour - 7) / 16 * pi) + 22 * luck * luck)


def _steps(who: Wearer, hour: float, asleep: bool, training: bool, luck: float) -> int | None:
    if training and not who.wheelchair:
        return round(480 + 260 * luck)
    count = 0 if asleep else round(who.level * 340 * luck**3)
    return count if count > 8 else None


def _distance(who: Wearer, hour: float, asleep: bool, training: bool, luck: float) -> float | None:
    count = _steps(who, hour, asleep, training, luck)
    return None if count is None else round(count * 0.74, 1)


def _active(who: Wearer, hour: float, asleep: bool, training: bool, luck: float) -> float | None:
    if training:
        return round(7 + 4 * luck, 2)
    return None if asleep or luck < 0.5 else round(2.4 * who.level * luck**3, 2)


def _basal(who: Wearer, hour: float, asleep: bool, training: bool, luck: float) -> float:
    return round(who.weight * 0.22 + 0.4 * luck, 2)


def _glucose(who: Wearer, hour: float, asleep: bool, training: bool, luck: float) -> float:
    meals = sum(2.6 * max(0.0, 1 - abs(hour - at - 0.8) / 1.4) for at in (7.5, 12.5, 19))
    return round(4.6 + meals * (0.7 + who.level / 2) + 0.5 * luck, 1)


def _stress(who: Wearer, hour: float, asleep: bool, training: bool, luck: float) -> int | None:
    return None if asleep else round(min(100, 18 + 22 * sin((hour - 6) / 14 * pi) ** 2 + 38 * luck))


def _hrv(who: Wearer, hour: float, asleep: bool, training: bool, luck: float) -> float | None:
    return round(112 - who.resting + 24 * luck, 1) if asleep else None


def _breath(who: Wearer, hour: float, asleep: bool, training: bool, luck: float) -> float:
    return round((12.2 if asleep else 14.5) + (9 if training else 2) * luck, 1)


def _oxygen(who: Wearer, hour: float, asleep: bool, training: bool, luck: float) -> int:
    return round(94 + 5 * luck)


def _daylight(who: Wearer, hour: float, asleep: bool, training: bool, luck: float) -> int | None:
    return round(15 * luck) or None if 7 <= hour < 19 and luck > 0.5 else None


def _standing(who: Wearer, hour: float, asleep: bool, training: bool, luck: float) -> int | None:
    return round(12 * luck) or None if not asleep else None


def _sun(who: Wearer, hour: float, asleep: bool, training: bool, luck: float) -> float | None:
    return round(9 * sin((hour - 7) / 12 * pi) * luck, 1) if 9 <= hour < 17 else None


def _pushes(who: Wearer, hour: float, asleep: bool, training: bool, luck: float) -> int | None:
    count = round(90 * luck**3) if who.wheelchair and not asleep else 0
    return count or None


DENSE: dict[str, tuple[int, Curve]] = {
    "heartrate": (MINUTE, _heart),
    "steps": (5 * MINUTE, _steps),
    "distance": (5 * MINUTE, _distance),
    "calories_active": (MINUTE, _active),
    "calories_basal": (15 * MINUTE, _basal),
    "glucose": (5 * MINUTE, _glucose),
    "stress_level": (5 * MINUTE, _stress),
    "hrv": (5 * MINUTE, _hrv),
    "respiratory_rate": (15 * MINUTE, _breath),
    "blood_oxygen": (10 * MINUTE, _oxygen),
    "daylight_exposure": (15 * MINUTE, _daylight),
    "stand_duration": (15 * MINUTE, _standing),
    "uv_exposure": (60 * MINUTE, _sun),
    "wheelchair_push": (10 * MINUTE, _pushes),
}


def _dense(who: Wearer, resource: str, day: int, dice: Random) -> Iterator[Found]:
    step, curve = DENSE[resource]
    start, end = who.starts(day), who.starts(day + 1)
    woke, tired = who.awake_span(day)
    workout = who.workout(day)
    trains, rests = (workout.start, workout.end) if workout else (0, 0)
    length = step if RESOURCES[resource].interval else 0
    for at in range(start, end, step):
        asleep = not woke <= at < tired
        value = curve(who, (at - start) / HOUR, asleep, trains <= at < rests, dice.random())
        if value is not None:
            yield at, at + length, value, None, None


FEWER = {"manual_scan": 71, "fingerprick": 43}
"""Sources of glucose that a person reads off, now and then: every n-th value of a sensor."""


def _read_glucose(who: Wearer, day: int, dice: Random, source_type: str) -> Iterator[Found]:
    step = FEWER.get(source_type)
    kind = None if source_type == "fingerprick" else source_type
    for place, (at, end, value, _, extra) in enumerate(_dense(who, "glucose", day, dice)):
        if step is None:
            yield at, end, value, kind, extra
        elif place % step == 17 and 6 <= place / 12 < 23:
            yield at + MINUTE, end + MINUTE, value, kind, extra


# Sparse ones: from `fewest` to `most` times on `share` of the days, between two hours.
Value = Callable[[Wearer, Random], Any]
Few = tuple[float, int, int, float, float, int, Value]


def _round(low: float, high: float, digits: int = 1) -> Value:
    return lambda who, dice: round(dice.uniform(low, high), digits)


def _count(low: int, high: int) -> Value:
    return lambda who, dice: dice.randint(low, high)


def _weight(who: Wearer, dice: Random) -> float:
    return round(who.weight + dice.uniform(-0.9, 0.9), 1)


SPARSE: dict[str, Few] = {
    "afib_burden": (0.14, 1, 1, 6, 7, 0, _round(0, 3)),
    "basal_body_temperature": (0.8, 1, 1, 5, 7, MINUTE, _round(36.1, 36.8, 2)),
    "blood_pressure": (0.7, 1, 2, 7, 20, 0, _count(104, 148)),
    "body_fat": (0.75, 1, 1, 6, 8, 0, _round(16, 36)),
    "body_mass_index": (
        0.75, 1, 1, 6, 8, 0,
        lambda who, dice: round(_weight(who, dice) / (who.height / 100) ** 2, 1),
    ),
    "body_temperature": (0.5, 1, 3, 7, 22, MINUTE, _round(36.2, 37.4)),
    "body_temperature_delta": (0.9, 1, 1, 5, 7, 0, _round(-0.7, 0.7, 2)),
    "body_weight": (0.75, 1, 1, 6, 8, 0, _weight),
    "caffeine": (0.7, 1, 3, 7, 16, MINUTE, _round(0.04, 0.16, 3)),
    "carbohydrates": (0.8, 2, 4, 7, 21, MINUTE, _round(8, 85)),
    "fall": (0.02, 1, 1, 8, 20, MINUTE, _count(1, 1)),
    "floors_climbed": (0.9, 2, 9, 7, 21, 0, _count(1, 4)),
    "forced_expiratory_volume_1": (0.3, 1, 1, 8, 10, MINUTE, _round(2.3, 4.2, 2)),
    "forced_vital_capacity": (0.3, 1, 1, 8, 10, MINUTE, _round(2.9, 5.3, 2)),
    "handwashing": (0.9, 2, 7, 7, 22, MINUTE, _count(1, 1)),
    "heart_rate_alert": (0.12, 1, 2, 8, 22, MINUTE, _count(1, 1)),
    "inhaler_usage": (0.4, 1, 3, 7, 22, MINUTE, _count(1, 2)),
    "insulin_injection": (0.9, 3, 5, 7, 22, MINUTE, _round(1, 12)),
    "lean_body_mass": (0.75, 1, 1, 6, 8, 0, lambda who, dice: round(_weight(who, dice) * 0.74, 1)),
    "mindfulness_minutes": (0.4, 1, 2, 7, 22, 0, _count(2, 25)),
    "note": (0.3, 1, 2, 8, 21, MINUTE, lambda who, dice: f"Made-up note {dice.randint(1, 99)}"),
    "peak_expiratory_flow_rate": (0.3, 1, 1, 8, 10, MINUTE, _count(330, 560)),
    "sleep_apnea_alert": (0.03, 1, 1, 7, 8, MINUTE, _count(1, 1)),
    "sleep_breathing_disturbance": (0.8, 1, 1, 6, 7, MINUTE, _count(0, 9)),
    "vo2_max": (0.15, 1, 1, 18, 20, MINUTE, _round(29, 52)),
    "waist_circumference": (0.1, 1, 1, 7, 8, MINUTE, _round(66, 112)),
    "water": (0.9, 3, 8, 7, 22, 0, _count(100, 450)),
}  # fmt: skip
# Words that go with a value: its type, and further fields of their own (wearables.md 4).
TYPES: dict[str, tuple[str | None, ...]] = {
    "heart_rate_alert": ("low_heart_rate", "high_heart_rate", "irregular_rhythm"),
    "insulin_injection": ("rapid_acting", "long_acting"),
    "sleep_breathing_disturbance": ("elevated", "not_elevated", None),
}
_SITES = ("wrist", "forehead", "ear", None)
WORDS: dict[str, dict[str, tuple[Any, ...]]] = {
    "body_temperature": {"sensor_location": _SITES},
    "body_temperature_delta": {"sensor_location": ("finger", None)},
    "insulin_injection": {
        "delivery_mode": ("basal", "bolus", None),
        "delivery_form": ("standard", "extended", None),
        "bolus_purpose": ("meal", "correction", "mixed", "unknown", None),
    },
    "note": {"tags": (["food"], ["exercise", "unspecified"], ["insulin_injection"], None)},
}


def _sparse(
    who: Wearer, resource: str, day: int, dice: Random, source_type: str
) -> Iterator[Found]:
    share, fewest, most, first, last, length, value = SPARSE[resource]
    if dice.random() > share:
        return
    if resource in ("mindfulness_minutes", "lean_body_mass", "body_mass_index", "afib_burden"):
        length = 10 * MINUTE
    elif RESOURCES[resource].interval:
        length = length or MINUTE
    start = who.starts(day)
    minutes = sorted(
        {int(dice.uniform(first, last) * 60) for _ in range(dice.randint(fewest, most))}
    )
    kinds, words = TYPES.get(resource, (None,)), WORDS.get(resource, {})
    for minute in minutes:
        at = start + minute * MINUTE
        extra = {name: dice.choice(values) for name, values in words.items()} or None
        found = value(who, dice)
        if resource == "blood_pressure":
            extra = {"systolic": found, "diastolic": round(found * 0.6 + dice.uniform(0, 8))}
            found = None
        yield at, at + length, found, dice.choice(kinds), extra


def _stood(who: Wearer, day: int, dice: Random) -> Iterator[Found]:
    start = who.starts(day)
    for hour in range(7, 22):
        at = start + hour * HOUR
        yield at, at + HOUR, 1, "stood" if dice.random() < 0.7 else "idle", None


def _stages(who: Wearer, day: int, dice: Random) -> Iterator[Found]:
    """Of nights, the part that falls into the day."""
    low, high = who.starts(day), who.starts(day + 1)
    for night in (who.night(day), who.night(day + 1)):
        for start, end, stage in night.stages:
            if low <= start < high:
                yield start, end, stage, None, None


ECG_HZ = 125
ECG_SECONDS = 30


def ecg_start(who: Wearer, day: int) -> int | None:
    """When this day's electrocardiogram was taken, about once a week."""
    dice = keyed_python_random(who.seed, "ecg", who.user_id, day)
    if dice.random() > 0.14:
        return None
    return who.starts(day) + int(dice.uniform(8, 21) * 60) * MINUTE


def _voltages(who: Wearer, day: int, dice: Random) -> Iterator[Found]:
    start = ecg_start(who, day)
    if start is None:
        return
    beat = 60 / (who.resting + 15)
    for place in range(ECG_HZ * ECG_SECONDS):
        phase = (place / ECG_HZ) % beat / beat
        wave = 1.1 * max(0.0, 1 - abs(phase - 0.3) / 0.03) + 0.2 * max(
            0.0, 1 - abs(phase - 0.6) / 0.1
        )
        at = start + place * 1000 // ECG_HZ
        yield at, at, round(wave + 0.02 * dice.random(), 3), "lead_1", None


def _in_lab(kinds: dict[str, tuple[float, float]], every: int) -> Callable[..., Iterator[Found]]:
    """Several readings of one blood sample, every so many days."""

    def found(who: Wearer, day: int, dice: Random) -> Iterator[Found]:
        if (day + who.number) % every == 0:
            at = who.starts(day) + 9 * HOUR
            for kind, (low, high) in kinds.items():
                yield at, at, round(dice.uniform(low, high), 2), kind, None

    return found


def _recovery(who: Wearer, day: int, dice: Random) -> Iterator[Found]:
    workout = who.workout(day)
    if workout:
        yield workout.end, workout.end + MINUTE, dice.randint(14, 42), None, None


def _of_workout(
    step: int, value: Value, sport: int | None = None, words: Extra | None = None
) -> Callable[..., Iterator[Found]]:
    """A value every `step` of the day's workout, if it is of that sport."""

    def found(who: Wearer, day: int, dice: Random) -> Iterator[Found]:
        workout = who.workout(day)
        if workout is None or sport not in (None, workout.sport):
            return
        for at in range(workout.start, workout.end, step):
            extra = {name: dice.choice(values) for name, values in (words or {}).items()} or None
            yield at, min(at + step, workout.end), value(who, dice), None, extra

    return found


_FATS = {"ldl": (1.6, 4.4), "hdl": (0.9, 2.1), "total": (3.4, 6.6), "triglycerides": (0.6, 2.4)}
SPECIAL: dict[str, Callable[[Wearer, int, Random], Iterator[Found]]] = {
    "stand_hour": _stood,
    "hypnogram": _stages,
    "electrocardiogram_voltage": _voltages,
    "cholesterol": _in_lab({f"cholesterol/{kind}": span for kind, span in _FATS.items()}, 30),
    "ige": _in_lab({"ige/grass-pollen": (0, 3), "ige/house-dust": (0, 4)}, 60),
    "igg": _in_lab({"igg/milk": (0, 3), "igg/wheat": (0, 3)}, 60),
    "heart_rate_recovery_one_minute": _recovery,
    "workout_distance": _of_workout(MINUTE, _round(90, 260)),
    "workout_duration": _of_workout(
        5 * MINUTE, _round(5, 5), words={"intensity": ("low", "medium", "high", None)}
    ),
    "workout_swimming_stroke": _of_workout(MINUTE, _count(8, 26), sport=2),
}
assert set(DENSE) | set(SPARSE) | set(SPECIAL) == set(RESOURCES)
