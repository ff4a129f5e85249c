"""Cancellation of orders, from the form to the sandbox's database."""

from __future__ import annotations

import pytest
from django.urls import reverse

from backoffice.audit.models import AuditEntry
from backoffice.outbox.models import CommandRecord
from orders.commands.appointments import appointment_lock
from orders.models import Order
from tests.api.rows import staff
from tests.outbox.harness import OutboxHarness
from tests.outbox.test_command_pages import create_command

State = CommandRecord.State


@pytest.fixture
def order(harness: OutboxHarness) -> Order:
    """Return an order that can be canceled."""
    return Order.objects.filter(low_level_status="requisition_created").earliest("created_at")


def count_cancellations(harness: OutboxHarness, order: Order) -> int:
    return harness.count(
        "SELECT count(*) FROM orders_orderevent WHERE order_id = %s AND status LIKE '%%.cancelled'",
        order.pk,
    )


def test_canceled_order_is_confirmed_on_its_page(harness: OutboxHarness, order: Order) -> None:
    client = harness.client("clinician")
    address = reverse("orders:cancel", args=[order.pk])
    response = harness.submit_form(client, address, why="patient", reason="asked for by phone")
    assert response.status_code == 302
    command = harness.newest_command()
    assert command.state == State.WAITING and command.attempts == 0
    assert AuditEntry.objects.filter(object_type="order.cancel", action="change").count() == 1
    harness.deliver()
    command.refresh_from_db()
    assert (command.state, command.confirmed_by, command.attempts) == (State.DONE, "answer", 1)
    order.refresh_from_db()
    assert order.low_level_status == "cancelled"
    page = client.get(reverse("orders:detail", args=[order.pk])).content.decode()
    assert "Cancel order" in page and "Confirmed" in page


def test_form_sent_repeatedly_is_one_command(harness: OutboxHarness, order: Order) -> None:
    client = harness.client("clinician")
    address = reverse("orders:cancel", args=[order.pk])
    form_id = client.get(address).context["form"]["form_id"].value()
    for _ in range(3):
        assert client.post(address, {"form_id": str(form_id), "why": "other"}).status_code == 302
    assert CommandRecord.objects.count() == 1


def test_used_form_with_other_values_is_refused(harness: OutboxHarness, order: Order) -> None:
    client = harness.client("clinician")
    address = reverse("orders:cancel", args=[order.pk])
    form_id = str(client.get(address).context["form"]["form_id"].value())
    values = {"form_id": form_id, "why": "other"}
    assert client.post(address, {**values, "reason": "one"}).status_code == 302
    response = client.post(address, {**values, "reason": "another"})
    page = response.content.decode()
    assert response.status_code == 422 and "already sent with different entries" in page
    assert 'value="another"' in page and form_id not in page
    assert CommandRecord.objects.count() == 1


def test_second_cancellation_names_the_first(harness: OutboxHarness, order: Order) -> None:
    address = reverse("orders:cancel", args=[order.pk])
    harness.submit_form(harness.client("clinician"), address, why="other")
    response = harness.submit_form(
        harness.client("lab coordinator"), address, why="duplicate", reason="duplicate"
    )
    assert response.status_code == 422
    page = response.content.decode()
    assert "already sent a request about this" in page and 'value="duplicate"' in page
    assert CommandRecord.objects.count() == 1


def test_lost_answer_is_settled_by_lookup(harness: OutboxHarness, order: Order) -> None:
    harness.submit_form(
        harness.client("clinician"), reverse("orders:cancel", args=[order.pk]), why="other"
    )
    harness.add_fault("drop_after", "/cancel$")
    harness.deliver()
    command = harness.newest_command()
    assert command.state == State.UNCERTAIN
    harness.pass_time()
    command.refresh_from_db()
    assert (command.state, command.confirmed_by, command.attempts) == (State.DONE, "look-up", 1)
    order.refresh_from_db()
    assert order.low_level_status == "cancelled"


def test_rate_limited_command_is_sent_again(harness: OutboxHarness, order: Order) -> None:
    harness.submit_form(
        harness.client("clinician"), reverse("orders:cancel", args=[order.pk]), why="other"
    )
    harness.add_fault("status", "/cancel$", statuses=[429])
    harness.deliver()
    command = harness.newest_command()
    assert command.state == State.WAITING and command.hindrance
    harness.pass_time()
    command.refresh_from_db()
    assert (command.state, command.confirmed_by, command.attempts) == (State.DONE, "answer", 2)


def test_cancellation_is_refused_while_visit_is_changing(
    harness: OutboxHarness, order: Order
) -> None:
    create_command(staff("front desk"), title="Book a visit", lock=appointment_lock(order.pk))
    address = reverse("orders:cancel", args=[order.pk])
    response = harness.submit_form(
        harness.client("clinician"), address, why="other", reason="not needed"
    )
    page = response.content.decode()
    assert response.status_code == 422 and "being changed (Book a visit)" in page
    assert 'value="not needed"' in page
