"""Allowlists of lab accounts, from the form to the sandbox's database."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from backoffice.audit.models import AuditEntry
from backoffice.core import service_client
from backoffice.outbox.models import CommandRecord
from labs.allowlists.effects import team_effects
from labs.allowlists.teams import allowed_team_ids
from labs.models import LabAccount
from labs.sync import store_lab_accounts
from orders.models import Order
from patients.models import Patient
from tests.outbox.harness import OutboxHarness

State = CommandRecord.State
OTHER_TEAM = UUID("7ea00000-0000-4000-8000-000000000002")
THIRD_TEAM = UUID("7ea00000-0000-4000-8000-000000000003")


def sandbox_teams(harness: OutboxHarness, account: LabAccount) -> set[UUID]:
    """Return the allowlist of the account at the sandbox."""
    rows = harness.sandbox.query(
        "SELECT unnest(team_id_allowlist) FROM sandbox_labaccount WHERE id = %s", [account.pk]
    )
    return {row[0] for row in rows}


def set_sandbox_teams(harness: OutboxHarness, account: LabAccount, teams: set[UUID]) -> None:
    """Change the allowlist directly at the service, as another user does."""
    with harness.sandbox.service() as service:
        service.management.set_allowlist(account.pk, sorted(teams))


def account_of_status(status: str) -> LabAccount:
    return LabAccount.objects.filter(status=status).order_by("account_name").first()  # type: ignore[return-value]


@pytest.fixture
def our_team(harness: OutboxHarness) -> UUID:
    return Patient.objects.values_list("team_id", flat=True)[0]


@pytest.fixture
def account(harness: OutboxHarness) -> Any:
    """Yield an active account. Its allowlist is restored, because the sandbox is shared."""
    active_account = account_of_status("active")
    teams_before = sandbox_teams(harness, active_account)
    yield active_account
    set_sandbox_teams(harness, active_account, teams_before)


def save_teams(client: Client, account: LabAccount, teams: set[UUID], **changes: Any) -> Any:
    """Open the page, choose teams, see the effects, save: as a browser with JavaScript does."""
    page = client.get(reverse("labs:account", args=[account.pk]))
    form = page.context["form"]
    team_ids = sorted(str(team) for team in teams)
    values = {
        "form_id": str(form["form_id"].value()),
        "expected": form["expected"].value(),
        "looked_at": " ".join(team_ids),
        "teams": team_ids,
        "reason": "a clinic joined",
        **changes,
    }
    return client.post(reverse("labs:account-teams", args=[account.pk]), values)


def test_added_team_is_saved_and_audited_with_reason(
    harness: OutboxHarness, account: LabAccount
) -> None:
    client = harness.client("lab admin")
    teams_before = allowed_team_ids(account)
    wanted_teams = teams_before ^ {THIRD_TEAM}
    response = save_teams(client, account, wanted_teams)
    assert response.status_code == 302
    harness.deliver()
    command = harness.newest_command()
    assert (command.state, command.confirmed_by) == (State.DONE, "answer")
    assert sandbox_teams(harness, account) == wanted_teams == allowed_team_ids(account)
    entry = AuditEntry.objects.get(object_type="lab_account.allowlist", action="change")
    assert entry.reason == "a clinic joined" and str(account.pk) in entry.object_ids
    assert entry.before == {"teams": sorted(map(str, teams_before))}
    assert entry.after == {"teams": sorted(map(str, wanted_teams))}
    page = client.get(reverse("labs:account", args=[account.pk])).content.decode()
    assert "Confirmed" in page


def test_save_shows_effects_before_it_is_accepted(
    harness: OutboxHarness, account: LabAccount
) -> None:
    client = harness.client("lab admin")
    wanted_teams = allowed_team_ids(account) ^ {THIRD_TEAM}
    response = save_teams(client, account, wanted_teams, looked_at="")
    assert response.status_code == 422 and CommandRecord.objects.count() == 0
    page = response.content.decode()
    assert "Effect of this change" in page and "a clinic joined" in page
    looked_at = response.context["form"]["looked_at"].value()
    assert {UUID(word) for word in looked_at.split()} == wanted_teams


def test_save_without_reason_keeps_the_chosen_teams(
    harness: OutboxHarness, account: LabAccount
) -> None:
    wanted_teams = allowed_team_ids(account) ^ {THIRD_TEAM}
    response = save_teams(harness.client("lab admin"), account, wanted_teams, reason="")
    assert response.status_code == 422 and CommandRecord.objects.count() == 0
    teams_on = {chip["team"] for chip in response.context["chips"] if chip["on"]}
    assert teams_on == wanted_teams


def test_team_can_be_added_by_its_id(harness: OutboxHarness, account: LabAccount) -> None:
    client = harness.client("lab admin")
    refused = save_teams(client, account, allowed_team_ids(account), another="the third clinic")
    assert refused.status_code == 422 and "This is not a team ID" in refused.content.decode()
    unknown_team = UUID("7ea00000-0000-4000-8000-0000000000aa")
    looked_at = " ".join(str(team) for team in sorted(allowed_team_ids(account) | {unknown_team}))
    response = save_teams(
        client, account, allowed_team_ids(account), another=str(unknown_team), looked_at=looked_at
    )
    assert response.status_code == 302
    harness.deliver()
    command = harness.newest_command()
    assert command.state == State.REFUSED and "Team not found" in str(command.refusal_fields)
    reopened = client.get(f"{command.form_url}?again={command.pk}")
    page = reopened.content.decode()
    assert "Team not found" in page and str(unknown_team) in page and "a clinic joined" in page


def test_removing_the_last_account_needs_confirmation(
    harness: OutboxHarness, our_team: UUID
) -> None:
    """Removing a team from its only active account at a lab needs a typed confirmation."""
    client = harness.client("lab admin")
    for account in LabAccount.objects.filter(status="active"):
        last_account_effects = [
            effect for effect in team_effects(account, set()) if effect.loses_last_account
        ]
        if any(effect.team == our_team for effect in last_account_effects):
            break
    else:
        pytest.fail("the sandbox has no lab with a single active account of ours")
    wanted_teams = allowed_team_ids(account) - {our_team}
    response = save_teams(client, account, wanted_teams)
    assert response.status_code == 422 and CommandRecord.objects.count() == 0
    page = response.content.decode()
    assert "No active account left at this lab" in page and "type: our team" in page
    teams_before = sandbox_teams(harness, account)
    try:
        assert save_teams(client, account, wanted_teams, confirm="Our team").status_code == 302
        harness.deliver()
        assert sandbox_teams(harness, account) == wanted_teams
    finally:
        set_sandbox_teams(harness, account, teams_before)


def test_effects_count_the_active_accounts_of_a_team(
    harness: OutboxHarness, our_team: UUID
) -> None:
    pending = account_of_status("pending")
    (effect,) = team_effects(pending, allowed_team_ids(pending) ^ {OTHER_TEAM})
    assert effect.before == effect.after and not effect.loses_last_account
    second = LabAccount.objects.filter(status="suspended", teams__team_id=our_team).first()
    assert second is not None
    LabAccount.objects.filter(pk=second.pk).update(status="active")
    second.refresh_from_db()
    (effect,) = team_effects(second, allowed_team_ids(second) - {our_team})
    assert (effect.before, effect.after, effect.loses_last_account) == (2, 1, False)
    (effect,) = team_effects(second, allowed_team_ids(second) | {THIRD_TEAM})
    assert (effect.before, effect.after) == (1, 2) and "must name one" in effect.words


def test_effects_are_updated_while_choosing(
    harness: OutboxHarness, account: LabAccount, our_team: UUID
) -> None:
    """The fragment with the effects names the teams it was computed for.

    It does not renew the list that the user saw.
    """
    client = harness.client("lab admin")
    wanted_teams = allowed_team_ids(account) - {our_team} | {THIRD_TEAM}
    address = reverse("labs:account-effects", args=[account.pk])
    fragment = client.get(address, {"teams": [str(t) for t in wanted_teams], "confirm": "our te"})
    page = fragment.content.decode()
    assert {effect.team for effect in fragment.context["effects"]} == {our_team, THIRD_TEAM}
    looked_at = fragment.context["form"]["looked_at"].value()
    assert {UUID(word) for word in looked_at.split()} == wanted_teams
    assert 'name="expected"' not in page and 'value="our te"' in page
    under_way = Order.objects.filter(lab_slug=account.lab).exclude(
        bucket__in=("result-in", "closed")
    )
    assert f"We have {under_way.count()} open orders at this lab" in page
    assert CommandRecord.objects.count() == 0


def test_allowlist_changed_meanwhile_is_not_overwritten(
    harness: OutboxHarness, account: LabAccount
) -> None:
    """Another user changes the list before the worker sends: the form shows all three lists."""
    client = harness.client("lab admin")
    seen_teams = allowed_team_ids(account)
    wanted_teams = seen_teams ^ {THIRD_TEAM}
    assert save_teams(client, account, wanted_teams).status_code == 302
    other_teams = seen_teams ^ {OTHER_TEAM}
    set_sandbox_teams(harness, account, other_teams)
    harness.deliver()
    command = harness.newest_command()
    assert command.state == State.REFUSED and command.attempts == 0
    assert "Someone else changed the allowed teams" in command.refusal
    assert sandbox_teams(harness, account) == other_teams == allowed_team_ids(account)
    reopened = client.get(f"{command.form_url}?again={command.pk}")
    sides = {side.team: (side.saw, side.there, side.wanted) for side in reopened.context["sides"]}
    assert sides[OTHER_TEAM] == (
        OTHER_TEAM in seen_teams,
        OTHER_TEAM in other_teams,
        OTHER_TEAM in wanted_teams,
    )
    assert sides[THIRD_TEAM] == (
        THIRD_TEAM in seen_teams,
        THIRD_TEAM in other_teams,
        THIRD_TEAM in wanted_teams,
    )
    form = reopened.context["form"]
    values = {name: form[name].value() for name in ("form_id", "expected", "looked_at", "reason")}
    teams = [str(chip["team"]) for chip in reopened.context["chips"] if chip["on"]]
    address = reverse("labs:account-teams", args=[account.pk])
    assert client.post(address, {**values, "teams": teams}).status_code == 302
    harness.deliver()
    assert sandbox_teams(harness, account) == wanted_teams


def test_outdated_page_is_refused_at_once(harness: OutboxHarness, account: LabAccount) -> None:
    client = harness.client("lab admin")
    seen_teams = allowed_team_ids(account)
    form = client.get(reverse("labs:account", args=[account.pk])).context["form"]
    set_sandbox_teams(harness, account, seen_teams ^ {OTHER_TEAM})
    with harness.sandbox.service() as service:
        store_lab_accounts(service.management.lab_accounts(account.pk).records)
    response = save_teams(
        client, account, seen_teams ^ {THIRD_TEAM}, expected=form["expected"].value()
    )
    assert response.status_code == 422 and CommandRecord.objects.count() == 0
    page = response.content.decode()
    assert "Someone else changed the allowed teams" in page and "Current teams" in page


def test_second_change_of_an_account_is_refused(
    harness: OutboxHarness, account: LabAccount
) -> None:
    wanted_teams = allowed_team_ids(account) ^ {THIRD_TEAM}
    assert save_teams(harness.client("lab admin"), account, wanted_teams).status_code == 302
    response = save_teams(harness.client("administrator"), account, wanted_teams)
    assert response.status_code == 422
    assert "already sent a request about this" in response.content.decode()
    assert CommandRecord.objects.count() == 1


def test_page_without_management_key_is_read_only(
    harness: OutboxHarness, account: LabAccount, settings: Settings
) -> None:
    client = harness.client("lab admin")
    wanted_teams = allowed_team_ids(account) ^ {THIRD_TEAM}
    assert save_teams(client, account, wanted_teams).status_code == 302
    settings.MANAGEMENT_KEY = ""
    service_client.service.cache_clear()
    page = client.get(reverse("labs:account", args=[account.pk])).content.decode()
    assert "MANAGEMENT_KEY" in page and 'name="teams"' not in page
    assert client.post(reverse("labs:account-teams", args=[account.pk])).status_code == 422
    harness.deliver()
    command = harness.newest_command()
    assert command.state == State.REFUSED and "MANAGEMENT_KEY" in command.refusal


def test_refused_management_key_is_named_in_the_refusal(
    harness: OutboxHarness, account: LabAccount, settings: Settings
) -> None:
    save_teams(harness.client("lab admin"), account, allowed_team_ids(account) ^ {THIRD_TEAM})
    settings.MANAGEMENT_KEY = "mg_of_nobody"
    service_client.service.cache_clear()
    harness.deliver()
    command = harness.newest_command()
    assert command.state == State.REFUSED and "rejected our management key" in command.refusal


def test_allowlist_is_read_only_without_permission(
    harness: OutboxHarness, account: LabAccount
) -> None:
    client = harness.client("clinician")
    page = client.get(reverse("labs:account", args=[account.pk])).content.decode()
    assert 'name="teams"' not in page
    for name in ("account-teams", "account-effects"):
        assert client.get(reverse(f"labs:{name}", args=[account.pk])).status_code == 403
    assert client.post(reverse("labs:account-teams", args=[account.pk])).status_code == 403


def test_null_answer_is_confirmed_by_reading_the_account(harness: OutboxHarness) -> None:
    """Accounts that are ready to launch answer null (catalogue.md 7)."""
    launching_account = account_of_status("ready_to_launch")
    teams_before = sandbox_teams(harness, launching_account)
    wanted_teams = teams_before ^ {OTHER_TEAM}
    try:
        save_teams(harness.client("lab admin"), launching_account, wanted_teams)
        harness.deliver()
        command = harness.newest_command()
        assert (command.state, command.attempts, command.confirmed_by) == (State.DONE, 1, "answer")
        assert (
            sandbox_teams(harness, launching_account)
            == wanted_teams
            == allowed_team_ids(launching_account)
        )
    finally:
        set_sandbox_teams(harness, launching_account, teams_before)


def test_allowlist_is_saved_under_every_fault(harness: OutboxHarness, account: LabAccount) -> None:
    client = harness.client("lab admin")
    faults: list[tuple[str, dict[str, Any], int, str]] = [
        ("drop_after", {}, 1, "look-up"),
        ("status_after", {"statuses": [500]}, 1, "look-up"),
        ("drop_before", {}, 2, "answer"),
        ("status", {"statuses": [500]}, 2, "answer"),
        ("status", {"statuses": [429]}, 2, "answer"),
    ]
    for fault, fault_options, attempts, confirmed in faults:
        wanted_teams = allowed_team_ids(account) ^ {THIRD_TEAM}
        options = {"confirm": str(THIRD_TEAM)[-6:]}
        assert save_teams(client, account, wanted_teams, **options).status_code == 302, fault
        harness.add_fault(fault, "/lab_account/", methods=["PATCH"], **fault_options)
        harness.deliver()
        harness.pass_time()
        harness.pass_time()
        command = harness.newest_command()
        outcome = (command.state, command.attempts, command.confirmed_by)
        assert outcome == (State.DONE, attempts, confirmed), fault
        assert sandbox_teams(harness, account) == wanted_teams == allowed_team_ids(account)


def test_foreign_allowlist_after_lost_answer_is_undecided(
    harness: OutboxHarness, account: LabAccount
) -> None:
    seen_teams = allowed_team_ids(account)
    save_teams(harness.client("lab admin"), account, seen_teams ^ {THIRD_TEAM})
    harness.add_fault("drop_before", "/lab_account/", methods=["PATCH"])
    harness.deliver()
    assert harness.newest_command().state == State.UNCERTAIN
    other_teams = seen_teams ^ {OTHER_TEAM}
    set_sandbox_teams(harness, account, other_teams)
    harness.pass_time()
    command = harness.newest_command()
    assert command.state == State.UNDECIDED and "Current teams" in command.found[0]["words"]
    assert sandbox_teams(harness, account) == other_teams == allowed_team_ids(account)


def test_admin_links_to_the_account_page(harness: OutboxHarness, account: LabAccount) -> None:
    client = harness.client("administrator")
    address = reverse("admin:labs_labaccount_change", args=[account.pk])
    page = client.get(address).content.decode()
    assert reverse("labs:account", args=[account.pk]) in page and 'name="_save"' not in page
    assert client.get(reverse("admin:labs_labaccount_changelist")).status_code == 200
    values_before = LabAccount.objects.values().get(pk=account.pk)
    assert client.post(address, {"status": "suspended"}).status_code == 405
    assert LabAccount.objects.values().get(pk=account.pk) == values_before
    other = harness.client("lab admin")
    assert other.get(address).status_code == 403
