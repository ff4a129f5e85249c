"""Every enumeration of the interface, value by value."""

from typing import Final

from django.utils.translation import gettext_noop

from backoffice.core.vocabulary.commands import COMMAND_KINDS
from backoffice.core.vocabulary.status_groups import (
    ABNORMAL,
    AT_LAB,
    CLOSED,
    CRITICAL,
    NEEDS_ACTION,
    ON_THE_WAY,
    PREPARING,
    RESULT_IN,
    UNKNOWN,
    WITH_PATIENT,
)
from backoffice.core.vocabulary.terms import (
    COURIER,
    LAB,
    PATIENT,
    SERVICE,
    US,
    Term,
    build_terms,
    step,
)
from backoffice.core.vocabulary.unmatched import UNMATCHED

_METHODS = build_terms(
    ("testkit", gettext_noop("Test kit")),
    ("walk_in_test", gettext_noop("Walk-in")),
    ("at_home_phlebotomy", gettext_noop("At-home draw")),
    ("on_site_collection", gettext_noop("On-site collection")),
)

_INTERPRETATIONS = build_terms(
    ("normal", gettext_noop("Normal")),
    Term("abnormal", gettext_noop("Abnormal"), ABNORMAL),
    Term("critical", gettext_noop("Critical"), CRITICAL),
    Term("unknown", gettext_noop("Not interpreted"), UNKNOWN),
)

VOCABULARIES: Final[dict[str, dict[str, Term]]] = {
    "order.low_level_status": build_terms(
        step("ordered", gettext_noop("Order received"), PREPARING, SERVICE, 8),
        step(
            "awaiting_registration", gettext_noop("Kit not registered yet"), PREPARING, PATIENT, 72
        ),
        step("requisition_created", gettext_noop("Paperwork ready"), PREPARING, SERVICE, 48),
        step(
            "requisition_bypassed", gettext_noop("Imported – no paperwork"), PREPARING, SERVICE, 48
        ),
        step(
            "transit_customer", gettext_noop("Kit on its way to patient"), ON_THE_WAY, COURIER, 144
        ),
        step("out_for_delivery", gettext_noop("Kit arriving today"), ON_THE_WAY, COURIER, 24),
        step("with_customer", gettext_noop("Kit with patient"), WITH_PATIENT, PATIENT, 168),
        step(
            "registered",
            gettext_noop("Kit registered – awaiting sample"),
            WITH_PATIENT,
            PATIENT,
            120,
        ),
        step("appointment_pending", gettext_noop("Visit requested"), ON_THE_WAY, SERVICE, 24),
        step("appointment_scheduled", gettext_noop("Visit booked"), ON_THE_WAY, PATIENT),
        step("draw_completed", gettext_noop("Sample collected"), ON_THE_WAY, COURIER, 48),
        step("transit_lab", gettext_noop("Sample on its way to lab"), ON_THE_WAY, COURIER, 144),
        step("delivered_to_lab", gettext_noop("Lab has the sample"), AT_LAB, LAB, 168),
        step("partial_results", gettext_noop("Partial results in"), AT_LAB, LAB, 168),
        step("completed", gettext_noop("Result in"), RESULT_IN, US),
        step("corrected", gettext_noop("Result corrected – review again"), RESULT_IN, US),
        step(
            "problem_in_transit_customer",
            gettext_noop("Delivery problem (to patient)"),
            NEEDS_ACTION,
            US,
            0,
        ),
        step(
            "problem_in_transit_lab", gettext_noop("Delivery problem (to lab)"), NEEDS_ACTION, US, 0
        ),
        step(
            "failure_to_deliver_to_customer",
            gettext_noop("Kit could not be delivered"),
            NEEDS_ACTION,
            US,
            0,
        ),
        step(
            "failure_to_deliver_to_lab",
            gettext_noop("Sample could not be delivered"),
            NEEDS_ACTION,
            US,
            0,
        ),
        step("lost", gettext_noop("Lost"), NEEDS_ACTION, US, 0),
        step("sample_error", gettext_noop("Sample unusable"), NEEDS_ACTION, US, 0),
        step("lab_processing_blocked", gettext_noop("Lab needs information"), NEEDS_ACTION, US, 0),
        step("redraw_available", gettext_noop("New draw needed"), NEEDS_ACTION, US, 72),
        step(
            "appointment_cancelled", gettext_noop("Visit canceled – rebook"), NEEDS_ACTION, US, 24
        ),
        step("cancelled", gettext_noop("Canceled"), CLOSED),
        step("do_not_process", gettext_noop("Stopped – not processed"), CLOSED),
    ),
    "order.status": build_terms(
        ("received", gettext_noop("Received"), PREPARING),
        ("collecting_sample", gettext_noop("Collecting sample"), ON_THE_WAY),
        ("sample_with_lab", gettext_noop("Sample with lab"), AT_LAB),
        ("completed", gettext_noop("Completed"), RESULT_IN),
        ("cancelled", gettext_noop("Canceled"), CLOSED),
        ("failed", gettext_noop("Failed"), NEEDS_ACTION),
    ),
    "order.status_detail": build_terms(
        ("fulfillment_error", gettext_noop("Kit could not be shipped"), NEEDS_ACTION),
        (
            "date_of_collection_unspecified",
            gettext_noop("Collection date is missing"),
            NEEDS_ACTION,
        ),
        (
            "demographic_information_unspecified",
            gettext_noop("Patient details are missing"),
            NEEDS_ACTION,
        ),
        (
            "demographic_information_mismatch",
            gettext_noop("Patient details do not match"),
            NEEDS_ACTION,
        ),
        ("sample_quantity_not_sufficient", gettext_noop("Not enough sample"), NEEDS_ACTION),
        ("sample_contaminated", gettext_noop("Sample contaminated"), NEEDS_ACTION),
        ("sample_stability_exceeded", gettext_noop("Sample too old"), NEEDS_ACTION),
        ("sample_hemolyzed", gettext_noop("Sample hemolyzed"), NEEDS_ACTION),
        (
            "sample_improper_collection",
            gettext_noop("Sample not collected as required"),
            NEEDS_ACTION,
        ),
    ),
    "order.method": _METHODS,
    "order.origin": build_terms(
        ("initial", gettext_noop("First order")),
        ("redraw", gettext_noop("Redraw")),
        ("recreation", gettext_noop("Recreated")),
    ),
    "order.interpretation": _INTERPRETATIONS,
    "order.billing_type": build_terms(
        ("client_bill", gettext_noop("Clinic bill")),
        ("commercial_insurance", gettext_noop("Insurance")),
        ("patient_bill", gettext_noop("Patient bill")),
        ("patient_bill_passthrough", gettext_noop("Patient bill (pass-through)")),
    ),
    "order.activation_type": build_terms(
        ("current", gettext_noop("Current")), ("scheduled", gettext_noop("Scheduled for later"))
    ),
    "transaction.status": build_terms(
        ("active", gettext_noop("Active"), ON_THE_WAY),
        ("completed", gettext_noop("Completed"), RESULT_IN),
        ("cancelled", gettext_noop("Canceled"), CLOSED),
    ),
    "appointment.status": build_terms(
        Term(
            "pending",
            gettext_noop("Requested"),
            PREPARING,
            "dotted-ring",
            note=gettext_noop("Not confirmed yet."),
        ),
        Term(
            "reserved",
            gettext_noop("Held until paperwork is ready"),
            WITH_PATIENT,
            "half-ring-clock",
            note=gettext_noop("The slot is released if the paperwork does not arrive."),
        ),
        ("confirmed", gettext_noop("Booked"), ON_THE_WAY),
        ("in_progress", gettext_noop("In progress"), AT_LAB),
        Term(
            "completed",
            gettext_noop("Done"),
            RESULT_IN,
            note=gettext_noop("The visit took place. This says nothing about the result."),
        ),
        ("cancelled", gettext_noop("Canceled"), CLOSED),
    ),
    "appointment.event_status": build_terms(
        Term(
            "pending",
            gettext_noop("Requested"),
            PREPARING,
            "dotted-ring",
            note=gettext_noop("Not confirmed yet."),
        ),
        Term(
            "reserved",
            gettext_noop("Held until paperwork is ready"),
            WITH_PATIENT,
            "half-ring-clock",
        ),
        ("scheduled", gettext_noop("Booked"), ON_THE_WAY),
        ("in_progress", gettext_noop("In progress"), AT_LAB),
        ("completed", gettext_noop("Done"), RESULT_IN),
        ("cancelled", gettext_noop("Canceled"), CLOSED),
    ),
    "appointment.type": build_terms(
        ("phlebotomy", gettext_noop("At home")),
        ("patient_service_center", gettext_noop("Service center")),
    ),
    "lab.collection_method": _METHODS,
    "lab_account.status": build_terms(
        ("active", gettext_noop("Active"), RESULT_IN),
        ("pending", gettext_noop("Being set up – import only"), PREPARING),
        ("ready_to_launch", gettext_noop("Ready to launch"), PREPARING),
        ("suspended", gettext_noop("Suspended"), NEEDS_ACTION),
    ),
    "lab_account.delegated_flow": build_terms(
        Term(
            "order_delegated",
            gettext_noop("We order, the service follows up"),
            note=gettext_noop("Our physicians order; the service follows up critical results."),
        ),
        Term(
            "result_delegated",
            gettext_noop("The service orders, we follow up"),
            note=gettext_noop("The service's physicians order; we handle critical results."),
        ),
        ("fully_delegated", gettext_noop("We order and follow up")),
        ("not_delegated", gettext_noop("The service orders and follows up")),
    ),
    "lab_test.status": build_terms(
        ("active", gettext_noop("Active"), RESULT_IN),
        ("pending_approval", gettext_noop("Waiting for approval"), PREPARING),
        ("inactive", gettext_noop("Archived"), CLOSED),
    ),
    "lab_test.sample_type": build_terms(
        ("dried_blood_spot", gettext_noop("Dried blood spot")),
        ("arm_collector", gettext_noop("Arm collector")),
        ("serum", gettext_noop("Serum")),
        ("saliva", gettext_noop("Saliva")),
        ("urine", gettext_noop("Urine")),
        ("stool", gettext_noop("Stool")),
    ),
    "marker.type": build_terms(
        ("biomarker", gettext_noop("Marker")), ("panel", gettext_noop("Panel"))
    ),
    "marker.question_type": build_terms(
        ("choice", gettext_noop("One of a list")),
        ("multi_choice", gettext_noop("Several of a list")),
        ("text", gettext_noop("Text")),
        ("numeric", gettext_noop("Number")),
    ),
    **UNMATCHED,
    "result.type": build_terms(
        ("numeric", gettext_noop("Number")),
        ("range", gettext_noop("Range")),
        ("comment", gettext_noop("Comment")),
        ("coded_value", gettext_noop("Coded value")),
    ),
    "result.status": build_terms(
        ("partial", gettext_noop("Partial"), AT_LAB),
        ("final", gettext_noop("Final"), RESULT_IN),
        ("corrected", gettext_noop("Corrected"), RESULT_IN),
    ),
    "result.interpretation": _INTERPRETATIONS,
    "missing.failure_type": build_terms(
        ("quantity_not_sufficient_failure", gettext_noop("Not enough sample"), NEEDS_ACTION),
        ("insufficient_volume", gettext_noop("Not enough sample"), NEEDS_ACTION),
        ("collection_process_failure", gettext_noop("Collection problem"), NEEDS_ACTION),
        ("drop_off_failure", gettext_noop("Sample was not dropped off"), NEEDS_ACTION),
        (
            "internal_lab_failure",
            gettext_noop("The lab could not process the sample"),
            NEEDS_ACTION,
        ),
        ("order_entry_failure", gettext_noop("Order entry error"), NEEDS_ACTION),
        (
            "patient_condition_failure",
            gettext_noop("Patient's condition prevented the test"),
            NEEDS_ACTION,
        ),
        (
            "missing_result_calc_failure",
            gettext_noop("Cannot be calculated: another result is missing"),
            NEEDS_ACTION,
        ),
        (
            "missing_demo_aoe_calc_failure",
            gettext_noop("Cannot be calculated: patient details or answers are missing"),
            NEEDS_ACTION,
        ),
        ("non_failure", gettext_noop("No value expected"), CLOSED),
        ("unknown_failure", gettext_noop("Cause not given"), UNKNOWN),
    ),
    "command.state": build_terms(
        Term(
            "waiting",
            gettext_noop("Waiting to be sent"),
            PREPARING,
            note=gettext_noop("Saved. It will be sent next."),
        ),
        Term("sending", gettext_noop("Being sent"), ON_THE_WAY),
        Term(
            "uncertain",
            gettext_noop("Outcome unknown"),
            ON_THE_WAY,
            note=gettext_noop(
                "No answer arrived. We are checking with the lab service. Do not repeat the action."
            ),
        ),
        Term(
            "undecided",
            gettext_noop("Needs your decision"),
            NEEDS_ACTION,
            note=gettext_noop(
                "No answer arrived, and the lab service cannot confirm whether it happened."
            ),
        ),
        Term("done", gettext_noop("Done"), RESULT_IN),
        Term(
            "refused",
            gettext_noop("Refused"),
            NEEDS_ACTION,
            note=gettext_noop("Nothing was changed."),
        ),
        Term(
            "withdrawn", gettext_noop("Withdrawn"), CLOSED, note=gettext_noop("It was never sent.")
        ),
        Term(
            "given_up",
            gettext_noop("Closed, not resent"),
            CLOSED,
            note=gettext_noop("Someone decided not to send it again."),
        ),
    ),
    **COMMAND_KINDS,
    "report.state": build_terms(
        Term(
            "stored",
            gettext_noop("Waiting to be sent"),
            PREPARING,
            note=gettext_noop("Saved. It will be sent next."),
        ),
        Term("sending", gettext_noop("Being sent"), ON_THE_WAY),
        Term(
            "uncertain",
            gettext_noop("Outcome unknown"),
            NEEDS_ACTION,
            note=gettext_noop("No answer arrived. The lab service may or may not have the report."),
        ),
        Term(
            "refused",
            gettext_noop("Refused"),
            NEEDS_ACTION,
            note=gettext_noop("The lab service did not accept the report."),
        ),
        Term(
            "given_up",
            gettext_noop("Not sent"),
            CLOSED,
            note=gettext_noop("Someone decided not to send it."),
        ),
        Term("upload_pending", gettext_noop("Received by the service"), PREPARING),
        Term("started", gettext_noop("Being read"), ON_THE_WAY),
        Term(
            "pending_review",
            gettext_noop("Waiting for review"),
            WITH_PATIENT,
            note=gettext_noop("Someone at the lab service checks the values that were read."),
        ),
        Term("completed", gettext_noop("Read"), RESULT_IN),
        Term("failed", gettext_noop("Could not be read"), NEEDS_ACTION),
    ),
    "report.failure_reason": build_terms(
        ("invalid_input", gettext_noop("This does not look like a lab report")),
        ("low_quality", gettext_noop("The image is too poor to read")),
        ("not_english", gettext_noop("The report is not in English")),
        ("too_many_pages", gettext_noop("The report has too many pages")),
        ("processing_error", gettext_noop("The service failed while reading it")),
    ),
    "report.type": build_terms(
        ("numeric", gettext_noop("Number")),
        ("range", gettext_noop("Range")),
        ("comment", gettext_noop("Comment")),
        ("boolean", gettext_noop("Yes or no")),
        ("duration", gettext_noop("Duration")),
        ("percentage", gettext_noop("Percentage")),
        ("ratio", gettext_noop("Ratio")),
    ),
    "report.sample_type": build_terms(
        ("urine", gettext_noop("Urine")),
        ("serum_plasma_blood", gettext_noop("Serum, plasma or blood")),
        ("capillary_blood", gettext_noop("Capillary blood")),
        ("stool", gettext_noop("Stool")),
        ("saliva", gettext_noop("Saliva")),
        ("other", gettext_noop("Other")),
        ("unknown", gettext_noop("Not specified")),
    ),
    "report.loinc_match": build_terms(
        ("auto_match", gettext_noop("Matched"), RESULT_IN),
        Term("needs_review", gettext_noop("Verify code"), ABNORMAL, "question"),
        Term("no_match", gettext_noop("No code found"), ABNORMAL, "question"),
    ),
    "historical_pull.status": build_terms(
        ("success", gettext_noop("Done"), RESULT_IN),
        ("in_progress", gettext_noop("In progress"), ON_THE_WAY),
        ("scheduled", gettext_noop("Scheduled"), PREPARING),
        Term("retrying", gettext_noop("Retrying"), ABNORMAL, "repeat"),
        ("failure", gettext_noop("Failed"), NEEDS_ACTION),
        ("not_pulled", gettext_noop("Not pulled"), CLOSED),
    ),
    "historical_pull.error_details": build_terms(
        (
            "provider_rate_limit_exceeded",
            gettext_noop("The provider limits the number of requests"),
        ),
        ("provider_unavailable", gettext_noop("The provider is not responding")),
        ("transport_failure", gettext_noop("The connection was lost")),
        ("resource_contention", gettext_noop("Too many requests at the same time")),
        ("non_retriable_error", gettext_noop("Cannot be retried")),
        ("unexpected_error", gettext_noop("Unexpected error")),
        ("retry_quota_exhausted", gettext_noop("Failed after several retries")),
    ),
    "connection.status": build_terms(
        ("connected", gettext_noop("Connected"), RESULT_IN),
        ("paused", gettext_noop("Paused"), CLOSED),
        ("error", gettext_noop("Not working"), NEEDS_ACTION),
    ),
    "connection.error_type": build_terms(
        ("token_refresh_failed", gettext_noop("Permission expired – reconnect")),
        ("webhook_registration_failed", gettext_noop("The provider refused to send updates")),
        ("user_not_found", gettext_noop("The provider does not recognize this person")),
        ("deregistered_per_provider", gettext_noop("Disconnected by the provider")),
        ("required_scopes_not_granted", gettext_noop("Permission was not granted")),
        ("provider_credential_error", gettext_noop("Sign-in with the provider failed")),
        ("provider_password_expired", gettext_noop("Provider password expired")),
        ("unknown", gettext_noop("Cause not given")),
    ),
    "connection.resource_status": build_terms(
        ("available", gettext_noop("Available"), RESULT_IN),
        ("unavailable", gettext_noop("Not available"), CLOSED),
    ),
    "event.state": build_terms(
        Term(
            "pending",
            gettext_noop("Waiting"),
            PREPARING,
            note=gettext_noop("Received, not applied yet."),
        ),
        Term(
            "retry",
            gettext_noop("Retrying"),
            ABNORMAL,
            "repeat",
            note=gettext_noop("Failed. Will be retried automatically."),
        ),
        Term("done", gettext_noop("Done"), RESULT_IN),
        Term(
            "skipped",
            gettext_noop("Skipped"),
            CLOSED,
            note=gettext_noop("This type is not supported yet."),
        ),
        Term(
            "quarantined",
            gettext_noop("From another team"),
            NEEDS_ACTION,
            note=gettext_noop("Stored, never applied."),
        ),
        Term(
            "dead",
            gettext_noop("Failed"),
            NEEDS_ACTION,
            note=gettext_noop("Someone must apply it again."),
        ),
    ),
    "event.outcome": build_terms(
        Term(
            "applied",
            gettext_noop("Applied"),
            RESULT_IN,
            note=gettext_noop("Our copy was updated."),
        ),
        Term(
            "stale",
            gettext_noop("Out of date"),
            CLOSED,
            note=gettext_noop("We already had newer data. Nothing changed."),
        ),
        Term(
            "unchanged",
            gettext_noop("No change"),
            CLOSED,
            note=gettext_noop("We already had this data."),
        ),
        Term(
            "looked up",
            gettext_noop("Read again"),
            ON_THE_WAY,
            note=gettext_noop("The data was read again from the service."),
        ),
        Term(
            "ignored",
            gettext_noop("Ignored"),
            CLOSED,
            note=gettext_noop("This data is not stored here."),
        ),
        Term(
            "kept", gettext_noop("Stored"), CLOSED, note=gettext_noop("Stored for reference only.")
        ),
        Term(
            "unknown type",
            gettext_noop("Unknown type"),
            UNKNOWN,
            note=gettext_noop("This type is not supported yet."),
        ),
        Term(
            "foreign team",
            gettext_noop("From another team"),
            NEEDS_ACTION,
            note=gettext_noop("Stored, never applied."),
        ),
        Term(
            "team not known yet",
            gettext_noop("On hold"),
            PREPARING,
            note=gettext_noop("Until the first patient is synced."),
        ),
        Term(
            "failed",
            gettext_noop("Failed"),
            NEEDS_ACTION,
            note=gettext_noop("Could not be applied."),
        ),
    ),
    "wearable.resource": build_terms(
        ("activity", gettext_noop("Activity")),
        ("body", gettext_noop("Body")),
        ("electrocardiogram", gettext_noop("Electrocardiogram")),
        ("meal", gettext_noop("Meals")),
        ("menstrual_cycle", gettext_noop("Menstrual cycle")),
        ("profile", gettext_noop("Profile")),
        ("sleep", gettext_noop("Sleep")),
        ("sleep_cycle", gettext_noop("Sleep stages")),
        ("workouts", gettext_noop("Workouts")),
        ("afib_burden", gettext_noop("Atrial fibrillation burden")),
        ("basal_body_temperature", gettext_noop("Basal body temperature")),
        ("blood_oxygen", gettext_noop("Blood oxygen")),
        ("blood_pressure", gettext_noop("Blood pressure")),
        ("body_mass_index", gettext_noop("Body mass index")),
        ("body_temperature", gettext_noop("Body temperature")),
        ("body_temperature_delta", gettext_noop("Body temperature, difference")),
        ("caffeine", gettext_noop("Caffeine")),
        ("calories_active", gettext_noop("Active calories")),
        ("calories_basal", gettext_noop("Basal calories")),
        ("carbohydrates", gettext_noop("Carbohydrates")),
        ("cholesterol", gettext_noop("Cholesterol")),
        ("daylight_exposure", gettext_noop("Daylight")),
        ("distance", gettext_noop("Distance")),
        ("electrocardiogram_voltage", gettext_noop("Electrocardiogram voltage")),
        ("fall", gettext_noop("Falls")),
        ("fat", gettext_noop("Body fat")),
        ("floors_climbed", gettext_noop("Floors climbed")),
        ("forced_expiratory_volume_1", gettext_noop("Forced expiratory volume in 1 s")),
        ("forced_vital_capacity", gettext_noop("Forced vital capacity")),
        ("glucose", gettext_noop("Glucose")),
        ("handwashing", gettext_noop("Handwashing")),
        ("heart_rate_alert", gettext_noop("Heart rate alerts")),
        ("heart_rate_recovery_one_minute", gettext_noop("Heart rate recovery in 1 min")),
        ("heartrate", gettext_noop("Heart rate")),
        ("hrv", gettext_noop("Heart rate variability")),
        ("ige", gettext_noop("IgE")),
        ("igg", gettext_noop("IgG")),
        ("inhaler_usage", gettext_noop("Inhaler use")),
        ("insulin_injection", gettext_noop("Insulin")),
        ("lean_body_mass", gettext_noop("Lean body mass")),
        ("mindfulness_minutes", gettext_noop("Mindfulness")),
        ("note", gettext_noop("Notes")),
        ("peak_expiratory_flow_rate", gettext_noop("Peak expiratory flow")),
        ("respiratory_rate", gettext_noop("Respiratory rate")),
        ("sleep_apnea_alert", gettext_noop("Sleep apnea alerts")),
        ("sleep_breathing_disturbance", gettext_noop("Breathing disturbances in sleep")),
        ("stand_duration", gettext_noop("Time standing")),
        ("stand_hour", gettext_noop("Hours with standing")),
        ("steps", gettext_noop("Steps")),
        ("stress_level", gettext_noop("Stress level")),
        ("uv_exposure", gettext_noop("UV exposure")),
        ("vo2_max", gettext_noop("Maximum oxygen uptake")),
        ("waist_circumference", gettext_noop("Waist")),
        ("water", gettext_noop("Water")),
        ("weight", gettext_noop("Weight")),
        ("wheelchair_push", gettext_noop("Wheelchair pushes")),
        ("workout_distance", gettext_noop("Distance in workouts")),
        ("workout_duration", gettext_noop("Duration of workouts")),
        ("workout_swimming_stroke", gettext_noop("Swimming strokes")),
    ),
    "sleep.type": build_terms(
        ("long_sleep", gettext_noop("Long sleep")),
        ("short_sleep", gettext_noop("Short sleep")),
        ("acknowledged_nap", gettext_noop("Nap")),
        ("unknown", gettext_noop("Still being recorded")),
    ),
    "sleep.state": build_terms(
        ("tentative", gettext_noop("May still change")), ("confirmed", gettext_noop("Confirmed"))
    ),
    "electrocardiogram.classification": build_terms(
        ("sinus_rhythm", gettext_noop("Sinus rhythm")),
        ("atrial_fibrillation", gettext_noop("Atrial fibrillation"), ABNORMAL),
        ("inconclusive", gettext_noop("Inconclusive"), UNKNOWN),
    ),
    "insurance.relationship": build_terms(
        ("Self", gettext_noop("Self")),
        ("Spouse", gettext_noop("Spouse")),
        ("Other", gettext_noop("Other")),
    ),
    "payor.source": build_terms(
        ("platform", gettext_noop("Service")), ("team", gettext_noop("Custom"))
    ),
    "person.gender": build_terms(
        ("female", gettext_noop("Female")),
        ("male", gettext_noop("Male")),
        ("other", gettext_noop("Other")),
        ("unknown", gettext_noop("Unknown")),
    ),
    "person.race": build_terms(
        ("african_american_or_black", gettext_noop("African American or Black")),
        ("asian", gettext_noop("Asian")),
        (
            "indigenous_native_american_alaska_native",
            gettext_noop("Indigenous, Native American, Alaska Native"),
        ),
        ("pacific_islander_or_hawaiian", gettext_noop("Pacific Islander or Hawaiian")),
        ("white_caucasian", gettext_noop("White or Caucasian")),
        ("other", gettext_noop("Other")),
    ),
    "person.ethnicity": build_terms(
        ("hispanic", gettext_noop("Hispanic")),
        ("non_hispanic", gettext_noop("Non-Hispanic")),
        ("ashkenazi_jewish", gettext_noop("Ashkenazi Jewish")),
        ("other", gettext_noop("Other")),
    ),
    "person.sexual_orientation": build_terms(
        ("lesbian_gay_or_homosexual", gettext_noop("Lesbian, gay or homosexual")),
        ("heterosexual_or_straight", gettext_noop("Heterosexual or straight")),
        ("bisexual", gettext_noop("Bisexual")),
        ("dont_know", gettext_noop("Does not know")),
        ("other", gettext_noop("Other")),
    ),
    "person.gender_identity": build_terms(
        ("male", gettext_noop("Male")),
        ("female", gettext_noop("Female")),
        ("female_to_male_ftm_transgender_male_trans_man", gettext_noop("Transgender man")),
        ("male_to_female_mtf_transgender_female_trans_woman", gettext_noop("Transgender woman")),
        ("genderqueer", gettext_noop("Genderqueer")),
        ("other", gettext_noop("Other")),
    ),
}

LISTS: Final[dict[str, str]] = {
    "orders": gettext_noop("Orders"),
    "users": gettext_noop("Patients"),
    "pulls": gettext_noop("Historical pulls"),
    "providers": gettext_noop("Device providers"),
    "physicians": gettext_noop("Physicians"),
    "labs": gettext_noop("Labs"),
    "lab-accounts": gettext_noop("Lab accounts"),
    "lab-tests": gettext_noop("Lab tests"),
    "markers": gettext_noop("Markers"),
    "payors": gettext_noop("Insurance companies"),
    "insurance-primary": gettext_noop("Primary insurance"),
    "insurance-secondary": gettext_noop("Secondary insurance"),
    "connections": gettext_noop("Connected devices"),
    "backfill": gettext_noop("Device history"),
    "workout-stream": gettext_noop("Workout streams"),
    "results": gettext_noop("Results"),
    "unmatched": gettext_noop("Unmatched results"),
    "lab-test-markers": gettext_noop("Lab test markers"),
    "lab-account-catalog": gettext_noop("Lab account catalogs"),
    "report-jobs": gettext_noop("Lab report readings"),
    "appointment-psc": gettext_noop("Service center appointments"),
    "appointment-phlebotomy": gettext_noop("Home appointments"),
    "demographics": gettext_noop("Patient details"),
    "orders_ordercount": gettext_noop("Order counts"),
    "events-resent": gettext_noop("Resent events"),
}
"""Labels of sync runs and lookups, by resource name; an unknown name is shown unchanged."""

ALIASES: Final[dict[str, dict[str, str]]] = {
    "order.low_level_status": {"testkit_registered": "registered"},
    "marker.question_type": {"multiple_choice": "multi_choice"},
    "person.gender": {"Female": "female", "Male": "male", "Other": "other", "Unknown": "unknown"},
}
"""Other spellings of one value (differences.md rows 25, 41, 58)."""
