"""Refusals about the lab account show names beside ids on every page."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from backoffice.outbox.models import CommandRecord
from labs.models import LabAccount, LabTest
from orders.models import Order
from orders.placing import drafts
from patients.models import Demographics
from tests.outbox.harness import OutboxHarness
from tests.outbox.test_importing import request_import

State = CommandRecord.State
PENDING = "Made-up account north-pending"


@pytest.fixture
def pending_account(harness: OutboxHarness) -> LabAccount:
    return LabAccount.objects.get(account_name=PENDING)


@pytest.fixture
def unavailable_test(pending_account: LabAccount) -> LabTest:
    """Return an active test of the lab that the pending account does not offer."""
    tests = LabTest.objects.filter(
        lab__slug=pending_account.lab, status="active", auto_generated=False
    )
    return tests.exclude(test_accounts__account=pending_account).order_by("name")[0]


@pytest.fixture
def offered_test(pending_account: LabAccount) -> LabTest:
    return LabTest.objects.filter(test_accounts__account=pending_account).order_by("name")[0]


def post_import(
    client: Client, person: Demographics, panel: LabTest, account: LabAccount, **changes: Any
) -> Any:
    """Submit the form of an import under an account for review."""
    person_values = {
        name: values[0] for name, values in drafts.person_values(person.user, person).items()
    }
    values = {**person_values, "tests": [str(panel.pk)], "billing_type": "client_bill", **changes}
    values |= {"sample_id": "NAMES-1", "lab_account": str(account.pk), "do": "review"}
    return client.post(reverse("orders:import", args=[person.pk]), values)


def send_draft(client: Client, person: Demographics) -> CommandRecord:
    """Send the reviewed draft and return its command."""
    address = reverse("orders:import-review", args=[person.pk])
    form = client.get(address).context["form"]
    reviewed = {name: str(form[name].value()) for name in ("form_id", "draft")}
    assert client.post(address, reviewed).status_code == 302
    return CommandRecord.objects.get(form_id=reviewed["form_id"])


def test_import_of_test_missing_at_account_is_stopped(
    harness: OutboxHarness,
    person: Demographics,
    pending_account: LabAccount,
    unavailable_test: LabTest,  # noqa: F811
) -> None:
    response = post_import(harness.client("clinician"), person, unavailable_test, pending_account)
    assert response.status_code == 422
    [problem] = response.context["stopped"]
    assert problem.words.startswith(f"{PENDING} does not offer {unavailable_test.name}.")
    assert "Made-up account north-main" in problem.words


def test_import_under_pending_account_is_accepted(
    harness: OutboxHarness,
    person: Demographics,
    pending_account: LabAccount,
    offered_test: LabTest,  # noqa: F811
) -> None:
    client = harness.client("clinician")
    assert post_import(client, person, offered_test, pending_account).status_code == 302
    command = send_draft(client, person)
    harness.deliver()
    command.refresh_from_db()
    assert (command.state, command.refusal) == (State.DONE, "")
    assert Order.objects.filter(pk=command.remote_id).exists()
    sandbox_accounts = harness.sandbox.query(
        "SELECT lab_account_id::text FROM sandbox_order WHERE id = %s", (command.remote_id,)
    )
    assert sandbox_accounts == [(str(pending_account.pk),)]


def test_refusal_under_unknown_catalog_names_the_test(
    harness: OutboxHarness,
    person: Demographics,
    pending_account: LabAccount,
    unavailable_test: LabTest,  # noqa: F811
) -> None:
    LabAccount.objects.update(catalog_read_at=None)
    client = harness.client("clinician")
    assert post_import(client, person, unavailable_test, pending_account).status_code == 302
    review = client.get(reverse("orders:import-review", args=[person.pk])).content.decode()
    assert f"Could not check what {PENDING} offers." in review
    command = send_draft(client, person)
    harness.deliver()
    command.refresh_from_db()
    assert command.state == State.REFUSED
    name = f"{unavailable_test.name} ({unavailable_test.pk})"
    refusal = f"Lab test {name} is not available for this lab account"
    assert command.refusal == refusal
    for address in (
        reverse("commands:detail", args=[command.pk]),
        reverse("commands:list"),
        f"{command.form_url}?again={command.pk}",
    ):
        assert f"Lab test {unavailable_test.name} (" in client.get(address).content.decode(), (
            address
        )


def test_only_usable_account_is_chosen_automatically(
    harness: OutboxHarness,
    person: Demographics,  # noqa: F811
) -> None:
    panel = LabTest.objects.get(name="Clinic Draw Basic")
    command = request_import(harness.client("clinician"), person, panel, "NAMES-2")
    harness.deliver()
    command.refresh_from_db()
    assert command.state == State.DONE
