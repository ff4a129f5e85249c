"""Placing an order, from the page to the sandbox's database."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from backoffice.models import AuditEntry, CommandRecord
from labs.models import LabAccount, LabTest, Marker
from orders.models import Order, OrderDraft
from orders.placing import drafts
from patients.models import Demographics
from tests.outbox.desk import Desk

State = CommandRecord.State


@pytest.fixture
def person(desk: Desk) -> Demographics:
    """A known grown-up whom labs accept, without an order of the last month."""
    for found in Demographics.objects.filter(dob__lt=date(2000, 1, 1)).order_by("pk"):
        if found.zip and found.email and found.phone_number and found.first_name.isascii():
            Order.objects.filter(user_id=found.pk).update(
                created_at=timezone.now() - timedelta(days=90)
            )
            return found
    raise AssertionError("nobody")


@pytest.fixture
def panel(desk: Desk) -> LabTest:
    """One whose lab account needs no physician and no answers."""
    account = LabAccount.objects.get(lab="lab-south", status="active")
    assert account.delegated_flow == "result_delegated"
    tests = LabTest.objects.filter(lab__slug="lab-south", status="active", auto_generated=False)
    asked = Marker.objects.filter(has_questions=True)
    found = tests.exclude(test_markers__marker__in=asked).order_by("name").first()
    return found or tests.order_by("name")[0]


def typed(person: Demographics, *tests: LabTest, **values: Any) -> dict[str, Any]:
    """The form as it would be filled."""
    known = {name: given[0] for name, given in drafts.of_person(person).items()}
    picked = {"tests": [str(one.pk) for one in tests], "billing_type": "client_bill"}
    return {**known, **picked, **values}


def write(client: Client, person: Demographics, given: dict[str, Any]) -> Any:
    address = reverse("orders:new", args=[person.pk])
    return client.post(address, {**given, "do": "review"})


def place(client: Client, person: Demographics) -> CommandRecord:
    """The button of the review page."""
    address = reverse("orders:new-review", args=[person.pk])
    page = client.get(address)
    assert page.status_code == 200
    form_id = page.context["form"]["form_id"].value()
    answer = client.post(address, {"form_id": str(form_id)})
    assert answer.status_code == 302, answer.content.decode()
    return CommandRecord.objects.get(form_id=form_id)


def at_the_sandbox(desk: Desk, command: CommandRecord) -> int:
    """Orders there that carry our command's id."""
    told = f'%"passthrough":"{command.pk}"%'
    return desk.count(
        "SELECT count(*) FROM sandbox_order WHERE fixed_part LIKE %s", told
    )


def test_an_order_is_placed_once_and_mirrored(
    desk: Desk, person: Demographics, panel: LabTest
) -> None:
    client = desk.client("clinician")
    answer = write(client, person, typed(person, panel))
    assert answer.status_code == 302, answer.content.decode()
    asked = place(client, person)
    assert (asked.state, asked.attempts) == (State.WAITING, 0)
    assert AuditEntry.objects.filter(object_type="order.create", action="change").count() == 1
    desk.deliver()
    asked.refresh_from_db()
    assert (asked.state, asked.confirmed_by) == (State.DONE, "answer")
    made = Order.objects.get(pk=asked.remote_id)
    assert (made.user_id, made.lab_test_id) == (person.pk, panel.pk)
    assert made.passthrough == str(asked.pk)
    assert at_the_sandbox(desk, asked) == 1
    assert not OrderDraft.objects.exists()
    page = client.get(asked.done_url)
    assert page.status_code == 200
