"""Closed lists the interface checks parameters against (specification, States; orders.md 4)."""

from __future__ import annotations

from sandbox.api.params import OneOf

METHODS = OneOf(("testkit", "walk_in_test", "at_home_phlebotomy", "on_site_collection"))

LOW_LEVEL_STATUSES = OneOf(
    (
        "ordered",
        "requisition_created",
        "requisition_bypassed",
        "transit_customer",
        "out_for_delivery",
        "with_customer",
        "transit_lab",
        "delivered_to_lab",
        "completed",
        "failure_to_deliver_to_lab",
        "failure_to_deliver_to_customer",
        "problem_in_transit_lab",
        "problem_in_transit_customer",
        "sample_error",
        "appointment_scheduled",
        "appointment_cancelled",
        "appointment_pending",
        "draw_completed",
        "cancelled",
        "lost",
        "do_not_process",
        "partial_results",
        "awaiting_registration",
        "registered",
        "redraw_available",
        "corrected",
        "lab_processing_blocked",
    )
)
INTERPRETATIONS = OneOf(("normal", "abnormal", "critical", "unknown"))
ACTIVATION_TYPES = OneOf(("current", "scheduled"))
ORDER_KEYS = OneOf(("created_at", "patient_name", "last_status"))
DIRECTIONS = OneOf(("asc", "desc"))

LAB_TEST_STATUSES = OneOf(("active", "pending_approval", "inactive"))
LAB_TEST_KEYS = OneOf(("price", "created_at", "updated_at"))
GENERATION_METHODS = OneOf(("auto", "manual", "all"))
LAB_ACCOUNT_STATUSES = OneOf(("active", "pending", "suspended", "ready_to_launch"))

BILLING_TYPES = (
    "client_bill",
    "commercial_insurance",
    "patient_bill_passthrough",
    "patient_bill",
)
PAYOR_PROVIDERS = OneOf(
    (
        "clearing-one",
        "clearing-two",
        "clearing-three",
        "clearing-four",
        "clearing-five",
        "clearing-six",
        "clearing-seven",
    )
)
RADII = OneOf(("10", "20", "25", "50", "100"))
CAPABILITIES = OneOf(
    ("stat", "appointment_scheduling_via_service", "appointment_scheduling_with_lab")
)
ENVIRONMENTS = OneOf(("production", "sandbox"))
REGIONS = OneOf(("us", "eu"))
