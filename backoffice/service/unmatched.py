"""Results that a person must match to an order. Interface: orders, chapter 9."""

from __future__ import annotations

from datetime import date
from uuid import UUID

import msgspec
from msgspec import field

from backoffice.service.exchange import Calls, as_json
from backoffice.service.field_by_field import NULL
from backoffice.service.orders import ORDER, OrderPayload
from backoffice.service.payload import Instant, Payload, Reader, Record, RecordPage, Word, parse_day
from backoffice.service.wire import Query


class ReviewedPatient(Payload):
    """The patient as printed on the result."""

    first_name: str | None = None
    last_name: str | None = None
    dob_sent: str | None = field(default=None, name="dob")
    gender: str | None = None

    @property
    def dob(self) -> date | None:
        return parse_day(self.dob_sent)


class ReviewedLab(Payload):
    id: int | None = None
    name: str = ""
    slug: str = ""


class ReviewedMarker(Payload):
    provider_id: str | None = None
    name: str = ""


class CandidatePayload(Payload):
    """An order that the result may belong to.

    ``candidate_type``: provenance_order, order_option. ``confidence_level``: high, medium, low. The
    last two fields are free form.
    """

    candidate_type: str = ""
    order_id: UUID | None = None
    order_transaction_id: UUID | None = None
    last_status: str | None = None
    confidence_level: str = ""
    confidence_score: float | None = None
    reasons: list[str] = field(default_factory=list)
    marker_overlap: msgspec.Raw = NULL
    status_context: msgspec.Raw = NULL


class CandidateGroup(Payload):
    """The candidates of one patient, or of no known patient."""

    user_id: UUID | None = None
    candidates: list[CandidatePayload] = field(default_factory=list)


class UnmatchedResultPayload(Payload):
    """A result that the service could not match.

    ``status``: matched, pending_customer_review, pending_ops_review, resolved. Offer only the
    actions in ``allowed_actions`` (accept, reject, unsure).
    """

    id: UUID
    status: str = ""
    decision_code: str = ""
    sub_reason_codes: list[str] = field(default_factory=list)
    reason: str = ""
    patient: ReviewedPatient | None = None
    lab: ReviewedLab | None = None
    markers: list[ReviewedMarker] = field(default_factory=list)
    interpretation: Word | None = None
    result_status: str | None = None
    note: str | None = None
    resolution_action: str | None = None
    resolved_user_id: UUID | None = None
    resolved_order_id: UUID | None = None
    allowed_actions: list[str] = field(default_factory=list)
    candidate_groups: list[CandidateGroup] = field(default_factory=list)
    created_at: Instant | None = None
    updated_at: Instant | None = None
    reviewed_at: Instant | None = None


UNMATCHED: Reader[UnmatchedResultPayload] = Reader(UnmatchedResultPayload)
_PATH = "/v3/unmatched_result/{raw_result_id}"


class UnmatchedResultCalls(Calls):
    """Calls of orders.md 9; the service refuses them (400) when the team has no such queue."""

    def list(
        self,
        limit: int = 50,
        next_cursor: str | None = None,
        *,
        status: str | None = None,
        decision_code: str | None = None,
        lab_slug: str | None = None,
        created_at_start: date | None = None,
        created_at_end: date | None = None,
        search_input: str | None = None,
    ) -> RecordPage[UnmatchedResultPayload]:
        """Return a page of unmatched results.

        Without a ``status``, it has all but the resolved ones. Days are UTC and inclusive.
        """
        query: Query = {
            "limit": limit,
            "next_cursor": next_cursor,
            "status": status,
            "decision_code": decision_code,
            "lab_slug": lab_slug,
            "created_at_start": created_at_start,
            "created_at_end": created_at_end,
            "search_input": search_input,
        }
        return self._call.page("/v3/unmatched_result", UNMATCHED, "data", query=query)

    def get(self, raw_result_id: UUID | str) -> Record[UnmatchedResultPayload]:
        return self._call.record(_PATH, UNMATCHED, raw_result_id=raw_result_id)

    def accept(
        self,
        raw_result_id: UUID | str,
        order_id: UUID | None = None,
        user_id: UUID | None = None,
        note: str | None = None,
    ) -> Record[OrderPayload]:
        """Attach the result; the order in the answer may be a new one.

        Without ids, the service accepts only when there is one possibility. Raises Missing when
        another person has already resolved the result.
        """
        values = {"order_id": order_id, "user_id": user_id, "note": note}
        body = as_json({name: value for name, value in values.items() if value is not None})
        return self._call.send("POST", f"{_PATH}/accept", ORDER, body, raw_result_id=raw_result_id)

    def resolve(
        self, raw_result_id: UUID | str, action: str, note: str | None = None
    ) -> Record[UnmatchedResultPayload]:
        """Reject the result (``reject``), or pass it to the staff of the service (``unsure``)."""
        body = as_json({"action": action} | ({"note": note} if note is not None else {}))
        return self._call.send(
            "POST", f"{_PATH}/resolve", UNMATCHED, body, raw_result_id=raw_result_id
        )
