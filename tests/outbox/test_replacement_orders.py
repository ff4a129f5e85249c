"""Replacement of an order at the wrong lab, from cancellation to the sandbox's database."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from backoffice.outbox.command import PreconditionFailed
from backoffice.outbox.models import CommandRecord
from labs.models import LabAccount, LabTest
from orders.commands import CreateOrder
from orders.models import Order
from patients.models import Demographics
from tests.outbox.harness import OutboxHarness
from tests.outbox.test_placing import confirm_review, form_values, send_form
from tests.sandbox.ordering import open_second_account

State = CommandRecord.State


@pytest.fixture
def right_account(harness: OutboxHarness) -> LabAccount:
    """Open a second active account of the panel's lab, at the sandbox and in the mirror."""
    account = LabAccount.objects.get(pk=open_second_account(harness.sandbox))
    account.status = "active"
    account.save(update_fields=["status"])
    return account


@pytest.fixture
def wrong_account(harness: OutboxHarness) -> LabAccount:
    return LabAccount.objects.get(account_name__endswith="south-shared")


def place_and_deliver(
    harness: OutboxHarness,
    client: Client,
    person: Demographics,
    panel: LabTest,
    account: LabAccount,
) -> CommandRecord:
    values = form_values(person, panel, lab_account=str(account.pk))
    assert send_form(client, person, values).status_code == 302
    command = confirm_review(client, person)
    harness.deliver()
    command.refresh_from_db()
    assert command.state == State.DONE
    return command


def cancel_wrong_lab(harness: OutboxHarness, client: Client, order_id: str) -> str:
    """Cancel the order because of the wrong lab. Return the address of the new order's form."""
    address = reverse("orders:cancel", args=[order_id])
    harness.submit_form(client, address, why="wrong_lab", then="reorder")
    command = harness.newest_command()
    harness.deliver()
    command.refresh_from_db()
    assert command.state == State.DONE
    return command.done_url


def prefilled_values(client: Client, address: str) -> dict[str, list[str]]:
    """Return the values that the form of the new order is filled with."""
    order_request = client.get(address).context["order_request"]
    return {name: list(values) for name, values in order_request.typed.items()}


def sandbox_account_id(harness: OutboxHarness, order_id: str) -> str:
    rows = harness.sandbox.query(
        "SELECT lab_account_id::text FROM sandbox_order WHERE id = %s", (order_id,)
    )
    return str(rows[0][0])


def test_order_at_the_wrong_lab_is_replaced(
    harness: OutboxHarness,
    person: Demographics,
    panel: LabTest,
    wrong_account: LabAccount,
    right_account: LabAccount,
) -> None:
    client = harness.client("clinician")
    former_id = place_and_deliver(harness, client, person, panel, wrong_account).remote_id
    address = cancel_wrong_lab(harness, client, former_id)
    values = prefilled_values(client, address)
    response = send_form(client, person, {**values, "lab_account": str(wrong_account.pk)})
    assert response.status_code == 422
    assert "incorrect account" in {one.kind for one in response.context["stopped"]}
    response = send_form(client, person, {**values, "lab_account": str(right_account.pk)})
    assert response.status_code == 302, response.context["findings"]
    review = client.get(response["Location"]).content.decode()
    assert f'href="/orders/{former_id}/"' in review and "went to the wrong lab" in review
    command = confirm_review(client, person)
    harness.deliver()
    command.refresh_from_db()
    assert (command.state, command.confirmed_by) == (State.DONE, "answer")
    old, new = (Order.objects.get(pk=pk) for pk in (former_id, command.remote_id))
    assert (new.origin, new.parent_id) == ("recreation", old.pk)
    assert new.order_transaction_id == old.order_transaction_id
    assert old.low_level_status == "cancelled"
    assert sandbox_account_id(harness, former_id) == str(wrong_account.pk)
    assert sandbox_account_id(harness, command.remote_id) == str(right_account.pk)
    for order, other in ((old, new), (new, old)):
        page = client.get(reverse("orders:detail", args=[order.pk]))
        rows = {row.order.pk: row.account for row in page.context["transaction"]}
        assert rows == {old.pk: wrong_account, new.pk: right_account}
        assert f'href="/orders/{other.pk}/"' in page.content.decode()


def test_lost_answer_leaves_one_replacement_order(
    harness: OutboxHarness,
    person: Demographics,
    panel: LabTest,
    wrong_account: LabAccount,
    right_account: LabAccount,
) -> None:
    client = harness.client("clinician")
    former_id = place_and_deliver(harness, client, person, panel, wrong_account).remote_id
    values = prefilled_values(client, cancel_wrong_lab(harness, client, former_id))
    send_form(client, person, {**values, "lab_account": str(right_account.pk)})
    command = confirm_review(client, person)
    harness.add_fault("drop_after", "/order/create$")
    harness.deliver()
    harness.pass_time()
    command.refresh_from_db()
    assert (command.state, command.confirmed_by) == (State.DONE, "look-up")
    assert harness.count("SELECT count(*) FROM sandbox_order WHERE parent_id = %s", former_id) == 1


def test_suspended_account_is_refused_at_its_field(
    harness: OutboxHarness,
    person: Demographics,
    panel: LabTest,
    wrong_account: LabAccount,
    right_account: LabAccount,
) -> None:
    """The account has just been suspended. The mirror does not know it yet."""
    client = harness.client("clinician")
    former_id = place_and_deliver(harness, client, person, panel, wrong_account).remote_id
    values = prefilled_values(client, cancel_wrong_lab(harness, client, former_id))
    harness.sandbox.query(
        "UPDATE sandbox_labaccount SET status = 'suspended' WHERE id = %s RETURNING 1",
        (str(right_account.pk),),
    )
    send_form(
        client,
        person,
        {**values, "lab_account": str(right_account.pk), "clinical_notes": "as before"},
    )
    command = confirm_review(client, person)
    harness.deliver()
    command.refresh_from_db()
    assert (command.state, command.refusal) == (State.REFUSED, "The lab account is suspended")
    page = client.get(f"{command.form_url}?again={command.pk}")
    assert page.context["form"].errors["lab_account"] == [command.refusal]
    assert page.context["order_request"].replaces == Order.objects.get(pk=former_id).pk
    assert "as before" in page.content.decode()


@pytest.mark.parametrize("field", ["", "clinical_notes"])
def test_replacement_reason_uses_the_configured_field(
    harness: OutboxHarness,
    person: Demographics,
    panel: LabTest,
    wrong_account: LabAccount,
    right_account: LabAccount,
    settings: Settings,
    field: str,
) -> None:
    """The reason is sent in a field that the sandbox shows on the order."""
    settings.SERVICE_ORDER_REASON_FIELD = field
    client = harness.client("clinician")
    former_id = place_and_deliver(harness, client, person, panel, wrong_account).remote_id
    values = prefilled_values(client, cancel_wrong_lab(harness, client, former_id))
    send_form(client, person, {**values, "lab_account": str(right_account.pk)})
    command = confirm_review(client, person)
    harness.deliver()
    command.refresh_from_db()
    replacement = Order.objects.get(pk=command.remote_id)
    assert (command.state, replacement.origin) == (State.DONE, "initial")
    notes = replacement.record_at().get("clinical_notes") or ""
    assert ("INCORRECT_LAB" in notes) == (field == "clinical_notes")
    assert command.payload["replaces"] == former_id


def test_open_order_cannot_be_replaced(
    harness: OutboxHarness, person: Demographics, panel: LabTest, wrong_account: LabAccount
) -> None:
    client = harness.client("clinician")
    first = place_and_deliver(harness, client, person, panel, wrong_account)

    def replacing(order_id: Any) -> CreateOrder:
        command = CreateOrder.read(first.payload)
        command.replaces = order_id
        return command

    former_id = Order.objects.get(pk=first.remote_id)
    with pytest.raises(PreconditionFailed, match="not canceled"):
        replacing(former_id.pk).check()
    cancel_wrong_lab(harness, client, first.remote_id)
    replacing(former_id.pk).check()
    other = Order.objects.exclude(user_id=person.pk).filter(low_level_status="cancelled").first()
    assert other is not None
    with pytest.raises(PreconditionFailed, match="not canceled"):
        replacing(other.pk).check()
