"""Kits that are shipped first and registered to a patient later (orders.md 7)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

from django.db import transaction
from django.http import HttpResponse

from sandbox import clock, order_editing, order_lifecycle, records, team_orders
from sandbox.api import order_bodies, order_rules
from sandbox.api.calls import ApiRequest, Call
from sandbox.api.errors import Refusal, missing
from sandbox.api.order_writes import order_answer, physician_shown
from sandbox.api.request_bodies import read_body, schema
from sandbox.context import load_context
from sandbox.models import Order
from sandbox.team_orders import OrderSpec

REGISTRABLE_FROM = ("with_customer", "awaiting_registration")


def order_kit(api_request: ApiRequest) -> HttpResponse:
    """Order a kit without a patient; the user may stand for the clinic's stock."""
    body = read_body(api_request.request, order_bodies.TESTKIT)
    team = api_request.caller.team
    with transaction.atomic():
        user = order_rules.find_user(team, body["user_id"])
        choice = order_rules.choose(team, None, body["lab_test_id"], None)
        if choice.method != "testkit":
            raise Refusal(400, "Only lab tests of method testkit can be ordered as kits")
        account = order_rules.choose_account(team, choice.lab, body["lab_account_id"])
        order_rules.check_offered(team, account, choice)
        order_rules.check_address(body["shipping_details"])
        order = team_orders.place_order(
            OrderSpec(
                team,
                user.pk,
                choice.tests[0],
                choice.method,
                account.pk if account else None,
                None,
                None,
                shipping_details=body["shipping_details"],
                passthrough=body["passthrough"],
                registrable=True,
            )
        )
        return order_answer(order.id, "order created")


@dataclass(frozen=True, slots=True)
class Registrant:
    """The patient that a kit is registered to."""

    user_id: str
    name: str
    dob: date
    patient_details: str
    patient_address: str


def register_kit(api_request: ApiRequest) -> HttpResponse:
    """Register the kit with this sample id to a patient."""
    body = read_body(api_request.request, order_bodies.REGISTER)
    today = clock.now().date()
    order_bodies.check_birth(body, today)
    team, details = api_request.caller.team, body["patient_details"]
    kits = Order.objects.filter(team_id=team, sample_id=body["sample_id"], registrable=True)
    order = kits.select_related("lab_account", "user").order_by("-number").first()
    if order is None:
        raise missing("Kit")
    user = order_rules.find_user(team, body["user_id"]) if body["user_id"] else order.user
    order_rules.check_physician(order.lab_account, body["physician"])
    order_rules.check_age(team, user, details, today)
    order_rules.check_address(body["patient_address"])
    who = Registrant(
        str(user.pk),
        f"{details['first_name']} {details['last_name']}",
        details["dob"],
        records.to_json(team_orders.displayed_details(details)),
        records.to_json(body["patient_address"]),
    )
    with order_editing.edit_order(order.id) as state:
        if state.patient_dob is not None:
            raise Refusal(400, "This kit is registered already")
        low = state.low_level_status
        if low not in REGISTRABLE_FROM:
            raise Refusal(400, f"A kit in {low} cannot be registered")
        shown: dict[str, Any] = {"physician": physician_shown(body["physician"])}
        state.fixed_part = records.amend_fixed_part(state.fixed_part, shown)
        order_lifecycle.step(
            load_context(),
            state,
            clock.now(),
            lambda _: who,
            order_editing.current_pace(),
            "registered",
        )
    return order_answer(order.id, "kit registered")


CALLS = (
    Call(
        "POST",
        "/v3/order/testkit",
        order_kit,
        "Order a kit for nobody yet",
        takes=schema(order_bodies.TESTKIT),
    ),
    Call(
        "POST",
        "/v3/order/testkit/register",
        register_kit,
        "Bind a kit to a patient",
        takes=schema(order_bodies.REGISTER),
    ),
)
