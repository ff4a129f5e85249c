"""Slots, reasons, code checks and unmatched results as the interface's documents have them."""

from __future__ import annotations

from typing import Any

from backoffice.service.appointments import Availability, CancellationReason
from backoffice.service.insurance import CodeCheck
from backoffice.service.payload import Payload
from backoffice.service.unmatched import UnmatchedResultPayload

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
    number,
    record,
    text,
    uid,
)
from .shapes import interpretation, place, us_address


def _with_places(drawn: tuple[Any, Any]) -> tuple[Any, Fields]:
    """A slot's count of places has a long name in the interface."""
    sent, expected = drawn
    expected.values["places"] = expected.values.pop("num_appointments_available")
    return sent, expected


slot = record(
    {
        "booking_key?": text,
        "start": instant,
        "end": instant,
        "expires_at?": instant,
        "price": number,
        "is_priority": flag,
        "num_appointments_available": integer,
    }
).map(_with_places)
site = record(
    {
        "location": place,
        "distance?": integer.map(lambda drawn: (drawn[0], float(drawn[1]))),
        "address": us_address,
        "code": text,
        "name": text,
        "iana_timezone?": text,
    }
)
availability = record(
    {
        "slots": many(record({"date": day, "slots": many(slot), "location?": site})),
        "timezone?": text,
    }
)
reason = record({"id": uid, "name": text, "is_refundable": flag})
code_check = record(
    {
        "valid": flag,
        "errors": many(text),
        "violations": many(record({"code": text, "conflicts_with": text, "type": text})),
        "warnings": many(record({"code": text, "overlaps_with": text, "type": text})),
    }
)
candidate = record(
    {
        "candidate_type": choice("provenance_order", "order_option"),
        "order_id?": uid,
        "order_transaction_id?": uid,
        "last_status?": text,
        "confidence_level": choice("high", "medium", "low"),
        "confidence_score?": number,
        "reasons": many(choice("same_lab", "demographic_match")),
        "marker_overlap?": loose,
        "status_context?": loose,
    }
)
unmatched = record(
    {
        "id": uid,
        "status": choice("matched", "pending_customer_review", "pending_ops_review", "resolved"),
        "decision_code": choice("match_sample_id", "no_match"),
        "sub_reason_codes": many(choice("lab_account_mismatch")),
        "reason": text,
        "patient?": record({"first_name?": text, "last_name?": text, "dob?": day, "gender?": text}),
        "lab": record({"id": integer, "name": text, "slug": text}),
        "markers": many(record({"provider_id?": text, "name": text})),
        "interpretation?": interpretation,
        "result_status?": choice("final", "partial"),
        "note?": text,
        "resolution_action?": choice("accept", "reject", "unsure"),
        "resolved_user_id?": uid,
        "resolved_order_id?": uid,
        "allowed_actions": many(choice("accept", "reject", "unsure")),
        "candidate_groups": many(record({"user_id?": uid, "candidates": many(candidate)})),
        "created_at": instant,
        "updated_at": instant,
        "reviewed_at?": instant,
    }
)

KINDS: dict[type[Payload], Drawn] = {
    Availability: availability,
    CancellationReason: reason,
    CodeCheck: code_check,
    UnmatchedResultPayload: unmatched,
}
