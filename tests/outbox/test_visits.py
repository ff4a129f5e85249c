"""Visits, from the page of an order through the list of times to the sandbox's database."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from backoffice.models import CommandRecord
from orders.models import Appointment, Order
from orders.scheduling.slots import Time
from tests.outbox.desk import FORM_ID, Desk
from tests.outbox.draws import waiting

State = CommandRecord.State
SLOT = re.compile(r'name="slot" value="([^"]+)"')


def opened(client: Client, address: str) -> tuple[dict[str, Any], list[Time], HttpResponse]:
    """A form as a browser would send it, the times to choose from, and the page."""
    shown = client.get(address)
    assert shown.status_code == 200, shown.status_code
    page = shown.content.decode()
    found = FORM_ID.search(page)
    assert found, "no form"
    form = shown.context["form"]
    values: dict[str, Any] = {
        field.name: field.value() if field.value() is not None else "" for field in form
    }
    values |= {"form_id": found[1], "slot": "", "same": ""}
    visit = shown.context.get("visit")
    if visit is not None:
        values |= {"seen_id": str(visit.pk), "seen_start": visit.start_at.isoformat()}
    times = [Time.read(unescape(value)) for value in SLOT.findall(page)]
    values = {name: value for name, value in values.items() if value not in ("", None, False)}
    return values, times, shown  # type: ignore[return-value]


def booked(desk: Desk, client: Client, order: Order) -> Appointment:
    """The order's visit, booked through the pages."""
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = opened(client, address)
    answer = client.post(address, {**values, "slot": times[-1].written()})
    assert answer.status_code == 302, answer.content.decode()[-3000:]
    desk.deliver()
    assert desk.newest().state == State.DONE, desk.newest().refusal
    return Appointment.objects.get(order_id=order.pk, superseded_at=None)


def visits(desk: Desk, order: Order) -> list[tuple[Any, ...]]:
    """The order's visits in the sandbox: when, and whether they stand."""
    return desk.sandbox.query(
        "SELECT v.start_at, v.is_current FROM sandbox_appointment v"
        " JOIN sandbox_order o ON o.number = v.order_id WHERE o.id = %s ORDER BY v.start_at",
        [str(order.pk)],
    )


def test_a_visit_is_booked_and_moved(desk: Desk) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    page = client.get(reverse("orders:detail", args=[order.pk])).content.decode()
    assert reverse("orders:book", args=[order.pk]) in page
    first = booked(desk, client, order)
    asked = desk.newest()
    assert (asked.kind, asked.attempts, asked.confirmed_by) == ("appointment.book", 1, "answer")
    assert visits(desk, order) == [(first.start_at, True)]

    page = client.get(reverse("orders:detail", args=[order.pk])).content.decode()
    address = reverse("orders:move", args=[order.pk])
    assert address in page
    values, times, _ = opened(client, address)
    other = next(time for time in times if time.start != first.start_at)
    answer = client.post(address, {**values, "slot": other.written(), "notes": "ring twice"})
    assert answer.status_code == 302
    assert visits(desk, order) == [(first.start_at, True)], "the old one stands until then"
    desk.deliver()
    assert desk.newest().state == State.DONE
    assert visits(desk, order) == [(other.start, True)]
    moved = Appointment.objects.get(order_id=order.pk, superseded_at=None)
    assert (moved.pk, moved.start_at, moved.appointment_notes) == (
        first.pk,
        other.start,
        "ring twice",
    )
    page = client.get(reverse("orders:detail", args=[order.pk])).content.decode()
    assert 'class="struck"' in page, "the old time is struck through"
