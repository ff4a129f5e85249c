"""Changes of an existing order (orders.md 2.10, 4.2, 10). Each may be sent twice without harm."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import ClassVar, Final

from django.conf import settings
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop

from backoffice.core.time_formats import weekday
from backoffice.outbox.command import (
    Command,
    Confirmed,
    Disproved,
    NoTrace,
    PreconditionFailed,
    ResendPolicy,
    SendContext,
)
from backoffice.outbox.models import CommandRecord
from backoffice.service import Record, Service, errors
from backoffice.service import orders as service_orders
from backoffice.sync.lookups import schedule_lookups
from orders.commands.appointment_changes import CancelAppointment
from orders.commands.appointments import appointment_lock
from orders.commands.base import OrderCommand
from orders.models.order import CANCELED_STATUSES
from orders.sync.orders import LOOKUP_KIND_BY_METHOD, store_orders

_BEFORE_THE_DRAW: Final = frozenset({"ordered", "requisition_created", "requisition_bypassed"})
_VISITS: Final = frozenset(
    {"appointment_pending", "appointment_scheduled", "appointment_cancelled"}
)
CANCELABLE_STATUSES: Final = {
    "testkit": _BEFORE_THE_DRAW | {"awaiting_registration", "registered"},
    "walk_in_test": _BEFORE_THE_DRAW | _VISITS,
    "at_home_phlebotomy": _BEFORE_THE_DRAW | _VISITS | {"draw_completed"},
    "on_site_collection": _BEFORE_THE_DRAW | {"draw_completed"},
}
"""Low-level statuses in which the service accepts a cancellation, by method."""
DATABLE_STATUSES: Final = frozenset({"ordered", "awaiting_registration"})

SIMULATED_STATUSES: Final = {
    "testkit": (
        "received.testkit.requisition_created",
        "collecting_sample.testkit.transit_customer",
        "collecting_sample.testkit.with_customer",
        "collecting_sample.testkit.transit_lab",
        "sample_with_lab.testkit.delivered_to_lab",
        "completed.testkit.completed",
        "failed.testkit.sample_error",
        "failed.testkit.lost",
    ),
    "walk_in_test": (
        "received.walk_in_test.requisition_created",
        "sample_with_lab.walk_in_test.partial_results",
        "completed.walk_in_test.completed",
        "collecting_sample.walk_in_test.redraw_available",
        "failed.walk_in_test.sample_error",
    ),
    "at_home_phlebotomy": (
        "received.at_home_phlebotomy.requisition_created",
        "collecting_sample.at_home_phlebotomy.appointment_scheduled",
        "collecting_sample.at_home_phlebotomy.draw_completed",
        "sample_with_lab.at_home_phlebotomy.partial_results",
        "completed.at_home_phlebotomy.completed",
        "failed.at_home_phlebotomy.sample_error",
    ),
    "on_site_collection": (
        "received.on_site_collection.requisition_created",
        "sample_with_lab.on_site_collection.draw_completed",
        "sample_with_lab.on_site_collection.partial_results",
        "completed.on_site_collection.completed",
        "failed.on_site_collection.sample_error",
    ),
}
"""Statuses that an order of the service's sandbox can be moved to, by method."""

RESENDABLE_FOR: Final = timedelta(days=60)

Answer = Record[service_orders.OrderPayload]


class _OrderChange(OrderCommand, kw_only=True):
    """A command that changes an order; the service answers with the order."""

    resend_policy: ClassVar[ResendPolicy] = ResendPolicy.SAME_EFFECT

    def refresh(self, service: Service) -> None:
        self.store(service.orders.get(self.order_id))

    def store(self, answer: Answer) -> str:
        store_orders([answer])
        return str(answer.data.id)


def _yesterday() -> date:
    return (datetime.now(UTC) - timedelta(days=1)).date()


def _low_level_status(answer: Answer) -> str:
    event = answer.data.latest_event
    return service_orders.low_level(event.status if event else answer.data.status or "")


class CancelOrder(_OrderChange, kw_only=True):
    """Cancel an order. The service also cancels an appointment at home, but not one at a center."""

    kind: ClassVar[str] = "order.cancel"

    wrong_lab: bool = False
    """Whether the wrong lab is the reason. It is sent if the service has a field for it."""
    reorder: bool = False
    """Whether the person wants to order again once this order is canceled."""
    visit: CancelAppointment | None = None
    """The appointment at a service center to cancel as well."""

    def title(self) -> str:
        return gettext_noop("Cancel order")

    def form_url(self) -> str:
        return reverse("orders:cancel", args=[self.order_id])

    def done_url(self, remote_id: str) -> str:
        if not self.reorder or self.user_id is None:
            return ""
        begin = "replaces" if self.wrong_lab else "repeat"
        return f"{reverse('orders:new', args=[self.user_id])}?{begin}={self.order_id}"

    def next_command(self, remote_id: str) -> Command | None:
        return self.visit

    def check(self) -> None:
        order = self.order()
        low = order.low_level_status
        if low in CANCELED_STATUSES:
            raise PreconditionFailed(gettext("The order is already canceled."))
        if low not in CANCELABLE_STATUSES.get(order.method, frozenset()):
            raise PreconditionFailed(
                gettext("The lab service does not allow canceling an order in this status.")
            )
        visiting = CommandRecord.objects.open().filter(lock=appointment_lock(self.order_id)).first()
        if visiting is not None:
            raise PreconditionFailed(
                gettext(
                    "The order’s visit is being changed (%(request)s). Wait until that is done."
                )
                % {"request": visiting.title}
            )

    def send(self, service: Service, sending: SendContext) -> Answer:
        field = settings.SERVICE_CANCEL_REASON_FIELD
        extra = {field: service_orders.INCORRECT_LAB} if field and self.wrong_lab else None
        return service.orders.cancel(self.order_id, extra)

    def settle(self, service: Service, sending: SendContext) -> Confirmed | NoTrace:
        # "Each has `id` (integer), `created_at` (date-time), `status` (dotted status string)"
        # (specification, Order, events): a canceled order stays canceled, and the event of its
        # appointment may be later than its own.
        answer = service.orders.get(self.order_id)
        steps = {service_orders.low_level(event.status) for event in answer.data.events}
        return (
            Confirmed(answer) if "cancelled" in steps | {_low_level_status(answer)} else NoTrace()
        )

    def store(self, answer: Answer) -> str:
        draw = LOOKUP_KIND_BY_METHOD.get(answer.data.lab_test.method or "")
        if draw is not None:
            schedule_lookups(draw, [self.order_id])
        return super().store(answer)


class ChangeActivation(_OrderChange, kw_only=True):
    """Change the date on which a scheduled order is dispatched. Without a date: now."""

    kind: ClassVar[str] = "order.activation"

    activate_by: date | None

    def title(self) -> str:
        if self.activate_by is None:
            return gettext_noop("Release order now")
        return f"Release order on {weekday(self.activate_by, year=True)}"

    def form_url(self) -> str:
        return reverse("orders:activation", args=[self.order_id])

    def check(self) -> None:
        order = self.order()
        if order.low_level_status not in DATABLE_STATUSES:
            raise PreconditionFailed(
                gettext("The order has been released, so its date cannot be changed.")
            )
        if order.activate_by is None:
            raise PreconditionFailed(
                gettext("The order was placed without a release date, so none can be set now.")
            )
        # In some zones it is still yesterday. The service decides which date is in the past.
        if self.activate_by is not None and self.activate_by < _yesterday():
            raise PreconditionFailed(gettext("The date is in the past."), field="activate_by")

    def send(self, service: Service, sending: SendContext) -> Answer:
        return service.orders.change_activation(self.order_id, self.activate_by)

    def settle(self, service: Service, sending: SendContext) -> Confirmed | NoTrace:
        # "activate_by | date or null" has the value that was sent. Null "dispatches an ordered
        # order at once" (orders.md 2.10); after that the order has left the statuses in which it
        # can have a date.
        answer = service.orders.get(self.order_id)
        same = answer.data.activate_by == self.activate_by
        gone_out = self.activate_by is None and _low_level_status(answer) not in DATABLE_STATUSES
        return Confirmed(answer) if same or gone_out else NoTrace()


class CompleteDraw(_OrderChange, kw_only=True):
    """Mark the sample of an on-site collection as drawn."""

    kind: ClassVar[str] = "order.draw_completed"

    def title(self) -> str:
        return gettext_noop("Mark sample as drawn")

    def form_url(self) -> str:
        return reverse("orders:drawn", args=[self.order_id])

    def check(self) -> None:
        order = self.order()
        if order.method != "on_site_collection":
            raise PreconditionFailed(
                gettext("Only samples of on-site collections can be marked as drawn.")
            )
        if order.low_level_status not in ("requisition_created", "requisition_bypassed"):
            raise PreconditionFailed(gettext("The order is not waiting for a draw."))

    def send(self, service: Service, sending: SendContext) -> Answer:
        return service.orders.draw_completed(self.order_id)

    def settle(self, service: Service, sending: SendContext) -> Confirmed | NoTrace:
        # "Status history entries in `events` use a dotted form <high_level>.<method>.<low_level>"
        # (specification, statuses).
        answer = service.orders.get(self.order_id)
        steps = {service_orders.low_level(event.status) for event in answer.data.events}
        return Confirmed(answer) if "draw_completed" in steps else NoTrace()


class ResendEvents(_OrderChange, kw_only=True):
    """Request that the service deliver the order's latest event again (orders.md 11)."""

    kind: ClassVar[str] = "order.resend_events"

    def title(self) -> str:
        return gettext_noop("Resend latest update of the order")

    def form_url(self) -> str:
        return reverse("orders:resend", args=[self.order_id])

    def check(self) -> None:
        order = self.order()
        if timezone.now() - order.updated_at > RESENDABLE_FOR:
            raise PreconditionFailed(
                gettext("The lab service resends updates of the last 60 days only.")
            )

    def send(self, service: Service, sending: SendContext) -> Answer:
        resent = service.orders.resend_events([self.order_id])
        if self.order_id not in resent.data.order_ids:
            raise errors.Refused(
                message=gettext_noop("The lab service has no update of this order to resend.")
            )
        return service.orders.get(self.order_id)

    def settle(self, service: Service, sending: SendContext) -> NoTrace:
        # "Replay the latest webhook of each selected order" (orders.md 1): the order does not
        # change, so there is nothing to compare. To send it twice does no harm.
        return NoTrace()


class Simulate(_OrderChange, kw_only=True):
    """Request that the service's sandbox move an order to another status (orders.md 10)."""

    kind: ClassVar[str] = "order.simulate"
    resend_policy: ClassVar[ResendPolicy] = ResendPolicy.NEVER

    final_status: str | None = None
    interpretation: str = "normal"
    before: int
    """Latest event of the order when this was requested. A different one shows that the order
    moved.
    """

    def title(self) -> str:
        low = service_orders.low_level(self.final_status or "")
        return (
            f"Simulate, to {low.replace('_', ' ')}" if low else gettext_noop("Simulate, to the end")
        )

    def check(self) -> None:
        if settings.MANAGEMENT_ENV == "production":
            raise PreconditionFailed(gettext("Only sandbox orders can be simulated."))
        self.order()

    def send(self, service: Service, sending: SendContext) -> Answer:
        service.orders.simulate(
            self.order_id,
            final_status=self.final_status,
            flags=service_orders.SimulationFlags(interpretation=self.interpretation),
        )
        return service.orders.get(self.order_id)

    def settle(self, service: Service, sending: SendContext) -> Confirmed | NoTrace | Disproved:
        # "Each has `id` (integer)" (specification, Order, events): an event that did not exist
        # before. The service does not promise that ids grow.
        answer = service.orders.get(self.order_id)
        event = answer.data.latest_event
        return Confirmed(answer) if event and event.id != self.before else NoTrace()
