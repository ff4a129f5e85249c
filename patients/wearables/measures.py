"""Measures for charts: samples of a resource, and columns of daily summaries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext, gettext_noop

from backoffice.core import vocabulary
from backoffice.pages.charts import BARS, LINE, SPAN, number_text

SUMMED_RESOURCES: Final = frozenset(
    {
        "caffeine", "calories_active", "calories_basal", "carbohydrates", "daylight_exposure",
        "distance", "fall", "floors_climbed", "handwashing", "heart_rate_alert", "inhaler_usage",
        "insulin_injection", "mindfulness_minutes", "sleep_apnea_alert",
        "sleep_breathing_disturbance", "stand_duration", "stand_hour", "steps", "water",
        "wheelchair_push", "workout_distance", "workout_duration", "workout_swimming_stroke",
    }
)  # fmt: skip
"""Resources whose samples are summed in an interval. Samples of others are averaged."""
TEXT_RESOURCES: Final = frozenset({"note"})
"""Resources with text values, which have no chart."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure to chart. For a summary, it is `column` times `factor`, in `unit`."""

    name: str
    label: str
    resource: str
    kind: str
    column: str = ""
    unit: str = ""
    factor: float = 1.0

    @property
    def alias(self) -> str:
        """Return a unique name of this daily measure, valid in SQL and as a keyword argument."""
        return f"{self.resource}_{self.column}"

    def words(self, number: float) -> str:
        """Return a number of a summary as text: `5,118 steps`, `6 h 12 min`."""
        value = number * self.factor
        if self.unit == "h":
            hours, minutes = divmod(round(value * 60), 60)
            return f"{hours} h {minutes:02} min"
        return f"{number_text(value)} {gettext(self.unit)}".rstrip()


def _daily(
    label: str, resource: str, column: str, unit: str, kind: str = LINE, factor: float = 1.0
) -> Measure:
    return Measure(f"{resource}.{column}", label, resource, kind, column, unit, factor)


_HOURS: Final = 1 / 3600

DAILY: Final[dict[str, Measure]] = {
    measure.name: measure
    for measure in (
        _daily(gettext_noop("Steps per day"), "activity", "steps", gettext_noop("steps"), BARS),
        _daily(
            gettext_noop("Active calories per day"), "activity", "calories_active", "kcal", BARS
        ),
        _daily(gettext_noop("Calories per day"), "activity", "calories_total", "kcal", BARS),
        _daily(gettext_noop("Distance per day"), "activity", "distance", "km", BARS, 0.001),
        _daily(
            gettext_noop("Floors climbed per day"),
            "activity",
            "floors_climbed",
            gettext_noop("floors"),
            BARS,
        ),
        _daily(gettext_noop("Resting heart rate"), "activity", "resting_bpm", "bpm"),
        _daily(gettext_noop("Weight, daily"), "body", "weight", "kg"),
        _daily(gettext_noop("Body fat, daily"), "body", "fat", "%"),
        _daily(gettext_noop("Body mass index, daily"), "body", "body_mass_index", "kg/m²"),
        _daily(gettext_noop("Time asleep"), "sleep", "total", "h", BARS, _HOURS),
        _daily(gettext_noop("Deep sleep"), "sleep", "deep", "h", BARS, _HOURS),
        _daily(gettext_noop("REM sleep"), "sleep", "rem", "h", BARS, _HOURS),
        _daily(gettext_noop("Sleep score"), "sleep", "score", gettext_noop("of 100")),
        _daily(gettext_noop("Lowest heart rate asleep"), "sleep", "hr_lowest", "bpm"),
        _daily(gettext_noop("Heart rate variability asleep"), "sleep", "average_hrv", "ms"),
        _daily(gettext_noop("Breaths per minute asleep"), "sleep", "respiratory_rate", "/min"),
        _daily(gettext_noop("Workout time"), "workouts", "moving_time", "h", BARS, _HOURS),
        _daily(gettext_noop("Workout calories"), "workouts", "calories", "kcal", BARS),
        _daily(gettext_noop("Calories eaten"), "meal", "energy", "kcal", BARS),
    )
}


def sample_measure(resource: str) -> Measure:
    """Return the measure for samples of a resource. The unit is in the samples."""
    kind = BARS if resource in SUMMED_RESOURCES else SPAN if resource == "blood_pressure" else LINE
    label = vocabulary.term("wearable.resource", resource).label
    return Measure(resource, label, resource, kind)
