"""Cancelling an order: what a person reads first, what goes with it, and what comes after."""

from __future__ import annotations

import contextlib
import json
import threading
import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import time_machine
from django.core.cache import cache
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from backoffice.core import vocabulary
from backoffice.models import AuditEntry, CommandRecord, User
from backoffice.outbox import SendContext
from backoffice.service import Service, errors
from orders.commands import CancelOrder
from orders.consequences import cancellation_preview
from orders.models import Appointment, Order, OrderEvent
from tests.api.rows import envelope, order, uid
from tests.outbox.desk import Desk
from tests.outbox.draws import waiting
from tests.outbox.picking import booked, opened

State = CommandRecord.State
METHODS = ("testkit", "walk_in_test", "at_home_phlebotomy", "on_site_collection")
STATUSES = tuple(vocabulary.VOCABULARIES["order.low_level_status"])
BEFORE = {"ordered", "requisition_created", "requisition_bypassed"}
VISITS = {"appointment_pending", "appointment_scheduled", "appointment_cancelled"}
# The table of orders.md 4.2, written down once more.
POSSIBLE = {
    "testkit": BEFORE | {"awaiting_registration", "registered"},
    "walk_in_test": BEFORE | VISITS,
    "at_home_phlebotomy": BEFORE | VISITS | {"draw_completed"},
    "on_site_collection": BEFORE | {"draw_completed"},
}
WORDS = {
    "cancelled": "ended already",
    "do_not_process": "ended already",
    "redraw_available": "needs a new draw",
    "partial_results": "A result exists",
    "completed": "A result exists",
    "corrected": "A result exists",
    "transit_customer": "kit has been shipped",
    "out_for_delivery": "kit has been shipped",
    "with_customer": "kit has been shipped",
    "problem_in_transit_customer": "kit has been shipped",
    "failure_to_deliver_to_customer": "kit has been shipped",
    "transit_lab": "on its way to the lab",
    "problem_in_transit_lab": "on its way to the lab",
    "failure_to_deliver_to_lab": "on its way to the lab",
    "draw_completed": "on its way to the lab",
    "delivered_to_lab": "left our hands",
    "lab_processing_blocked": "left our hands",
    "sample_error": "left our hands",
    "lost": "left our hands",
}


def words(found: Any) -> str:
    return " ".join(line.words for line in found.lines)


def visit(of: Order, **values: Any) -> Appointment:
    return Appointment.objects.create(
        **{
            "id": uid("appointment", 1),
            "user_id": of.user_id,
            "order_id": of.pk,
            "type": "phlebotomy",
            "provider": "draw-west",
            "status": "confirmed",
            "event_status": "scheduled",
            "start_at": timezone.now() + timedelta(days=3),
            "iana_timezone": "America/Phoenix",
            "can_reschedule": True,
            **envelope(),
            **values,
        }
    )


def test_there_are_27_statuses() -> None:
    assert len(STATUSES) == 27


@pytest.mark.django_db
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("low", STATUSES)
def test_the_dialog_offers_what_the_service_allows(low: str, method: str) -> None:
    one = order(1, low_level_status=low, method=method)
    one.save()
    found = cancellation_preview(one)
    assert found.possible == (low in POSSIBLE[method])
    if found.possible:
        said = words(found)
        assert "cannot be reopened" in said
        assert ("no kit goes out" in said) == (method == "testkit")
        assert ("drawn already" in said) == (low == "draw_completed")
    else:
        assert WORDS.get(low, "does not let") in words(found)


@pytest.mark.django_db
def test_a_visit_at_home_goes_with_it_and_late_it_is_not_refunded() -> None:
    one = order(1, low_level_status="appointment_scheduled", method="at_home_phlebotomy")
    one.save()
    there = visit(one)
    said = words(cancellation_preview(one))
    assert "at-home visit is cancelled too" in said and "so it is refunded" in said
    there.start_at = timezone.now() + timedelta(hours=23)
    there.save()
    said = words(cancellation_preview(one))
    assert "not refundable" in said and "so it is refunded" not in said
    assert cancellation_preview(one).visit is None, "it needs no call of its own"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("hours", "refunded"), [(23.9, False), (24.1, True), (24.9, True), (22.9, False)]
)
@pytest.mark.parametrize("clocks_change", ["2026-11-01T06:00Z", "2026-03-08T07:00Z"])
def test_a_day_before_is_24_hours_whatever_the_clocks_do(
    hours: float, refunded: bool, clocks_change: str
) -> None:
    """In New York a night of 25 hours, and one of 23, lies between."""
    now = datetime.fromisoformat(clocks_change) - timedelta(hours=12)
    with time_machine.travel(now, tick=False):
        one = order(1, method="at_home_phlebotomy", low_level_status="appointment_scheduled")
        one.save()
        start = now + timedelta(hours=hours)
        visit(one, start_at=start, iana_timezone="America/New_York")
        assert ("so it is refunded" in words(cancellation_preview(one))) is refunded
        assert ("not refundable" in words(cancellation_preview(one))) is not refunded


@pytest.mark.django_db
def test_an_appointment_at_a_center_stays_and_is_offered() -> None:
    one = order(1, low_level_status="appointment_scheduled", method="walk_in_test")
    one.save()
    there = visit(one, type="patient_service_center", provider="lab-north")
    found = cancellation_preview(one)
    assert "not cancelled by this" in words(found) and found.visit == there
    there.provider = "lab-coast"
    there.save()
    found = cancellation_preview(one)
    assert found.visit is None and "e-mail" in words(found), "only the patient can"


@pytest.mark.django_db
def test_the_first_of_a_pair_points_to_its_redraw() -> None:
    one = order(1, low_level_status="redraw_available", method="walk_in_test")
    redraw = order(2, low_level_status="ordered", method="walk_in_test", parent_id=one.pk)
    Order.objects.bulk_create([one, redraw])
    assert list(cancellation_preview(one).instead) == [redraw]
    redraw.low_level_status = "cancelled"
    redraw.save()
    assert not cancellation_preview(one).instead


@pytest.mark.django_db
def test_a_kit_that_was_shipped_once_is_warned_of() -> None:
    one = order(1, low_level_status="registered", method="testkit")
    one.save()
    assert "was shipped before" not in words(cancellation_preview(one))
    OrderEvent.objects.create(
        order_id=one.pk,
        event_id=1,
        created_at=timezone.now(),
        status="collecting_sample.testkit.with_customer",
        low_level_status="with_customer",
    )
    assert "was shipped before" in words(cancellation_preview(one))


def test_the_appointment_is_cancelled_as_well_by_a_call_of_its_own(desk: Desk) -> None:
    one = waiting(desk, "walk_in_test")
    client = desk.client("clinician")
    there = booked(desk, client, one)
    page = client.get(reverse("orders:cancel", args=[one.pk])).content.decode()
    assert "not cancelled by this" in page and 'name="visit_too" value="on" checked' in page
    values, _, shown = opened(client, reverse("orders:cancel", args=[one.pk]))
    reason = shown.context["form"].fields["visit_reason"].choices[0][0]
    address = reverse("orders:cancel", args=[one.pk])
    values |= {"visit_too": "on", "visit_reason": reason, "why": "patient"}
    assert client.post(address, values).status_code == 302
    desk.deliver()
    done = list(CommandRecord.objects.order_by("requested_at").values_list("kind", "state"))[-2:]
    assert done == [("order.cancel", State.DONE), ("appointment.cancel", State.DONE)]
    one.refresh_from_db()
    there.refresh_from_db()
    assert (one.low_level_status, there.event_status) == ("cancelled", "cancelled")
    reasons = AuditEntry.objects.filter(object_type="order.cancel").values_list("reason", flat=True)
    assert list(reasons) == ["The patient asked for it"]


def test_what_was_ticked_is_not_dropped_where_the_reasons_cannot_be_had(desk: Desk) -> None:
    one = waiting(desk, "walk_in_test")
    client = desk.client("clinician")
    booked(desk, client, one)
    address = reverse("orders:cancel", args=[one.pk])
    values, _, shown = opened(client, address)
    reason = shown.context["form"].fields["visit_reason"].choices[0][0]
    ticked = {**values, "visit_too": "on", "visit_reason": reason, "why": "patient"}
    cache.clear()
    desk.fault("status", "/cancellation-reasons$", times=99, statuses=[503])
    before = CommandRecord.objects.count()
    answer = client.post(address, ticked)
    page = answer.content.decode()
    assert answer.status_code == 422 and "try again, or untick it" in page
    assert 'name="visit_too" value="on" checked' in page
    assert CommandRecord.objects.count() == before
    values.pop("visit_too")
    assert client.post(address, {**values, "why": "patient"}).status_code == 302
    assert desk.newest().kind == "order.cancel"


def test_a_visit_is_left_alone_while_its_order_is_being_cancelled(desk: Desk) -> None:
    one, other = waiting(desk), waiting(desk)
    client = desk.client("clinician")
    address = reverse("orders:book", args=[one.pk])
    values, times, _ = opened(client, address)
    desk.fill(client, reverse("orders:cancel", args=[one.pk]), why="patient")
    assert desk.newest().kind == "order.cancel"
    answer = client.post(address, {**values, "slot": times[-1].written()})
    assert answer.status_code == 422
    assert "order is being cancelled" in answer.content.decode()
    assert desk.newest().kind == "order.cancel"
    booked(desk, client, other)


def test_unticked_the_appointment_stands(desk: Desk) -> None:
    one = waiting(desk, "walk_in_test")
    client = desk.client("clinician")
    there = booked(desk, client, one)
    desk.fill(client, reverse("orders:cancel", args=[one.pk]), why="duplicate")
    desk.deliver()
    there.refresh_from_db()
    assert there.event_status == "scheduled"
    assert desk.newest().kind == "order.cancel"
    page = client.get(reverse("orders:detail", args=[one.pk])).content.decode()
    assert reverse("orders:cancel-visit", args=[one.pk]) in page, "it can be, later on"
    assert "can only be cancelled" in page and "Cancel and rebook" not in page
    assert reverse("orders:move", args=[one.pk]) not in page


def test_a_visit_at_home_goes_with_its_order(desk: Desk) -> None:
    one = waiting(desk)
    client = desk.client("clinician")
    there = booked(desk, client, one)
    desk.fill(client, reverse("orders:cancel", args=[one.pk]), why="patient")
    desk.deliver()
    desk.look_up()
    one.refresh_from_db()
    assert one.low_level_status == "cancelled"
    assert not Appointment.objects.filter(
        pk=there.pk, superseded_at=None, event_status="scheduled"
    ).exists()


@pytest.mark.parametrize(("why", "begin"), [("wrong_lab", "replaces"), ("duplicate", "repeat")])
def test_to_reorder_leads_to_a_new_order_once_it_is_cancelled(
    desk: Desk, why: str, begin: str
) -> None:
    one = waiting(desk)
    client = desk.client("clinician")
    desk.fill(client, reverse("orders:cancel", args=[one.pk]), why=why, then="reorder")
    asked = desk.newest()
    assert asked.done_url == "", "not before the service has confirmed"
    desk.deliver()
    asked.refresh_from_db()
    new = reverse("orders:new", args=[one.user_id])
    assert asked.done_url == f"{new}?{begin}={one.pk}"
    strip = client.get(reverse("commands:strip", args=[asked.pk]))
    assert asked.done_url in strip.headers["HX-Trigger"]


@contextlib.contextmanager
def recording(bodies: list[bytes]) -> Iterator[str]:
    """A service that takes down what it is sent and refuses it; its address."""

    class Taker(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers.get("content-length") or 0)))
            self.send_response(400)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Taker) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


@pytest.mark.parametrize(
    ("field", "wrong_lab", "told"),
    [
        ("update_reason", True, {"update_reason": "INCORRECT_LAB"}),
        ("update_reason", False, None),
        ("", True, None),
    ],
)
def test_a_wrong_lab_is_named_where_there_is_a_field_for_it(
    settings: Settings, field: str, wrong_lab: bool, told: dict[str, str] | None
) -> None:
    settings.SERVICE_CANCEL_REASON_FIELD = field
    bodies: list[bytes] = []
    command = CancelOrder(order_id=uid("order", 1), user_id=None, wrong_lab=wrong_lab)
    now = timezone.now()
    sending = SendContext(uid("command", 1), uid("key", 1), now, now)
    with (
        recording(bodies) as url,
        Service(url, "sk_us_made_up") as service,
        pytest.raises(errors.Refused),
    ):
        command.send(service, sending)
    assert [json.loads(body) if body else None for body in bodies] == [told]


def test_without_a_reason_nothing_is_cancelled_and_nothing_typed_is_lost(desk: Desk) -> None:
    one = waiting(desk)
    before = CommandRecord.objects.count()
    client, address = desk.client("clinician"), reverse("orders:cancel", args=[one.pk])
    for typed in ({}, {"then": "reorder"}):
        answer = desk.fill(client, address, why="", reason="moved away", **typed)
        page = answer.content.decode()
        assert answer.status_code == 422 and "Choose why it is cancelled." in page
        assert 'value="moved away"' in page
    assert CommandRecord.objects.count() == before
    one.refresh_from_db()
    assert one.low_level_status != "cancelled"


def test_a_refusal_leaves_the_order_and_says_why(desk: Desk) -> None:
    one = waiting(desk)
    client = desk.client("clinician")
    desk.fill(client, reverse("orders:cancel", args=[one.pk]), why="other", reason="made up")
    # It moves on at the service, and the mirror has not heard of it.
    with desk.sandbox.service() as service:
        service.orders.simulate(one.pk, "completed.at_home_phlebotomy.completed")
    desk.deliver()
    asked = desk.newest()
    assert asked.state == State.REFUSED and "does not let" in asked.refusal
    page = client.get(f"{asked.form_url}?again={asked.pk}").content.decode()
    assert "A result exists" in page
    one.refresh_from_db()
    assert one.low_level_status == "completed"


def test_only_what_was_typed_into_this_form_fills_it(desk: Desk) -> None:
    client = desk.client("clinician")
    theirs, mine = waiting(desk), waiting(desk)
    for name, typed in (
        ("cancel", {"reason": "a stranger's words"}),
        ("book", {"first_line": "9 Stranger Street"}),
    ):
        asked = command_of(theirs, f"orders:{name}", typed)
        page = client.get(reverse(f"orders:{name}", args=[theirs.pk]), {"again": str(asked.pk)})
        assert next(iter(typed.values())) in unescape(page.content.decode()), "its own form"
        page = client.get(reverse(f"orders:{name}", args=[mine.pk]), {"again": str(asked.pk)})
        assert page.status_code == 200
        assert next(iter(typed.values())) not in unescape(page.content.decode()), "another patient"


def command_of(of: Order, page: str, typed: dict[str, str]) -> CommandRecord:
    """A command of a form that was refused, as the outbox keeps it."""
    return CommandRecord.objects.create(
        kind="made.up",
        title="Made up",
        subject_type="order",
        subject_id=str(of.pk),
        payload={},
        form_id=uuid.uuid4(),
        form_url=reverse(page, args=[of.pk]),
        form_data={name: [value] for name, value in typed.items()},
        requested_by=User.objects.get(username="clinician"),
        idempotency_key=uuid.uuid4(),
        state=State.REFUSED,
        refusal="Made up.",
    )
