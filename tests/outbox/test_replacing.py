"""An order in place of one at the wrong lab, from the cancellation to the sandbox's database."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from backoffice.models import CommandRecord
from backoffice.outbox import PreconditionFailed
from labs.models import LabAccount, LabTest
from orders.commands import CreateOrder
from orders.models import Order
from patients.models import Demographics
from tests.outbox.desk import Desk
from tests.outbox.test_placing import panel, person, place, typed, write
from tests.sandbox.ordering import open_second_account

__all__ = ["panel", "person"]
State = CommandRecord.State


@pytest.fixture
def right(desk: Desk) -> LabAccount:
    """A second active account of the panel's lab, on both sides."""
    account = LabAccount.objects.get(pk=open_second_account(desk.sandbox))
    account.status = "active"
    account.save(update_fields=["status"])
    return account


@pytest.fixture
def wrong(desk: Desk) -> LabAccount:
    return LabAccount.objects.get(account_name__endswith="south-shared")


def placed(
    desk: Desk, client: Client, person: Demographics, panel: LabTest, account: LabAccount
) -> CommandRecord:
    given = typed(person, panel, lab_account=str(account.pk))
    assert write(client, person, given).status_code == 302
    asked = place(client, person)
    desk.deliver()
    asked.refresh_from_db()
    assert asked.state == State.DONE
    return asked


def canceled(desk: Desk, client: Client, order_id: str) -> str:
    """Cancel the order because of the wrong lab; the address at which a new one begins."""
    address = reverse("orders:cancel", args=[order_id])
    desk.fill(client, address, why="wrong_lab", then="reorder")
    asked = desk.newest()
    desk.deliver()
    asked.refresh_from_db()
    assert asked.state == State.DONE
    return asked.done_url


def begun(client: Client, address: str) -> dict[str, list[str]]:
    """What the form of the new order is filled with."""
    wish = client.get(address).context["order_request"]
    return {name: list(values) for name, values in wish.typed.items()}


def account_of(desk: Desk, order_id: str) -> str:
    found = desk.sandbox.query(
        "SELECT lab_account_id::text FROM sandbox_order WHERE id = %s", (order_id,)
    )
    return str(found[0][0])


def test_an_order_at_the_wrong_lab_is_replaced(
    desk: Desk, person: Demographics, panel: LabTest, wrong: LabAccount, right: LabAccount
) -> None:
    client = desk.client("clinician")
    former = placed(desk, client, person, panel, wrong).remote_id
    address = canceled(desk, client, former)
    given = begun(client, address)
    answer = write(client, person, {**given, "lab_account": str(wrong.pk)})
    assert answer.status_code == 422
    assert "incorrect account" in {one.kind for one in answer.context["stopped"]}
    answer = write(client, person, {**given, "lab_account": str(right.pk)})
    assert answer.status_code == 302, answer.context["found"]
    review = client.get(answer["Location"]).content.decode()
    assert f'href="/orders/{former}/"' in review and "went to the wrong lab" in review
    asked = place(client, person)
    desk.deliver()
    asked.refresh_from_db()
    assert (asked.state, asked.confirmed_by) == (State.DONE, "answer")
    old, new = (Order.objects.get(pk=pk) for pk in (former, asked.remote_id))
    assert (new.origin, new.parent_id) == ("recreation", old.pk)
    assert new.order_transaction_id == old.order_transaction_id
    assert old.low_level_status == "cancelled"
    assert account_of(desk, former) == str(wrong.pk)
    assert account_of(desk, asked.remote_id) == str(right.pk)
    for shown, other in ((old, new), (new, old)):
        page = client.get(reverse("orders:detail", args=[shown.pk]))
        rows = {row.order.pk: row.account for row in page.context["transaction"]}
        assert rows == {old.pk: wrong, new.pk: right}
        assert f'href="/orders/{other.pk}/"' in page.content.decode()


def test_a_lost_answer_leaves_one_order_in_its_place(
    desk: Desk, person: Demographics, panel: LabTest, wrong: LabAccount, right: LabAccount
) -> None:
    client = desk.client("clinician")
    former = placed(desk, client, person, panel, wrong).remote_id
    given = begun(client, canceled(desk, client, former))
    write(client, person, {**given, "lab_account": str(right.pk)})
    asked = place(client, person)
    desk.fault("drop_after", "/order/create$")
    desk.deliver()
    desk.later()
    asked.refresh_from_db()
    assert (asked.state, asked.confirmed_by) == (State.DONE, "look-up")
    assert desk.count("SELECT count(*) FROM sandbox_order WHERE parent_id = %s", former) == 1


def test_the_service_refuses_where_it_has_no_other_account(
    desk: Desk, person: Demographics, panel: LabTest, wrong: LabAccount, right: LabAccount
) -> None:
    """It was suspended since a moment ago, and the mirror does not know it yet."""
    client = desk.client("clinician")
    former = placed(desk, client, person, panel, wrong).remote_id
    given = begun(client, canceled(desk, client, former))
    desk.sandbox.query(
        "UPDATE sandbox_labaccount SET status = 'suspended' WHERE id = %s RETURNING 1",
        (str(right.pk),),
    )
    write(client, person, {**given, "lab_account": str(right.pk), "clinical_notes": "as before"})
    asked = place(client, person)
    desk.deliver()
    asked.refresh_from_db()
    assert (asked.state, asked.refusal) == (State.REFUSED, "The lab account is suspended")
    page = client.get(f"{asked.form_url}?again={asked.pk}")
    assert page.context["form"].errors["lab_account"] == [asked.refusal]
    assert page.context["order_request"].replaces == Order.objects.get(pk=former).pk
    assert "as before" in page.content.decode()


@pytest.mark.parametrize("field", ["", "clinical_notes"])
def test_the_name_of_the_field_is_a_setting(
    desk: Desk,
    person: Demographics,
    panel: LabTest,
    wrong: LabAccount,
    right: LabAccount,
    settings: Settings,
    field: str,
) -> None:
    """A field that the sandbox shows on the order proves under which name the reason is sent."""
    settings.SERVICE_ORDER_REASON_FIELD = field
    client = desk.client("clinician")
    former = placed(desk, client, person, panel, wrong).remote_id
    given = begun(client, canceled(desk, client, former))
    write(client, person, {**given, "lab_account": str(right.pk)})
    asked = place(client, person)
    desk.deliver()
    asked.refresh_from_db()
    made = Order.objects.get(pk=asked.remote_id)
    assert (asked.state, made.origin) == (State.DONE, "initial")
    notes = made.said().get("clinical_notes") or ""
    assert ("INCORRECT_LAB" in notes) == (field == "clinical_notes")
    assert asked.payload["replaces"] == former


def test_an_open_order_is_not_replaced(
    desk: Desk, person: Demographics, panel: LabTest, wrong: LabAccount
) -> None:
    client = desk.client("clinician")
    first = placed(desk, client, person, panel, wrong)

    def replacing(order_id: Any) -> CreateOrder:
        command = CreateOrder.read(first.payload)
        command.replaces = order_id
        return command

    former = Order.objects.get(pk=first.remote_id)
    with pytest.raises(PreconditionFailed, match="not canceled"):
        replacing(former.pk).check()
    canceled(desk, client, first.remote_id)
    replacing(former.pk).check()
    other = Order.objects.exclude(user_id=person.pk).filter(low_level_status="cancelled").first()
    assert other is not None
    with pytest.raises(PreconditionFailed, match="not canceled"):
        replacing(other.pk).check()
