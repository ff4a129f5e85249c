"""The call that makes a sandbox order live its life at once (orders.md 10)."""

from __future__ import annotations

from django.db import transaction
from django.http import HttpResponse

from sandbox import order_store, simulation, world_loop
from sandbox.api import vocabulary
from sandbox.api.calls import ApiRequest, Call
from sandbox.api.errors import Refusal
from sandbox.api.orders import find_order
from sandbox.api.params import OneOf, Param, Whole
from sandbox.api.request_bodies import Field, flag, read_body, schema, typed_field
from sandbox.api.responses import json_response
from sandbox.context import load_context
from sandbox.deliveries import order_events
from sandbox.models import Order
from sandbox.simulation import ResultFlags
from sandbox.transitions import BUCKETS, dotted

STATUSES = OneOf(
    tuple(sorted({dotted(method, low) for method in vocabulary.METHODS.values for low in BUCKETS}))
)
FLAGS = (
    typed_field("interpretation", vocabulary.INTERPRETATIONS, default="normal"),
    typed_field(
        "result_types",
        OneOf(("numeric", "range", "comment", "coded_value")),
        many=True,
        nullable=True,
    ),
    Field("has_missing_results", flag, nullable=True, shape={"type": "boolean"}),
)


def simulate(api_request: ApiRequest) -> HttpResponse:
    """Run the order to `final_status`, or to its completion, with every event on the way.

    `delay` and `result_types` are read and have no effect: results have the types of their
    markers.
    """
    body = read_body(api_request.request, FLAGS) if api_request.request.body else {}
    flags = ResultFlags(body.get("interpretation", "normal"), body.get("has_missing_results"))
    found = find_order(api_request)
    final = api_request["final_status"]
    wanted = "completed"
    if final is not None:
        method, wanted = final.split(".")[1:]
        if method != found.method:
            raise Refusal(400, f"An order of {found.method} never comes to {final}")
    with transaction.atomic():
        world_loop.lock_moves("pg_advisory_xact_lock_shared")
        [group] = order_store.lock_groups("id = %s", [str(found.id)], 1, wait=True)
        [order] = [each for each in group if each.id == str(found.id)]
        context = load_context()
        try:
            new = simulation.run(context, group, order, simulation.route(order, wanted), flags)
        except simulation.Unreachable as error:
            raise Refusal(400, str(error)) from None
        world_loop.update_transaction(group)
        told = order_events.collect_entries([group])
        order_store.save_groups([group], new)
        order_events.announce_entries(told)
    status = Order.objects.values_list("status", flat=True).get(pk=found.pk)
    return json_response({"order_id": found.id, "status": status})


CALLS = (
    Call(
        "POST",
        "/v3/order/{order_id}/test",
        simulate,
        "Run an order through its life",
        query=(
            Param("final_status", STATUSES),
            Param("delay", Whole(ge=0)),
        ),
        takes=schema(FLAGS),
    ),
)
