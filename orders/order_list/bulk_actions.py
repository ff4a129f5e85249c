"""Bulk actions on orders."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext, gettext_noop

from backoffice.outbox.command import Command, PreconditionFailed
from backoffice.outbox.enqueueing import Conflict, enqueue
from backoffice.outbox.forms import CommandForm, conflict_message
from backoffice.pages.lists.bulk import BulkAction, RowNotDone
from backoffice.pages.models import BulkRow
from backoffice.team.bulk_actions import AddNote, Assign, AssignToMe
from orders.cancellation_preview import CancellationPreview, Consequence, cancellation_preview
from orders.change_forms import CancellationReasonForm
from orders.commands import CancelOrder, ResendEvents
from orders.models import Order


class _ServiceBulkAction(BulkAction):
    """Base of actions that send one command per order to the service.

    The form id is derived from the run and the order, so requesting it twice makes one command.
    """

    sends_command = True
    needs = ("orders.change",)
    max_rows = 1_000

    def command(self, row: BulkRow, values: Mapping[str, Any]) -> Command:
        raise NotImplementedError

    def apply(self, request: HttpRequest, row: BulkRow, values: Mapping[str, Any]) -> UUID | None:
        form_id = uuid.uuid5(row.run_id, row.key)
        try:
            command_record = enqueue(
                request, self.command(row, values), form_id, values.get("reason", "")
            )
        except PreconditionFailed as error:
            raise RowNotDone(error.message) from error
        except Conflict as error:
            raise RowNotDone(conflict_message(error.other, request.user)) from error
        return command_record.pk


class ResendOrderEvents(_ServiceBulkAction):
    name = "resend"
    label = gettext_noop("Resend updates…")

    def title(self, values: Mapping[str, Any]) -> str:
        return gettext("Resend the latest updates")

    def review(self, rows: QuerySet[Order], user: Any) -> dict[str, Any]:
        return {
            "words": gettext(
                "The service resends the latest update of each order. Orders that have not changed "
                "for 60 days are skipped."
            )
        }

    def command(self, row: BulkRow, values: Mapping[str, Any]) -> Command:
        return ResendEvents(order_id=UUID(row.key), user_id=row.patient_id)


class CancelOrders(_ServiceBulkAction):
    name = "cancel"
    label = gettext_noop("Cancel…")
    form = CancellationReasonForm
    max_rows = 100

    def title(self, values: Mapping[str, Any]) -> str:
        return gettext("Cancel orders")

    def parameters(self, form: CommandForm) -> dict[str, Any]:
        assert isinstance(form, CancellationReasonForm)
        return {"reason": form.reason_text(), "wrong_lab": form.cleaned_data["why"] == "wrong_lab"}

    def review(self, rows: QuerySet[Order], user: Any) -> dict[str, Any]:
        """Return the consequences for each order, and once those that several orders share."""
        orders = list(Order.objects.filter(pk__in=rows.order_by().values("pk")).order_by("pk"))
        previews = [(order, cancellation_preview(order)) for order in orders]
        able = [(order, one) for order, one in previews if one.possible]
        reasons: dict[str, list[Order]] = {}
        for order, one in previews:
            if not one.possible:
                words = " ".join(line.words for line in one.lines)
                reasons.setdefault(words, []).append(order)
        return {
            "shown": orders,
            "will": [{"order": order, "preview": one} for order, one in able],
            "lines": _common_consequences([one for _, one in able]),
            "wont": len(previews) - len(able),
            "reasons": list(reasons.items()),
            "stays": sum(one.visit is not None for _, one in able),
        }

    def command(self, row: BulkRow, values: Mapping[str, Any]) -> Command:
        return CancelOrder(
            order_id=UUID(row.key), user_id=row.patient_id, wrong_lab=bool(values.get("wrong_lab"))
        )


def _common_consequences(previews: Sequence[CancellationPreview]) -> list[tuple[Consequence, int]]:
    """Return the consequences that several orders share, with the number of orders.

    Lines that differ only after their colon (a time) count as one.
    """
    counts = Counter(line for one in previews for line in one.lines)
    common: Counter[Consequence] = Counter()
    for line, number in counts.items():
        words, colon, _ = line.words.partition(": ")
        shortened = replace(line, words=f"{words}.") if colon and number == 1 else line
        common[shortened] += number
    return [(line, number) for line, number in common.items() if number > 1]


BULK_ACTIONS: Final[Sequence[BulkAction]] = (
    AssignToMe("order", "orders"),
    Assign("order", "orders"),
    AddNote("order", "orders"),
    ResendOrderEvents(),
    CancelOrders(),
)
