"""What the service refuses for the lab account: names beside its ids, wherever it is shown."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from backoffice.models import CommandRecord
from labs.models import LabAccount, LabTest
from orders.models import Order
from orders.placing import drafts
from patients.models import Demographics
from tests.outbox.desk import Desk
from tests.outbox.test_importing import ask, person

__all__ = ["person"]
State = CommandRecord.State
PENDING = "Made-up account north-pending"


@pytest.fixture
def pending(desk: Desk) -> LabAccount:
    return LabAccount.objects.get(account_name=PENDING)


@pytest.fixture
def lacking(pending: LabAccount) -> LabTest:
    """An active test of the lab that the pending account does not offer."""
    tests = LabTest.objects.filter(lab__slug=pending.lab, status="active", auto_generated=False)
    return tests.exclude(test_accounts__account=pending).order_by("name")[0]


@pytest.fixture
def offered(pending: LabAccount) -> LabTest:
    return LabTest.objects.filter(test_accounts__account=pending).order_by("name")[0]


def posted(
    client: Client, person: Demographics, panel: LabTest, account: LabAccount, **more: Any
) -> Any:
    """The form of an import under an account, sent to review."""
    known = {name: given[0] for name, given in drafts.person_values(person.user, person).items()}
    given = {**known, "tests": [str(panel.pk)], "billing_type": "client_bill", **more}
    given |= {"sample_id": "NAMES-1", "lab_account": str(account.pk), "do": "review"}
    return client.post(reverse("orders:import", args=[person.pk]), given)


def requested(client: Client, person: Demographics) -> CommandRecord:
    """The reviewed draft, sent."""
    address = reverse("orders:import-review", args=[person.pk])
    form = client.get(address).context["form"]
    reviewed = {name: str(form[name].value()) for name in ("form_id", "draft")}
    assert client.post(address, reviewed).status_code == 302
    return CommandRecord.objects.get(form_id=reviewed["form_id"])


def test_import_of_test_that_pending_account_lacks_is_stopped(
    desk: Desk,
    person: Demographics,
    pending: LabAccount,
    lacking: LabTest,  # noqa: F811
) -> None:
    answer = posted(desk.client("clinician"), person, lacking, pending)
    assert answer.status_code == 422
    [stopped] = answer.context["stopped"]
    assert stopped.words.startswith(f"{PENDING} does not offer {lacking.name}.")
    assert "Made-up account north-main" in stopped.words


def test_import_under_pending_account_is_accepted(
    desk: Desk,
    person: Demographics,
    pending: LabAccount,
    offered: LabTest,  # noqa: F811
) -> None:
    client = desk.client("clinician")
    assert posted(client, person, offered, pending).status_code == 302
    asked = requested(client, person)
    desk.deliver()
    asked.refresh_from_db()
    assert (asked.state, asked.refusal) == (State.DONE, "")
    assert Order.objects.filter(pk=asked.remote_id).exists()
    there = desk.sandbox.query(
        "SELECT lab_account_id::text FROM sandbox_order WHERE id = %s", (asked.remote_id,)
    )
    assert there == [(str(pending.pk),)]


def test_refusal_under_unknown_catalog_names_the_test(
    desk: Desk,
    person: Demographics,
    pending: LabAccount,
    lacking: LabTest,  # noqa: F811
) -> None:
    LabAccount.objects.update(catalog_read_at=None)
    client = desk.client("clinician")
    assert posted(client, person, lacking, pending).status_code == 302
    review = client.get(reverse("orders:import-review", args=[person.pk])).content.decode()
    assert f"Could not check what {PENDING} offers." in review
    asked = requested(client, person)
    desk.deliver()
    asked.refresh_from_db()
    assert asked.state == State.REFUSED
    words = f"Lab test {lacking.name} ({lacking.pk}) is not available for this lab account"
    assert asked.refusal == words
    for address in (
        reverse("commands:detail", args=[asked.pk]),
        reverse("commands:list"),
        f"{asked.form_url}?again={asked.pk}",
    ):
        assert f"Lab test {lacking.name} (" in client.get(address).content.decode(), address


def test_only_usable_account_is_still_chosen_by_itself(
    desk: Desk,
    person: Demographics,  # noqa: F811
) -> None:
    panel = LabTest.objects.get(name="Clinic Draw Basic")
    asked = ask(desk.client("clinician"), person, panel, "NAMES-2")
    desk.deliver()
    asked.refresh_from_db()
    assert asked.state == State.DONE
