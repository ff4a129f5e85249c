"""Orders that the service gave to another patient."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import OuterRef, Q, Subquery, Value
from django.db.models.functions import Concat, Now

from backoffice.models import Read
from orders.models.order import Order, OrderQuerySet
from patients.models import Demographics


class OrderMove(Read):
    """An order went from one patient to another, and who looked into it.

    Written by a trigger in the transaction that changes the order (migration 0005), which also
    brings the order back into the exception queue: nothing moves between people unseen.
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
            # Reader: OrderQuerySet.with_move
            models.Index(fields=["order", "-id"], name="move_of_order"),
            # Readers: what happened around a patient
            models.Index(fields=["before"], name="move_from_patient"),
            models.Index(fields=["after"], name="move_to_patient"),
        ]

    def __str__(self) -> str:
        return f"move of order {self.order_id}"


def with_move(rows: OrderQuerySet) -> OrderQuerySet:
    """Orders with their last move: `last_move` is its key; `moved_from`, `moved_name`, `moved_at`
    and `move_waits` tell of it."""
    moves = OrderMove.objects.filter(order_id=OuterRef("pk")).order_by("-id")
    people = Demographics.objects.filter(pk=OuterRef("moved_from"))
    names = people.values(
        name=Concat("first_name", Value(" "), "last_name", output_field=models.TextField())
    )
    told: dict[str, Subquery] = {
        "last_move": Subquery(moves.values("pk")[:1]),
        "moved_from": Subquery(moves.values("before")[:1]),
        "moved_at": Subquery(moves.values("at")[:1]),
        "move_waits": Subquery(moves.values(waits=Q(settled_at=None))[:1]),
        "moved_name": Subquery(names),
    }
    return rows.annotate(**told)
