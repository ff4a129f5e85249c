"""Wearable data, events and report jobs as the interface's documents have them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from backoffice.service import Payload
from backoffice.service.events import (
    BackfillDone,
    ConnectionCreated,
    ConnectionFailed,
    CriticalResultPayload,
    MatchReview,
    StreamReady,
)
from backoffice.service.management import Webhook
from backoffice.service.orders import ResentOrders
from backoffice.service.reports import ReportJobPayload
from backoffice.service.wearables import SampleGroup, WorkoutStreamPayload
from backoffice.service.wearables.summaries import (
    Activity,
    BodySummary,
    Electrocardiogram,
    Meal,
    MenstrualCycle,
    Profile,
    Sleep,
    SleepCycle,
    Workout,
)

from .kinds import (
    Drawn,
    Fields,
    choice,
    day,
    flag,
    instant,
    integer,
    loose,
    many,
    mapping,
    number,
    number_or_text,
    record,
    same,
    storable,
    text,
    uid,
    without,
    words,
)
from .people import provider, scopes

some_text = words.filter(bool).map(lambda word: (word, storable(word)))
offset = same(st.integers(-50400, 50400))


def either(drawn: Drawn, *spellings: str) -> Drawn:
    """A record whose other spellings are not attributes of their own."""

    def settle(pair: tuple[Any, Any]) -> tuple[Any, Any]:
        for spelling in spellings:
            without(pair[1], spelling)
        return pair

    return drawn.map(settle)


source = either(
    record(
        {
            "provider|slug": some_text,
            "type?": choice("watch", "phone").filter(lambda drawn: bool(drawn[0])),
            "app_id?": text,
            "device_id?": uid,
            "sport?": text,
            "workout_id?": uid,
            "name?": text,
            "logo?": text,
        }
    ),
    "slug",
)
common = {
    "id": uid,
    "user_id": uid,
    "created_at": instant,
    "updated_at": instant,
    "source": source,
}
named_source = {
    "source_provider": text,
    "source_type": choice("watch"),
    "source_app_id?": text,
    "source_device_id?": uid,
}
heart_rate = record(
    {
        f"{name}?": number
        for name in ("avg_bpm", "min_bpm", "max_bpm", "resting_bpm", "avg_walking_bpm")
    }
)


def measures(*names: str) -> dict[str, Drawn]:
    return {f"{name}?": number for name in names}


def counts(*names: str) -> dict[str, Drawn]:
    return {f"{name}?": integer for name in names}


def daily(fields: dict[str, Drawn]) -> Drawn:
    return either(record(common | {"calendar_date|date": day} | fields), "date")


activity = daily(
    measures(
        "calories_total", "calories_active", "daily_movement", "distance", "low", "medium", "high"
    )
    | counts("steps", "floors_climbed", "timezone_offset", "wheelchair_push")
    | {"time_zone?": text, "heart_rate?": heart_rate, "wheelchair_use?": flag}
)
body = daily(
    measures(
        "weight",
        "fat",
        "water_percentage",
        "muscle_mass_percentage",
        "visceral_fat_index",
        "bone_mass_percentage",
        "body_mass_index",
        "lean_body_mass_kilogram",
        "waist_circumference_centimeter",
    )
)
sleep = daily(
    {
        "bedtime_start": instant,
        "bedtime_stop": instant,
        "type": choice("long_sleep", "unknown"),
        "state?": choice("tentative"),
        "sleep_stream?": loose,
    }
    | dict.fromkeys(("duration", "total", "awake", "light", "rem", "deep"), integer)
    | counts("timezone_offset", "score", "recovery_readiness_score", "latency")
    | counts("hr_lowest", "hr_average", "hr_resting")
    | measures("efficiency", "temperature_delta", "skin_temperature", "hr_dip")
    | measures("average_hrv", "respiratory_rate")
)
sleep = either(sleep, "sleep_stream")
sleep_cycle = record(
    common
    | named_source
    | {
        "sleep_id": uid,
        "session_start": instant,
        "session_end": instant,
        "stage_start_offset_second": many(integer),
        "stage_end_offset_second": many(integer),
        "stage_type": many(same(st.sampled_from([-1, 1, 2, 3, 4, 5, 99]))),
        "time_zone?": text,
    }
)
sport = record({"id": integer, "name": text, "slug": text}) | st.just(("", None))
workout = either(
    record(
        common
        | {
            "calendar_date|date": day,
            "title?": text,
            "time_start": instant,
            "time_end": instant,
            "sport?": sport,
            "hr_zones?": many(integer | st.just((None, None))),
            "map?": record({"polyline?": text, "summary_polyline?": text}),
            "provider_id": text,
        }
        | counts("timezone_offset", "average_hr", "max_hr", "moving_time", "steps")
        | measures("distance", "calories", "total_elevation_gain", "elev_high", "elev_low")
        | measures("average_speed", "max_speed", "average_watts", "device_watts", "max_watts")
        | measures("weighted_average_watts")
    ),
    "date",
)
energy = record({"unit": text, "value?": number})
macros = record(
    measures("carbs", "protein", "alcohol", "water", "fibre", "sugar", "cholesterol")
    | {"fats?": record(measures("saturated", "monounsaturated", "omega3", "omega6", "total"))}
)
amounts = mapping(number | st.just((None, None)))
micros = record({"minerals?": amounts, "trace_elements?": amounts, "vitamins?": amounts})
eaten = {"energy?": energy, "macros?": macros, "micros?": micros}
meal = record(
    common
    | eaten
    | {
        "timestamp": instant,
        "calendar_date": day,
        "name": text,
        "data?": mapping(record(eaten)),
        "source_app_id?": text,
        "source_device_id?": uid,
    }
)
profile = record(
    common
    | {
        "height?": integer,
        "birth_date?": day,
        "wheelchair_use?": flag,
        "gender?": choice("female"),
        "sex?": choice("male"),
    }
)
entry = record(
    {
        "date": day,
        "flow?": choice("heavy"),
        "quality?": choice("dry"),
        "type?": choice("oral"),
        "deviation?": text,
        "test_result?": choice("positive"),
        "protection_used?": flag,
        "value?": number,
    }
)
menstrual_cycle = record(
    common
    | named_source
    | {"period_start": day, "period_end?": day, "cycle_end?": day, "is_predicted": flag}
    | {
        name: many(entry, 1)
        for name in (
            "menstrual_flow",
            "cervical_mucus",
            "intermenstrual_bleeding",
            "contraceptive",
            "detected_deviations",
            "ovulation_test",
            "home_pregnancy_test",
            "home_progesterone_test",
            "sexual_activity",
            "basal_body_temperature",
        )
    }
)
electrocardiogram = record(
    common
    | named_source
    | {
        "session_start": instant,
        "session_end": instant,
        "voltage_sample_count": integer,
        "heart_rate_mean?": integer,
        "sampling_frequency_hz?": number,
        "classification?": choice("sinus_rhythm"),
        "inconclusive_cause?": choice("poor_reading"),
        "algorithm_version?": text,
        "time_zone?": text,
        "source_device_model?": text,
    }
)


def _at(pair: tuple[Any, Any]) -> tuple[Any, Any]:
    """What identifies a sample: its timestamp, or the start of its interval."""
    values = pair[1].values
    timestamp = values.pop("timestamp", None)
    return pair[0], Fields(values | {"at": values.get("start") or timestamp})


sample = record(
    {
        "id?": loose,
        "timestamp": instant,
        "start?": instant,
        "end?": instant,
        "timezone_offset?": offset,
        "type?": choice("cholesterol/ldl"),
        "unit": text,
        "value?": number | text | flag,
        "systolic?": number,
        "diastolic?": number,
        "sensor_location?": choice("wrist"),
        "intensity?": choice("low"),
        "tags?": many(choice("food")),
        "delivery_mode?": choice("basal"),
        "delivery_form?": choice("standard"),
        "bolus_purpose?": choice("meal"),
    }
).map(_at)
samples = either(
    record(
        {
            "source": source,
            "data": many(either(sample, "id"), 4),
            "source_id?": loose,
            "user_id?": uid,
        }
    ),
    "source_id",
)
stream = record(
    {
        f"{name}?": many(number | st.just((None, None)), 3)
        for name in (
            "time",
            "heartrate",
            "cadence",
            "altitude",
            "velocity_smooth",
            "lat",
            "lng",
            "distance",
            "power",
            "resistance",
            "temperature",
        )
    }
)
critical_result = record(
    {
        "order_id": uid,
        "sample_id": text,
        "status": choice("final"),
        "interpretation": choice("critical"),
        "team_id": uid,
        "user_id": uid,
        "created_at": instant,
        "updated_at": instant,
    }
)
match_review = record(
    {
        "id": uid,
        "status": choice("matched"),
        "decision_code": choice("exact"),
        "sub_reason_codes": many(choice("lab_account_mismatch")),
        "resolution_action?": choice("accept"),
        "resolved_user_id?": uid,
        "resolved_order_id?": uid,
    }
)
connection_created = either(
    record(
        {
            "user_id": uid,
            "provider|source": provider,
            "external_user_id?": text,
            "resource_availability": mapping(
                record(
                    {
                        "status": choice("available"),
                        "scope_requirements?": record(
                            {"user_granted": scopes, "user_denied": scopes}
                        ),
                    }
                )
            ),
        }
    ),
    "source",
)
connection_failed = record(
    {
        "provider": text,
        "user_id": uid,
        "message": text,
        "error_type": choice("unknown"),
        "error_details?": text,
    }
)
backfill_done = record(
    {"user_id": uid, "start_date": instant, "end_date": instant, "provider": text}
)
stream_ready = record(
    {
        "workout_id": uid,
        "provider_id": text,
        "message": text,
        "sport?": sport,
        "source?": source,
        "user_id?": uid,
    }
)

report_job = either(
    record(
        {
            "id|job_id": uid,
            "status": choice("upload_pending", "completed"),
            "failure_reason?": choice("low_quality"),
            "needs_human_review": flag,
            "is_reviewed": flag,
            "data?": record(
                {
                    "metadata": record(
                        {
                            f"{name}?": text
                            for name in (
                                "patient_first_name",
                                "patient_last_name",
                                "dob",
                                "gender",
                                "lab_name",
                                "date_reported",
                                "date_collected",
                                "specimen_number",
                            )
                        }
                    ),
                    "results": many(
                        record(
                            {
                                "test_name": text,
                                "value": number_or_text,
                                "sample_type": choice("urine"),
                                "measurement_kind": choice("direct"),
                                "type?": choice("numeric"),
                                "units?": text,
                                "max_reference_range?": number,
                                "min_reference_range?": number,
                                "source_panel_name?": text,
                                "sensitivity": choice("unknown"),
                                "loinc_matches?": many(
                                    record(
                                        {
                                            "loinc_code": text,
                                            "loinc_name": text,
                                            "display_name": text,
                                            "aliases": many(text),
                                            "confidence_score": number,
                                        }
                                    ),
                                    1,
                                ),
                                "loinc_match_status?": choice("needs_review"),
                                "interpretation?": choice("normal"),
                                "is_above_max_range?": flag,
                                "is_below_min_range?": flag,
                            }
                        )
                    ),
                }
            ),
        }
    ),
    "job_id",
)
webhook = record(
    {
        "id": text,
        "url": text,
        "created_at": instant,
        "updated_at": instant,
        "description?": text,
        "rate_limit?": integer,
        "disabled?": flag,
        "filter_types?": many(text),
    }
)

KINDS: dict[type[Payload], Drawn] = {
    Activity: activity,
    BodySummary: body,
    Sleep: sleep,
    SleepCycle: sleep_cycle,
    Workout: workout,
    Meal: meal,
    Profile: profile,
    MenstrualCycle: menstrual_cycle,
    Electrocardiogram: electrocardiogram,
    SampleGroup: samples,
    WorkoutStreamPayload: stream,
    CriticalResultPayload: critical_result,
    MatchReview: match_review,
    ConnectionCreated: connection_created,
    ConnectionFailed: connection_failed,
    BackfillDone: backfill_done,
    StreamReady: stream_ready,
    ReportJobPayload: report_job,
    Webhook: webhook,
    ResentOrders: record({"order_ids": many(uid)}),
}
