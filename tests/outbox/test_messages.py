"""The service's text messages about an order, from the page to the sandbox's database."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from backoffice.models import AuditEntry, CommandRecord
from orders.models import Order
from tests.outbox.desk import Desk

State = CommandRecord.State
PATH = "/communication_settings$"


@pytest.fixture
def order(desk: Desk) -> Order:
    """One whose messages are on."""
    found = Order.objects.exclude(user=None).exclude(patient_first_name="").earliest("created_at")
    switch(desk, found, is_on=True)
    return found


def switch(desk: Desk, order: Order, *, is_on: bool) -> None:
    """As somebody does in the service's own dashboard."""
    with desk.sandbox.service() as service:
        service.orders.change_communication(order.pk, is_on)


def is_on(desk: Desk, order: Order) -> bool:
    return bool(
        desk.sandbox.query("SELECT sms_enabled FROM sandbox_order WHERE id = %s", [order.pk])[0][0]
    )


def form_of(order: Order) -> str:
    return reverse("orders:messages", args=[order.pk])


def state_of(client: Client, order: Order) -> str:
    """What the order's page shows of it."""
    answer = client.get(reverse("orders:message-state", args=[order.pk]))
    assert answer.status_code == 200
    return answer.content.decode().strip()


def test_messages_are_turned_off_and_the_page_says_so(desk: Desk, order: Order) -> None:
    client = desk.client("clinician")
    page = client.get(reverse("orders:detail", args=[order.pk])).content.decode()
    assert (
        reverse("orders:message-state", args=[order.pk]) in page
        and f'href="{form_of(order)}"' in page
    )
    assert state_of(client, order) == "On"
    shown = client.get(form_of(order)).content.decode()
    assert "Now: On." in shown and order.patient_first_name in shown
    assert desk.fill(client, form_of(order), sms_enabled="off").status_code == 302
    asked = desk.newest()
    assert (asked.title, asked.patient_id) == ("Turn text messages off", order.user_id)
    assert is_on(desk, order), "nothing is sent before it is recorded"
    desk.deliver()
    asked.refresh_from_db()
    assert (asked.state, asked.confirmed_by, asked.attempts) == (State.DONE, "answer", 1)
    assert not is_on(desk, order) and state_of(client, order) == "Off"


def test_switching_messages_is_audited_with_before_and_after(desk: Desk, order: Order) -> None:
    desk.fill(desk.client("clinician"), form_of(order), sms_enabled="off")
    entry = AuditEntry.objects.get(object_type="order.messages", action="change")
    assert (entry.before, entry.after) == ({"sms_enabled": True}, {"sms_enabled": False})
    assert entry.patient_ids == [order.user_id]


def test_lost_answer_to_the_switch_is_looked_up(desk: Desk, order: Order) -> None:
    desk.fill(desk.client("clinician"), form_of(order), sms_enabled="off")
    desk.fault("drop_after", PATH, methods=["PATCH"])
    desk.deliver()
    asked = desk.newest()
    assert asked.state == State.UNCERTAIN
    desk.later()
    asked.refresh_from_db()
    assert (asked.state, asked.confirmed_by, asked.attempts) == (State.DONE, "look-up", 1)


def test_switch_that_never_arrived_is_sent_again(desk: Desk, order: Order) -> None:
    desk.fill(desk.client("clinician"), form_of(order), sms_enabled="off")
    desk.fault("drop_before", PATH, methods=["PATCH"])
    desk.deliver()
    desk.later()
    asked = desk.newest()
    assert (asked.state, asked.attempts) == (State.DONE, 2) and not is_on(desk, order)


def test_silent_service_shows_the_switch_as_unknown(desk: Desk, order: Order) -> None:
    desk.fault("status", PATH, methods=["GET"], times=50, statuses=[500])
    assert state_of(desk.client("viewer"), order) == "Unknown: the service does not answer"
    client = desk.client("clinician")
    assert "Now: Unknown" in client.get(form_of(order)).content.decode()
    assert desk.fill(client, form_of(order), sms_enabled="off").status_code == 302
    desk.deliver()
    assert desk.newest().state == State.DONE and not is_on(desk, order)


@pytest.mark.parametrize(
    ("chosen", "words"),
    [("", "Choose on or off."), ("on", "on already"), ("perhaps", "is not one of")],
)
def test_choice_that_makes_no_sense_is_refused(
    desk: Desk, order: Order, chosen: str, words: str
) -> None:
    answer = desk.fill(desk.client("clinician"), form_of(order), sms_enabled=chosen)
    assert answer.status_code == 422 and words in answer.content.decode()
    assert not CommandRecord.objects.exists()


def test_order_that_is_gone_has_no_switch(desk: Desk, order: Order) -> None:
    Order.objects.filter(pk=order.pk).update(missing_since=order.created_at)
    client = desk.client("clinician")
    page = client.get(reverse("orders:detail", args=[order.pk])).content.decode()
    assert f'href="{form_of(order)}"' not in page
    answer = desk.fill(client, form_of(order), sms_enabled="off")
    assert answer.status_code == 422 and "no longer has this order" in answer.content.decode()
    assert not CommandRecord.objects.exists()


def test_only_those_who_change_orders_may_switch(desk: Desk, order: Order) -> None:
    for role in ("viewer", "front desk"):
        client = desk.client(role)
        assert client.get(form_of(order)).status_code == 403
        assert client.post(form_of(order), {"sms_enabled": "off"}).status_code == 403
        page = client.get(reverse("orders:detail", args=[order.pk])).content.decode()
        assert f'href="{form_of(order)}"' not in page
    assert not CommandRecord.objects.exists()
