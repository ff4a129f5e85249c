"""Every answer of a form about a visit outlives every new list of times, whatever asks for it.

Answers and triggers are the form's own fields, so a new field is part of the matrix by itself.
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
from backoffice.models import CommandRecord
from orders.models import Order
from orders.scheduling.forms import ADDRESS, CenterForm, HomeForm
from orders.scheduling.sites import order_address
from orders.scheduling.slots import DAYS, OfferedTime
from orders.sync import store_orders
from tests.dom import Page
from tests.outbox.desk import Desk
from tests.outbox.draws import waiting
from tests.outbox.picking import booked

HIDDEN = ("form_id", "far_sites", "provider", "seen_id", "seen_start")
"""What no person answers."""
NEXT_WEEK = datetime.now(UTC).date() + timedelta(days=8)
OTHERS = {
    "zip_code": "10001",
    "start_date": (NEXT_WEEK + timedelta(days=1)).isoformat(),
    "radius": "100",
    "first_line": "22 Another Street",
    "state": "AZ",
}
"""Another answer to the fields that do not take any text."""


def opened(client: Client, order: Order, route: str = "orders:book") -> Page:
    address = reverse(route, args=[order.pk])
    return Page(client.get(address).content.decode(), "data-pick")


def look(page: Page, client: Client, order: Order, day: str = "") -> None:
    page.refresh(
        client, reverse("orders:times", args=[order.pk]), "times", swap="innerHTML", look=day
    )


def starts(page: Page) -> list[tuple[datetime, str]]:
    """Starts and places of the chosen times: a key is another one in each list."""
    found = [OfferedTime.read(value) for value in page.values().get("slot", []) if value]
    return [(one.start, one.site) for one in found]


def answered(page: Page, name: str) -> list[Any]:
    values = page.values()
    if name == "slot":
        return starts(page)
    return values.get(name, []) + (values.get("far_sites", []) if name == "sites" else [])


def answer(page: Page, name: str, field: forms.Field) -> None:
    """Another answer than there is."""
    current = page.values().get(name, [""])[-1]
    if name == "slot":
        free = [one for one in page.controls("slot") if "disabled" not in one.given]
        page.set("slot", free[len(free) // 2].given["value"])
    elif name == "sites":
        page.untick("sites", current)
    elif name in OTHERS:
        page.set(name, OTHERS[name])
    elif isinstance(field, forms.BooleanField):
        page.set(name, "" if current else "on")
    elif isinstance(field, forms.ChoiceField):
        values = [value for value, _ in cast(list[tuple[str, str]], field.choices)]
        page.set(name, next(value for value in values if value != current))
    else:
        page.set(name, f"{current} and more")


FORMS: list[tuple[str, Any]] = [("at_home_phlebotomy", HomeForm), ("walk_in_test", CenterForm)]
CASES = [
    (method, trigger)
    for method, kind in FORMS
    for trigger in (*kind.base_fields, "later day", "no answer")
    if trigger not in HIDDEN
]


@pytest.mark.parametrize(("method", "trigger"), CASES)
def test_new_list_of_times_preserves_every_answer(desk: Desk, method: str, trigger: str) -> None:
    kind: Any = dict(FORMS)[method]
    order = waiting(desk, method)
    client = desk.client("front desk")
    page = opened(client, order)
    page.set("start_date", NEXT_WEEK.isoformat())
    look(page, client, order)
    fields = {name: field for name, field in kind.base_fields.items() if page.shows(name)}
    if trigger not in fields and trigger not in ("later day", "no answer"):
        assert trigger == "same", "shown where a visit is moved"
        return
    for name in ("slot", "notes", "part", "week", "radius", "access_notes"):
        if name in fields and name != trigger:
            answer(page, name, fields[name])
    given = {name: answered(page, name) for name in fields if name != trigger}
    assert given.get("slot") or trigger == "slot"
    if trigger == "no answer":
        desk.fault("drop_before", "/(availability|info)$", times=20)
        look(page, client, order)
        assert not page.shows("slot")
        desk.sandbox.control("faults", method="DELETE")
        look(page, client, order)
    elif trigger == "later day":
        day = NEXT_WEEK + timedelta(days=DAYS)
        look(page, client, order, day.isoformat())
        given["start_date"] = [day.isoformat()]
    else:
        answer(page, trigger, fields[trigger])
        look(page, client, order)
    for name, values in given.items():
        assert set(answered(page, name)) >= set(values), f"{name} is lost by {trigger}"


@pytest.mark.parametrize("trigger", ["same", "part", "week"])
def test_moving_a_visit_preserves_every_answer(desk: Desk, trigger: str) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    booked(desk, client, order)
    page = opened(client, order, "orders:move")
    fields = HomeForm.base_fields
    for name in ("slot", "notes", "same", "part", "week"):
        if name != trigger:
            answer(page, name, fields[name])
    given = {name: answered(page, name) for name in ("slot", "notes", "same", "part", "week")}
    del given[trigger]
    answer(page, trigger, fields[trigger])
    look(page, client, order)
    assert {name: answered(page, name) for name in given} == given


def test_chosen_centers_return_with_their_zip_code(desk: Desk) -> None:
    order = waiting(desk, "walk_in_test")
    client = desk.client("front desk")
    page = opened(client, order)
    first = page.values()
    page.untick("sites", first["sites"][0])
    chosen = page.values()["sites"]
    page.set("zip_code", "59715")
    look(page, client, order)
    assert "sites" not in page.values() and page.values()["far_sites"] == chosen
    page.set("zip_code", first["zip_code"][0])
    look(page, client, order)
    assert page.values()["sites"] == chosen and "far_sites" not in page.values()


def test_time_chosen_before_looking_at_later_days_can_be_booked(desk: Desk) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    page = opened(client, order)
    answer(page, "slot", HomeForm.base_fields["slot"])
    (chosen,) = starts(page)
    first = datetime.fromisoformat(page.values()["start_date"][0]).date()
    look(page, client, order, (first + timedelta(days=DAYS)).isoformat())
    assert starts(page) == [chosen] and "is gone" not in page.form.text
    assert "Chosen: " in page.form.text
    sent = client.post(reverse("orders:book", args=[order.pk]), page.values())
    assert sent.status_code == 302, sent.content.decode()[-2000:]
    desk.deliver()
    assert desk.newest().state == CommandRecord.State.DONE, desk.newest().refusal


def test_times_found_by_looking_again_can_be_booked_at_once(desk: Desk) -> None:
    """The button that books is part of what a new list of times brings."""
    order = waiting(desk)
    client = desk.client("front desk")
    desk.fault("drop_before", "/(availability|info)$", times=20)
    page = opened(client, order)
    assert not page.shows("slot") and "Book" not in buttons(page)
    page.set("notes", "ring twice")
    desk.sandbox.control("faults", method="DELETE")
    look(page, client, order)
    assert page.shows("slot") and "Book" in buttons(page)
    assert page.values()["notes"] == ["ring twice"]


def buttons(page: Page) -> list[str]:
    return [node.text.strip() for node in page.form.walk() if node.tag == "button"]


@pytest.mark.parametrize(
    "odd",
    [
        {"state": "Arizona"},
        {"first_line": "Rural Route, last house"},
        {"zip": "85004 1234"},
        {"first_line": "Unit Two", "state": "Armed Forces", "zip": "9012"},
    ],
    ids=str,
)
def test_address_on_record_is_accepted_where_a_visit_is_booked(
    desk: Desk, odd: dict[str, str]
) -> None:
    order = waiting(desk)
    desk.sandbox.prepare_answer(f"/v3/order/{order.pk}$", merge={"patient_address": odd})
    store_orders([service().orders.get(order.pk)])
    order.refresh_from_db()
    page = opened(desk.client("front desk"), order)
    values = page.values()
    assert [values[name.replace("zip", "zip_code")][0] for name in odd] == list(odd.values())
    form = HomeForm(build_query(values), initial=order_address(order))
    form.is_valid()
    assert not form.errors.keys() & {*ADDRESS} and form.address() is not None
    changed = HomeForm(build_query({**values, "state": ["Nowhere"]}), initial=order_address(order))
    assert not changed.is_valid() and "state" in changed.errors
