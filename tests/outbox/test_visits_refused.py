"""What cannot be done about a visit: every refusal lands well, and nothing typed is lost."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from django.urls import reverse
from django.utils import timezone

from backoffice.models import CommandRecord
from orders.models import Order
from tests.outbox.desk import Desk
from tests.outbox.draws import waiting
from tests.outbox.picking import booked, calls, chips, opened, refused, visits

State = CommandRecord.State


@pytest.mark.parametrize(
    ("method", "status"),
    [("at_home_phlebotomy", 400), ("walk_in_test", 400), ("walk_in_test", 404)],
)
def test_a_time_that_is_gone_leads_back_to_the_nearest(
    desk: Desk, method: str, status: int
) -> None:
    desk.sandbox.control("desk", {"conflict_status": status})
    order = waiting(desk, method)
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = opened(client, address)
    wanted = times[len(times) // 2]
    try:
        desk.sandbox.control("slots", {"booking_keys": [wanted.key]})
        client.post(address, {**values, "slot": wanted.written(), "notes": "the blue door"})
        desk.deliver()
        row, page, shown = refused(desk, client)
        assert row.status == status and "no longer available" in row.refusal
        assert "the blue door" in page and "is gone. The nearest times are marked" in page
        near = [chip for chip in chips(shown) if chip.near]
        assert len(near) == 3
        far = max(abs(chip.time.start - wanted.start) for chip in near)
        others = [c for c in chips(shown) if not c.near]
        assert all(abs(chip.time.start - wanted.start) >= far for chip in others)
        assert visits(desk, order) == []
    finally:
        desk.sandbox.control("slots", method="DELETE")
        desk.sandbox.control("desk", {"conflict_status": 400})


def test_a_key_that_ran_out_is_looked_up_anew_for_the_same_time(desk: Desk) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = opened(client, address)
    old = msgspec.structs.replace(
        times[-1], key="ran-out", expires_at=timezone.now() - timedelta(minutes=1)
    )
    client.post(address, {**values, "slot": old.written()})
    desk.deliver()
    assert desk.newest().state == State.DONE, desk.newest().refusal
    assert visits(desk, order) == [(times[-1].start, True)]


def test_a_key_the_service_does_not_know_keeps_the_choice(desk: Desk) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = opened(client, address)
    wrong = msgspec.structs.replace(times[-1], key="made-up")
    client.post(address, {**values, "slot": wrong.written(), "notes": "kept"})
    desk.deliver()
    row, page, shown = refused(desk, client)
    assert row.status == 400 and "kept" in page
    assert [chip.time.start for chip in chips(shown) if chip.chosen] == [times[-1].start]
    assert next(chip for chip in chips(shown) if chip.chosen).time.key != "made-up"


def test_a_lab_that_is_not_switched_on_is_told_as_configuration(desk: Desk) -> None:
    order = waiting(desk, "walk_in_test")
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = opened(client, address)
    switch = "UPDATE sandbox_lab SET supports_psc_booking = %s WHERE slug = %s RETURNING 1"
    desk.sandbox.query(switch, [False, order.lab_slug])
    try:
        client.post(address, {**values, "slot": times[0].written()})
        desk.deliver()
        row, page, _ = refused(desk, client)
        assert (row.status, row.attempts) == (503, 1), "it is not sent again"
        assert "not switched on" in page and 'name="slot"' not in page
    finally:
        desk.sandbox.query(switch, [True, order.lab_slug])


def test_what_the_patient_changed_is_not_overwritten(desk: Desk) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    first = booked(desk, client, order)
    address = reverse("orders:move", args=[order.pk])
    values, times, _ = opened(client, address)
    other = next(time for time in times if time.start != first.start_at)
    assert client.post(address, {**values, "slot": other.written()}).status_code == 302
    theirs = desk.sandbox.control(
        "appointments", {"order_id": str(order.pk), "do": "reschedule", "days": 2}
    )
    before = calls(desk, "/reschedule")
    desk.deliver()
    row, _, _ = refused(desk, client)
    assert "changed meanwhile: it is now" in row.refusal and row.attempts == 0
    assert calls(desk, "/reschedule") == before
    assert visits(desk, order) == [(datetime.fromisoformat(theirs["start_at"]), True)]


def test_bookings_that_only_the_patient_changes_have_words_instead_of_buttons(
    desk: Desk,
) -> None:
    order = waiting(desk, "walk_in_test", "10001", test="Coast Check")
    client = desk.client("front desk")
    visit = booked(desk, client, order)
    assert visit.event_status == "reserved"
    page = client.get(reverse("orders:detail", args=[order.pk])).content.decode()
    for name in ("orders:move", "orders:cancel-visit"):
        address = reverse(name, args=[order.pk])
        assert address not in page
        told = client.get(address).content.decode()
        assert "The lab has sent you an e-mail" in told
        assert client.post(address, {"form_id": str(uuid.uuid4())}).status_code == 422
    assert "The lab has sent you an e-mail" in page
    assert CommandRecord.objects.count() == 1


@pytest.mark.parametrize(
    ("field", "text", "words"),
    [
        ("notes", "x" * 1001, "1001"),
        ("zip_code", "8500", "Five digits"),
        ("state", "Arizona", "Ensure this value has at most 2"),
        ("first_line", "Lincoln Street", "street with its number"),
        ("slot", "", "Choose a time first"),
        ("slot", "nonsense", "Choose one of the times"),
    ],
)
def test_what_does_not_fit_is_said_at_its_field_and_nothing_is_lost(
    desk: Desk, field: str, text: str, words: str
) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = opened(client, address)
    typed = {**values, "slot": times[0].written(), "second_line": "Floor 3", field: text}
    shown: Any = client.post(address, typed)
    page = shown.content.decode()
    assert shown.status_code == 422 and words in page and "Floor 3" in page
    assert field in shown.context["form"].errors
    assert not text or text in page or field == "slot"
    assert not CommandRecord.objects.exists()


def test_who_may_not_does_not_see_the_buttons(desk: Desk) -> None:
    order = waiting(desk)
    viewer = desk.client("viewer")
    page = viewer.get(reverse("orders:detail", args=[order.pk])).content.decode()
    assert "/visit/" not in page
    for name in ("book", "move", "cancel-visit"):
        assert viewer.get(reverse(f"orders:{name}", args=[order.pk])).status_code == 403
    assert viewer.post(reverse("orders:times", args=[order.pk])).status_code == 403


def drawn_meanwhile(desk: Desk, order: Order) -> None:
    with desk.sandbox.service() as service:
        service.orders.simulate(order.pk, f"completed.{order.method}.completed")


def gone_meanwhile(desk: Desk, order: Order) -> None:
    desk.fault("status", f"/v3/order/{order.pk}$", statuses=[404], times=9)


def closed_meanwhile(desk: Desk, order: Order) -> None:
    desk.sandbox.query(
        "UPDATE sandbox_pscsite SET is_active = false FROM sandbox_lab l"
        " WHERE l.id = lab_id AND l.slug = %s RETURNING 1",
        [order.lab_slug],
    )


@pytest.mark.parametrize(
    ("meanwhile", "words", "attempts"),
    [
        (drawn_meanwhile, "past its draw", 0),
        (gone_meanwhile, "no longer has this order", 0),
        (closed_meanwhile, "no longer active", 1),
    ],
)
def test_what_became_impossible_meanwhile_is_refused_in_words(
    desk: Desk, meanwhile: Callable[[Desk, Order], None], words: str, attempts: int
) -> None:
    order = waiting(desk, "walk_in_test")
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = opened(client, address)
    client.post(address, {**values, "slot": times[-1].written()})
    try:
        meanwhile(desk, order)
        desk.deliver()
        desk.sandbox.control("faults", method="DELETE")
        row = desk.newest()
        assert (row.state, row.attempts) == (State.REFUSED, attempts) and words in row.refusal
        assert visits(desk, order) == []
    finally:
        desk.sandbox.query("UPDATE sandbox_pscsite SET is_active = true RETURNING 1")


@pytest.mark.parametrize("status", [401, 403])
def test_a_team_that_may_not_is_told_and_keeps_what_it_typed(desk: Desk, status: int) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    address = reverse("orders:book", args=[order.pk])
    values, times, _ = opened(client, address)
    client.post(address, {**values, "slot": times[-1].written(), "notes": "the blue door"})
    desk.fault("status", "/book$", statuses=[status])
    desk.deliver()
    row, page, _ = refused(desk, client)
    assert row.status == status and "the blue door" in page and 'role="alert"' in page


@pytest.mark.parametrize(
    ("do", "words"), [("cancel", "no visit any more"), ("fix", "Cancel it and book again")]
)
def test_a_visit_that_cannot_be_moved_any_more_is_left_alone(
    desk: Desk, do: str, words: str
) -> None:
    order = waiting(desk)
    client = desk.client("front desk")
    first = booked(desk, client, order)
    address = reverse("orders:move", args=[order.pk])
    values, times, _ = opened(client, address)
    other = next(slot for slot in times if slot.start != first.start_at)
    client.post(address, {**values, "slot": other.written()})
    desk.sandbox.control("appointments", {"order_id": str(order.pk), "do": do})
    before = calls(desk, "/reschedule")
    desk.deliver()
    row = desk.newest()
    assert row.state == State.REFUSED and words in row.refusal
    assert calls(desk, "/reschedule") == before
    page = client.get(f"{row.form_url}?again={row.pk}").content.decode()
    assert 'name="slot"' not in page, "the page says what is possible instead"
