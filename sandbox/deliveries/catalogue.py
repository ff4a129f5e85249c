"""The event types of the interface: 194 (webhooks.md 3, wearables.md 4 and 7)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reading:
    """What a timeseries resource's samples look like: their unit, their usual values, whether they
    have a start and an end, the `type` words they carry, and extra fields with their values."""

    unit: str
    low: float
    high: float
    interval: bool = True
    types: tuple[str | None, ...] = (None,)
    extra: tuple[tuple[str, tuple[str | None, ...]], ...] = ()


_SENSOR = (("sensor_location", ("wrist", "ear", "forehead", None)),)
READINGS: dict[str, Reading] = {
    "afib_burden": Reading("%", 0, 4),
    "basal_body_temperature": Reading("°C", 36.1, 36.9),
    "blood_oxygen": Reading("%", 93, 100, False),
    "blood_pressure": Reading("mmHg", 95, 150, False),
    "body_mass_index": Reading("index", 19, 34),
    "body_temperature": Reading("°C", 36.1, 37.6, extra=_SENSOR),
    "body_temperature_delta": Reading("°C", -0.8, 0.8, extra=_SENSOR),
    "caffeine": Reading("g", 0.02, 0.3),
    "calories_active": Reading("kcal", 0, 12),
    "calories_basal": Reading("kcal", 0.8, 1.6, False),
    "carbohydrates": Reading("g", 5, 90),
    "cholesterol": Reading(
        "mmol/L",
        0.8,
        6.5,
        False,
        tuple(f"cholesterol/{kind}" for kind in ("ldl", "hdl", "total", "triglycerides")),
    ),
    "daylight_exposure": Reading("min", 1, 60),
    "distance": Reading("m", 5, 400),
    "electrocardiogram_voltage": Reading("mV", -0.4, 1.4, False, ("lead_1",)),
    "fall": Reading("count", 1, 2),
    "fat": Reading("%", 12, 38, False),
    "floors_climbed": Reading("count", 1, 6, False),
    "forced_expiratory_volume_1": Reading("L", 2, 4.5),
    "forced_vital_capacity": Reading("L", 2.5, 5.5),
    "glucose": Reading("mmol/L", 3.4, 11.5, False, ("automatic", "manual_scan", None)),
    "handwashing": Reading("count", 1, 2),
    "heart_rate_alert": Reading(
        "count", 1, 1, types=("low_heart_rate", "high_heart_rate", "irregular_rhythm")
    ),
    "heart_rate_recovery_one_minute": Reading("count", 10, 45),
    "heartrate": Reading("bpm", 48, 165, False),
    "hrv": Reading("rmssd", 15, 120, False),
    "ige": Reading("FSU", 0, 4, False, ("ige/pollen", "ige/dust")),
    "igg": Reading("FSU", 0, 4, False, ("igg/milk", "igg/wheat")),
    "inhaler_usage": Reading("count", 1, 2),
    "insulin_injection": Reading(
        "unit",
        1,
        12,
        types=("rapid_acting", "long_acting"),
        extra=(
            ("delivery_mode", ("basal", "bolus", None)),
            ("delivery_form", ("standard", "extended", None)),
            ("bolus_purpose", ("meal", "correction", "mixed", "unknown", None)),
        ),
    ),
    "lean_body_mass": Reading("kg", 40, 75),
    "mindfulness_minutes": Reading("min", 1, 30),
    "note": Reading("text", 0, 0),
    "peak_expiratory_flow_rate": Reading("L/min", 300, 600),
    "respiratory_rate": Reading("bpm", 11, 21, False),
    "sleep_apnea_alert": Reading("count", 1, 1),
    "sleep_breathing_disturbance": Reading("count", 1, 9, types=("elevated", "not_elevated", None)),
    "stand_duration": Reading("min", 1, 30),
    "stand_hour": Reading("count", 1, 1, types=("stood", "idle")),
    "steps": Reading("count", 1, 160),
    "stress_level": Reading("%", 0, 100, False),
    "uv_exposure": Reading("index", 0, 9),
    "vo2_max": Reading("mL/kg/min", 28, 55),
    "waist_circumference": Reading("cm", 65, 115),
    "water": Reading("mL", 100, 500, False),
    "weight": Reading("kg", 50, 110, False),
    "wheelchair_push": Reading("count", 1, 60),
    "workout_distance": Reading("m", 5, 400),
    "workout_duration": Reading(
        "min", 1, 5, extra=(("intensity", ("low", "medium", "high", None)),)
    ),
    "workout_swimming_stroke": Reading("count", 1, 40),
}
SUMMARIES = (
    "activity", "body", "electrocardiogram", "meal", "menstrual_cycle", "profile", "sleep",
    "sleep_cycle", "workouts",
)  # fmt: skip
STREAM = "workout_stream"
RESOURCES = (*SUMMARIES, STREAM, *READINGS)

EVENT_TYPES = (
    "labtest.order.created",
    "labtest.order.updated",
    "labtest.appointment.created",
    "labtest.appointment.updated",
    "labtest.result.critical",
    "labtest.match_review.created",
    "labtest.match_review.updated",
    "lab_report.parsing_job.created",
    "lab_report.parsing_job.updated",
    "provider.connection.created",
    "provider.connection.error",
    "provider.device.created",
    "provider.device.updated",
    "continuous_query.result_table.changed",
    *(f"daily.data.{name}.{verb}" for name in RESOURCES for verb in ("created", "updated")),
    *(f"historical.data.{name}.created" for name in RESOURCES),
)
# Of the specification, no longer in the catalogue: sent only when asked for by name.
FORMER_TYPES = (
    "daily.timeseries.hypnogram.created",
    "daily.timeseries.hypnogram.updated",
    "historical.timeseries.hypnogram.created",
)
HYPNOGRAM = Reading("stage", 1, 5)
assert len(EVENT_TYPES) == len(set(EVENT_TYPES)) == 194
