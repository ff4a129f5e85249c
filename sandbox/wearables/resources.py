"""The 51 timeseries resources (wearables.md 4) and which made-up provider measures which."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Resource:
    """One grouped resource by the name of its read path; `event` is None where it has no event."""

    name: str
    event: str | None
    unit: str
    interval: bool


def _resource(name: str, unit: str, interval: bool = True, event: str = "") -> Resource:
    return Resource(name, event or name, unit, interval)


RESOURCES: dict[str, Resource] = {
    each.name: each
    for each in (
        _resource("afib_burden", "%"),
        _resource("basal_body_temperature", "°C"),
        _resource("blood_oxygen", "%", False),
        _resource("blood_pressure", "mmHg", False),
        _resource("body_fat", "%", False, "fat"),
        _resource("body_mass_index", "index"),
        _resource("body_temperature", "°C"),
        _resource("body_temperature_delta", "°C"),
        _resource("body_weight", "kg", False, "weight"),
        _resource("caffeine", "g"),
        _resource("calories_active", "kcal"),
        _resource("calories_basal", "kcal", False),
        _resource("carbohydrates", "g"),
        _resource("cholesterol", "mmol/L", False),
        _resource("daylight_exposure", "min"),
        _resource("distance", "m"),
        _resource("electrocardiogram_voltage", "mV", False),
        _resource("fall", "count"),
        _resource("floors_climbed", "count", False),
        _resource("forced_expiratory_volume_1", "L"),
        _resource("forced_vital_capacity", "L"),
        _resource("glucose", "mmol/L", False),
        _resource("handwashing", "count"),
        _resource("heart_rate_alert", "count"),
        _resource("heart_rate_recovery_one_minute", "count"),
        _resource("heartrate", "bpm", False),
        _resource("hrv", "rmssd", False),
        Resource("hypnogram", None, "stage", True),
        _resource("ige", "FSU", False),
        _resource("igg", "FSU", False),
        _resource("inhaler_usage", "count"),
        _resource("insulin_injection", "unit"),
        _resource("lean_body_mass", "kg"),
        _resource("mindfulness_minutes", "min"),
        _resource("note", "text"),
        _resource("peak_expiratory_flow_rate", "L/min"),
        _resource("respiratory_rate", "bpm", False),
        _resource("sleep_apnea_alert", "count"),
        _resource("sleep_breathing_disturbance", "count"),
        _resource("stand_duration", "min"),
        _resource("stand_hour", "count"),
        _resource("steps", "count"),
        _resource("stress_level", "%", False),
        _resource("uv_exposure", "index"),
        _resource("vo2_max", "mL/kg/min"),
        _resource("waist_circumference", "cm"),
        _resource("water", "mL", False),
        _resource("wheelchair_push", "count"),
        _resource("workout_distance", "m"),
        _resource("workout_duration", "min"),
        _resource("workout_swimming_stroke", "count"),
    )
}
BY_EVENT = {each.event: each for each in RESOURCES.values() if each.event}

SUMMARIES = (
    "activity", "body", "electrocardiogram", "meal", "menstrual_cycle", "profile", "sleep",
    "sleep_cycle", "workouts",
)  # fmt: skip
STREAM = "workout_stream"


@dataclass(frozen=True, slots=True)
class DataSource:
    """What one kind of source of a provider measures.

    `device` is the model where the source is a thing one holds; `app_id` names the app that feeds
    a platform; `offset` says whether its times come with their zone.
    """

    provider: str
    source_type: str
    timeseries: tuple[str, ...]
    summaries: tuple[str, ...] = ()
    device: str | None = None
    app_id: str | None = None
    offset: bool = True


DATA_SOURCES: tuple[DataSource, ...] = (
    DataSource(
        "band-one",
        "watch",
        (
            "heartrate", "steps", "calories_active", "stress_level", "respiratory_rate", "vo2_max",
            "heart_rate_recovery_one_minute", "workout_duration",
        ),
        ("activity", "sleep", "body", "workouts", "profile"),
        device="Band 3",
    ),
    DataSource(
        "ring-two",
        "ring",
        (
            "heartrate", "hrv", "blood_oxygen", "body_temperature_delta", "hypnogram",
            "respiratory_rate",
        ),
        ("activity", "sleep", "sleep_cycle", "profile"),
        device="Ring 2",
    ),
    DataSource(
        "scale-three",
        "scale",
        ("body_weight", "body_fat", "body_mass_index", "lean_body_mass"),
        ("body",),
        device="Scale 9",
        offset=False,
    ),
    DataSource("scale-three", "cuff", ("blood_pressure",), device="Cuff 1", offset=False),
    DataSource(
        "phone-four",
        "phone",
        (
            "steps", "distance", "floors_climbed", "calories_basal", "daylight_exposure",
            "handwashing", "fall",
        ),
        ("activity",),
        app_id="madeup.phone.health",
    ),
    DataSource(
        "phone-four",
        "watch",
        (
            "steps", "stand_duration", "stand_hour", "afib_burden", "heart_rate_alert",
            "electrocardiogram_voltage", "uv_exposure", "workout_distance",
            "workout_swimming_stroke", "wheelchair_push", "sleep_apnea_alert",
            "sleep_breathing_disturbance", "body_temperature", "basal_body_temperature",
        ),
        ("workouts", "electrocardiogram"),
        device="Watch 7",
        app_id="madeup.watch.health",
    ),
    DataSource(
        "phone-four",
        "app",
        (
            "water", "caffeine", "carbohydrates", "mindfulness_minutes", "note", "inhaler_usage",
            "waist_circumference", "forced_expiratory_volume_1", "forced_vital_capacity",
            "peak_expiratory_flow_rate",
        ),
        ("meal", "menstrual_cycle"),
        app_id="madeup.diary",
    ),
    DataSource("phone-four", "insulin_pump", ("insulin_injection",), device="Pump 4"),
    DataSource("phone-four", "fingerprick", ("glucose",), app_id="madeup.glucose.book"),
    DataSource("phone-four", "lab", ("cholesterol", "ige", "igg"), app_id="madeup.lab.book"),
    DataSource(
        "sensor-five", "automatic", ("glucose",), ("profile",), device="Sensor 5", offset=False,
    ),
    DataSource("sensor-five", "manual_scan", ("glucose",), device="Sensor 5", offset=False),
)  # fmt: skip
PROVIDERS = tuple(dict.fromkeys(offer.provider for offer in DATA_SOURCES))
PROVIDERS_WITH_STREAMS = ("band-one",)
"""Providers whose workouts have a stream."""


def sources_of(provider: str) -> list[DataSource]:
    return [offer for offer in DATA_SOURCES if offer.provider == provider]


def sources_measuring(resource: str) -> list[DataSource]:
    """Who measures a timeseries resource or makes a summary."""
    return [o for o in DATA_SOURCES if resource in o.timeseries or resource in o.summaries]


def event_names(provider: str) -> list[str]:
    """Resource names, as events spell them, of everything the provider sends."""
    found: dict[str, None] = {}
    for offer in sources_of(provider):
        found |= dict.fromkeys(offer.summaries)
        events = (RESOURCES[name].event for name in offer.timeseries)
        found |= dict.fromkeys(event for event in events if event)
    if provider in PROVIDERS_WITH_STREAMS:
        found[STREAM] = None
    return list(found)
