"""Commands that decide an unmatched result (orders.md 9).

The service accepts one decision per result and answers 404 to a second one. So a decision may be
sent again, even if the first attempt has arrived. The record shows the decision, whoever made it.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple
from uuid import UUID

from django.urls import reverse
from django.utils.translation import gettext, gettext_noop

from backoffice.core import vocabulary
from backoffice.outbox.command import (
    Ambiguous,
    Command,
    Confirmed,
    Disproved,
    NoTrace,
    PossibleMatch,
    PreconditionFailed,
    ResendPolicy,
    SendContext,
)
from backoffice.service import Record, Service, errors
from backoffice.service import orders as service_orders
from backoffice.service import unmatched as service_unmatched
from backoffice.sync.lookups import schedule_lookups
from orders.models import Order
from orders.models.unmatched_result import PENDING_REVIEW, PENDING_SERVICE_REVIEW, UnmatchedResult
from orders.sync.orders import store_orders
from orders.sync.unmatched import RESOURCE, store_unmatched

Item = Record[service_unmatched.UnmatchedResultPayload]
RESULT_GONE = gettext_noop("The lab service no longer has this result.")


def resolution_text(status: str, action: str | None) -> str:
    """Return the decision about a result that is not pending here."""
    if status == PENDING_SERVICE_REVIEW or action == "unsure":
        return gettext("The lab service will decide.")
    if action == "reject":
        return gettext("The result was rejected. It does not belong to any of our orders.")
    if action == "accept":
        return gettext("The result was assigned to an order.")
    label = gettext(vocabulary.term("unmatched.status", status).label)
    return gettext("Status of the result: %(status)s.") % {"status": label}


def _action_of(item: Item) -> str | None:
    """Return the decision, even if "resolution_action | enum or null" is null."""
    result = item.data
    if result.resolution_action:
        return result.resolution_action
    if result.status == PENDING_SERVICE_REVIEW:
        return "unsure"
    if result.status == "resolved":
        return "reject" if result.resolved_order_id is None else "accept"
    return "accept" if result.resolved_order_id else None


class _DecisionCommand(Command, kw_only=True):
    """A decision about one unmatched result."""

    resend_policy: ClassVar[ResendPolicy] = ResendPolicy.SAME_EFFECT
    task: ClassVar[str] = "orders.tasks.deliver"
    fields: ClassVar[dict[str, str]] = {
        "order_id": "choice",
        "user_id": "choice",
        "note": "note",
        "action": "action",
    }

    result_id: UUID
    note: str | None = None

    def subject(self) -> tuple[str, str]:
        return "unmatched result", str(self.result_id)

    def form_url(self) -> str:
        return reverse("unmatched:detail", args=[self.result_id])

    def requested_action(self) -> str:
        raise NotImplementedError

    def check(self) -> None:
        row = UnmatchedResult.objects.filter(pk=self.result_id).first()
        if row is None or row.missing_since:
            raise PreconditionFailed(gettext(RESULT_GONE))
        if row.status != PENDING_REVIEW:
            raise PreconditionFailed(
                gettext("Already decided.")
                + " "
                + resolution_text(row.status, row.resolution_action)
            )
        if self.requested_action() not in row.allowed_actions:
            raise PreconditionFailed(
                gettext("The lab service does not allow this decision for this result.")
            )

    def refresh(self, service: Service) -> None:
        try:
            store_unmatched([service.unmatched.get(self.result_id)])
        except errors.Missing:
            raise PreconditionFailed(gettext(RESULT_GONE)) from None

    def _disproved(self, item: Item) -> Disproved:
        """Return the outcome that somebody else decided. The page shows the decision."""
        store_unmatched([item])
        return Disproved(
            gettext("Someone else decided first.")
            + " "
            + resolution_text(item.data.status, item.data.resolution_action)
        )


class AcceptedResult(NamedTuple):
    """The order that now has the result, and the record after the decision, if it could be read."""

    order: Record[service_orders.OrderPayload]
    item: Item | None


class AcceptResult(_DecisionCommand, kw_only=True):
    """Assign the result to an order, or to a patient. The service may answer with a new order."""

    kind: ClassVar[str] = "result.accept"

    order_id: UUID | None
    user_id: UUID | None
    """If the user and the order are None, the service has only one possible match."""

    def title(self) -> str:
        if self.order_id is not None:
            return f"Assign result to order {str(self.order_id)[:8]}"
        if self.user_id:
            return gettext_noop("Assign result to the patient")
        return gettext_noop("Accept result")

    def patient(self) -> UUID | None:
        return self.user_id

    def requested_action(self) -> str:
        return "accept"

    def done_url(self, remote_id: str) -> str:
        return reverse("orders:detail", args=[remote_id])

    def check(self) -> None:
        super().check()
        row = UnmatchedResult.objects.get(pk=self.result_id)
        suggested = set(row.candidates.values_list("order_id", flat=True)) - {None}
        if self.order_id is not None and self.order_id not in suggested:
            raise PreconditionFailed(
                gettext("The lab service no longer suggests this order."), field="choice"
            )
        if self.order_id is None and self.user_id is None and len(suggested) != 1:
            raise PreconditionFailed(
                gettext("Choose the order or patient that the result belongs to."), field="choice"
            )

    def send(self, service: Service, sending: SendContext) -> AcceptedResult:
        order = service.unmatched.accept(
            self.result_id, order_id=self.order_id, user_id=self.user_id, note=self.note
        )
        try:
            return AcceptedResult(order, service.unmatched.get(self.result_id))
        except errors.ServiceError:
            return AcceptedResult(order, None)  # A lookup soon reads it.

    def settle(
        self, service: Service, sending: SendContext
    ) -> Confirmed | NoTrace | Disproved | Ambiguous:
        # "404 not found or no longer reviewable": the service accepts one decision per result
        # (orders.md 9). "resolved_order_id | uuid or null": only an accepted result has it.
        item = service.unmatched.get(self.result_id)
        if item.data.status == PENDING_REVIEW:
            return NoTrace()
        order_id = item.data.resolved_order_id
        if _action_of(item) != "accept" or order_id is None:
            return self._disproved(item)
        order = service.orders.get(order_id)
        user_id = item.data.resolved_user_id or order.data.user_id
        if self.user_id is not None and user_id != self.user_id:
            store_orders([order])
            return self._disproved(item)
        if self._is_requested_order(order):
            return Confirmed(AcceptedResult(order, item))
        # "Returns an Order which may be a new one": it is probably the result of this decision, but
        # the service does not say so.
        store_orders([order])
        return Ambiguous([PossibleMatch(str(order_id), f"Assigned to order {str(order_id)[:8]}")])

    def store(self, answer: AcceptedResult) -> str:
        """Store the order that has the result, even if it is new here, and schedule lookups."""
        order_id = answer.order.data.id
        store_orders([answer.order])
        schedule_lookups("results", [order_id])
        if self.order_id is not None and self.order_id != order_id:
            schedule_lookups("orders", [self.order_id])
        if answer.item is not None:
            store_unmatched([answer.item])
        else:
            schedule_lookups(RESOURCE, [self.result_id])
        return str(order_id)

    def _is_requested_order(self, order: Record[service_orders.OrderPayload]) -> bool:
        """Whether it is the requested order, or a new order that recreates it.

        A new order joins the transaction of the requested one (orders.md 2.11).
        """
        if self.order_id is None or self.order_id == order.data.id:
            return True
        group = order.data.order_transaction
        if group is not None and any(member.id == self.order_id for member in group.orders):
            return True
        requested = Order.objects.filter(pk=self.order_id).first()
        return bool(requested and group and requested.order_transaction_id == group.id)


class ResolveResult(_DecisionCommand, kw_only=True):
    """Reject the result, or hand it over to the service's staff."""

    kind: ClassVar[str] = "result.resolve"

    action: str

    def title(self) -> str:
        if self.action == "reject":
            return gettext_noop("Reject result")
        return gettext_noop("Ask the lab service to decide")

    def requested_action(self) -> str:
        return self.action

    def send(self, service: Service, sending: SendContext) -> Item:
        return service.unmatched.resolve(self.result_id, self.action, self.note)

    def settle(
        self, service: Service, sending: SendContext
    ) -> Confirmed | NoTrace | Disproved | Ambiguous:
        # "reject = resolved without attaching; unsure = to the service's staff, then
        # pending_ops_review" (orders.md 9); `resolution_action` may be null.
        item = service.unmatched.get(self.result_id)
        if item.data.status == PENDING_REVIEW:
            return NoTrace()
        if _action_of(item) == self.action:
            return Confirmed(item)
        if self.action == "unsure":
            # The service's staff may have decided after the hand-over.
            words = resolution_text(item.data.status, item.data.resolution_action)
            return Ambiguous([PossibleMatch(str(item.data.id), words)])
        return self._disproved(item)

    def store(self, answer: Item) -> str:
        store_unmatched([answer])
        return str(answer.data.id)
