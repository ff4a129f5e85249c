"""Routes of events: which handler applies which event type (webhooks, chapter 3).

The table has every type of the catalog. Groups of events are applied in the order of this table.
An event with a type that is not in the table is stored and counted as unknown. It can be replayed
when a later release has its type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from backoffice.service.events import EventEnvelope, ReceivedEvent
from labs.reports.handlers import handle_report_jobs
from orders.handlers import handle_appointments, handle_critical_results, handle_orders
from orders.sync.unmatched import handle_match_reviews
from patients.handlers import handle_connections
from patients.wearables.handlers import (
    handle_backfills,
    handle_samples,
    handle_summaries,
    handle_workout_streams,
)
from webhooks import event_envelope
from webhooks.event_envelope import ATTEMPT_EXHAUSTED
from webhooks.models import Event

Handler = Callable[[Sequence[ReceivedEvent]], Mapping[str, str] | None]


@dataclass(frozen=True)
class Route:
    """How events of some types are applied.

    `handler` applies events and returns the outcome by message id of those that differ from the
    default `outcome`. Events of a route without a handler only stay in the inbox.
    """

    name: str
    handler: Handler | None
    outcome: str = "applied"


@dataclass(frozen=True)
class SetAside:
    """State and outcome of an event that is not given to a handler."""

    state: Event.State
    outcome: str


FOREIGN_TEAM: Final = SetAside(Event.State.QUARANTINED, "foreign team")
UNKNOWN_TYPE: Final = SetAside(Event.State.SKIPPED, "unknown type")
TEAM_UNKNOWN: Final = SetAside(Event.State.PENDING, "team not known yet")
"""The team is not known before the first sync. The event waits, and this is not an attempt."""

UNDECRYPTABLE: Final = SetAside(Event.State.PENDING, "body cannot be opened")
"""The body is encrypted with a key that this worker does not have. The event waits for the key, and
this is not an attempt.
"""

CRITICAL_RESULTS: Final = Route("critical results", handle_critical_results)
ORDERS: Final = Route("orders", handle_orders)
APPOINTMENTS: Final = Route("appointments", handle_appointments)
MATCH_REVIEWS: Final = Route("results without a match", handle_match_reviews)
CONNECTIONS: Final = Route("connections", handle_connections)
DEVICES: Final = Route("devices", handle_connections)
REPORT_JOBS: Final = Route("report jobs", handle_report_jobs)
SUMMARIES: Final = Route("summaries", handle_summaries)
SAMPLES: Final = Route("samples", handle_samples)
STREAMS: Final = Route("workout streams", handle_workout_streams)
BACKFILLS: Final = Route("historical pulls", handle_backfills)
STORED_ONLY: Final = Route("kept", None, "kept")
IGNORED: Final = Route("ignored", None, "ignored")

# Resource names of wearable data in events (wearables, chapter 7).
SUMMARY_NAMES: Final = (
    "activity", "body", "electrocardiogram", "meal", "menstrual_cycle", "profile", "sleep",
    "sleep_cycle", "workouts",
)  # fmt: skip
SAMPLE_NAMES: Final = (
    "afib_burden", "basal_body_temperature", "blood_oxygen", "blood_pressure",
    "body_mass_index", "body_temperature", "body_temperature_delta", "caffeine",
    "calories_active", "calories_basal", "carbohydrates", "cholesterol", "daylight_exposure",
    "distance", "electrocardiogram_voltage", "fall", "fat", "floors_climbed",
    "forced_expiratory_volume_1", "forced_vital_capacity", "glucose", "handwashing",
    "heart_rate_alert", "heart_rate_recovery_one_minute", "heartrate", "hrv", "ige", "igg",
    "inhaler_usage", "insulin_injection", "lean_body_mass", "mindfulness_minutes", "note",
    "peak_expiratory_flow_rate", "respiratory_rate", "sleep_apnea_alert",
    "sleep_breathing_disturbance", "stand_duration", "stand_hour", "steps", "stress_level",
    "uv_exposure", "vo2_max", "waist_circumference", "water", "weight", "wheelchair_push",
    "workout_distance", "workout_duration", "workout_swimming_stroke",
)  # fmt: skip
STREAM_NAMES: Final = ("workout_stream",)


def _change_routes(names: Sequence[str], route: Route) -> dict[str, Route]:
    return {f"daily.data.{name}.{word}": route for name in names for word in ("created", "updated")}


ROUTES: Final[Mapping[str, Route]] = {
    "labtest.result.critical": CRITICAL_RESULTS,
    "labtest.order.created": ORDERS,
    "labtest.order.updated": ORDERS,
    "labtest.appointment.created": APPOINTMENTS,
    "labtest.appointment.updated": APPOINTMENTS,
    "labtest.match_review.created": MATCH_REVIEWS,
    "labtest.match_review.updated": MATCH_REVIEWS,
    "provider.connection.created": CONNECTIONS,
    "provider.connection.error": CONNECTIONS,
    "provider.device.created": DEVICES,
    "provider.device.updated": DEVICES,
    "lab_report.parsing_job.created": REPORT_JOBS,
    "lab_report.parsing_job.updated": REPORT_JOBS,
    **_change_routes(SUMMARY_NAMES, SUMMARIES),
    **_change_routes(SAMPLE_NAMES, SAMPLES),
    **_change_routes(STREAM_NAMES, STREAMS),
    **{
        f"historical.data.{name}.created": BACKFILLS
        for name in (*SUMMARY_NAMES, *SAMPLE_NAMES, *STREAM_NAMES)
    },
    # Not applied yet.
    "continuous_query.result_table.changed": STORED_ONLY,
    ATTEMPT_EXHAUSTED: STORED_ONLY,
    # Replaced by the sleep cycle events and removed from the catalog.
    "daily.timeseries.hypnogram.created": IGNORED,
    "daily.timeseries.hypnogram.updated": IGNORED,
    "historical.timeseries.hypnogram.created": IGNORED,
    "daily.data.hypnogram.created": IGNORED,
    "daily.data.hypnogram.updated": IGNORED,
    "historical.data.hypnogram.created": IGNORED,
}


def find_route(envelope: EventEnvelope, our_team: UUID | None) -> Route | SetAside:
    """Return the route of an event, or why it is set aside.

    The team of an event may be in its envelope, in its data, in both or in neither. `our_team` is
    None until a sync has stored it.
    """
    teams = event_envelope.teams(envelope)
    if our_team is not None and teams - {our_team}:
        return FOREIGN_TEAM
    route = ROUTES.get(envelope.event_type)
    if route is None:
        return UNKNOWN_TYPE
    if route.handler and teams and our_team is None:
        return TEAM_UNKNOWN
    return route
