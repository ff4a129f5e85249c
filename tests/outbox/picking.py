"""Forms about visits as a browser would send them, and what came of it at both sides."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from django.test import Client
from django.urls import reverse

from backoffice.models import CommandRecord
from orders.models import Appointment, Order
from orders.scheduling.slots import OfferedTime
from tests.outbox.desk import FORM_ID, Desk

State = CommandRecord.State
SLOT = re.compile(r'name="slot" value="([^"]+)"')


def opened(client: Client, address: str) -> tuple[dict[str, Any], list[OfferedTime], Any]:
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
    times = [OfferedTime.read(unescape(value)) for value in SLOT.findall(page)]
    values = {name: value for name, value in values.items() if value not in ("", None, False)}
    return values, times, shown


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


def site_of(desk: Desk, visit: Appointment) -> str:
    """The code of the center that a visit is at, which no field of its record holds."""
    found = desk.sandbox.query(
        "SELECT s.site_code FROM sandbox_appointment v JOIN sandbox_pscsite s ON s.id = v.site_id"
        " WHERE v.id = %s",
        [str(visit.pk)],
    )
    return str(found[0][0])


def calls(desk: Desk, ends: str) -> int:
    """How many calls with this end reached the sandbox so far."""
    writes = desk.sandbox.control("writes")["writes"]
    return sum(write["path"].endswith(ends) for write in writes)


def refused(desk: Desk, client: Client) -> tuple[CommandRecord, str, Any]:
    """The refused command, and the form that it leads back to."""
    row = desk.newest()
    assert row.state == State.REFUSED, (row.state, row.refusal, row.hindrance)
    shown: Any = client.get(f"{row.form_url}?again={row.pk}")
    assert shown.status_code == 200
    return row, shown.content.decode(), shown


def chips(shown: Any) -> list[Any]:
    return [c for d in shown.context["picker"].offer.days for g in d.groups for c in g.chips]
