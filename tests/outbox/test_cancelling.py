"""Cancellation of an order: the preview, its appointment, and the next steps."""

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

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.core import vocabulary
from backoffice.outbox.command import SendContext
from backoffice.outbox.models import CommandRecord
from backoffice.service import Service, errors
from orders.cancellation_preview import cancellation_preview
from orders.commands import CancelOrder
from orders.models import Appointment, Order, OrderEvent
from tests.api.rows import envelope, order, uid
from tests.outbox.draw_orders import order_awaiting_draw
from tests.outbox.harness import OutboxHarness
from tests.outbox.visit_forms import book_visit, open_form

State = CommandRecord.State
METHODS = ("testkit", "walk_in_test", "at_home_phlebotomy", "on_site_collection")
STATUSES = tuple(vocabulary.VOCABULARIES["order.low_level_status"])
BEFORE_COLLECTION = {"ordered", "requisition_created", "requisition_bypassed"}
VISIT_STATUSES = {"appointment_pending", "appointment_scheduled", "appointment_cancelled"}
# The table of orders.md 4.2, copied.
CANCELABLE_STATUSES = {
    "testkit": BEFORE_COLLECTION | {"awaiting_registration", "registered"},
    "walk_in_test": BEFORE_COLLECTION | VISIT_STATUSES,
    "at_home_phlebotomy": BEFORE_COLLECTION | VISIT_STATUSES | {"draw_completed"},
    "on_site_collection": BEFORE_COLLECTION | {"draw_completed"},
}
REASONS = {
    "cancelled": "already closed",
    "do_not_process": "already closed",
    "redraw_available": "needs a new draw",
    "partial_results": "A result is on file",
    "completed": "A result is on file",
    "corrected": "A result is on file",
    "transit_customer": "kit has shipped",
    "out_for_delivery": "kit has shipped",
    "with_customer": "kit has shipped",
    "problem_in_transit_customer": "kit has shipped",
    "failure_to_deliver_to_customer": "kit has shipped",
    "transit_lab": "on its way to the lab",
    "problem_in_transit_lab": "on its way to the lab",
    "failure_to_deliver_to_lab": "on its way to the lab",
    "draw_completed": "on its way to the lab",
    "delivered_to_lab": "too far along",
    "lab_processing_blocked": "too far along",
    "sample_error": "too far along",
    "lost": "too far along",
}


def preview_text(preview: Any) -> str:
    return " ".join(line.words for line in preview.lines)


def create_visit(order: Order, **values: Any) -> Appointment:
    return Appointment.objects.create(
        **{
            "id": uid("appointment", 1),
            "user_id": order.user_id,
            "order_id": order.pk,
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


def test_vocabulary_has_27_order_statuses() -> None:
    assert len(STATUSES) == 27


@pytest.mark.django_db
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("low_status", STATUSES)
def test_dialog_allows_cancellation_as_the_service_does(low_status: str, method: str) -> None:
    saved_order = order(1, low_level_status=low_status, method=method)
    saved_order.save()
    preview = cancellation_preview(saved_order)
    assert preview.possible == (low_status in CANCELABLE_STATUSES[method])
    if preview.possible:
        text = preview_text(preview)
        assert "cannot be reopened" in text
        assert ("won’t be sent" in text) == (method == "testkit")
        assert ("already been drawn" in text) == (low_status == "draw_completed")
    else:
        assert REASONS.get(low_status, "does not allow canceling") in preview_text(preview)


@pytest.mark.django_db
def test_preview_names_home_visit_and_refund() -> None:
    saved_order = order(1, low_level_status="appointment_scheduled", method="at_home_phlebotomy")
    saved_order.save()
    appointment = create_visit(saved_order)
    text = preview_text(cancellation_preview(saved_order))
    assert "home visit is canceled too" in text and "so it will be refunded" in text
    appointment.start_at = timezone.now() + timedelta(hours=23)
    appointment.save()
    text = preview_text(cancellation_preview(saved_order))
    assert "no longer refundable" in text and "so it will be refunded" not in text
    assert cancellation_preview(saved_order).visit is None, "it needs no separate call"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("hours", "is_refunded"), [(23.9, False), (24.1, True), (24.9, True), (22.9, False)]
)
@pytest.mark.parametrize("clock_change", ["2026-11-01T06:00Z", "2026-03-08T07:00Z"])
def test_refund_limit_is_24_hours_across_clock_changes(
    hours: float, is_refunded: bool, clock_change: str
) -> None:
    """In New York one night in between has 25 hours, and the other 23."""
    now = datetime.fromisoformat(clock_change) - timedelta(hours=12)
    with time_machine.travel(now, tick=False):
        saved_order = order(
            1, method="at_home_phlebotomy", low_level_status="appointment_scheduled"
        )
        saved_order.save()
        start = now + timedelta(hours=hours)
        create_visit(saved_order, start_at=start, iana_timezone="America/New_York")
        assert (
            "so it will be refunded" in preview_text(cancellation_preview(saved_order))
        ) is is_refunded
        assert (
            "no longer refundable" in preview_text(cancellation_preview(saved_order))
        ) is not is_refunded


@pytest.mark.django_db
def test_preview_offers_to_cancel_center_appointment() -> None:
    saved_order = order(1, low_level_status="appointment_scheduled", method="walk_in_test")
    saved_order.save()
    appointment = create_visit(saved_order, type="patient_service_center", provider="lab-north")
    preview = cancellation_preview(saved_order)
    assert "not canceled with the order" in preview_text(preview) and preview.visit == appointment
    appointment.provider = "lab-coast"
    appointment.save()
    preview = cancellation_preview(saved_order)
    assert preview.visit is None and "email" in preview_text(preview), (
        "only the patient can cancel it"
    )


@pytest.mark.django_db
def test_preview_points_to_the_redraw_order() -> None:
    saved_order = order(1, low_level_status="redraw_available", method="walk_in_test")
    redraw = order(2, low_level_status="ordered", method="walk_in_test", parent_id=saved_order.pk)
    Order.objects.bulk_create([saved_order, redraw])
    assert list(cancellation_preview(saved_order).instead) == [redraw]
    redraw.low_level_status = "cancelled"
    redraw.save()
    assert not cancellation_preview(saved_order).instead


@pytest.mark.django_db
def test_preview_warns_of_kit_shipped_before() -> None:
    saved_order = order(1, low_level_status="registered", method="testkit")
    saved_order.save()
    assert "has already shipped" not in preview_text(cancellation_preview(saved_order))
    OrderEvent.objects.create(
        order_id=saved_order.pk,
        event_id=1,
        created_at=timezone.now(),
        status="collecting_sample.testkit.with_customer",
        low_level_status="with_customer",
    )
    assert "has already shipped" in preview_text(cancellation_preview(saved_order))


def test_ticked_center_appointment_is_canceled_too(harness: OutboxHarness) -> None:
    saved_order = order_awaiting_draw(harness, "walk_in_test")
    client = harness.client("clinician")
    appointment = book_visit(harness, client, saved_order)
    page = client.get(reverse("orders:cancel", args=[saved_order.pk])).content.decode()
    assert "not canceled with the order" in page and 'name="visit_too" value="on" checked' in page
    values, _, response = open_form(client, reverse("orders:cancel", args=[saved_order.pk]))
    reason = response.context["form"].fields["visit_reason"].choices[0][0]
    address = reverse("orders:cancel", args=[saved_order.pk])
    values |= {"visit_too": "on", "visit_reason": reason, "why": "patient"}
    assert client.post(address, values).status_code == 302
    harness.deliver()
    commands = list(CommandRecord.objects.order_by("requested_at").values_list("kind", "state"))[
        -2:
    ]
    assert commands == [("order.cancel", State.DONE), ("appointment.cancel", State.DONE)]
    saved_order.refresh_from_db()
    appointment.refresh_from_db()
    assert (saved_order.low_level_status, appointment.event_status) == ("cancelled", "cancelled")
    reasons = AuditEntry.objects.filter(object_type="order.cancel").values_list("reason", flat=True)
    assert list(reasons) == ["Patient request"]


def test_ticked_appointment_is_kept_when_reasons_fail(
    harness: OutboxHarness,
) -> None:
    saved_order = order_awaiting_draw(harness, "walk_in_test")
    client = harness.client("clinician")
    book_visit(harness, client, saved_order)
    address = reverse("orders:cancel", args=[saved_order.pk])
    values, _, response = open_form(client, address)
    reason = response.context["form"].fields["visit_reason"].choices[0][0]
    form_values = {**values, "visit_too": "on", "visit_reason": reason, "why": "patient"}
    cache.clear()
    harness.add_fault("status", "/cancellation-reasons$", times=99, statuses=[503])
    before = CommandRecord.objects.count()
    response = client.post(address, form_values)
    page = response.content.decode()
    assert response.status_code == 422 and "Try again, or clear the checkbox" in page
    assert 'name="visit_too" value="on" checked' in page
    assert CommandRecord.objects.count() == before
    values.pop("visit_too")
    assert client.post(address, {**values, "why": "patient"}).status_code == 302
    assert harness.newest_command().kind == "order.cancel"


def test_booking_is_refused_while_order_is_being_canceled(harness: OutboxHarness) -> None:
    saved_order, other = order_awaiting_draw(harness), order_awaiting_draw(harness)
    client = harness.client("clinician")
    address = reverse("orders:book", args=[saved_order.pk])
    values, times, _ = open_form(client, address)
    harness.submit_form(client, reverse("orders:cancel", args=[saved_order.pk]), why="patient")
    assert harness.newest_command().kind == "order.cancel"
    response = client.post(address, {**values, "slot": times[-1].written()})
    assert response.status_code == 422
    assert "order is being canceled" in response.content.decode()
    assert harness.newest_command().kind == "order.cancel"
    book_visit(harness, client, other)


def test_unticked_center_appointment_is_not_canceled(harness: OutboxHarness) -> None:
    saved_order = order_awaiting_draw(harness, "walk_in_test")
    client = harness.client("clinician")
    appointment = book_visit(harness, client, saved_order)
    harness.submit_form(client, reverse("orders:cancel", args=[saved_order.pk]), why="duplicate")
    harness.deliver()
    appointment.refresh_from_db()
    assert appointment.event_status == "scheduled"
    assert harness.newest_command().kind == "order.cancel"
    page = client.get(reverse("orders:detail", args=[saved_order.pk])).content.decode()
    assert reverse("orders:cancel-visit", args=[saved_order.pk]) in page, "it can be canceled later"
    assert "can only be canceled" in page and "Cancel and rebook" not in page
    assert reverse("orders:move", args=[saved_order.pk]) not in page


def test_home_visit_is_canceled_with_its_order(harness: OutboxHarness) -> None:
    saved_order = order_awaiting_draw(harness)
    client = harness.client("clinician")
    appointment = book_visit(harness, client, saved_order)
    harness.submit_form(client, reverse("orders:cancel", args=[saved_order.pk]), why="patient")
    harness.deliver()
    harness.run_lookups()
    saved_order.refresh_from_db()
    assert saved_order.low_level_status == "cancelled"
    assert not Appointment.objects.filter(
        pk=appointment.pk, superseded_at=None, event_status="scheduled"
    ).exists()


@pytest.mark.parametrize(
    ("reason", "parameter"), [("wrong_lab", "replaces"), ("duplicate", "repeat")]
)
def test_reorder_leads_to_new_order_after_cancellation(
    harness: OutboxHarness, reason: str, parameter: str
) -> None:
    saved_order = order_awaiting_draw(harness)
    client = harness.client("clinician")
    harness.submit_form(
        client, reverse("orders:cancel", args=[saved_order.pk]), why=reason, then="reorder"
    )
    command = harness.newest_command()
    assert command.done_url == "", "empty until the service has confirmed"
    harness.deliver()
    command.refresh_from_db()
    new_order_address = reverse("orders:new", args=[saved_order.user_id])
    assert command.done_url == f"{new_order_address}?{parameter}={saved_order.pk}"
    strip = client.get(reverse("commands:strip", args=[command.pk]))
    assert command.done_url in strip.headers["HX-Trigger"]


@contextlib.contextmanager
def recording_service(bodies: list[bytes]) -> Iterator[str]:
    """Run a service that records and refuses all requests. Yields its address."""

    class RecordingHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers.get("content-length") or 0)))
            self.send_response(400)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), RecordingHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


@pytest.mark.parametrize(
    ("field", "wrong_lab", "expected_body"),
    [
        ("update_reason", True, {"update_reason": "INCORRECT_LAB"}),
        ("update_reason", False, None),
        ("", True, None),
    ],
)
def test_wrong_lab_is_sent_in_the_configured_field(
    settings: Settings, field: str, wrong_lab: bool, expected_body: dict[str, str] | None
) -> None:
    settings.SERVICE_CANCEL_REASON_FIELD = field
    bodies: list[bytes] = []
    command = CancelOrder(order_id=uid("order", 1), user_id=None, wrong_lab=wrong_lab)
    now = timezone.now()
    sending = SendContext(uid("command", 1), uid("key", 1), now, now)
    with (
        recording_service(bodies) as url,
        Service(url, "sk_us_made_up") as service,
        pytest.raises(errors.Refused),
    ):
        command.send(service, sending)
    assert [json.loads(body) if body else None for body in bodies] == [expected_body]


def test_cancellation_without_reason_keeps_form_values(
    harness: OutboxHarness,
) -> None:
    saved_order = order_awaiting_draw(harness)
    before = CommandRecord.objects.count()
    client, address = harness.client("clinician"), reverse("orders:cancel", args=[saved_order.pk])
    for typed in ({}, {"then": "reorder"}):
        response = harness.submit_form(client, address, why="", reason="moved away", **typed)
        page = response.content.decode()
        assert response.status_code == 422 and "Choose a reason for canceling." in page
        assert 'value="moved away"' in page
    assert CommandRecord.objects.count() == before
    saved_order.refresh_from_db()
    assert saved_order.low_level_status != "cancelled"


def test_refused_cancellation_keeps_order_and_says_why(harness: OutboxHarness) -> None:
    saved_order = order_awaiting_draw(harness)
    client = harness.client("clinician")
    harness.submit_form(
        client, reverse("orders:cancel", args=[saved_order.pk]), why="other", reason="made up"
    )
    # The order progresses at the service, and the mirror does not know it.
    with harness.sandbox.service() as service:
        service.orders.simulate(saved_order.pk, "completed.at_home_phlebotomy.completed")
    harness.deliver()
    command = harness.newest_command()
    assert command.state == State.REFUSED and "does not allow canceling" in command.refusal
    page = client.get(f"{command.form_url}?again={command.pk}").content.decode()
    assert "A result is on file" in page
    saved_order.refresh_from_db()
    assert saved_order.low_level_status == "completed"


def test_refused_command_fills_only_its_own_form(harness: OutboxHarness) -> None:
    client = harness.client("clinician")
    other_order, own_order = order_awaiting_draw(harness), order_awaiting_draw(harness)
    for name, typed in (
        ("cancel", {"reason": "a stranger's words"}),
        ("book", {"first_line": "9 Stranger Street"}),
    ):
        command = create_refused_command(other_order, f"orders:{name}", typed)
        page = client.get(
            reverse(f"orders:{name}", args=[other_order.pk]), {"again": str(command.pk)}
        )
        assert next(iter(typed.values())) in unescape(page.content.decode()), (
            "the order of the command"
        )
        page = client.get(
            reverse(f"orders:{name}", args=[own_order.pk]), {"again": str(command.pk)}
        )
        assert page.status_code == 200
        assert next(iter(typed.values())) not in unescape(page.content.decode()), "another order"


def create_refused_command(order: Order, page: str, typed: dict[str, str]) -> CommandRecord:
    """Create a refused command with the values of its form."""
    return CommandRecord.objects.create(
        kind="made.up",
        title="Made up",
        subject_type="order",
        subject_id=str(order.pk),
        payload={},
        form_id=uuid.uuid4(),
        form_url=reverse(page, args=[order.pk]),
        form_data={name: [value] for name, value in typed.items()},
        requested_by=User.objects.get(username="clinician"),
        idempotency_key=uuid.uuid4(),
        state=State.REFUSED,
        refusal="Made up.",
    )
