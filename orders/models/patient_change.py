"""Orders that the service gave to another patient."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from backoffice.core import prepared_queries
from backoffice.core.models import FastModel
from backoffice.mirror.models import AS_RECEIVED
from orders.models.order import Order
from patients.models import Patient


class OrderPatientChange(FastModel):
    """A change of the patient of an order, and who reviewed it.

    A trigger adds the row in the transaction that changes the order
    (`orders/sql/patient_changes.sql`). It also returns the order to the exception queue, so that
    staff notice every change.
    """

    order = models.ForeignKey(
        Order,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="moves",
    )
    before = models.UUIDField(help_text="The patient it was of")
    after = models.UUIDField(help_text="The patient it is of since")
    at = models.DateTimeField(db_default=Now())
    settled_at = models.DateTimeField(null=True, help_text="When somebody said what was done")
    settled_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+"
    )

    class Meta:
        indexes = [
            # Reader: the exception queue
            models.Index(
                fields=["order"], condition=Q(settled_at__isnull=True), name="move_to_look_into"
            ),
            # Reader: order_with_move
            models.Index(fields=["order", "-id"], name="move_of_order"),
            # Readers: the activity of a patient
            models.Index(fields=["before"], name="move_from_patient"),
            models.Index(fields=["after"], name="move_to_patient"),
        ]

    def __str__(self) -> str:
        return f"move of order {self.order_id}"


_ORDER_WITH_LAST_MOVE: Final = """
SELECT {columns}, orders_transaction.status AS transaction_status,
 last.id AS last_move, last.before AS moved_from, last.at AS moved_at, last.waits AS move_waits,
 CASE WHEN other.name_key <> '' THEN concat(other.first_name, ' ', other.last_name) END
  AS moved_name
FROM orders_order
LEFT JOIN orders_transaction ON orders_transaction.id = orders_order.order_transaction_id
LEFT JOIN LATERAL (
 SELECT id, before, at, settled_at IS NULL AS waits FROM orders_orderpatientchange
 WHERE order_id = orders_order.id ORDER BY id DESC LIMIT 1
) AS last ON true
LEFT JOIN patients_patient AS other ON other.id = last.before
WHERE orders_order.id = %s
"""


def order_with_move(order_id: UUID) -> Order:
    """Return one order with all columns, its patient, its last move and its transaction's status.

    `last_move` is the key of the move. `moved_from`, `moved_name`, `moved_at` and `move_waits`
    describe the move. Raises Order.DoesNotExist.
    """
    statement = _ORDER_WITH_LAST_MOVE.format(columns=prepared_queries.columns(Order))
    orders = prepared_queries.read(Order, statement, [order_id])
    if not orders:
        raise Order.DoesNotExist(order_id)
    order, key = orders[0], orders[0].user_id
    patients = prepared_queries.by_key(Patient, [key], exclude=AS_RECEIVED)
    Order._meta.get_field("user").set_cached_value(order, patients.get(key))
    return order
