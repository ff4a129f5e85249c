"""Refusals about visits: each is explained, and no typed value is lost."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from django.urls import reverse
from django.utils import timezone

from backoffice.outbox.models import CommandRecord
from orders.models import Order
from tests.dom import Page
from tests.outbox.draw_orders import order_awaiting_draw
from tests.outbox.harness import OutboxHarness
from tests.outbox.visit_forms import (
    book_visit,
    count_calls,
    offered_chips,
    open_form,
    reopen_refused_form,
    sandbox_visits,
)

State = CommandRecord.State


@pytest.mark.parametrize(
    ("method", "status"),
    [("at_home_phlebotomy", 400), ("walk_in_test", 400), ("walk_in_test", 404)],
)
def test_unavailable_time_shows_the_nearest_times(
    harness: OutboxHarness, method: str, status: int
) -> None:
    harness.sandbox.control("desk", {"conflict_status": status})
    order = order_awaiting_draw(harness, method)
    client = harness.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = open_form(client, address)
    chosen_time = times[len(times) // 2]
    try:
        harness.sandbox.control("slots", {"booking_keys": [chosen_time.key]})
        client.post(address, {**values, "slot": chosen_time.written(), "notes": "the blue door"})
        harness.deliver()
        row, page, response = reopen_refused_form(harness, client)
        assert row.status == status and "no longer available" in row.refusal
        assert (
            "the blue door" in page
            and "is no longer available. The nearest times are marked" in page
        )
        near_chips = [chip for chip in offered_chips(response) if chip.near]
        assert len(near_chips) == 3
        farthest = max(abs(chip.time.start - chosen_time.start) for chip in near_chips)
        other_chips = [c for c in offered_chips(response) if not c.near]
        assert all(abs(chip.time.start - chosen_time.start) >= farthest for chip in other_chips)
        assert sandbox_visits(harness, order) == []
    finally:
        harness.sandbox.control("slots", method="DELETE")
        harness.sandbox.control("desk", {"conflict_status": 400})


def test_expired_booking_key_is_renewed_for_the_same_time(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness)
    client = harness.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = open_form(client, address)
    expired_time = msgspec.structs.replace(
        times[-1], key="ran-out", expires_at=timezone.now() - timedelta(minutes=1)
    )
    client.post(address, {**values, "slot": expired_time.written()})
    harness.deliver()
    assert harness.newest_command().state == State.DONE, harness.newest_command().refusal
    assert sandbox_visits(harness, order) == [(times[-1].start, True)]


def test_unknown_booking_key_keeps_the_chosen_time(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness)
    client = harness.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = open_form(client, address)
    unknown_time = msgspec.structs.replace(times[-1], key="made-up")
    client.post(address, {**values, "slot": unknown_time.written(), "notes": "kept"})
    harness.deliver()
    row, page, response = reopen_refused_form(harness, client)
    assert row.status == 400 and "kept" in page
    assert [chip.time.start for chip in offered_chips(response) if chip.chosen] == [times[-1].start]
    assert next(chip for chip in offered_chips(response) if chip.chosen).time.key != "made-up"


def test_lab_without_booking_is_a_configuration_error(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness, "walk_in_test")
    client = harness.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = open_form(client, address)
    switch = "UPDATE sandbox_lab SET supports_psc_booking = %s WHERE slug = %s RETURNING 1"
    harness.sandbox.query(switch, [False, order.lab_slug])
    try:
        client.post(address, {**values, "slot": times[0].written()})
        harness.deliver()
        row, page, _ = reopen_refused_form(harness, client)
        assert (row.status, row.attempts) == (503, 1), "not sent again"
        assert "not enabled" in page and 'name="slot"' not in page
    finally:
        harness.sandbox.query(switch, [True, order.lab_slug])


def test_visit_changed_by_patient_is_not_overwritten(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness)
    client = harness.client("front desk")
    first = book_visit(harness, client, order)
    address = reverse("orders:move", args=[order.pk])
    values, times, _ = open_form(client, address)
    other = next(time for time in times if time.start != first.start_at)
    assert client.post(address, {**values, "slot": other.written()}).status_code == 302
    patients_visit = harness.sandbox.control(
        "appointments", {"order_id": str(order.pk), "do": "reschedule", "days": 2}
    )
    calls_before = count_calls(harness, "/reschedule")
    harness.deliver()
    row, _, _ = reopen_refused_form(harness, client)
    assert "has changed. It is now" in row.refusal and row.attempts == 0
    assert count_calls(harness, "/reschedule") == calls_before
    assert sandbox_visits(harness, order) == [
        (datetime.fromisoformat(patients_visit["start_at"]), True)
    ]


def test_booking_changed_only_by_patient_has_no_buttons(
    harness: OutboxHarness,
) -> None:
    order = order_awaiting_draw(harness, "walk_in_test", "10001", test="Coast Check")
    client = harness.client("front desk")
    visit = book_visit(harness, client, order)
    assert visit.event_status == "reserved"
    page = client.get(reverse("orders:detail", args=[order.pk])).content.decode()
    for name in ("orders:move", "orders:cancel-visit"):
        address = reverse(name, args=[order.pk])
        assert address not in page
        page_text = client.get(address).content.decode()
        assert "The lab has sent you an email" in page_text
        assert client.post(address, {"form_id": str(uuid.uuid4())}).status_code == 422
    assert "The lab has sent you an email" in page
    assert CommandRecord.objects.count() == 1


@pytest.mark.parametrize(
    ("field", "text", "words"),
    [
        ("notes", "x" * 1001, "1001"),
        ("zip_code", "8500", "Five or nine digits"),
        ("state", "Arizona", "Ensure this value has at most 2"),
        ("first_line", "Lincoln Street", "street address with its number"),
        ("slot", "", "Choose a time."),
        ("slot", "nonsense", "Choose one of the times"),
    ],
)
def test_invalid_field_is_named_and_form_values_are_kept(
    harness: OutboxHarness, field: str, text: str, words: str
) -> None:
    order = order_awaiting_draw(harness)
    client = harness.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = open_form(client, address)
    typed = {**values, "slot": times[0].written(), "second_line": "Floor 3", field: text}
    response: Any = client.post(address, typed)
    page = response.content.decode()
    assert response.status_code == 422 and words in page and "Floor 3" in page
    assert field in response.context["form"].errors
    if field != "slot":
        assert Page(page, "data-pick").values()[field] == [text]
    assert not CommandRecord.objects.exists()


def test_visit_buttons_require_permission(harness: OutboxHarness) -> None:
    order = order_awaiting_draw(harness)
    viewer = harness.client("viewer")
    page = viewer.get(reverse("orders:detail", args=[order.pk])).content.decode()
    assert "/visit/" not in page
    for name in ("book", "move", "cancel-visit"):
        assert viewer.get(reverse(f"orders:{name}", args=[order.pk])).status_code == 403
    assert viewer.post(reverse("orders:times", args=[order.pk])).status_code == 403


def complete_draw(harness: OutboxHarness, order: Order) -> None:
    with harness.sandbox.service() as service:
        service.orders.simulate(order.pk, f"completed.{order.method}.completed")


def hide_order(harness: OutboxHarness, order: Order) -> None:
    harness.add_fault("status", f"/v3/order/{order.pk}$", statuses=[404], times=9)


def close_centers(harness: OutboxHarness, order: Order) -> None:
    harness.sandbox.query(
        "UPDATE sandbox_pscsite SET is_active = false FROM sandbox_lab l"
        " WHERE l.id = lab_id AND l.slug = %s RETURNING 1",
        [order.lab_slug],
    )


@pytest.mark.parametrize(
    ("change", "words", "attempts"),
    [
        (complete_draw, "has been collected", 0),
        (hide_order, "no longer has this order", 0),
        (close_centers, "no longer active", 1),
    ],
)
def test_booking_impossible_meanwhile_says_why(
    harness: OutboxHarness,
    change: Callable[[OutboxHarness, Order], None],
    words: str,
    attempts: int,
) -> None:
    order = order_awaiting_draw(harness, "walk_in_test")
    client = harness.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = open_form(client, address)
    client.post(address, {**values, "slot": times[-1].written()})
    try:
        change(harness, order)
        harness.deliver()
        harness.sandbox.control("faults", method="DELETE")
        row = harness.newest_command()
        assert (row.state, row.attempts) == (State.REFUSED, attempts) and words in row.refusal
        assert sandbox_visits(harness, order) == []
    finally:
        harness.sandbox.query("UPDATE sandbox_pscsite SET is_active = true RETURNING 1")


@pytest.mark.parametrize("status", [401, 403])
def test_denied_team_sees_why_and_keeps_form_values(harness: OutboxHarness, status: int) -> None:
    order = order_awaiting_draw(harness)
    client = harness.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = open_form(client, address)
    client.post(address, {**values, "slot": times[-1].written(), "notes": "the blue door"})
    harness.add_fault("status", "/book$", statuses=[status])
    harness.deliver()
    row, page, _ = reopen_refused_form(harness, client)
    assert row.status == status and "the blue door" in page and 'role="alert"' in page


@pytest.mark.parametrize(
    ("action", "words"),
    [("cancel", "has ended or was canceled"), ("fix", "Cancel it and book again")],
)
def test_visit_that_cannot_be_moved_is_unchanged(
    harness: OutboxHarness, action: str, words: str
) -> None:
    order = order_awaiting_draw(harness)
    client = harness.client("front desk")
    first = book_visit(harness, client, order)
    address = reverse("orders:move", args=[order.pk])
    values, times, _ = open_form(client, address)
    other = next(slot for slot in times if slot.start != first.start_at)
    client.post(address, {**values, "slot": other.written()})
    harness.sandbox.control("appointments", {"order_id": str(order.pk), "do": action})
    calls_before = count_calls(harness, "/reschedule")
    harness.deliver()
    row = harness.newest_command()
    assert row.state == State.REFUSED and words in row.refusal
    assert count_calls(harness, "/reschedule") == calls_before
    page = client.get(f"{row.form_url}?again={row.pk}").content.decode()
    assert 'name="slot"' not in page, "the page explains the alternative"
