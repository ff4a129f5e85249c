"""Orders: the list, one order, its transaction, its message switch (orders.md 3, 5, 8.5)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import orjson
from django.db import transaction
from django.http import HttpResponse

from sandbox import clock, records
from sandbox.api import order_search
from sandbox.api.calls import ApiRequest, Call
from sandbox.api.errors import Refusal, forbidden, missing
from sandbox.api.order_search import OrderRow
from sandbox.api.params import Moment, Uuid
from sandbox.api.request_bodies import Field, parsed_by, read_body, schema
from sandbox.api.responses import json_bytes_response, json_response
from sandbox.api.snapshot import snapshot
from sandbox.deliveries import replay
from sandbox.models import LabTest, Order, OrderTransaction


def find_order(api_request: ApiRequest, *related: str) -> Order:
    """The order in the path; 404 when unknown, 403 when it is another team's."""
    order = Order.objects.filter(id=api_request["order_id"]).select_related(*related).first()
    if order is None:
        raise missing("Order")
    if order.team_id != api_request.caller.team:
        raise forbidden("Order")
    return order


def find_transaction(api_request: ApiRequest) -> OrderTransaction:
    """The transaction in the path; 404 when unknown, 403 when it is another team's."""
    found = OrderTransaction.objects.filter(pk=api_request["transaction_id"]).first()
    if found is None:
        raise missing("Order transaction")
    if found.team_id != api_request.caller.team:
        raise forbidden("Order transaction")
    return found


def _served(rows: Iterable[OrderRow]) -> list[str]:
    """The records as JSON text; each lab test of the page is read once."""
    rows = list(rows)
    tests: dict[uuid.UUID, str] = dict(
        LabTest.objects.filter(pk__in={row.lab_test_id for row in rows}).values_list(
            "pk", "document"
        )
    )
    return [
        records.served_order(
            row.id,
            row.fixed_part,
            row.moving_part,
            row.has_requisition,
            tests[row.lab_test_id],
        )
        for row in rows
    ]


def list_orders(api_request: ApiRequest) -> HttpResponse:
    """One page of the team's orders; newest first unless asked otherwise."""
    today = clock.now().date()
    with snapshot():
        found = order_search.search(api_request.caller.team, api_request.values, today)
        served = _served(found.rows)
    page, size = api_request["page"], api_request["size"]
    return json_bytes_response(
        (
            f'{{"orders":[{",".join(served)}],"total":{found.total},"page":{page},"size":{size}}}'
        ).encode()
    )


def get_order(api_request: ApiRequest) -> HttpResponse:
    order = find_order(api_request, "lab_test")
    served = records.served_order(
        order.id,
        order.fixed_part,
        order.moving_part,
        order.has_requisition,
        order.lab_test.document,
    )
    return json_bytes_response(served.encode())


def communication_settings(api_request: ApiRequest) -> HttpResponse:
    order = find_order(api_request)
    return json_response({"order_id": order.id, "sms_enabled": order.sms_enabled})


def transaction_ref(order: Order) -> Any:
    """OrderTransactionRef, as the order itself shows it."""
    return orjson.loads("{" + order.moving_part + "}")["order_transaction"]


def get_transaction(api_request: ApiRequest) -> HttpResponse:
    """The group and its orders, oldest first."""
    transaction = find_transaction(api_request)
    return json_response(
        {
            "id": transaction.pk,
            "team_id": transaction.team_id,
            "status": transaction.status,
            "orders": [
                {
                    "id": order.id,
                    "origin": order.origin,
                    "parent_id": order.parent_id,
                    "last_status": order.low_level_status,
                    "last_status_created_at": order.last_event_at,
                    "updated_at": order.updated_at,
                    "created_at": order.created_at,
                }
                for order in transaction.orders.order_by("seq")
            ],
        }
    )


_RESEND = (
    Field("order_ids", parsed_by(Uuid()), nullable=True, many=True, shape=Uuid().schema()),
    Field("start_at", parsed_by(Moment()), nullable=True, shape=Moment().schema()),
    Field("end_at", parsed_by(Moment()), nullable=True, shape=Moment().schema()),
)
_LONGEST_WINDOW = timedelta(days=60)


def resend_events(api_request: ApiRequest) -> HttpResponse:
    """The latest webhook of each order once more (orders.md 11); unknown ones are left out."""
    values = read_body(api_request.request, _RESEND)
    keys, start = values["order_ids"], values["start_at"]
    if keys is None and start is None:
        raise Refusal(400, "order_ids or start_at is required")
    end = values["end_at"] or clock.now()
    if start is not None and end < start:
        raise Refusal(400, "end_at is before start_at")
    if start is not None and end - start > _LONGEST_WINDOW:
        raise Refusal(400, "The window from start_at to end_at is longer than 60 days")
    team = api_request.caller.team
    with transaction.atomic():
        numbers = replay.by_id(team, keys) if keys is not None else []
        if start is not None:
            happened = replay.in_window(team, start, end)
            numbers = happened if keys is None else sorted({*numbers} & {*happened})
        return json_response({"order_ids": replay.replay(team, numbers)})


CALLS = (
    Call(
        "POST",
        "/v3/order/resend_events",
        resend_events,
        "Send events once more",
        takes=schema(_RESEND),
    ),
    Call("GET", "/v3/orders", list_orders, "Orders of the team", query=order_search.PARAMS),
    Call("GET", "/v3/order/{order_id}", get_order, "One order"),
    Call(
        "GET",
        "/v3/order/{order_id}/communication_settings",
        communication_settings,
        "Message switch of an order",
    ),
    Call(
        "GET",
        "/v3/order_transaction/{transaction_id}",
        get_transaction,
        "A group of orders",
    ),
)
