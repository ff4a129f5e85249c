"""Importing an order that was placed elsewhere (orders.md 6): its sample id is unique."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import msgspec
from django.urls import reverse

from backoffice.core.identifiers import key
from backoffice.outbox import (
    Ambiguous,
    Confirmed,
    NoTrace,
    PossibleMatch,
    ResendPolicy,
    SendContext,
)
from backoffice.service import Service, Unreadable, errors
from backoffice.service import orders as service_orders
from orders.commands.placing import ORDER_FIELDS, Answer, OrderOf, order_words

USABLE_TO_IMPORT: Final = ("active", "pending")
"""States of a lab account that orders can be imported under."""


class ImportOrder(OrderOf, kw_only=True):
    """Import an order. A sample id that is taken is refused: by ourselves, if this was sent
    before and its answer got lost, and the look-up tells."""

    kind: ClassVar[str] = "order.import"
    again: ClassVar[ResendPolicy] = ResendPolicy.SAME_EFFECT
    accounts: ClassVar[Sequence[str]] = USABLE_TO_IMPORT
    fields: ClassVar[dict[str, str]] = {
        **ORDER_FIELDS,
        "sample_id": "sample_id",
    }

    body: service_orders.ImportedOrder

    def sent(self) -> service_orders.ImportedOrder:
        return self.body

    def title(self) -> str:
        return f"Import the order: {self.words}"

    def form(self) -> str:
        return reverse("orders:import", args=[self.body.user_id])

    def lock(self) -> str:
        return f"order.import:{key(self.body.sample_id)}"

    def send(self, service: Service, sending: SendContext) -> Answer:
        return service.orders.import_(self.body)

    def settle(self, service: Service, sending: SendContext) -> Confirmed | NoTrace | Ambiguous:
        """By the sample id, among all orders of the patient: "sample_id: must be unique, a clash
        is a validation error" (orders.md 6), however it is written. It "may be null until the
        requisition exists" (orders.md 3): one without it that is new and like ours may be ours."""
        records, unreadable = self.orders_of_patient(service)
        wanted = _folded(self.body.sample_id)
        for order in records:
            if _folded(order.data.sample_id) == wanted:
                return Confirmed(order)
        for one in unreadable:
            if _folded(_sample_id(one)) == wanted:
                raise errors.Malformed(unreadable=one)
        without = [order for order in records if not order.data.sample_id and self.is_like(order)]
        new = self.not_known_before(without, sending)
        return (
            Ambiguous([PossibleMatch(str(o.data.id), order_words(o)) for o in new])
            if new
            else NoTrace()
        )


def _folded(sample_id: Any) -> str:
    """A sample id as it is compared."""
    return key(sample_id) if isinstance(sample_id, str) else ""


def _sample_id(one: Unreadable) -> Any:
    """Of a record that does not fit its type elsewhere."""
    said = msgspec.json.decode(one.raw)
    return said.get("sample_id") if isinstance(said, dict) else None
