"""Every command ends: by the service, by retries, or by a person. Then its contents are erased."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from backoffice.outbox.maintenance import erase_contents
from backoffice.outbox.models import CommandRecord
from orders.models import Order
from patients.commands import AddInsurance, CreatePayor
from patients.commands.insurance import follow_resolved_payors
from tests.api.rows import staff, uid
from tests.outbox.harness import OutboxHarness
from tests.outbox.test_command_pages import create_command

State = CommandRecord.State
ONE_ORDER = "/v3/order/[0-9a-f-]{36}$"


@pytest.fixture
def order(harness: OutboxHarness) -> Order:
    return Order.objects.filter(low_level_status="requisition_created").earliest("created_at")


@pytest.fixture
def cancellation(harness: OutboxHarness, order: Order) -> CommandRecord:
    harness.submit_form(
        harness.client("clinician"), reverse("orders:cancel", args=[order.pk]), why="other"
    )
    return harness.newest_command()


def test_lookup_without_answer_ends_as_undecided(
    harness: OutboxHarness, cancellation: CommandRecord
) -> None:
    harness.add_fault("drop_after", "/cancel$")
    harness.deliver()
    harness.add_fault("status", ONE_ORDER, methods=["GET"], statuses=[404], times=20)
    harness.pass_time()
    cancellation.refresh_from_db()
    assert cancellation.state == State.UNDECIDED


def test_order_canceled_elsewhere_is_done_without_sending(
    harness: OutboxHarness, cancellation: CommandRecord, order: Order
) -> None:
    with harness.sandbox.service() as colleague:
        colleague.orders.cancel(order.pk)
    harness.deliver()
    cancellation.refresh_from_db()
    assert (cancellation.state, cancellation.attempts) == (State.DONE, 0)


def test_failing_check_waits_longer_each_time(
    harness: OutboxHarness, cancellation: CommandRecord
) -> None:
    waits = []
    harness.add_fault("status", ONE_ORDER, methods=["GET"], statuses=[401], times=20)
    for _ in range(6):
        CommandRecord.objects.update(due_at=timezone.now())
        harness.deliver()
        cancellation.refresh_from_db()
        waits.append((cancellation.due_at - timezone.now()).total_seconds())
    assert cancellation.state == State.WAITING and cancellation.attempts == 0
    assert waits[-1] > 40 > 15 > waits[0]


def test_rate_limits_do_not_count_as_attempts(
    harness: OutboxHarness, cancellation: CommandRecord
) -> None:
    harness.add_fault("status", "/cancel$", statuses=[429], times=7, retry_after=1)
    for _ in range(7):
        harness.pass_time()
    harness.add_fault("drop_before", "/cancel$")
    harness.pass_time()
    harness.pass_time()
    cancellation.refresh_from_db()
    assert cancellation.state == State.DONE


def test_contents_of_old_ended_commands_are_erased(transactional_db: None) -> None:
    user = staff("clinician")
    contents = {"payload": {"name": "Canary"}, "form_data": {"name": ["Canary"]}}
    long_ago = timezone.now() - timedelta(days=31)
    old = create_command(user, state=State.DONE, finished_at=long_ago, **contents)
    new = create_command(user, state=State.DONE, finished_at=timezone.now(), **contents)
    undecided = create_command(user, state=State.UNDECIDED, requested_at=long_ago, **contents)
    assert erase_contents() == 1
    for row in (old, new, undecided):
        row.refresh_from_db()
    assert (old.payload, old.form_data) == ({}, {})
    assert new.payload and undecided.payload


def test_unreadable_payor_command_stops_no_other(transactional_db: None) -> None:
    resolved: dict[str, Any] = {
        "kind": CreatePayor.kind, "state": State.DONE, "confirmed_by": "person", "remote_id": "P-1",
    }  # fmt: skip
    address = {
        "first_line": "1 Sample Street", "city": "Phoenix", "state": "AZ", "zip": "85004",
        "country": "US",
    }  # fmt: skip
    card = {"payor_code": "", "payor_name": "Fund", "member_id": "M-1", "relationship": "Self"}
    insured = {
        "first_name": "Ada", "last_name": "Sample", "gender": "female", "address": address,
        "dob": "1980-01-02", "email": "ada@example.invalid", "phone_number": "+15550100165",
    }  # fmt: skip
    readable = {
        "payor": {"name": "Fund", "address": address},
        "user_id": str(uid("patient", 1)),
        "insuring": card,
        "insured": insured,
    }
    user = staff("clinician")
    create_command(user, **resolved, payload={"payor": "of another release"})
    create_command(user, **resolved, payload=readable)
    create_command(user, **resolved)
    follow_resolved_payors()
    insurance = CommandRecord.objects.get(kind=AddInsurance.kind)
    assert (insurance.state, insurance.payload["insuring"]["payor_code"]) == (State.WAITING, "P-1")
