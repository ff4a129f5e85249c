"""Changes of orders, from the button to the sandbox's database."""

from __future__ import annotations

import pytest
from django.urls import reverse

from backoffice.models import AuditEntry, CommandRecord
from orders.commands.appointments import visit_lock
from orders.models import Order
from tests.api.rows import staff
from tests.outbox.desk import Desk
from tests.outbox.test_pages import asked

State = CommandRecord.State


@pytest.fixture
def order(desk: Desk) -> Order:
    """One that can be cancelled."""
    return Order.objects.filter(low_level_status="requisition_created").earliest("created_at")


def cancelled(desk: Desk, order: Order) -> int:
    return desk.count(
        "SELECT count(*) FROM orders_orderevent WHERE order_id = %s AND status LIKE '%%.cancelled'",
        order.pk,
    )


def test_an_order_is_cancelled_and_the_page_says_so(desk: Desk, order: Order) -> None:
    client = desk.client("clinician")
    address = reverse("orders:cancel", args=[order.pk])
    answer = desk.fill(client, address, why="patient", reason="asked for by phone")
    assert answer.status_code == 302
    asked = desk.newest()
    assert asked.state == State.WAITING and asked.attempts == 0
    assert AuditEntry.objects.filter(object_type="order.cancel", action="change").count() == 1
    desk.deliver()
    asked.refresh_from_db()
    assert (asked.state, asked.confirmed_by, asked.attempts) == (State.DONE, "answer", 1)
    order.refresh_from_db()
    assert order.low_level_status == "cancelled"
    page = client.get(reverse("orders:detail", args=[order.pk])).content.decode()
    assert "Cancel the order" in page and "Confirmed" in page


def test_one_form_is_one_command_however_often_it_is_sent(desk: Desk, order: Order) -> None:
    client = desk.client("clinician")
    address = reverse("orders:cancel", args=[order.pk])
    form_id = client.get(address).context["form"]["form_id"].value()
    for _ in range(3):
        assert client.post(address, {"form_id": str(form_id), "why": "other"}).status_code == 302
    assert CommandRecord.objects.count() == 1


def test_another_thing_on_a_used_form_is_not_taken_for_the_first(desk: Desk, order: Order) -> None:
    client = desk.client("clinician")
    address = reverse("orders:cancel", args=[order.pk])
    form_id = str(client.get(address).context["form"]["form_id"].value())
    values = {"form_id": form_id, "why": "other"}
    assert client.post(address, {**values, "reason": "one"}).status_code == 302
    answer = client.post(address, {**values, "reason": "another"})
    page = answer.content.decode()
    assert answer.status_code == 422 and "sent already, with other contents" in page
    assert 'value="another"' in page and form_id not in page
    assert CommandRecord.objects.count() == 1


def test_the_second_person_hears_of_the_first(desk: Desk, order: Order) -> None:
    address = reverse("orders:cancel", args=[order.pk])
    desk.fill(desk.client("clinician"), address, why="other")
    answer = desk.fill(desk.client("lab coordinator"), address, why="duplicate", reason="duplicate")
    assert answer.status_code == 422
    page = answer.content.decode()
    assert "asked for something about this already" in page and 'value="duplicate"' in page
    assert CommandRecord.objects.count() == 1


def test_a_lost_answer_is_settled_by_looking(desk: Desk, order: Order) -> None:
    desk.fill(desk.client("clinician"), reverse("orders:cancel", args=[order.pk]), why="other")
    desk.fault("drop_after", "/cancel$")
    desk.deliver()
    asked = desk.newest()
    assert asked.state == State.UNCERTAIN
    desk.later()
    asked.refresh_from_db()
    assert (asked.state, asked.confirmed_by, asked.attempts) == (State.DONE, "look-up", 1)
    order.refresh_from_db()
    assert order.low_level_status == "cancelled"


def test_what_never_left_is_sent_again(desk: Desk, order: Order) -> None:
    desk.fill(desk.client("clinician"), reverse("orders:cancel", args=[order.pk]), why="other")
    desk.fault("status", "/cancel$", statuses=[429])
    desk.deliver()
    asked = desk.newest()
    assert asked.state == State.WAITING and asked.hindrance
    desk.later()
    asked.refresh_from_db()
    assert (asked.state, asked.confirmed_by, asked.attempts) == (State.DONE, "answer", 2)


def test_an_order_is_not_cancelled_while_its_visit_is_being_changed(
    desk: Desk, order: Order
) -> None:
    asked(staff("front desk"), title="Book a visit", lock=visit_lock(order.pk))
    address = reverse("orders:cancel", args=[order.pk])
    answer = desk.fill(desk.client("clinician"), address, why="other", reason="not needed")
    page = answer.content.decode()
    assert answer.status_code == 422 and "being changed just now (Book a visit)" in page
    assert 'value="not needed"' in page
