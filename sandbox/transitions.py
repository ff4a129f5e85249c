"""The life cycles as tables (orders.md 4): next steps with their weights, and times in a status."""

# Bucket letters of orders.md 4; the on-site draw differs from the at-home one.
BUCKETS = {
    "ordered": "received",
    "requisition_created": "received",
    "requisition_bypassed": "received",
    "awaiting_registration": "received",
    "registered": "received",
    "transit_customer": "collecting_sample",
    "out_for_delivery": "collecting_sample",
    "with_customer": "collecting_sample",
    "transit_lab": "collecting_sample",
    "problem_in_transit_lab": "collecting_sample",
    "problem_in_transit_customer": "collecting_sample",
    "appointment_scheduled": "collecting_sample",
    "appointment_cancelled": "collecting_sample",
    "appointment_pending": "collecting_sample",
    "draw_completed": "collecting_sample",
    "redraw_available": "collecting_sample",
    "delivered_to_lab": "sample_with_lab",
    "partial_results": "sample_with_lab",
    "lab_processing_blocked": "sample_with_lab",
    "completed": "completed",
    "corrected": "completed",
    "failure_to_deliver_to_lab": "failed",
    "failure_to_deliver_to_customer": "failed",
    "sample_error": "failed",
    "lost": "failed",
    "cancelled": "cancelled",
    "do_not_process": "cancelled",
}

CANCELLED = frozenset({"cancelled", "do_not_process"})
TERMINAL = CANCELLED | {
    "completed",
    "corrected",
    "failure_to_deliver_to_lab",
    "failure_to_deliver_to_customer",
    "sample_error",
    "lost",
    "redraw_available",
}

CANCELLABLE = {
    "testkit": frozenset(
        {
            "ordered",
            "awaiting_registration",
            "registered",
            "requisition_created",
            "requisition_bypassed",
        }
    ),
    "walk_in_test": frozenset(
        {
            "ordered",
            "requisition_created",
            "requisition_bypassed",
            "appointment_pending",
            "appointment_scheduled",
            "appointment_cancelled",
        }
    ),
    "on_site_collection": frozenset(
        {"ordered", "requisition_created", "requisition_bypassed", "draw_completed"}
    ),
}
CANCELLABLE["at_home_phlebotomy"] = CANCELLABLE["walk_in_test"] | {"draw_completed"}

# Moves that are no order status: the appointment or the sample moves on without an order event.
COLLECT = "*collect"  # walk-in: the patient was there
VISIT = "*visit"  # at-home: the phlebotomist has arrived
RESERVE = "*reserve"  # a slot is held before the requisition exists
LAPSE = "*lapse"  # the held slot is given up again

Branches = tuple[tuple[float, str], ...]

_KIT: dict[str, Branches] = {
    "ordered": ((94, "requisition_created"), (4, "cancelled"), (2, "do_not_process")),
    "requisition_created": ((95, "transit_customer"), (4, "cancelled"), (1, "do_not_process")),
    "transit_customer": (
        (93, "out_for_delivery"),
        (2, "failure_to_deliver_to_customer"),
        (5, "problem_in_transit_customer"),
    ),
    "out_for_delivery": ((98, "with_customer"), (2, "failure_to_deliver_to_customer")),
    "problem_in_transit_customer": (
        (60, "out_for_delivery"),
        (20, "with_customer"),
        (12, "failure_to_deliver_to_customer"),
        (8, "lost"),
    ),
    "with_customer": ((100, "transit_lab"),),
    "transit_lab": (
        (94, "delivered_to_lab"),
        (1.5, "failure_to_deliver_to_lab"),
        (4.5, "problem_in_transit_lab"),
    ),
    "problem_in_transit_lab": (
        (70, "delivered_to_lab"),
        (15, "failure_to_deliver_to_lab"),
        (15, "lost"),
    ),
    "delivered_to_lab": (
        (89, "completed"),
        (6, "sample_error"),
        (5, "lab_processing_blocked"),
    ),
    "lab_processing_blocked": ((75, "completed"), (25, "sample_error")),
}
_REGISTRABLE = _KIT | {
    "ordered": ((97, "awaiting_registration"), (3, "cancelled")),
    "awaiting_registration": ((95, "transit_customer"), (5, "cancelled")),
    "with_customer": ((100, "registered"),),
    "registered": ((97, "requisition_created"), (3, "cancelled")),
    "requisition_created": ((100, "transit_lab"),),
}
_WALK_IN: dict[str, Branches] = {
    "ordered": ((91, "requisition_created"), (4, "cancelled"), (5, RESERVE)),
    "requisition_created": ((55, "appointment_pending"), (40, COLLECT), (5, "cancelled")),
    "appointment_pending": (
        (90, "appointment_scheduled"),
        (6, "appointment_cancelled"),
        (4, "cancelled"),
    ),
    "appointment_scheduled": (
        (77, COLLECT),
        (9, "appointment_scheduled"),
        (3, "appointment_pending"),
        (8, "appointment_cancelled"),
        (3, "cancelled"),
    ),
    "appointment_cancelled": ((75, "appointment_pending"), (25, "cancelled")),
    "partial_results": ((28, "partial_results"), (64, "completed"), (8, "redraw_available")),
}
_AT_HOME: dict[str, Branches] = {
    "ordered": ((91, "requisition_created"), (4, "cancelled"), (5, RESERVE)),
    "requisition_created": ((93, "appointment_pending"), (7, "cancelled")),
    "appointment_pending": (
        (88, "appointment_scheduled"),
        (8, "appointment_cancelled"),
        (4, "cancelled"),
    ),
    "appointment_scheduled": (
        (78, VISIT),
        (10, "appointment_scheduled"),
        (9, "appointment_cancelled"),
        (3, "cancelled"),
    ),
    "appointment_cancelled": (
        (60, "appointment_pending"),
        (20, "appointment_scheduled"),
        (20, "cancelled"),
    ),
    "draw_completed": (
        (25, "partial_results"),
        (68, "completed"),
        (2, "cancelled"),
        (5, "sample_error"),
    ),
    "partial_results": ((25, "partial_results"), (75, "completed")),
}
_ON_SITE: dict[str, Branches] = {
    "ordered": ((96, "requisition_created"), (4, "cancelled")),
    "requisition_created": ((92, "draw_completed"), (8, "cancelled")),
    "draw_completed": (
        (30, "partial_results"),
        (60, "completed"),
        (3, "cancelled"),
        (7, "sample_error"),
    ),
    "partial_results": ((25, "partial_results"), (75, "completed")),
}

BRANCHES: dict[str, dict[str, Branches]] = {
    "testkit": _KIT,
    "registrable": _REGISTRABLE,
    "walk_in_test": _WALK_IN,
    "at_home_phlebotomy": _AT_HOME,
    "on_site_collection": _ON_SITE,
}

# A slot reserved before the requisition: usually the requisition arrives in time.
RESERVED: Branches = ((85, "requisition_created"), (12, LAPSE), (3, "cancelled"))
# A slot that the lab of one state reserves until it confirms by itself.
HELD_BY_LAB: Branches = ((92, "appointment_pending"), (8, LAPSE))
# The sample of a walk-in patient was collected; the lab works on it.
WALK_IN_COLLECTED: Branches = (
    (27, "partial_results"),
    (65, "completed"),
    (4, "redraw_available"),
    (4, "sample_error"),
)
# The phlebotomist has arrived.
AT_HOME_VISITED: Branches = ((93, "draw_completed"), (7, "appointment_cancelled"))
COMPLETED: Branches = ((3, "corrected"), (97, ""))

# Hours an order stays in a status before it moves.
DWELL: dict[str, tuple[float, float]] = {
    "ordered": (0.3, 10),
    "requisition_created": (2, 40),
    "requisition_bypassed": (2, 40),
    "awaiting_registration": (4, 30),
    "registered": (0.2, 4),
    "transit_customer": (20, 72),
    "out_for_delivery": (2, 9),
    "problem_in_transit_customer": (24, 96),
    "with_customer": (24, 200),
    "transit_lab": (24, 72),
    "problem_in_transit_lab": (24, 96),
    "delivered_to_lab": (24, 110),
    "lab_processing_blocked": (24, 96),
    "appointment_pending": (0.1, 6),
    "appointment_scheduled": (2, 30),
    "appointment_cancelled": (4, 72),
    "draw_completed": (24, 110),
    "partial_results": (12, 60),
    "completed": (48, 240),
}
LAB_HOURS = (20.0, 100.0)
FORGOTTEN_KIT = 0.03  # kits that never come back: the order stays open for good
MOST_PARTIALS = 3

BLOCKED_DETAILS = (
    (30, "date_of_collection_unspecified"),
    (25, "demographic_information_unspecified"),
    (30, "demographic_information_mismatch"),
    (15, None),
)
ERROR_DETAILS = (
    (25, "sample_quantity_not_sufficient"),
    (15, "sample_contaminated"),
    (15, "sample_improper_collection"),
    (25, "sample_hemolyzed"),
    (12, "sample_stability_exceeded"),
    (8, None),
)


def dotted(method: str, low_level: str) -> str:
    """The dotted status, e.g. `received.testkit.ordered`."""
    bucket = BUCKETS[low_level]
    if low_level == "draw_completed" and method == "on_site_collection":
        bucket = "sample_with_lab"
    return f"{bucket}.{method}.{low_level}"
