"""Cases of what is decided about results that nobody could match."""

from __future__ import annotations

from uuid import UUID

from orders.unmatched.commands import AcceptResult, ResolveResult
from tests.outbox.matching import unmatched
from tests.outbox.scene import Case, Scene


def _accept(scene: Scene) -> AcceptResult:
    item = unmatched(scene.sandbox, "match_completed")
    candidate = item.candidates.get()
    return AcceptResult(result_id=item.pk, order_id=candidate.order_id, user_id=candidate.user_id)


def _accepted(scene: Scene, command: AcceptResult, _: UUID) -> int:
    """New orders made for it: the one that was meant had its result already."""
    return scene.count(
        "SELECT count(*) FROM sandbox_order WHERE parent_id = %s AND origin = 'recreation'",
        command.order_id,
    )


def _reject(scene: Scene) -> ResolveResult:
    return ResolveResult(result_id=unmatched(scene.sandbox, "no_match").pk, action="reject")


def _rejected(scene: Scene, command: ResolveResult, _: UUID) -> int:
    return scene.count(
        "SELECT count(*) FROM sandbox_unmatchedresult WHERE id = %s AND resolution_action = %s",
        command.result_id,
        command.action,
    )


CASES = (
    Case(AcceptResult, _accept, _accepted, "/accept$"),
    Case(ResolveResult, _reject, _rejected, "/resolve$"),
)
