"""Allowlists of lab accounts, and lab tests: from the form to the sandbox's database."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from backoffice import remote
from backoffice.models import AuditEntry, CommandRecord
from labs.allowlists.effects import effects_of
from labs.allowlists.teams import teams_of
from labs.models import LabAccount
from patients.models import Patient
from tests.outbox.desk import Desk

State = CommandRecord.State
OTHER = UUID("7ea00000-0000-4000-8000-000000000002")
THIRD = UUID("7ea00000-0000-4000-8000-000000000003")


def there(desk: Desk, account: LabAccount) -> set[UUID]:
    """The list as the sandbox has it."""
    found = desk.sandbox.query(
        "SELECT unnest(team_id_allowlist) FROM sandbox_labaccount WHERE id = %s", [account.pk]
    )
    return {row[0] for row in found}


def put(desk: Desk, account: LabAccount, teams: set[UUID]) -> None:
    """Somebody else changes the list."""
    with desk.sandbox.service() as service:
        service.management.set_allowlist(account.pk, sorted(teams))


def of_status(status: str) -> LabAccount:
    return LabAccount.objects.filter(status=status).order_by("account_name").first()  # type: ignore[return-value]


@pytest.fixture
def ours(desk: Desk) -> UUID:
    return Patient.objects.values_list("team_id", flat=True)[0]


@pytest.fixture
def account(desk: Desk) -> Any:
    """An active account; its list is put back afterwards, for the sandbox is shared."""
    shown = of_status("active")
    before = there(desk, shown)
    yield shown
    put(desk, shown, before)


def save(client: Client, account: LabAccount, teams: set[UUID], **more: Any) -> Any:
    """Open the page, choose teams, see what follows, save: as a browser with JavaScript does."""
    page = client.get(reverse("labs:account", args=[account.pk]))
    form = page.context["form"]
    chosen = sorted(str(team) for team in teams)
    values = {
        "form_id": str(form["form_id"].value()),
        "expected": form["expected"].value(),
        "looked_at": " ".join(chosen),
        "teams": chosen,
        "reason": "a clinic joined",
        **more,
    }
    return client.post(reverse("labs:account-teams", args=[account.pk]), values)


def test_a_team_is_let_in_and_the_log_says_why(desk: Desk, account: LabAccount) -> None:
    client = desk.client("lab admin")
    before = teams_of(account)
    wanted = before ^ {THIRD}
    answer = save(client, account, wanted)
    assert answer.status_code == 302
    desk.deliver()
    asked = desk.newest()
    assert (asked.state, asked.confirmed_by) == (State.DONE, "answer")
    assert there(desk, account) == wanted == teams_of(account)
    entry = AuditEntry.objects.get(object_type="lab_account.allowlist", action="change")
    assert entry.reason == "a clinic joined" and str(account.pk) in entry.object_ids
    page = client.get(reverse("labs:account", args=[account.pk])).content.decode()
    assert "Confirmed" in page
