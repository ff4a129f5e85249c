"""The base of all commands about one order."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from django.utils.translation import gettext

from backoffice.outbox.command import Command, PreconditionFailed
from orders.models import Order


class OrderCommand(Command, kw_only=True):
    """A command about one existing order."""

    task: ClassVar[str] = "orders.tasks.deliver"

    order_id: UUID
    user_id: UUID | None
    """The patient, for the audit log."""

    def subject(self) -> tuple[str, str]:
        return "order", str(self.order_id)

    def patient(self) -> UUID | None:
        return self.user_id

    def order(self) -> Order:
        """Return the mirrored order. Raises PreconditionFailed if the service no longer has it."""
        row = Order.objects.filter(pk=self.order_id).first()
        if row is None or row.missing_since:
            raise PreconditionFailed(gettext("The lab service no longer has this order."))
        return row
