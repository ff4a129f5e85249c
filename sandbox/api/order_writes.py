"""Placing, importing, cancelling and changing orders (orders.md 2, 4.2, 6)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import orjson
from django.db import transaction
from django.http import HttpResponse

from sandbox import clock, order_editing, order_lifecycle, records, team_orders, world_loop
from sandbox.api import idempotency, order_bodies, order_rules, recreation
from sandbox.api.calls import ApiRequest, Call
from sandbox.api.errors import Invalid, Refusal, malformed
from sandbox.api.order_rules import OrderedItems
from sandbox.api.orders import find_order
from sandbox.api.request_bodies import read_body, schema
from sandbox.api.responses import json_response
from sandbox.context import load_context
from sandbox.models import LabAccount, LabTest, Order, OrderTransaction, Placement
from sandbox.states import OrderState
from sandbox.team_orders import OrderSpec
from sandbox.transitions import CANCELLABLE, dotted

Body = dict[str, Any]


def order_answer(order_id: UUID | str, message: str) -> HttpResponse:
    """PostOrderResponse."""
    record = orjson.Fragment(order_record(order_id))
    return json_response({"order": record, "status": "success", "message": message})


def order_record(order_id: UUID | str) -> str:
    order = Order.objects.select_related("lab_test").get(id=order_id)
    return records.served_order(
        order.id,
        order.fixed_part,
        order.moving_part,
        order.has_requisition,
        order.lab_test.document,
    )


def create_order(api_request: ApiRequest) -> HttpResponse:
    """Place an order; 422 for an invalid body, 400 for a broken rule."""
    body = read_body(api_request.request, order_bodies.CREATE)
    order_bodies.check_birth(body, clock.now().date())
    return idempotency.run_once(
        api_request, "order", lambda: _create(api_request.caller.team, body)
    )


def place_order(api_request: ApiRequest) -> HttpResponse:
    """Place an order, by the path of the specification."""
    return create_order(api_request)


def _create(team: UUID, body: Body) -> HttpResponse:
    today = clock.now().date()
    user = order_rules.find_user(team, body["user_id"])
    choice = order_rules.choose(
        team, body["order_set"], body["lab_test_id"], body["collection_method"]
    )
    test, key, former = _one_test(team, choice), _account_key(body), None
    if recreation.is_wanted(body):
        former = recreation.former_order(user, test)
        account = recreation.fresh_account(team, choice.lab, key, former)
    else:
        account = order_rules.choose_account(team, choice.lab, key)
    order_rules.check_offered(team, account, choice)
    order_rules.check_physician(account, body["physician"])
    order_rules.check_age(team, user, body["patient_details"], today)
    order_rules.check_address(body["patient_address"])
    order_rules.check_activation(body["activate_by"], today)
    insurance = order_rules.insurer(
        account,
        user,
        body["billing_type"],
        body["patient_address"]["state"],
        body["icd_codes"],
    )
    answers = body["aoe_answers"] or []
    order_rules.check_answers(choice.all_markers, answers)
    order = team_orders.place_order(
        OrderSpec(
            team,
            user.pk,
            test,
            choice.method,
            account.pk if account else None,
            body["patient_details"],
            body["patient_address"],
            body["billing_type"],
            physician=physician_shown(body["physician"]),
            clinical_notes=_notes(body["clinical_notes"], account),
            health_insurance_id=insurance,
            priority=body["priority"],
            passthrough=body["passthrough"],
            icd_codes=body["icd_codes"],
            activate_by=body["activate_by"],
            parent=former,
            is_recreation=former is not None,
        )
    )
    Placement.objects.create(
        order_id=order.number,
        clinical_notes=body["clinical_notes"],
        aoe_answers=answers,
        consents=orjson.loads(orjson.dumps(body["consents"])),
    )
    return order_answer(order.id, "order created")


def _account_key(body: Body) -> UUID | None:
    within: UUID | None = (body["order_set"] or {}).get("lab_account_id")
    if body["lab_account_id"] and within and within != body["lab_account_id"]:
        raise Refusal(400, "order_set.lab_account_id is another account than lab_account_id")
    return body["lab_account_id"] or within


def _one_test(team: UUID, choice: OrderedItems) -> LabTest:
    """Return the test of the order: the only one ordered, or one generated for the whole set."""
    if len(choice.tests) == 1 and not choice.markers:
        return choice.tests[0]
    names = [test.name for test in choice.tests]
    return team_orders.generated_test(
        team, choice.lab.pk, choice.method, names, choice.all_markers, clock.now()
    )


def physician_shown(given: Body | None) -> Body | None:
    """The physician as records show one."""
    return given and {name: given[name] for name in ("first_name", "last_name", "npi")}


def _notes(own: str | None, account: LabAccount | None) -> str | None:
    """Return the notes of the order and of the account, joined as on the requisition."""
    default = account.default_clinical_notes if account else None
    return "\n".join(filter(None, (own, default))) or None


def import_order(api_request: ApiRequest) -> HttpResponse:
    """Import an order placed elsewhere: it has no requisition, and its address is not checked."""
    body = read_body(api_request.request, order_bodies.IMPORT)
    order_bodies.check_birth(body, clock.now().date())
    team = api_request.caller.team
    with transaction.atomic():
        user = order_rules.find_user(team, body["user_id"])
        choice = order_rules.choose(team, body["order_set"], None, body["collection_method"])
        account = order_rules.choose_account(
            team, choice.lab, _account_key(body), ("active", "pending")
        )
        order_rules.check_offered(team, account, choice)
        order_rules.check_physician(account, body["physician"])
        order_rules.check_age(team, user, body["patient_details"], clock.now().date())
        order = team_orders.place_order(
            OrderSpec(
                team,
                user.pk,
                _one_test(team, choice),
                choice.method,
                account.pk if account else None,
                body["patient_details"],
                {**body["patient_address"], "phone_number": None},
                body["billing_type"],
                "requisition_bypassed",
                physician=physician_shown(body["physician"]),
                clinical_notes=_notes(None, account),
                sample_id=body["sample_id"],
                imported=True,
            )
        )
        # Placing locks the world's row: nobody else can take the sample id until this ends.
        if Order.objects.filter(sample_id=body["sample_id"]).exclude(id=order.id).exists():
            taken = Invalid("value_error", "An order with this sample_id already exists")
            raise malformed(["body", "sample_id"], taken, body["sample_id"])
        return order_answer(order.id, "order imported")


def move(order: OrderState, target: str) -> None:
    """Move a locked order one step, now."""
    context = load_context()
    order_lifecycle.step(
        context,
        order,
        clock.now(),
        world_loop.registrant_chooser(context),
        order_editing.current_pace(),
        target,
    )


def cancel_order(api_request: ApiRequest) -> HttpResponse:
    order = find_order(api_request)
    with order_editing.edit_order(order.id) as state:
        low = state.low_level_status
        if low not in CANCELLABLE[state.method]:
            before, after = dotted(state.method, low), dotted(state.method, "cancelled")
            return json_response(
                {
                    "error": "invalid_transition",
                    "message": f"The order cannot go from {before} to {after}",
                    "status_code": 400,
                },
                400,
            )
        move(state, "cancelled")
    return order_answer(order.id, "order cancelled")


def change_order(api_request: ApiRequest) -> HttpResponse:
    """Change or clear the date that a scheduled order waits for (orders.md 2.10)."""
    body = read_body(api_request.request, order_bodies.ACTIVATE_BY)
    order = find_order(api_request)
    wanted = body["activate_by"]
    with order_editing.edit_order(order.id) as state:
        low = state.low_level_status
        if low not in ("ordered", "awaiting_registration"):
            raise Refusal(400, f"activate_by cannot be changed for an order in {low}")
        if state.activate_by is None:
            raise Refusal(400, "An order created without activate_by cannot be scheduled")
        order_rules.check_activation(wanted, clock.now().date())
        state.activate_by = wanted
        state.fixed_part = records.amend_fixed_part(
            state.fixed_part, {"activate_by": wanted and wanted.isoformat()}
        )
        if wanted is None and low == "ordered":
            target = "awaiting_registration" if state.registrable else "requisition_created"
            move(state, target)
        else:
            order_editing.end_step(state, order_editing.next_moment(state))
    return order_answer(order.id, "order updated")


def draw_completed(api_request: ApiRequest) -> HttpResponse:
    """Report that the sample of an on-site order was collected."""
    order = find_order(api_request)
    with order_editing.edit_order(order.id) as state:
        if state.method != "on_site_collection":
            raise Refusal(400, "Only on-site collection orders can be marked as drawn")
        if state.low_level_status not in ("requisition_created", "requisition_bypassed"):
            low = state.low_level_status
            raise Refusal(400, f"An order in {low} cannot be marked as drawn")
        move(state, "draw_completed")
    return order_answer(order.id, "draw completed")


def change_communication(api_request: ApiRequest) -> HttpResponse:
    body = read_body(api_request.request, order_bodies.SMS)
    order = find_order(api_request)
    with transaction.atomic():
        # Movers write the whole row of an order they have locked by its transaction.
        OrderTransaction.objects.select_for_update().get(pk=order.transaction_id)
        Order.objects.filter(pk=order.pk).update(sms_enabled=body["sms_enabled"])
    return json_response({"order_id": order.id, "sms_enabled": body["sms_enabled"]})


CALLS = (
    Call(
        "POST",
        "/v3/order/create",
        place_order,
        "Place an order",
        takes=schema(order_bodies.CREATE),
    ),
    Call("POST", "/v3/order", create_order, "Place an order", takes=schema(order_bodies.CREATE)),
    Call(
        "POST",
        "/v3/order/import",
        import_order,
        "Import an order placed elsewhere",
        takes=schema(order_bodies.IMPORT),
    ),
    Call("POST", "/v3/order/{order_id}/cancel", cancel_order, "Cancel an order"),
    Call(
        "PATCH",
        "/v3/order/{order_id}",
        change_order,
        "Change the date of a scheduled order",
        takes=schema(order_bodies.ACTIVATE_BY),
    ),
    Call("PATCH", "/v3/order/{order_id}/draw_completed", draw_completed, "The sample is drawn"),
    Call(
        "PATCH",
        "/v3/order/{order_id}/communication_settings",
        change_communication,
        "Switch messages of an order",
        takes=schema(order_bodies.SMS),
    ),
)
