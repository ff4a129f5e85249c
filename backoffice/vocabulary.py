"""Every open enumeration of the interface: its words, its colour family, its glyph.

All enumerations of the service are open (specification, "Conventions"): a value that is not
listed here renders, sorts, filters and is counted like any other, with the raw value as its label
and the family ``unknown``. Nothing in the back office matches exhaustively.

`VOCABULARIES` is the data. `term` reads it and never fails. `is_known` tells a sync what to count.
`order_bucket` and `order_term` know the one rule that is not a function of the status word alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

PREPARING: Final = "preparing"
WITH_PATIENT: Final = "with-patient"
ON_THE_WAY: Final = "on-the-way"
AT_LAB: Final = "at-lab"
RESULT_IN: Final = "result-in"
NEEDS_ACTION: Final = "needs-action"
CLOSED: Final = "closed"
UNKNOWN: Final = "unknown"
CRITICAL: Final = "critical"
ABNORMAL: Final = "abnormal"
PLAIN: Final = "plain"

BUCKETS: Final[dict[str, str]] = {
    NEEDS_ACTION: "Needs action",
    PREPARING: "Preparing",
    WITH_PATIENT: "With patient",
    ON_THE_WAY: "On the way",
    AT_LAB: "At the lab",
    RESULT_IN: "Result in",
    CLOSED: "Closed",
    UNKNOWN: "Not understood",
}
"""Working buckets of an order, in the order a screen lists them."""

GLYPHS: Final[dict[str, str]] = {
    PREPARING: "ring",
    WITH_PATIENT: "half-ring",
    ON_THE_WAY: "chevron",
    AT_LAB: "square",
    RESULT_IN: "tick",
    NEEDS_ACTION: "warning",
    CLOSED: "dash",
    UNKNOWN: "question",
    CRITICAL: "octagon",
    ABNORMAL: "arrows",
    PLAIN: "",
}
"""Shape of each family; a term may carry a more telling one of its own."""


@dataclass(frozen=True, slots=True)
class Term:
    """One value of an enumeration as staff see it.

    `turn` says who acts next, `note` explains in a sentence, and `quiet_after` is how long an
    order may rest in this state before it has "gone quiet" (None: never by itself).
    """

    value: str
    label: str
    family: str = PLAIN
    glyph: str = ""
    turn: str = ""
    note: str = ""
    quiet_after: timedelta | None = None
    known: bool = True


def _terms(*rows: tuple[str, str] | tuple[str, str, str] | Term) -> dict[str, Term]:
    terms: dict[str, Term] = {}
    for row in rows:
        item = row if isinstance(row, Term) else Term(*row)
        terms[item.value] = replace(item, glyph=item.glyph or GLYPHS[item.family])
    return terms


def _step(
    value: str, label: str, family: str, turn: str = "", hours: float | None = None, note: str = ""
) -> Term:
    quiet_after = None if hours is None else timedelta(hours=hours)
    return Term(value, label, family, turn=turn, quiet_after=quiet_after, note=note)


SERVICE: Final = "the service"
PATIENT: Final = "the patient"
COURIER: Final = "the courier"
LAB: Final = "the lab"
US: Final = "us"

_METHODS = _terms(
    ("testkit", "Test kit"),
    ("walk_in_test", "Walk-in"),
    ("at_home_phlebotomy", "At-home draw"),
    ("on_site_collection", "On-site collection"),
)

_INTERPRETATIONS = _terms(
    ("normal", "Normal"),
    Term("abnormal", "Abnormal", ABNORMAL),
    Term("critical", "Critical", CRITICAL),
    Term("unknown", "Not interpreted", UNKNOWN),
)

VOCABULARIES: Final[dict[str, dict[str, Term]]] = {
    "order.low_level_status": _terms(
        _step("ordered", "Order received", PREPARING, SERVICE, 8),
        _step("awaiting_registration", "Kit not registered yet", PREPARING, PATIENT, 72),
        _step("requisition_created", "Paperwork ready", PREPARING, SERVICE, 48),
        _step("requisition_bypassed", "Imported – no paperwork here", PREPARING, SERVICE, 48),
        _step("transit_customer", "Kit on its way to patient", ON_THE_WAY, COURIER, 144),
        _step("out_for_delivery", "Kit arriving today", ON_THE_WAY, COURIER, 24),
        _step("with_customer", "Kit with patient", WITH_PATIENT, PATIENT, 168),
        _step("registered", "Kit registered – sample to come", WITH_PATIENT, PATIENT, 120),
        _step("appointment_pending", "Visit requested, no time yet", ON_THE_WAY, SERVICE, 24),
        _step("appointment_scheduled", "Visit booked", ON_THE_WAY, PATIENT),
        _step("draw_completed", "Sample taken", ON_THE_WAY, COURIER, 48),
        _step("transit_lab", "Sample on its way to lab", ON_THE_WAY, COURIER, 144),
        _step("delivered_to_lab", "Lab has the sample", AT_LAB, LAB, 168),
        _step("partial_results", "Part of the result is in", AT_LAB, LAB, 168),
        _step("completed", "Result in", RESULT_IN, US),
        _step("corrected", "Result corrected – review again", RESULT_IN, US),
        _step("problem_in_transit_customer", "Delivery problem (to patient)", NEEDS_ACTION, US, 0),
        _step("problem_in_transit_lab", "Delivery problem (to lab)", NEEDS_ACTION, US, 0),
        _step("failure_to_deliver_to_customer", "Kit could not be delivered", NEEDS_ACTION, US, 0),
        _step("failure_to_deliver_to_lab", "Sample could not be delivered", NEEDS_ACTION, US, 0),
        _step("lost", "Lost", NEEDS_ACTION, US, 0),
        _step("sample_error", "Sample unusable", NEEDS_ACTION, US, 0),
        _step("lab_processing_blocked", "Lab needs information", NEEDS_ACTION, US, 0),
        _step("redraw_available", "New draw needed", NEEDS_ACTION, US, 72),
        _step("appointment_cancelled", "Visit cancelled – rebook?", NEEDS_ACTION, US, 24),
        _step("cancelled", "Cancelled", CLOSED),
        _step("do_not_process", "Stopped – not processed", CLOSED),
    ),
    "order.status": _terms(
        ("received", "Received", PREPARING),
        ("collecting_sample", "Collecting sample", ON_THE_WAY),
        ("sample_with_lab", "Sample with lab", AT_LAB),
        ("completed", "Completed", RESULT_IN),
        ("cancelled", "Cancelled", CLOSED),
        ("failed", "Failed", NEEDS_ACTION),
    ),
    "order.status_detail": _terms(
        ("fulfillment_error", "Kit could not be sent out", NEEDS_ACTION),
        ("date_of_collection_unspecified", "Collection date is missing", NEEDS_ACTION),
        ("demographic_information_unspecified", "Patient details are missing", NEEDS_ACTION),
        ("demographic_information_mismatch", "Patient details do not match", NEEDS_ACTION),
        ("sample_quantity_not_sufficient", "Not enough sample", NEEDS_ACTION),
        ("sample_contaminated", "Sample contaminated", NEEDS_ACTION),
        ("sample_stability_exceeded", "Sample too old", NEEDS_ACTION),
        ("sample_hemolyzed", "Sample haemolysed", NEEDS_ACTION),
        ("sample_improper_collection", "Sample not collected as required", NEEDS_ACTION),
    ),
    "order.method": _METHODS,
    "order.origin": _terms(
        ("initial", "First order"),
        ("redraw", "Redraw"),
        ("recreation", "Recreated"),
    ),
    "order.interpretation": _INTERPRETATIONS,
    "order.billing_type": _terms(
        ("client_bill", "Billed to the clinic"),
        ("commercial_insurance", "Billed to insurance"),
        ("patient_bill", "Billed to the patient"),
        ("patient_bill_passthrough", "Billed to the patient, passed through"),
    ),
    "order.activation_type": _terms(("current", "Current"), ("scheduled", "Scheduled for later")),
    "transaction.status": _terms(
        ("active", "Active", ON_THE_WAY),
        ("completed", "Completed", RESULT_IN),
        ("cancelled", "Cancelled", CLOSED),
    ),
    "appointment.status": _terms(
        Term("pending", "Requested", PREPARING, "dotted-ring", note="No time agreed yet."),
        Term(
            "reserved",
            "Held until paperwork is ready",
            WITH_PATIENT,
            "half-ring-clock",
            note="The slot lapses if no paperwork arrives.",
        ),
        ("confirmed", "Booked", ON_THE_WAY),
        ("in_progress", "Under way", AT_LAB),
        Term("completed", "Done", RESULT_IN, note="The visit took place; not the result."),
        ("cancelled", "Cancelled", CLOSED),
    ),
    "appointment.event_status": _terms(
        Term("pending", "Requested", PREPARING, "dotted-ring", note="No time agreed yet."),
        Term("reserved", "Held until paperwork is ready", WITH_PATIENT, "half-ring-clock"),
        ("scheduled", "Booked", ON_THE_WAY),
        ("in_progress", "Under way", AT_LAB),
        ("completed", "Done", RESULT_IN),
        ("cancelled", "Cancelled", CLOSED),
    ),
    "appointment.type": _terms(
        ("phlebotomy", "At home"),
        ("patient_service_center", "Service centre"),
    ),
    "lab.collection_method": _METHODS,
    "lab_account.status": _terms(
        ("active", "Active", RESULT_IN),
        ("pending", "Being set up – import only", PREPARING),
        ("ready_to_launch", "Ready to launch", PREPARING),
        ("suspended", "Suspended", NEEDS_ACTION),
    ),
    "lab_account.delegated_flow": _terms(
        Term(
            "order_delegated",
            "We order, the service follows up",
            note="Our physicians order; the service follows up critical results.",
        ),
        Term(
            "result_delegated",
            "The service orders, we follow up",
            note="The service's physicians order; we handle critical results.",
        ),
        ("fully_delegated", "We order and follow up"),
        ("not_delegated", "The service orders and follows up"),
    ),
    "lab_test.status": _terms(
        ("active", "Active", RESULT_IN),
        ("pending_approval", "Waiting for approval", PREPARING),
        ("inactive", "Archived", CLOSED),
    ),
    "lab_test.sample_type": _terms(
        ("dried_blood_spot", "Dried blood spot"),
        ("arm_collector", "Arm collector"),
        ("serum", "Serum"),
        ("saliva", "Saliva"),
        ("urine", "Urine"),
        ("stool", "Stool"),
    ),
    "marker.type": _terms(("biomarker", "Marker"), ("panel", "Panel")),
    "marker.question_type": _terms(
        ("choice", "One of a list"),
        ("multi_choice", "Several of a list"),
        ("text", "Text"),
        ("numeric", "Number"),
    ),
    "result.type": _terms(
        ("numeric", "Number"),
        ("range", "Range"),
        ("comment", "Comment"),
        ("coded_value", "Coded value"),
    ),
    "result.status": _terms(
        ("partial", "Partial", AT_LAB),
        ("final", "Final", RESULT_IN),
    ),
    "result.interpretation": _INTERPRETATIONS,
    "missing.failure_type": _terms(
        ("quantity_not_sufficient_failure", "Not enough sample", NEEDS_ACTION),
        ("insufficient_volume", "Not enough sample", NEEDS_ACTION),
        ("collection_process_failure", "Collection went wrong", NEEDS_ACTION),
        ("drop_off_failure", "Sample was not dropped off", NEEDS_ACTION),
        ("internal_lab_failure", "The lab could not process it", NEEDS_ACTION),
        ("order_entry_failure", "Order entry went wrong", NEEDS_ACTION),
        ("patient_condition_failure", "Patient's condition prevented it", NEEDS_ACTION),
        ("missing_result_calc_failure", "Not calculable: another result is missing", NEEDS_ACTION),
        (
            "missing_demo_aoe_calc_failure",
            "Not calculable: patient details or answers are missing",
            NEEDS_ACTION,
        ),
        ("non_failure", "No value, and nothing went wrong", CLOSED),
        ("unknown_failure", "Cause not given", UNKNOWN),
    ),
    "report.state": _terms(
        Term("stored", "Waiting to be sent", PREPARING, note="It is kept here and goes out next."),
        Term("sending", "Being sent", ON_THE_WAY),
        Term(
            "uncertain",
            "Outcome unknown",
            NEEDS_ACTION,
            note="The answer of the service was lost: it may have the report or not.",
        ),
        Term("refused", "Refused", NEEDS_ACTION, note="The service did not take the report."),
        Term("given_up", "Not sent", CLOSED, note="Somebody decided not to send it."),
        Term("upload_pending", "Received by the service", PREPARING),
        Term("started", "Being read", ON_THE_WAY),
        Term(
            "pending_review",
            "Waiting for a check",
            WITH_PATIENT,
            note="Somebody at the service checks what was read.",
        ),
        Term("completed", "Read", RESULT_IN),
        Term("failed", "Could not be read", NEEDS_ACTION),
    ),
    "report.failure_reason": _terms(
        ("invalid_input", "This does not look like a lab report"),
        ("low_quality", "The picture is too poor to read"),
        ("not_english", "The report is not in English"),
        ("too_many_pages", "The report has too many pages"),
        ("processing_error", "The service failed while reading it"),
    ),
    "report.type": _terms(
        ("numeric", "Number"),
        ("range", "Range"),
        ("comment", "Comment"),
        ("boolean", "Yes or no"),
        ("duration", "Duration"),
        ("percentage", "Percentage"),
        ("ratio", "Ratio"),
    ),
    "report.sample_type": _terms(
        ("urine", "Urine"),
        ("serum_plasma_blood", "Serum, plasma or blood"),
        ("capillary_blood", "Capillary blood"),
        ("stool", "Stool"),
        ("saliva", "Saliva"),
        ("other", "Other"),
        ("unknown", "Not told"),
    ),
    "report.loinc_match": _terms(
        ("auto_match", "Matched", RESULT_IN),
        Term("needs_review", "Match to be checked", ABNORMAL, "question"),
        Term("no_match", "No code found", ABNORMAL, "question"),
    ),
    "historical_pull.status": _terms(
        ("success", "Done", RESULT_IN),
        ("in_progress", "In progress", ON_THE_WAY),
        ("scheduled", "Scheduled", PREPARING),
        Term("retrying", "Retrying", ABNORMAL, "repeat"),
        ("failure", "Failed", NEEDS_ACTION),
        ("not_pulled", "Not pulled", CLOSED),
    ),
    "historical_pull.error_details": _terms(
        ("provider_rate_limit_exceeded", "The provider limits how fast we may ask"),
        ("provider_unavailable", "The provider does not answer"),
        ("transport_failure", "The connection broke"),
        ("resource_contention", "Too much at once"),
        ("non_retriable_error", "Cannot be repeated"),
        ("unexpected_error", "Unexpected error"),
        ("retry_quota_exhausted", "Given up after several attempts"),
    ),
    "connection.status": _terms(
        ("connected", "Connected", RESULT_IN),
        ("paused", "Paused", CLOSED),
        ("error", "Not working", NEEDS_ACTION),
    ),
    "connection.error_type": _terms(
        ("token_refresh_failed", "Permission lapsed – connect again"),
        ("webhook_registration_failed", "The provider refused to send updates"),
        ("user_not_found", "The provider does not know this person"),
        ("deregistered_per_provider", "Disconnected at the provider"),
        ("required_scopes_not_granted", "Permission was not granted"),
        ("provider_credential_error", "Log-in at the provider fails"),
        ("provider_password_expired", "Password at the provider expired"),
        ("unknown", "Cause not given"),
    ),
    "connection.resource_status": _terms(
        ("available", "Available", RESULT_IN),
        ("unavailable", "Not available", CLOSED),
    ),
    "event.state": _terms(
        Term("pending", "Waiting", PREPARING, note="Received, not applied yet."),
        Term("retry", "Retrying", ABNORMAL, "repeat", note="Failed, and tried again by itself."),
        Term("done", "Done", RESULT_IN),
        Term("skipped", "Skipped", CLOSED, note="No code reads this type yet."),
        Term("quarantined", "Of another team", NEEDS_ACTION, note="Stored, never applied."),
        Term("dead", "Failed", NEEDS_ACTION, note="Waits for a person to have it applied again."),
    ),
    "event.outcome": _terms(
        Term("applied", "Applied", RESULT_IN, note="The mirror was brought up to what it says."),
        Term("stale", "Older than ours", CLOSED, note="We knew something newer: nothing changed."),
        Term("unchanged", "Nothing new", CLOSED, note="It says what we knew already."),
        Term("looked up", "Read again", ON_THE_WAY, note="It asked for a read of the service."),
        Term("ignored", "Ignored", CLOSED, note="Nothing of it is kept here."),
        Term("kept", "Kept", CLOSED, note="Stored for reading; no table of ours holds it."),
        Term("unknown type", "Type not known", UNKNOWN, note="No code reads this type yet."),
        Term("foreign team", "Of another team", NEEDS_ACTION, note="Stored, never applied."),
        Term("team not known yet", "Held back", PREPARING, note="Until a patient is read."),
        Term("failed", "Failed", NEEDS_ACTION, note="Could not be applied."),
    ),
    "wearable.resource": _terms(
        ("activity", "Activity"),
        ("body", "Body"),
        ("electrocardiogram", "Electrocardiogram"),
        ("meal", "Meals"),
        ("menstrual_cycle", "Menstrual cycle"),
        ("profile", "Profile"),
        ("sleep", "Sleep"),
        ("sleep_cycle", "Sleep stages"),
        ("workouts", "Workouts"),
        ("afib_burden", "Atrial fibrillation burden"),
        ("basal_body_temperature", "Basal body temperature"),
        ("blood_oxygen", "Blood oxygen"),
        ("blood_pressure", "Blood pressure"),
        ("body_mass_index", "Body mass index"),
        ("body_temperature", "Body temperature"),
        ("body_temperature_delta", "Body temperature, difference"),
        ("caffeine", "Caffeine"),
        ("calories_active", "Active calories"),
        ("calories_basal", "Basal calories"),
        ("carbohydrates", "Carbohydrates"),
        ("cholesterol", "Cholesterol"),
        ("daylight_exposure", "Daylight"),
        ("distance", "Distance"),
        ("electrocardiogram_voltage", "Electrocardiogram voltage"),
        ("fall", "Falls"),
        ("fat", "Body fat"),
        ("floors_climbed", "Floors climbed"),
        ("forced_expiratory_volume_1", "Forced expiratory volume in 1 s"),
        ("forced_vital_capacity", "Forced vital capacity"),
        ("glucose", "Glucose"),
        ("handwashing", "Handwashing"),
        ("heart_rate_alert", "Heart rate alerts"),
        ("heart_rate_recovery_one_minute", "Heart rate recovery in 1 min"),
        ("heartrate", "Heart rate"),
        ("hrv", "Heart rate variability"),
        ("ige", "IgE"),
        ("igg", "IgG"),
        ("inhaler_usage", "Inhaler use"),
        ("insulin_injection", "Insulin"),
        ("lean_body_mass", "Lean body mass"),
        ("mindfulness_minutes", "Mindfulness"),
        ("note", "Notes"),
        ("peak_expiratory_flow_rate", "Peak expiratory flow"),
        ("respiratory_rate", "Respiratory rate"),
        ("sleep_apnea_alert", "Sleep apnoea alerts"),
        ("sleep_breathing_disturbance", "Breathing disturbances in sleep"),
        ("stand_duration", "Time standing"),
        ("stand_hour", "Hours with standing"),
        ("steps", "Steps"),
        ("stress_level", "Stress level"),
        ("uv_exposure", "UV exposure"),
        ("vo2_max", "Maximum oxygen uptake"),
        ("waist_circumference", "Waist"),
        ("water", "Water"),
        ("weight", "Weight"),
        ("wheelchair_push", "Wheelchair pushes"),
        ("workout_distance", "Distance in workouts"),
        ("workout_duration", "Duration of workouts"),
        ("workout_swimming_stroke", "Swimming strokes"),
    ),
    "sleep.type": _terms(
        ("long_sleep", "Long sleep"),
        ("short_sleep", "Short sleep"),
        ("acknowledged_nap", "Nap"),
        ("unknown", "Still being recorded"),
    ),
    "sleep.state": _terms(("tentative", "May still change"), ("confirmed", "Confirmed")),
    "electrocardiogram.classification": _terms(
        ("sinus_rhythm", "Sinus rhythm"),
        ("atrial_fibrillation", "Atrial fibrillation", ABNORMAL),
        ("inconclusive", "Inconclusive", UNKNOWN),
    ),
    "insurance.relationship": _terms(
        ("Self", "Self"),
        ("Spouse", "Spouse"),
        ("Other", "Other"),
    ),
    "payor.source": _terms(("platform", "Service"), ("team", "Ours")),
    "person.gender": _terms(
        ("female", "Female"),
        ("male", "Male"),
        ("other", "Other"),
        ("unknown", "Unknown"),
    ),
    "person.race": _terms(
        ("african_american_or_black", "African American or Black"),
        ("asian", "Asian"),
        ("indigenous_native_american_alaska_native", "Indigenous, Native American, Alaska Native"),
        ("pacific_islander_or_hawaiian", "Pacific Islander or Hawaiian"),
        ("white_caucasian", "White or Caucasian"),
        ("other", "Other"),
    ),
    "person.ethnicity": _terms(
        ("hispanic", "Hispanic"),
        ("non_hispanic", "Non-Hispanic"),
        ("ashkenazi_jewish", "Ashkenazi Jewish"),
        ("other", "Other"),
    ),
    "person.sexual_orientation": _terms(
        ("lesbian_gay_or_homosexual", "Lesbian, gay or homosexual"),
        ("heterosexual_or_straight", "Heterosexual or straight"),
        ("bisexual", "Bisexual"),
        ("dont_know", "Does not know"),
        ("other", "Other"),
    ),
    "person.gender_identity": _terms(
        ("male", "Male"),
        ("female", "Female"),
        ("female_to_male_ftm_transgender_male_trans_man", "Transgender man"),
        ("male_to_female_mtf_transgender_female_trans_woman", "Transgender woman"),
        ("genderqueer", "Genderqueer"),
        ("other", "Other"),
    ),
}

LISTS: Final[dict[str, str]] = {
    "orders": "Orders",
    "users": "Patients",
    "pulls": "Historical pulls",
    "providers": "Device providers",
    "physicians": "Physicians",
    "labs": "Labs",
    "lab-accounts": "Lab accounts",
    "lab-tests": "Lab tests",
    "markers": "Markers",
    "payors": "Insurance companies",
    "insurance-primary": "Primary insurance",
    "insurance-secondary": "Secondary insurance",
    "connections": "Connected devices",
    "backfill": "Device history",
    "workout-stream": "Workout streams",
    "results": "Results",
    "lab-test-markers": "Markers of lab tests",
    "report-jobs": "Lab reports being read",
    "appointment-psc": "Appointments at service centres",
    "appointment-phlebotomy": "Appointments at home",
    "demographics": "Patient details",
    "events-resent": "Events asked for again",
}
"""What a sync reads, by the name its runs and look-ups carry; another name is shown as it is."""

ALIASES: Final[dict[str, dict[str, str]]] = {
    "order.low_level_status": {"testkit_registered": "registered"},
    "marker.question_type": {"multiple_choice": "multi_choice"},
    "person.gender": {"Female": "female", "Male": "male", "Other": "other", "Unknown": "unknown"},
}
"""Second spellings of one value (differences.md rows 25, 41, 58)."""

_REQUISITION: Final = frozenset({"requisition_created", "requisition_bypassed"})
_READY: Final[dict[str, str]] = {
    "testkit": "Paperwork ready",
    "walk_in_test": "Ready to walk in",
    "at_home_phlebotomy": "Ready to book",
    "on_site_collection": "Ready to collect",
}
_READY_TURN: Final[dict[str, str]] = {
    "walk_in_test": PATIENT,
    "at_home_phlebotomy": PATIENT,
    "on_site_collection": US,
}
_READY_QUIET: Final[dict[str, timedelta]] = {"walk_in_test": timedelta(days=7)}
_BUCKET_TURN: Final[dict[str, str]] = {WITH_PATIENT: PATIENT, ON_THE_WAY: COURIER}


def canonical(vocabulary: str, value: str) -> str:
    """The usual spelling of a value; the value itself when it has only one or is unknown."""
    return ALIASES.get(vocabulary, {}).get(value, value)


def term(vocabulary: str, value: str | None) -> Term:
    """The words for a value; the default branch shows the raw value as unknown.

    A missing value (None or empty) is not an unknown one: it is an empty plain term.
    """
    if not value:
        return Term("", "", PLAIN)
    found = VOCABULARIES[vocabulary].get(canonical(vocabulary, value))
    return found or Term(value, value, UNKNOWN, GLYPHS[UNKNOWN], known=False)


def is_known(vocabulary: str, value: str | None) -> bool:
    """False for a value that the unknown-values page should count."""
    return not value or canonical(vocabulary, value) in VOCABULARIES[vocabulary]


def low_level(dotted: str) -> str:
    """Third part of ``<high_level>.<method>.<low_level>``, in its usual spelling.

    A string that is not dotted is taken as the low-level status itself (orders.md 4).
    """
    return canonical("order.low_level_status", dotted.split(".", 2)[-1])


def bucket_of(dotted: str) -> str:
    """High-level status, the first part of a dotted status; empty when there is none."""
    head, dot, _ = dotted.partition(".")
    return head if dot else ""


def order_bucket(low_level_status: str, method: str, history: Iterable[str]) -> str:
    """Working bucket (a key of `BUCKETS`) of an order.

    `history` holds the statuses of its events, dotted or not, in any order. Paperwork means
    something else per method: a kit not sent yet, a patient who may walk in, a draw to book.
    """
    status = canonical("order.low_level_status", low_level_status)
    if status not in _REQUISITION:
        return term("order.low_level_status", status or "unknown").family
    if method in ("walk_in_test", "at_home_phlebotomy"):
        return WITH_PATIENT
    if method == "testkit":
        been = {low_level(entry) for entry in history}
        if been & {"with_customer", "registered"}:
            return WITH_PATIENT
        if "transit_customer" in been:
            return ON_THE_WAY
    return PREPARING


def order_term(low_level_status: str, method: str, history: Iterable[str]) -> Term:
    """Words, family and turn of an order's status, with the bucket rule applied."""
    known = term("order.low_level_status", low_level_status or "unknown")
    if known.value not in _REQUISITION:
        return known
    bucket = order_bucket(low_level_status, method, history)
    imported = known.value == "requisition_bypassed"
    return replace(
        known,
        label=known.label if imported else _READY.get(method, known.label),
        family=bucket,
        glyph=GLYPHS[bucket],
        turn=_READY_TURN.get(method) or _BUCKET_TURN.get(bucket, known.turn),
        quiet_after=_READY_QUIET.get(method, known.quiet_after),
    )


def choices(vocabulary: str) -> list[tuple[str, str]]:
    """(value, label) pairs for a filter; forms must still accept any other value."""
    return [(item.value, item.label) for item in VOCABULARIES[vocabulary].values()]
