"""Cases of commands about unmatched results."""

from __future__ import annotations

from uuid import UUID

from orders.commands.unmatched import AcceptResult, ResolveResult
from tests.outbox.records import CommandCase, SandboxRecords
from tests.outbox.unmatched_results import mirrored_unmatched_result


def _create_acceptance(records: SandboxRecords) -> AcceptResult:
    item = mirrored_unmatched_result(records.sandbox, "match_completed")
    candidate = item.candidates.get()
    return AcceptResult(result_id=item.pk, order_id=candidate.order_id, user_id=candidate.user_id)


def _count_acceptances(records: SandboxRecords, command: AcceptResult, _: UUID) -> int:
    """Count the orders recreated for the result: the candidate order had its result already."""
    return records.count(
        "SELECT count(*) FROM sandbox_order WHERE parent_id = %s AND origin = 'recreation'",
        command.order_id,
    )


def _create_rejection(records: SandboxRecords) -> ResolveResult:
    return ResolveResult(
        result_id=mirrored_unmatched_result(records.sandbox, "no_match").pk, action="reject"
    )


def _count_rejections(records: SandboxRecords, command: ResolveResult, _: UUID) -> int:
    return records.count(
        "SELECT count(*) FROM sandbox_unmatchedresult WHERE id = %s AND resolution_action = %s",
        command.result_id,
        command.action,
    )


CASES = (
    CommandCase(AcceptResult, _create_acceptance, _count_acceptances, "/accept$"),
    CommandCase(ResolveResult, _create_rejection, _count_rejections, "/resolve$"),
)
