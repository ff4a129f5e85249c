"""The nine kinds of summary. Interface: wearables, chapter 2.

A summary is identified by its ``id``. The version received last replaces the earlier ones. None
means that the provider does not supply the value. When only the deprecated ``date`` was sent, it is
used as the ``calendar_date``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from uuid import UUID

from msgspec import field

from backoffice.service.payload import Instant, Payload, Reader, parse_day
from backoffice.service.wearables.source import SourcePayload


class SummaryPayload(Payload):
    """The fields that all nine kinds have."""

    id: UUID
    user_id: UUID | None = None
    created_at: Instant | None = None
    updated_at: Instant | None = None
    source: SourcePayload = field(default_factory=SourcePayload)

    @property
    def provider(self) -> str:
        """Return the slug of the provider."""
        return self.source.provider


class SourcedSummary(SummaryPayload):
    """A summary that also has its source in separate fields."""

    source_provider: str | None = None
    source_type: str | None = None
    source_app_id: str | None = None
    source_device_id: UUID | None = None

    @property
    def provider(self) -> str:
        return self.source.provider or self.source_provider or ""


class DailySummary(SummaryPayload):
    """A summary that belongs to a day of the person's calendar."""

    calendar_date_sent: date | None = field(default=None, name="calendar_date")
    date_sent: str | None = field(default=None, name="date")

    @property
    def calendar_date(self) -> date | None:
        return self.calendar_date_sent or parse_day(self.date_sent)


class HeartRate(Payload):
    """Heart rates in beats a minute."""

    avg_bpm: float | None = None
    min_bpm: float | None = None
    max_bpm: float | None = None
    resting_bpm: float | None = None
    avg_walking_bpm: float | None = None


class Activity(DailySummary):
    """The activity of a day.

    Calories are in kcal (the total includes the basal ones), distance in m, ``low``, ``medium`` and
    ``high`` in minutes, ``timezone_offset`` in seconds.
    """

    calories_total: float | None = None
    calories_active: float | None = None
    steps: int | None = None
    daily_movement: float | None = None
    distance: float | None = None
    low: float | None = None
    medium: float | None = None
    high: float | None = None
    floors_climbed: int | None = None
    time_zone: str | None = None
    timezone_offset: int | None = None
    heart_rate: HeartRate | None = None
    wheelchair_use: bool | None = None
    wheelchair_push: int | None = None


class BodySummary(DailySummary):
    """Body measurements of a day.

    Weight and lean mass are in kg; fat, water, muscle, and bone in percent; waist in cm.
    """

    weight: float | None = None
    fat: float | None = None
    water_percentage: float | None = None
    muscle_mass_percentage: float | None = None
    visceral_fat_index: float | None = None
    bone_mass_percentage: float | None = None
    body_mass_index: float | None = None
    lean_body_mass_kilogram: float | None = None
    waist_circumference_centimeter: float | None = None


class Sleep(DailySummary):
    """A night or a nap, usually on the day of waking up.

    Durations are in seconds, temperatures in Celsius. ``type``: long_sleep, short_sleep,
    acknowledged_nap, unknown (still recording). A summary whose ``state`` is tentative may still
    change.
    """

    bedtime_start: Instant | None = None
    bedtime_stop: Instant | None = None
    type: str = "unknown"
    timezone_offset: int | None = None
    duration: int | None = None
    total: int | None = None
    awake: int | None = None
    light: int | None = None
    rem: int | None = None
    deep: int | None = None
    score: int | None = None
    recovery_readiness_score: int | None = None
    hr_lowest: int | None = None
    hr_average: int | None = None
    hr_resting: int | None = None
    efficiency: float | None = None
    latency: int | None = None
    temperature_delta: float | None = None
    skin_temperature: float | None = None
    hr_dip: float | None = None
    state: str | None = None
    average_hrv: float | None = None
    respiratory_rate: float | None = None


class SleepCycle(SourcedSummary):
    """The stages of one sleep as parallel arrays.

    Offsets are in seconds from ``session_start``. Stages: -1 unknown, 1 deep, 2 light, 3 REM, 4
    awake, 5 entered manually.
    """

    sleep_id: UUID | None = None
    session_start: Instant | None = None
    session_end: Instant | None = None
    stage_start_offset_second: list[int] = field(default_factory=list)
    stage_end_offset_second: list[int] = field(default_factory=list)
    stage_type: list[int] = field(default_factory=list)
    time_zone: str | None = None


class Sport(Payload):
    """A sport; ``id`` is deprecated and not stable, ``slug`` is stable."""

    id: int | None = None
    name: str = ""
    slug: str = ""


class WorkoutMap(Payload):
    """The route as encoded polylines; it can reveal where a person lives."""

    polyline: str | None = None
    summary_polyline: str | None = None


class Workout(DailySummary):
    """A workout.

    Heart rates are in beats a minute, distances in m, speeds in m/s, power in watts,
    ``moving_time`` in seconds. ``hr_zones`` has the seconds in each of six zones. ``provider_id``
    is the provider's id.
    """

    title: str | None = None
    timezone_offset: int | None = None
    average_hr: int | None = None
    max_hr: int | None = None
    distance: float | None = None
    time_start: Instant | None = None
    time_end: Instant | None = None
    calories: float | None = None
    sport_sent: Sport | str | None = field(default=None, name="sport")
    hr_zones: list[int | None] | None = None
    moving_time: int | None = None
    total_elevation_gain: float | None = None
    elev_high: float | None = None
    elev_low: float | None = None
    average_speed: float | None = None
    max_speed: float | None = None
    average_watts: float | None = None
    device_watts: float | None = None
    max_watts: float | None = None
    weighted_average_watts: float | None = None
    steps: int | None = None
    map: WorkoutMap | None = None
    provider_id: str = ""

    @property
    def sport(self) -> Sport | None:
        """Return the sport; None when the service sent an empty text or nothing."""
        return sport(self.sport_sent)


class Energy(Payload):
    """Energy; ``unit`` is kcal."""

    unit: str = "kcal"
    value: float | None = None


class Fats(Payload):
    """Fats in grams."""

    saturated: float | None = None
    monounsaturated: float | None = None
    polyunsaturated: float | None = None
    omega3: float | None = None
    omega6: float | None = None
    total: float | None = None


class Macros(Payload):
    """Macronutrients in grams."""

    carbs: float | None = None
    protein: float | None = None
    alcohol: float | None = None
    water: float | None = None
    fibre: float | None = None
    sugar: float | None = None
    cholesterol: float | None = None
    fats: Fats | None = None


class Micros(Payload):
    """Minerals, trace elements, and vitamins by name, most of them in mg."""

    minerals: dict[str, float | None] | None = None
    trace_elements: dict[str, float | None] | None = None
    vitamins: dict[str, float | None] | None = None


class Food(Payload):
    energy: Energy | None = None
    macros: Macros | None = None
    micros: Micros | None = None


class Meal(SourcedSummary):
    """A meal; ``data`` has its foods by name."""

    calendar_date: date | None = None
    timestamp: Instant | None = None
    name: str = ""
    energy: Energy | None = None
    macros: Macros | None = None
    micros: Micros | None = None
    data: dict[str, Food | None] = field(default_factory=dict)


class Profile(SummaryPayload):
    """Data of the provider about the person; height in cm."""

    height: int | None = None
    birth_date_sent: str | None = field(default=None, name="birth_date")
    wheelchair_use: bool | None = None
    gender: str | None = None
    sex: str | None = None

    @property
    def birth_date(self) -> date | None:
        return parse_day(self.birth_date_sent)


class CycleEntry(Payload):
    """One dated observation of a cycle; the list it is in determines which fields are sent."""

    date_sent: str | None = field(default=None, name="date")
    flow: str | None = None
    quality: str | None = None
    type: str | None = None
    deviation: str | None = None
    test_result: str | None = None
    protection_used: bool | None = None
    value: float | None = None

    @property
    def date(self) -> date | None:
        return parse_day(self.date_sent)


class MenstrualCycle(SourcedSummary):
    """A menstrual cycle; basal body temperatures in Celsius."""

    period_start: date | None = None
    period_end: date | None = None
    cycle_end: date | None = None
    is_predicted: bool = False
    menstrual_flow: list[CycleEntry] = field(default_factory=list)
    cervical_mucus: list[CycleEntry] = field(default_factory=list)
    intermenstrual_bleeding: list[CycleEntry] = field(default_factory=list)
    contraceptive: list[CycleEntry] = field(default_factory=list)
    detected_deviations: list[CycleEntry] = field(default_factory=list)
    ovulation_test: list[CycleEntry] = field(default_factory=list)
    home_pregnancy_test: list[CycleEntry] = field(default_factory=list)
    home_progesterone_test: list[CycleEntry] = field(default_factory=list)
    sexual_activity: list[CycleEntry] = field(default_factory=list)
    basal_body_temperature: list[CycleEntry] = field(default_factory=list)


class Electrocardiogram(SourcedSummary):
    """The header of a recording; its voltages are samples.

    ``classification``: sinus_rhythm, atrial_fibrillation, inconclusive. ``heart_rate_mean`` is in
    beats a minute.
    """

    session_start: Instant | None = None
    session_end: Instant | None = None
    voltage_sample_count: int | None = None
    heart_rate_mean: int | None = None
    sampling_frequency_hz: float | None = None
    classification: str | None = None
    inconclusive_cause: str | None = None
    algorithm_version: str | None = None
    time_zone: str | None = None
    source_device_model: str | None = None


def sport(sent: Sport | str | None) -> Sport | None:
    return sent if isinstance(sent, Sport) else None


PROFILE = Reader(Profile)
SUMMARIES: Mapping[str, Reader[SummaryPayload]] = {
    "activity": Reader(Activity),
    "body": Reader(BodySummary),
    "electrocardiogram": Reader(Electrocardiogram),
    "meal": Reader(Meal),
    "menstrual_cycle": Reader(MenstrualCycle),
    "profile": PROFILE,
    "sleep": Reader(Sleep),
    "sleep_cycle": Reader(SleepCycle),
    "workouts": Reader(Workout),
}
"""The reader of each kind of summary, by the name of the resource in events."""
