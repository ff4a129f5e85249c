"""Import of an order that was placed elsewhere (orders.md 6); its sample ID is unique."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

import msgspec
from django.urls import reverse

from backoffice.core.identifiers import comparison_key
from backoffice.outbox.command import (
    Ambiguous,
    Confirmed,
    NoTrace,
    PossibleMatch,
    ResendPolicy,
    SendContext,
)
from backoffice.service import Service, Unreadable, errors
from backoffice.service import orders as service_orders
from orders.commands.placing import ORDER_FIELDS, Answer, NewOrderCommand, order_description

USABLE_STATUSES_TO_IMPORT: Final = ("active", "pending")
"""Statuses of a lab account that orders can be imported under."""


class ImportOrder(NewOrderCommand, kw_only=True):
    """Import an order.

    The service refuses a sample ID that another order has. That order may be the one of this
    command, if an earlier attempt succeeded and its answer was lost. A lookup decides.
    """

    kind: ClassVar[str] = "order.import"
    resend_policy: ClassVar[ResendPolicy] = ResendPolicy.SAME_EFFECT
    account_statuses: ClassVar[Sequence[str]] = USABLE_STATUSES_TO_IMPORT
    fields: ClassVar[dict[str, str]] = {
        **ORDER_FIELDS,
        "sample_id": "sample_id",
    }

    body: service_orders.ImportedOrder

    def order_body(self) -> service_orders.ImportedOrder:
        return self.body

    def title(self) -> str:
        return f"Import order: {self.words}"

    def form_url(self) -> str:
        return reverse("orders:import", args=[self.body.user_id])

    def lock_key(self) -> str:
        return f"order.import:{comparison_key(self.body.sample_id)}"

    def send(self, service: Service, sending: SendContext) -> Answer:
        return service.orders.import_(self.body)

    def settle(self, service: Service, sending: SendContext) -> Confirmed | NoTrace | Ambiguous:
        """Look for the sample ID among all orders of the patient.

        "sample_id: must be unique, a clash is a validation error" (orders.md 6). The spelling of
        the ID does not matter. It "may be null until the requisition exists" (orders.md 3). So a
        new order without a sample ID that has the same tests may be the order of this command.
        """
        records, unreadable = self.orders_of_patient(service)
        own_key = _sample_id_key(self.body.sample_id)
        for order in records:
            if _sample_id_key(order.data.sample_id) == own_key:
                return Confirmed(order)
        for item in unreadable:
            if _sample_id_key(_sample_id(item)) == own_key:
                raise errors.Malformed(unreadable=item)
        without = [
            order for order in records if not order.data.sample_id and self.has_same_tests(order)
        ]
        new = self.new_orders(without, sending)
        if not new:
            return NoTrace()
        return Ambiguous(
            [PossibleMatch(str(order.data.id), order_description(order)) for order in new]
        )


def _sample_id_key(sample_id: object) -> str:
    """Return the normalized form of a sample ID, for comparison."""
    return comparison_key(sample_id) if isinstance(sample_id, str) else ""


def _sample_id(item: Unreadable) -> object:
    """Return the sample ID of a record that could not be read completely."""
    record = msgspec.json.decode(item.raw)
    return record.get("sample_id") if isinstance(record, dict) else None
