"""Made-up wearable payloads: one summary, a run of samples (wearables.md 2 to 5)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sandbox import specification_forms
from sandbox.deliveries.catalogue import HYPNOGRAM, READINGS
from sandbox.keyed_random import KeyedRandom, keyed_uuid

OFFSET = -18_000  # seconds
SPORTS = ((1, "Running", "running"), (2, "Cycling", "cycling"), (3, "Rowing", "rowing"))
SOURCE_TYPES = ("watch", "ring", "phone", "app", "unknown")
Record = dict[str, Any]


def source(rng: KeyedRandom, provider: str, name: str) -> Record:
    """The source object; some still carry the deprecated trio, some leave out what is null."""
    found: Record = {"provider": provider, "type": rng.choice(SOURCE_TYPES)}
    if rng.chance(0.7):
        found |= {"app_id": None, "device_id": None}
    if rng.chance(0.5):
        logo = f"https://files.service.invalid/providers/{provider}.png"
        found |= {"name": name, "slug": provider, "logo": logo}
    return specification_forms.source(found)


def samples(
    resource: str, user_id: str, origin: Record, rng: KeyedRandom, start: datetime, count: int
) -> Record:
    """`data` of a timeseries event: `count` samples, a minute apart."""
    return {
        "user_id": user_id,
        "source": origin,
        "source_id": rng.integer(1, 9),
        "data": [_sample(resource, rng, start + timedelta(minutes=n)) for n in range(count)],
    }


def _sample(resource: str, rng: KeyedRandom, at: datetime) -> Record:
    kind = READINGS.get(resource, HYPNOGRAM)
    value: Any = round(rng.uniform(kind.low, kind.high), 2)
    if kind.unit in ("count", "stage"):
        value = int(value)
    found: Record = {
        "id": None,
        "timestamp": at,
        "timezone_offset": OFFSET,
        "type": rng.choice(kind.types),
        "unit": kind.unit,
        "value": value,
    }
    if kind.interval:
        found |= {"start": at, "end": at + timedelta(minutes=1)}
    for name, values in kind.extra:
        found[name] = rng.choice(values)
    if resource == "blood_pressure":
        found.pop("value")
        found |= {"systolic": value, "diastolic": round(value * 0.64, 1)}
    elif resource == "note":
        found |= {"value": f"Made-up note {rng.integer(1, 99)}", "tags": ["exercise"]}
    return found


def stream(user_id: str, origin: Record, rng: KeyedRandom) -> Record:
    """`data` of a workout stream event: shallow."""
    number, name, slug = rng.choice(SPORTS)
    return {
        "user_id": user_id,
        "source": origin,
        "workout_id": rng.uuid(),
        "provider_id": f"w-{rng.digits(8)}",
        "message": "The stream is ready to be read.",
        "sport": {"id": number, "name": name, "slug": slug} if rng.chance(0.8) else "",
    }


def summary(
    resource: str, user_id: str, origin: Record, rng: KeyedRandom, day: datetime, version: int
) -> Record:
    """A summary of `day` (midnight). Its id follows from what it is of, not from its version."""
    midnight = day.replace(hour=0, minute=0, second=0, microsecond=0)
    common = {
        "id": keyed_uuid("summary", resource, user_id, origin["provider"], midnight.isoformat()),
        "user_id": user_id,
        "source": origin,
        "created_at": midnight + timedelta(hours=20),
        "updated_at": midnight + timedelta(hours=20 + version),
    }
    return {**common, **_fields(resource, rng, midnight, origin["provider"])}


def _fields(resource: str, rng: KeyedRandom, day: datetime, provider: str) -> Record:
    dated = {"date": day, "calendar_date": day.date()}
    night = day - timedelta(hours=1)
    match resource:
        case "activity":
            return {**dated, **_activity(rng)}
        case "body":
            return {
                **dated,
                "weight": round(rng.uniform(50, 110), 1),
                "fat": round(rng.uniform(12, 38), 1),
                "water_percentage": None,
                "muscle_mass_percentage": round(rng.uniform(30, 50), 1),
                "visceral_fat_index": None,
                "bone_mass_percentage": None,
                "body_mass_index": round(rng.uniform(19, 34), 1),
                "lean_body_mass_kilogram": None,
                "waist_circumference_centimeter": None,
            }
        case "sleep":
            return {**dated, **_sleep(rng, night)}
        case "sleep_cycle":
            edges = [0, *sorted(rng.integer(60, 25_000) for _ in range(5)), 27_000]
            return {
                "sleep_id": rng.uuid(),
                "session_start": night,
                "session_end": night + timedelta(seconds=27_000),
                "stage_start_offset_second": edges[:-1],
                "stage_end_offset_second": edges[1:],
                "stage_type": [rng.choice((1, 2, 3, 4)) for _ in edges[1:]],
                "time_zone": "America/New_York",
                **_sourced(provider),
            }
        case "workouts":
            return _workout(rng, day)
        case "meal":
            return {
                "priority_id": 0,
                "source_id": 1,
                "provider_id": f"m-{rng.digits(8)}",
                "timestamp": day + timedelta(hours=12),
                "calendar_date": day.date(),
                "name": "Made-up lunch",
                "energy": {"unit": "kcal", "value": rng.integer(200, 900)},
                "macros": {"carbs": 60.5, "protein": 24.0, "fats": {"total": 18.2}},
                "micros": None,
                "data": {},
                "source_app_id": None,
                "source_device_id": None,
            }
        case "profile":
            return {
                "height": rng.integer(150, 200),
                "birth_date": None,
                "wheelchair_use": None,
                "gender": "unknown",
                "sex": None,
            }
        case "menstrual_cycle":
            return {
                "period_start": day.date(),
                "period_end": (day + timedelta(days=4)).date(),
                "cycle_end": None,
                "is_predicted": rng.chance(0.3),
                "menstrual_flow": [{"date": day.date(), "flow": "medium"}],
                "basal_body_temperature": [{"date": day.date(), "value": 36.6}],
                **_sourced(provider),
            }
        case "electrocardiogram":
            return {
                "session_start": day + timedelta(hours=9),
                "session_end": day + timedelta(hours=9, seconds=30),
                "voltage_sample_count": 7500,
                "heart_rate_mean": rng.integer(50, 95),
                "sampling_frequency_hz": 250.0,
                "classification": rng.choice(("sinus_rhythm", "atrial_fibrillation")),
                "inconclusive_cause": None,
                "algorithm_version": "1",
                "time_zone": "America/New_York",
                "source_device_model": None,
                **_sourced(provider),
            }
        case _:
            raise KeyError(resource)


def _sourced(provider: str) -> Record:
    return {
        "source_provider": provider,
        "source_type": "watch",
        "source_app_id": None,
        "source_device_id": None,
    }


def _activity(rng: KeyedRandom) -> Record:
    active = round(rng.uniform(80, 900), 1)
    return {
        "calories_total": round(active + rng.uniform(1300, 1900), 1),
        "calories_active": active,
        "steps": rng.integer(900, 19_000),
        "daily_movement": None,
        "distance": round(rng.uniform(500, 14_000), 1),
        "low": rng.integer(30, 300),
        "medium": rng.integer(5, 90),
        "high": rng.integer(0, 60),
        "floors_climbed": rng.integer(0, 25),
        "time_zone": "America/New_York",
        "timezone_offset": OFFSET,
        "heart_rate": {
            "avg_bpm": rng.integer(60, 90),
            "min_bpm": rng.integer(42, 58),
            "max_bpm": rng.integer(110, 178),
            "resting_bpm": rng.integer(48, 70),
            "avg_walking_bpm": None,
        },
        "wheelchair_use": None,
        "wheelchair_push": None,
    }


def _sleep(rng: KeyedRandom, start: datetime) -> Record:
    light, rem, deep, awake = (rng.integer(low, low + 4000) for low in (9000, 3000, 2500, 600))
    duration = light + rem + deep + awake
    return {
        "bedtime_start": start,
        "bedtime_stop": start + timedelta(seconds=duration),
        "type": "long_sleep",
        "timezone_offset": OFFSET,
        "duration": duration,
        "total": duration - awake,
        "awake": awake,
        "light": light,
        "rem": rem,
        "deep": deep,
        "score": rng.integer(40, 98),
        "recovery_readiness_score": None,
        "hr_lowest": rng.integer(40, 55),
        "hr_average": rng.integer(50, 68),
        "hr_resting": None,
        "efficiency": round(100 * (duration - awake) / duration, 1),
        "latency": rng.integer(60, 1800),
        "temperature_delta": round(rng.uniform(-0.6, 0.6), 2),
        "skin_temperature": None,
        "hr_dip": None,
        "state": rng.choice(("tentative", "confirmed", None)),
        "average_hrv": round(rng.uniform(20, 110), 1),
        "respiratory_rate": round(rng.uniform(11, 19), 1),
        "sleep_stream": None,
    }


def _workout(rng: KeyedRandom, day: datetime) -> Record:
    number, name, slug = rng.choice(SPORTS)
    start = day + timedelta(hours=rng.integer(6, 19))
    seconds = rng.integer(900, 7200)
    return {
        "title": "Made-up workout",
        "timezone_offset": OFFSET,
        "average_hr": rng.integer(100, 150),
        "max_hr": rng.integer(150, 185),
        "distance": round(rng.uniform(1000, 20_000), 1),
        "calendar_date": day.date(),
        "time_start": start,
        "time_end": start + timedelta(seconds=seconds),
        "calories": round(rng.uniform(100, 900), 1),
        "sport": {"id": number, "name": name, "slug": slug},
        "hr_zones": [seconds // 6] * 6,
        "moving_time": seconds - 60,
        "total_elevation_gain": None,
        "elev_high": None,
        "elev_low": None,
        "average_speed": round(rng.uniform(1.5, 9), 2),
        "max_speed": None,
        "average_watts": None,
        "device_watts": None,
        "max_watts": None,
        "weighted_average_watts": None,
        "steps": None,
        "map": None,
        "provider_id": f"w-{rng.digits(8)}",
    }
