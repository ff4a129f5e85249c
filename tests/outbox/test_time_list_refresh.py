"""Every answer in a visit form survives every reload of the times, whatever triggers it.

Answers and triggers are the form's own fields, so a new field joins the matrix automatically.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from django import forms
from django.test import Client
from django.urls import reverse

from backoffice.core.service_client import service
from backoffice.core.urls import build_query
from backoffice.outbox.models import CommandRecord
from orders.booking.forms import ADDRESS, CenterForm, HomeForm
from orders.booking.sites import order_address
from orders.models import Order
from orders.rules.slots import DAYS, OfferedTime
from orders.sync import store_orders
from tests.dom import Page
from tests.outbox.draw_orders import order_awaiting_draw
from tests.outbox.harness import OutboxHarness
from tests.outbox.visit_forms import book_visit

HIDDEN_FIELDS = ("form_id", "far_sites", "ask", "seen_id", "seen_start")
"""Fields that no user fills in."""
MOVING_ONLY = ("same",)
"""Fields shown only when a visit is moved: `test_moving_a_visit_preserves_every_answer`."""
NEXT_WEEK = datetime.now(UTC).date() + timedelta(days=8)
OTHER_VALUES = {
    "zip_code": "10001",
    "start_date": (NEXT_WEEK + timedelta(days=1)).isoformat(),
    "radius": "100",
    "first_line": "22 Another Street",
    "state": "AZ",
}
"""Other values of fields that do not accept any text."""


def open_form(client: Client, order: Order, route: str = "orders:book") -> Page:
    address = reverse(route, args=[order.pk])
    return Page(client.get(address).content.decode(), "data-pick")


def refresh_times(page: Page, client: Client, order: Order, day: str = "") -> None:
    page.refresh(
        client, reverse("orders:times", args=[order.pk]), "times", swap="innerHTML", look=day
    )


def chosen_starts(page: Page) -> list[tuple[datetime, str]]:
    """Return start and site of the chosen times. Their keys differ in each list."""
    times = [OfferedTime.read(value) for value in page.values().get("slot", []) if value]
    return [(one.start, one.site) for one in times]


def field_values(page: Page, name: str) -> list[Any]:
    values = page.values()
    if name == "slot":
        return chosen_starts(page)
    return values.get(name, []) + (values.get("far_sites", []) if name == "sites" else [])


def change_answer(page: Page, name: str, field: forms.Field) -> None:
    """Set the field to another value than it has."""
    current = page.values().get(name, [""])[-1]
    if name == "slot":
        enabled = [one for one in page.controls("slot") if "disabled" not in one.given]
        page.set("slot", enabled[len(enabled) // 2].given["value"])
    elif name == "sites":
        page.untick("sites", current)
    elif name in OTHER_VALUES:
        page.set(name, OTHER_VALUES[name])
    elif isinstance(field, forms.BooleanField):
        page.set(name, "" if current else "on")
    elif isinstance(field, forms.ChoiceField):
        values = [value for value, _ in cast(list[tuple[str, str]], field.choices)]
        page.set(name, next(value for value in values if value != current))
    else:
        page.set(name, f"{current} and more")


FORMS: list[tuple[str, Any]] = [("at_home_phlebotomy", HomeForm), ("walk_in_test", CenterForm)]
TRIGGERS = [
    (method, trigger)
    for method, form_class in FORMS
    for trigger in (*form_class.base_fields, "later day", "no answer")
    if trigger not in (*HIDDEN_FIELDS, *MOVING_ONLY)
]


@pytest.mark.parametrize(("method", "trigger"), TRIGGERS)
def test_new_list_of_times_preserves_every_answer(
    harness: OutboxHarness, method: str, trigger: str
) -> None:
    form_class: Any = dict(FORMS)[method]
    order = order_awaiting_draw(harness, method)
    client = harness.client("front desk")
    page = open_form(client, order)
    page.set("start_date", NEXT_WEEK.isoformat())
    refresh_times(page, client, order)
    fields = {name: field for name, field in form_class.base_fields.items() if page.shows(name)}
    assert not fields.keys() & {*MOVING_ONLY}
    for name in ("slot", "notes", "part", "week", "radius", "access_notes"):
        if name in fields and name != trigger:
            change_answer(page, name, fields[name])
    expected = {name: field_values(page, name) for name in fields if name != trigger}
    assert expected.get("slot") or trigger == "slot"
    if trigger == "no answer":
        harness.add_fault("drop_before", "/(availability|info)$", times=20)
        refresh_times(page, client, order)
        assert not page.shows("slot")
        harness.sandbox.control("faults", method="DELETE")
        refresh_times(page, client, order)
    elif trigger == "later day":
        day = NEXT_WEEK + timedelta(days=DAYS)
        refresh_times(page, client, order, day.isoformat())
        expected["start_date"] = [day.isoformat()]
    else:
        change_answer(page, trigger, fields[trigger])
        refresh_times(page, client, order)
    for name, values in expected.items():
        assert set(field_values(page, name)) >= set(values), f"{name} is lost by {trigger}"


@pytest.mark.parametrize("trigger", ["same", "part", "week"])
def test_moving_a_visit_preserves_every_answer(harness: OutboxHarness, trigger: str) -> None:
    order = order_awaiting_draw(harness)
    client = harness.client("front desk")
    book_visit(harness, client, order)
    page = open_form(client, order, "orders:move")
    fields = HomeForm.base_fields
    for name in ("slot", "notes", "same", "part", "week"):
        if name != trigger:
            change_answer(page, name, fields[name])
    expected = {
        name: field_values(page, name) for name in ("slot", "notes", "same", "part", "week")
    }
    del expected[trigger]
    change_answer(page, trigger, fields[trigger])
    refresh_times(page, client, order)
    assert {name: field_values(page, name) for name in expected} == expected


def test_chosen_centers_return_with_their_zip_code(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness, "walk_in_test")
    client = harness.client("front desk")
    page = open_form(client, order)
    first = page.values()
    page.untick("sites", first["sites"][0])
    chosen = page.values()["sites"]
    page.set("zip_code", "59715")
    refresh_times(page, client, order)
    assert "sites" not in page.values() and page.values()["far_sites"] == chosen
    page.set("zip_code", first["zip_code"][0])
    refresh_times(page, client, order)
    assert page.values()["sites"] == chosen and "far_sites" not in page.values()


def test_time_chosen_before_later_days_can_be_booked(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness)
    client = harness.client("front desk")
    page = open_form(client, order)
    change_answer(page, "slot", HomeForm.base_fields["slot"])
    (chosen,) = chosen_starts(page)
    first = datetime.fromisoformat(page.values()["start_date"][0]).date()
    refresh_times(page, client, order, (first + timedelta(days=DAYS)).isoformat())
    assert chosen_starts(page) == [chosen] and "is gone" not in page.form.text
    assert "Chosen: " in page.form.text
    response = client.post(reverse("orders:book", args=[order.pk]), page.values())
    assert response.status_code == 302, response.content.decode()[-2000:]
    harness.deliver()
    assert harness.newest_command().state == CommandRecord.State.DONE, (
        harness.newest_command().refusal
    )


def test_times_found_on_retry_can_be_booked(harness: OutboxHarness) -> None:
    """The booking button arrives with the new list of times."""
    order = order_awaiting_draw(harness)
    client = harness.client("front desk")
    harness.add_fault("drop_before", "/(availability|info)$", times=20)
    page = open_form(client, order)
    assert not page.shows("slot") and not booking_buttons(page)
    page.set("notes", "ring twice")
    harness.sandbox.control("faults", method="DELETE")
    refresh_times(page, client, order)
    assert page.shows("slot") and booking_buttons(page)
    assert page.values()["notes"] == ["ring twice"]


def booking_buttons(page: Page) -> list[str]:
    texts = [node.text.strip() for node in page.form.walk() if node.tag == "button"]
    return [text for text in texts if text.startswith("Book for ")]


@pytest.mark.parametrize(
    "address",
    [
        {"state": "Arizona"},
        {"first_line": "Rural Route, last house"},
        {"zip": "85004 1234"},
        {"first_line": "Unit Two", "state": "Armed Forces", "zip": "9012"},
    ],
    ids=str,
)
def test_address_on_record_is_accepted_for_booking(
    harness: OutboxHarness, address: dict[str, str]
) -> None:
    order = order_awaiting_draw(harness)
    harness.sandbox.prepare_answer(f"/v3/order/{order.pk}$", merge={"patient_address": address})
    store_orders([service().orders.get(order.pk)])
    order.refresh_from_db()
    page = open_form(harness.client("front desk"), order)
    values = page.values()
    assert [values[name.replace("zip", "zip_code")][0] for name in address] == list(
        address.values()
    )
    form = HomeForm(build_query(values), initial=order_address(order))
    form.is_valid()
    assert not form.errors.keys() & {*ADDRESS} and form.address() is not None
    changed = HomeForm(build_query({**values, "state": ["Nowhere"]}), initial=order_address(order))
    assert not changed.is_valid() and "state" in changed.errors
