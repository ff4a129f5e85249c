"""Names, types and units of wearable data as the interface lists them (wearables.md 2 and 4)."""

from __future__ import annotations

from typing import Any

COMMON = {"id", "user_id", "source", "created_at", "updated_at"}
FIELDS = {
    "activity": """date calendar_date calories_total calories_active steps daily_movement distance
        low medium high floors_climbed time_zone timezone_offset heart_rate wheelchair_use
        wheelchair_push""",
    "body": """date calendar_date weight fat water_percentage muscle_mass_percentage
        visceral_fat_index bone_mass_percentage body_mass_index lean_body_mass_kilogram
        waist_circumference_centimeter""",
    "sleep": """date calendar_date bedtime_start bedtime_stop type timezone_offset duration total
        awake light rem deep score recovery_readiness_score hr_lowest hr_average hr_resting
        efficiency latency temperature_delta skin_temperature hr_dip state average_hrv
        respiratory_rate sleep_stream""",
    "sleep_cycle": """sleep_id session_start session_end stage_start_offset_second
        stage_end_offset_second stage_type time_zone source_provider source_type source_app_id
        source_device_id""",
    "workouts": """title timezone_offset average_hr max_hr distance calendar_date time_start
        time_end calories sport hr_zones moving_time total_elevation_gain elev_high elev_low
        average_speed max_speed average_watts device_watts max_watts weighted_average_watts steps
        map provider_id""",
    "meal": """priority_id source_id provider_id timestamp calendar_date name energy macros micros
        data source_app_id source_device_id""",
    "menstrual_cycle": """period_start period_end cycle_end is_predicted menstrual_flow
        cervical_mucus intermenstrual_bleeding contraceptive detected_deviations ovulation_test
        home_pregnancy_test home_progesterone_test sexual_activity basal_body_temperature
        source_provider source_type source_app_id source_device_id""",
    "electrocardiogram": """session_start session_end voltage_sample_count heart_rate_mean
        sampling_frequency_hz classification inconclusive_cause algorithm_version time_zone
        source_provider source_type source_app_id source_device_model source_device_id""",
    "profile": "height birth_date wheelchair_use gender sex",
}
KEYS = {"meal": "meals"}
POINTS = {
    "blood_oxygen", "blood_pressure", "body_fat", "body_weight", "calories_basal", "cholesterol",
    "electrocardiogram_voltage", "floors_climbed", "glucose", "heartrate", "hrv", "ige", "igg",
    "respiratory_rate", "stress_level", "water",
}  # fmt: skip
UNITS = dict(
    line.split(" = ")
    for line in """afib_burden = %
basal_body_temperature = °C
blood_oxygen = %
blood_pressure = mmHg
body_fat = %
body_mass_index = index
body_temperature = °C
body_temperature_delta = °C
body_weight = kg
caffeine = g
calories_active = kcal
calories_basal = kcal
carbohydrates = g
cholesterol = mmol/L
daylight_exposure = min
distance = m
electrocardiogram_voltage = mV
fall = count
floors_climbed = count
forced_expiratory_volume_1 = L
forced_vital_capacity = L
glucose = mmol/L
handwashing = count
heart_rate_alert = count
heart_rate_recovery_one_minute = count
heartrate = bpm
hrv = rmssd
hypnogram = stage
ige = FSU
igg = FSU
inhaler_usage = count
insulin_injection = unit
lean_body_mass = kg
mindfulness_minutes = min
note = text
peak_expiratory_flow_rate = L/min
respiratory_rate = bpm
sleep_apnea_alert = count
sleep_breathing_disturbance = count
stand_duration = min
stand_hour = count
steps = count
stress_level = %
uv_exposure = index
vo2_max = mL/kg/min
waist_circumference = cm
water = mL
wheelchair_push = count
workout_distance = m
workout_duration = min
workout_swimming_stroke = count""".splitlines()
)
EXTRAS: dict[str, dict[str, set[Any]]] = {
    "body_temperature": {"sensor_location": {"wrist", "forehead", "ear", None}},
    "body_temperature_delta": {"sensor_location": {"finger", None}},
    "insulin_injection": {
        "delivery_mode": {"basal", "bolus", None},
        "delivery_form": {"standard", "extended", None},
        "bolus_purpose": {"meal", "correction", "mixed", "unknown", None},
    },
    "workout_duration": {"intensity": {"low", "medium", "high", None}},
}
TYPES: dict[str, set[Any]] = {
    "heart_rate_alert": {"low_heart_rate", "high_heart_rate", "irregular_rhythm"},
    "insulin_injection": {"rapid_acting", "long_acting"},
    "sleep_breathing_disturbance": {"elevated", "not_elevated", None},
    "stand_hour": {"stood", "idle"},
    "glucose": {"automatic", "manual_scan", None},
    "cholesterol": {f"cholesterol/{kind}" for kind in ("ldl", "hdl", "total", "triglycerides")},
}
assert len(UNITS) == 51
