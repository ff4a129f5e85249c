"""Every command comes to an end: by the service, by patience, by a person; then it is forgotten."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from backoffice import outbox
from backoffice.models import CommandRecord
from orders.models import Order
from patients.commands import CreatePayor
from patients.commands.insurance import follow_resolved_payors
from tests.api.rows import staff
from tests.outbox.desk import Desk
from tests.outbox.test_pages import asked

State = CommandRecord.State
ONE_ORDER = "/v3/order/[0-9a-f-]{36}$"


@pytest.fixture
def order(desk: Desk) -> Order:
    return Order.objects.filter(low_level_status="requisition_created").earliest("created_at")


@pytest.fixture
def cancelling(desk: Desk, order: Order) -> CommandRecord:
    desk.fill(desk.client("clinician"), reverse("orders:cancel", args=[order.pk]), why="other")
    return desk.newest()


def test_a_look_up_that_cannot_tell_ends_with_a_person(
    desk: Desk, cancelling: CommandRecord
) -> None:
    desk.fault("drop_after", "/cancel$")
    desk.deliver()
    desk.fault("status", ONE_ORDER, methods=["GET"], statuses=[404], times=20)
    desk.later()
    cancelling.refresh_from_db()
    assert cancelling.state == State.UNDECIDED


def test_what_somebody_else_did_meanwhile_is_done(
    desk: Desk, cancelling: CommandRecord, order: Order
) -> None:
    with desk.sandbox.service() as colleague:
        colleague.orders.cancel(order.pk)
    desk.deliver()
    cancelling.refresh_from_db()
    assert (cancelling.state, cancelling.attempts) == (State.DONE, 0)


def test_what_cannot_be_looked_at_waits_longer_each_time(
    desk: Desk, cancelling: CommandRecord
) -> None:
    waits = []
    desk.fault("status", ONE_ORDER, methods=["GET"], statuses=[401], times=20)
    for _ in range(6):
        CommandRecord.objects.update(due_at=timezone.now())
        desk.deliver()
        cancelling.refresh_from_db()
        waits.append((cancelling.due_at - timezone.now()).total_seconds())
    assert cancelling.state == State.WAITING and cancelling.attempts == 0
    assert waits[-1] > 40 > 15 > waits[0]


def test_what_never_left_does_not_use_up_the_sendings(
    desk: Desk, cancelling: CommandRecord
) -> None:
    desk.fault("status", "/cancel$", statuses=[429], times=7, retry_after=1)
    for _ in range(7):
        desk.later()
    desk.fault("drop_before", "/cancel$")
    desk.later()
    desk.later()
    cancelling.refresh_from_db()
    assert cancelling.state == State.DONE


def test_ended_commands_forget_what_they_carried(transactional_db: None) -> None:
    user = staff("clinician")
    told = {"payload": {"name": "Canary"}, "form_data": {"name": ["Canary"]}}
    long_ago = timezone.now() - timedelta(days=31)
    old = asked(user, state=State.DONE, finished_at=long_ago, **told)
    new = asked(user, state=State.DONE, finished_at=timezone.now(), **told)
    still = asked(user, state=State.UNDECIDED, requested_at=long_ago, **told)
    assert outbox.erase_contents() == 1
    for row in (old, new, still):
        row.refresh_from_db()
    assert (old.payload, old.form_data) == ({}, {})
    assert new.payload and still.payload


def test_one_step_that_cannot_be_read_stops_no_other(transactional_db: None) -> None:
    asked(staff("clinician"), kind=CreatePayor.kind, state=State.DONE, confirmed_by="person")
    follow_resolved_payors()
