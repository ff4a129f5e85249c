"""The call that makes a sandbox order live its life at once (orders.md 10)."""

from __future__ import annotations

from django.db import transaction
from django.http import HttpResponse

from sandbox import order_store, simulation, world_loop
from sandbox.api import vocabulary
from sandbox.api.calls import Asked, Call
from sandbox.api.errors import Refusal
from sandbox.api.orders import find_order
from sandbox.api.params import OneOf, Param, Whole
from sandbox.api.request_bodies import Field, flag, of_kind, read_body, schema
from sandbox.api.responses import json_answer
from sandbox.context import load_context
from sandbox.deliveries import order_events
from sandbox.models import Order
from sandbox.simulation import Flags
from sandbox.transitions import BUCKETS, dotted

STATUSES = OneOf(
    tuple(sorted({dotted(method, low) for method in vocabulary.METHODS.values for low in BUCKETS}))
)
FLAGS = (
    of_kind("interpretation", vocabulary.INTERPRETATIONS, default="normal"),
    of_kind(
        "result_types",
        OneOf(("numeric", "range", "comment", "coded_value")),
        many=True,
        nullable=True,
    ),
    Field("has_missing_results", flag, nullable=True, shape={"type": "boolean"}),
)


def simulate(asked: Asked) -> HttpResponse:
    """Runs the order to `final_status`, or to its completion, with every event on the way.

    `delay` and `result_types` are read and have no effect: results have the types of their
    markers.
    """
    body = read_body(asked.request, FLAGS) if asked.request.body else {}
    flags = Flags(body.get("interpretation", "normal"), body.get("has_missing_results"))
    found = find_order(asked)
    final = asked["final_status"]
    wanted = "completed"
    if final is not None:
        method, wanted = final.split(".")[1:]
        if method != found.method:
            raise Refusal(400, f"An order of {found.method} never comes to {final}")
    with transaction.atomic():
        world_loop.hold_moves("pg_advisory_xact_lock_shared")
        [group] = order_store.claim("id = %s", [str(found.id)], 1, wait=True)
        [order] = [each for each in group if each.id == str(found.id)]
        context = load_context()
        try:
            new = simulation.run(context, group, order, simulation.route(order, wanted), flags)
        except simulation.Unreachable as error:
            raise Refusal(400, str(error)) from None
        world_loop.settle(group)
        told = order_events.gather([group])
        order_store.save([group], new)
        order_events.tell(told)
    status = Order.objects.values_list("status", flat=True).get(pk=found.pk)
    return json_answer({"order_id": found.id, "status": status})


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
