"""Text messages about an order: the switch, from the page to the sandbox's database."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from backoffice.audit.models import AuditEntry
from backoffice.outbox.models import CommandRecord
from orders.models import Order
from tests.outbox.harness import OutboxHarness

State = CommandRecord.State
PATH = "/communication_settings$"


@pytest.fixture
def order(harness: OutboxHarness) -> Order:
    """Return an order with text messages turned on."""
    order = Order.objects.exclude(user=None).exclude(patient_first_name="").earliest("created_at")
    switch_messages(harness, order, is_on=True)
    return order


def switch_messages(harness: OutboxHarness, order: Order, *, is_on: bool) -> None:
    """Switch messages directly at the service, as in its own dashboard."""
    with harness.sandbox.service() as service:
        service.orders.change_communication(order.pk, is_on)


def are_messages_on(harness: OutboxHarness, order: Order) -> bool:
    return bool(
        harness.sandbox.query("SELECT sms_enabled FROM sandbox_order WHERE id = %s", [order.pk])[0][
            0
        ]
    )


def form_address(order: Order) -> str:
    return reverse("orders:messages", args=[order.pk])


def shown_state(client: Client, order: Order) -> str:
    """Return the state of the messages as the order's page shows it."""
    response = client.get(reverse("orders:message-state", args=[order.pk]))
    assert response.status_code == 200
    return response.content.decode().strip()


def test_messages_turned_off_are_shown_as_off(harness: OutboxHarness, order: Order) -> None:
    client = harness.client("clinician")
    page = client.get(reverse("orders:detail", args=[order.pk])).content.decode()
    assert (
        reverse("orders:message-state", args=[order.pk]) in page
        and f'href="{form_address(order)}"' in page
    )
    assert shown_state(client, order) == "On"
    form_page = client.get(form_address(order)).content.decode()
    assert "Now: On." in form_page and order.patient_first_name in form_page
    assert harness.submit_form(client, form_address(order), sms_enabled="off").status_code == 302
    command = harness.newest_command()
    assert (command.title, command.patient_id) == ("Turn off text messages", order.user_id)
    assert are_messages_on(harness, order), "nothing is sent before it is recorded"
    harness.deliver()
    command.refresh_from_db()
    assert (command.state, command.confirmed_by, command.attempts) == (State.DONE, "answer", 1)
    assert not are_messages_on(harness, order) and shown_state(client, order) == "Off"


def test_switching_messages_is_audited_with_before_and_after(
    harness: OutboxHarness, order: Order
) -> None:
    harness.submit_form(harness.client("clinician"), form_address(order), sms_enabled="off")
    entry = AuditEntry.objects.get(object_type="order.messages", action="change")
    assert (entry.before, entry.after) == ({"sms_enabled": True}, {"sms_enabled": False})
    assert entry.patient_ids == [order.user_id]


def test_lost_answer_of_switch_is_found_by_lookup(harness: OutboxHarness, order: Order) -> None:
    harness.submit_form(harness.client("clinician"), form_address(order), sms_enabled="off")
    harness.add_fault("drop_after", PATH, methods=["PATCH"])
    harness.deliver()
    command = harness.newest_command()
    assert command.state == State.UNCERTAIN
    harness.pass_time()
    command.refresh_from_db()
    assert (command.state, command.confirmed_by, command.attempts) == (State.DONE, "look-up", 1)


def test_switch_that_never_arrived_is_sent_again(harness: OutboxHarness, order: Order) -> None:
    harness.submit_form(harness.client("clinician"), form_address(order), sms_enabled="off")
    harness.add_fault("drop_before", PATH, methods=["PATCH"])
    harness.deliver()
    harness.pass_time()
    command = harness.newest_command()
    assert (command.state, command.attempts) == (State.DONE, 2) and not are_messages_on(
        harness, order
    )


def test_switch_is_unknown_while_service_fails(harness: OutboxHarness, order: Order) -> None:
    harness.add_fault("status", PATH, methods=["GET"], times=50, statuses=[500])
    assert (
        shown_state(harness.client("viewer"), order) == "Unknown: the lab service is not responding"
    )
    client = harness.client("clinician")
    assert "Now: Unknown" in client.get(form_address(order)).content.decode()
    assert harness.submit_form(client, form_address(order), sms_enabled="off").status_code == 302
    harness.deliver()
    assert harness.newest_command().state == State.DONE and not are_messages_on(harness, order)


@pytest.mark.parametrize(
    ("chosen", "words"),
    [("", "Choose on or off."), ("on", "already on"), ("perhaps", "is not one of")],
)
def test_invalid_choice_is_refused(
    harness: OutboxHarness, order: Order, chosen: str, words: str
) -> None:
    response = harness.submit_form(
        harness.client("clinician"), form_address(order), sms_enabled=chosen
    )
    assert response.status_code == 422 and words in response.content.decode()
    assert not CommandRecord.objects.exists()


def test_missing_order_has_no_switch(harness: OutboxHarness, order: Order) -> None:
    Order.objects.filter(pk=order.pk).update(missing_since=order.created_at)
    client = harness.client("clinician")
    page = client.get(reverse("orders:detail", args=[order.pk])).content.decode()
    assert f'href="{form_address(order)}"' not in page
    response = harness.submit_form(client, form_address(order), sms_enabled="off")
    assert response.status_code == 422 and "no longer has this order" in response.content.decode()
    assert not CommandRecord.objects.exists()


def test_switch_requires_permission_to_change_orders(harness: OutboxHarness, order: Order) -> None:
    for role in ("viewer", "front desk"):
        client = harness.client(role)
        assert client.get(form_address(order)).status_code == 403
        assert client.post(form_address(order), {"sms_enabled": "off"}).status_code == 403
        page = client.get(reverse("orders:detail", args=[order.pk])).content.decode()
        assert f'href="{form_address(order)}"' not in page
    assert not CommandRecord.objects.exists()
