"""Enumerations of unmatched results (orders.md 9)."""

from typing import Final

from django.utils.translation import gettext_noop

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
        ("pending_customer_review", gettext_noop("Needs your decision"), NEEDS_ACTION),
        ("pending_ops_review", gettext_noop("The service will decide"), ON_THE_WAY),
        ("resolved", gettext_noop("Resolved"), CLOSED),
        ("matched", gettext_noop("Matched"), CLOSED),
    ),
    "unmatched.decision": build_terms(
        ("match_sample_id", gettext_noop("The sample belongs to an order")),
        ("match_completed", gettext_noop("The order already has results")),
        ("match_cancelled", gettext_noop("The order is canceled")),
        ("wrong_collection", gettext_noop("The sample was not collected yet")),
        ("wrong_lab", gettext_noop("The order went to another lab")),
        ("multiple_demo_match", gettext_noop("Several possible orders")),
        ("match_sample_id_mismatch_demo", gettext_noop("Sample matches, person does not")),
        ("match_demo", gettext_noop("Person matches, sample unknown")),
        ("no_match", gettext_noop("No match")),
    ),
    "unmatched.reason": build_terms(
        ("sample_id_match", gettext_noop("Same sample ID"), RESULT_IN),
        ("demographic_match", gettext_noop("Same person"), RESULT_IN),
        ("same_lab", gettext_noop("Same lab"), RESULT_IN),
        ("same_user", gettext_noop("Same patient"), RESULT_IN),
        ("marker_overlap_exact", gettext_noop("Same markers"), RESULT_IN),
        ("marker_overlap_partial", gettext_noop("Some of the same markers"), WITH_PATIENT),
        ("marker_overlap_none", gettext_noop("Different markers"), NEEDS_ACTION),
        ("demographic_mismatch", gettext_noop("Different person"), NEEDS_ACTION),
        ("lab_account_mismatch", gettext_noop("Different lab account"), NEEDS_ACTION),
        ("possible_wrong_lab", gettext_noop("Possibly the wrong lab"), NEEDS_ACTION),
        ("matched_completed_order", gettext_noop("Order has results"), WITH_PATIENT),
        ("matched_cancelled_order", gettext_noop("Order is canceled"), NEEDS_ACTION),
        ("invalid_collection_state", gettext_noop("Sample was not collected"), NEEDS_ACTION),
    ),
    "unmatched.confidence": build_terms(
        ("high", gettext_noop("Very likely"), RESULT_IN),
        ("medium", gettext_noop("Possible"), WITH_PATIENT),
        ("low", gettext_noop("Weak match"), CLOSED),
    ),
    "unmatched.candidate": build_terms(
        ("provenance_order", gettext_noop("The order the sample was taken for")),
        ("order_option", gettext_noop("Another possible order")),
    ),
    "unmatched.action": build_terms(
        ("accept", gettext_noop("Matched to an order")),
        ("reject", gettext_noop("Rejected")),
        ("unsure", gettext_noop("Sent to the service")),
    ),
}
