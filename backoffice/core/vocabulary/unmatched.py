"""Enumerations of unmatched results (orders.md 9)."""

from typing import Final

from backoffice.core.vocabulary.status_groups import (
    CLOSED,
    NEEDS_ACTION,
    ON_THE_WAY,
    RESULT_IN,
    WITH_PATIENT,
)
from backoffice.core.vocabulary.terms import Term, build_terms

UNMATCHED: Final[dict[str, dict[str, Term]]] = {
    "unmatched.status": build_terms(
        ("pending_customer_review", "Needs your decision", NEEDS_ACTION),
        ("pending_ops_review", "The service will decide", ON_THE_WAY),
        ("resolved", "Decided", CLOSED),
        ("matched", "Matched", CLOSED),
    ),
    "unmatched.decision": build_terms(
        ("match_sample_id", "The sample belongs to an order"),
        ("match_completed", "The order has its result already"),
        ("match_cancelled", "The order is canceled"),
        ("wrong_collection", "The order was not collected yet"),
        ("wrong_lab", "The order went to another lab"),
        ("multiple_demo_match", "Several orders could be meant"),
        ("match_sample_id_mismatch_demo", "Right sample, another person"),
        ("match_demo", "Right person, unknown sample"),
        ("no_match", "Nobody known"),
    ),
    "unmatched.reason": build_terms(
        ("sample_id_match", "Sample id is the same", RESULT_IN),
        ("demographic_match", "Person is the same", RESULT_IN),
        ("same_lab", "Same lab", RESULT_IN),
        ("same_user", "Same patient", RESULT_IN),
        ("marker_overlap_exact", "Same markers", RESULT_IN),
        ("marker_overlap_partial", "Some of the markers", WITH_PATIENT),
        ("marker_overlap_none", "Other markers", NEEDS_ACTION),
        ("demographic_mismatch", "Person differs", NEEDS_ACTION),
        ("lab_account_mismatch", "Another lab account", NEEDS_ACTION),
        ("possible_wrong_lab", "Perhaps the wrong lab", NEEDS_ACTION),
        ("matched_completed_order", "Order has a result", WITH_PATIENT),
        ("matched_cancelled_order", "Order is canceled", NEEDS_ACTION),
        ("invalid_collection_state", "Order was not collected", NEEDS_ACTION),
    ),
    "unmatched.confidence": build_terms(
        ("high", "Very likely", RESULT_IN),
        ("medium", "Possible", WITH_PATIENT),
        ("low", "Weak", CLOSED),
    ),
    "unmatched.candidate": build_terms(
        ("provenance_order", "The order the sample was taken for"),
        ("order_option", "Another possible order"),
    ),
    "unmatched.action": build_terms(
        ("accept", "Given to an order"),
        ("reject", "Rejected"),
        ("unsure", "Passed to the service"),
    ),
}
