"""Lab accounts of orders that were requested here.

The service does not show the account on an order (orders.md 3), so the account of an order placed
elsewhere is not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from backoffice.core.urls import parse_uuid
from backoffice.outbox.models import CommandRecord
from labs.models import LabAccount
from orders.commands import CreateOrder, ImportOrder
from orders.models import Order


@dataclass(frozen=True, slots=True)
class OrderSource:
    """The request of an order that was placed here."""

    is_import: bool
    account_id: UUID | None
    lab_test_ids: Sequence[UUID]
    marker_ids: Sequence[int]
    answers: Mapping[tuple[int, int], str]
    """Answers to questions of the lab, by marker and question."""


def order_sources(orders: Sequence[Order]) -> dict[UUID, OrderSource]:
    """Return the requests by order.

    Orders placed elsewhere are left out. So are orders whose request was deleted with age.
    """
    rows = CommandRecord.objects.filter(
        patient_id__in={order.user_id for order in orders if order.user_id},
        kind__in=(CreateOrder.kind, ImportOrder.kind),
        state=CommandRecord.State.DONE,
        remote_id__in=[str(order.pk) for order in orders],
    )
    commands = rows.only("kind", "remote_id", "payload")
    return {UUID(row.remote_id): _source(row) for row in commands if row.payload.get("body")}


def _source(row: CommandRecord) -> OrderSource:
    body = row.payload["body"]
    ordered = body.get("order_set") or {}
    tests = [parse_uuid(str(key)) for key in ordered.get("lab_test_ids") or ()]
    markers = (ordered.get("add_on") or {}).get("marker_ids") or ()
    return OrderSource(
        row.kind == ImportOrder.kind,
        parse_uuid(str(body.get("lab_account_id"))),
        [key for key in tests if key],
        [key for key in markers if isinstance(key, int)],
        {
            (answer["marker_id"], answer["question_id"]): str(answer["answer"])
            for answer in body.get("aoe_answers") or ()
        },
    )


def requested_accounts(orders: Sequence[Order]) -> dict[UUID, UUID]:
    """Return ids of lab accounts by order. Orders with an unknown account are left out."""
    sources = order_sources(orders)
    return {key: source.account_id for key, source in sources.items() if source.account_id}


@dataclass(frozen=True, slots=True)
class RequestedAccount:
    """The account that an order was requested under.

    `is_known`: the request is known here. If the request named an account that the mirror no longer
    has, `is_named` is true and `account` is None.
    """

    is_known: bool
    is_named: bool
    account: LabAccount | None


def requested_account(order: Order) -> RequestedAccount:
    source = order_sources([order]).get(order.pk)
    if source is None or source.account_id is None:
        return RequestedAccount(source is not None, False, None)
    account = LabAccount.objects.filter(pk=source.account_id).defer("record").first()
    return RequestedAccount(True, True, account)


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """One order of a transaction, as a row on an order's page. `is_shown`: it is that order."""

    order: Order
    is_shown: bool
    account: LabAccount | None = None


def transaction_rows(
    page_order: Order, others: Sequence[Order], accounts: bool
) -> list[TransactionRow]:
    """Return the orders of a transaction, oldest first.

    With ``accounts``, also return the lab accounts that they were requested under.
    """
    orders = sorted([page_order, *others], key=lambda order: (order.created_at, order.pk))
    ids = requested_accounts(orders) if accounts else {}
    account_by_id = LabAccount.objects.in_bulk(set(ids.values()))
    by_order = {order: account_by_id.get(account) for order, account in ids.items()}
    return [
        TransactionRow(order, order.pk == page_order.pk, by_order.get(order.pk)) for order in orders
    ]
