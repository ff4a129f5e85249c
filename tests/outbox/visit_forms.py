"""Forms about visits, sent as a browser sends them, and their effects at the sandbox."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from django.test import Client
from django.urls import reverse

from backoffice.outbox.models import CommandRecord
from orders.models import Appointment, Order
from orders.rules.slots import OfferedTime
from tests.outbox.harness import FORM_ID, OutboxHarness

State = CommandRecord.State
SLOT_VALUE = re.compile(r'name="slot" value="([^"]+)"')


def open_form(client: Client, address: str) -> tuple[dict[str, Any], list[OfferedTime], Any]:
    """Return the values a browser would send, the offered times, and the response."""
    response = client.get(address)
    assert response.status_code == 200, response.status_code
    page = response.content.decode()
    match = FORM_ID.search(page)
    assert match, "no form"
    form = response.context["form"]
    values: dict[str, Any] = {
        field.name: field.value() if field.value() is not None else "" for field in form
    }
    values |= {"form_id": match[1], "slot": "", "same": ""}
    visit = response.context.get("visit")
    if visit is not None:
        values |= {"seen_id": str(visit.pk), "seen_start": visit.start_at.isoformat()}
    times = [OfferedTime.read(unescape(value)) for value in SLOT_VALUE.findall(page)]
    values = {name: value for name, value in values.items() if value not in ("", None, False)}
    return values, times, response


def book_visit(harness: OutboxHarness, client: Client, order: Order) -> Appointment:
    """Book a visit for the order through the pages and return it."""
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = open_form(client, address)
    response = client.post(address, {**values, "slot": times[-1].written()})
    assert response.status_code == 302, response.content.decode()[-3000:]
    harness.deliver()
    assert harness.newest_command().state == State.DONE, harness.newest_command().refusal
    return Appointment.objects.get(order_id=order.pk, superseded_at=None)


def sandbox_visits(harness: OutboxHarness, order: Order) -> list[tuple[Any, ...]]:
    """Return start and `is_current` of each visit that the order has at the sandbox."""
    return harness.sandbox.query(
        "SELECT v.start_at, v.is_current FROM sandbox_appointment v"
        " JOIN sandbox_order o ON o.number = v.order_id WHERE o.id = %s ORDER BY v.start_at",
        [str(order.pk)],
    )


def site_code(harness: OutboxHarness, visit: Appointment) -> str:
    """Return the code of the visit's center. No field of the mirrored record holds it."""
    rows = harness.sandbox.query(
        "SELECT s.site_code FROM sandbox_appointment v JOIN sandbox_pscsite s ON s.id = v.site_id"
        " WHERE v.id = %s",
        [str(visit.pk)],
    )
    return str(rows[0][0])


def count_calls(harness: OutboxHarness, path_ending: str) -> int:
    """Return how many writes to paths with this ending reached the sandbox so far."""
    writes = harness.sandbox.control("writes")["writes"]
    return sum(call["path"].endswith(path_ending) for call in writes)


def reopen_refused_form(harness: OutboxHarness, client: Client) -> tuple[CommandRecord, str, Any]:
    """Return the refused command, and the page and response of the form it links to."""
    row = harness.newest_command()
    assert row.state == State.REFUSED, (row.state, row.refusal, row.hindrance)
    response: Any = client.get(f"{row.form_url}?again={row.pk}")
    assert response.status_code == 200
    return row, response.content.decode(), response


def offered_chips(response: Any) -> list[Any]:
    return [c for d in response.context["picker"].offer.days for g in d.groups for c in g.chips]
