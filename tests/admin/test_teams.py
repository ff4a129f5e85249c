"""The directory of teams, and effects of a name on the page of a lab account."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.outbox.models import CommandRecord
from labs.models import LabAccount, LabAccountTeam, Team
from tests.api.rows import TEAM, envelope, patient, staff, uid

pytestmark = pytest.mark.django_db

OTHER_TEAM = UUID("7ea00000-0000-4000-8000-0000000000b2")
LIST = "/admin/labs/team/"


@pytest.fixture
def account(settings: Settings) -> LabAccount:
    patient(1).save()
    created = LabAccount.objects.create(
        id=uid("account", 1), lab="lab-sample", org_id=settings.MANAGEMENT_ORG_ID, status="active",
        delegated_flow="fully_delegated", provider_account_id="7", account_name="North",
        **envelope(),
    )  # fmt: skip
    for team in (TEAM, OTHER_TEAM):
        LabAccountTeam.objects.create(account=created, team_id=team)
    return created


@pytest.fixture
def administrator(client: Client) -> User:
    user = staff("administrator")
    client.force_login(user)
    return user


def test_list_shows_every_team_with_its_accounts(
    client: Client, administrator: User, account: LabAccount
) -> None:
    page = client.get(LIST).content.decode()
    assert "Our team" in page and str(OTHER_TEAM) in page and "Name this team" in page
    assert page.count(reverse("labs:account", args=[account.pk])) == 2


def test_team_can_be_named(client: Client, administrator: User, account: LabAccount) -> None:
    assert client.post(f"{LIST}{OTHER_TEAM}/", {"name": "West clinic"}).status_code == 302
    assert Team.objects.get().name == "West clinic"
    client.post(f"{LIST}{OTHER_TEAM}/", {"name": "East clinic", "id": str(TEAM)})
    assert list(Team.objects.values_list("id", "name")) == [(OTHER_TEAM, "East clinic")]
    entries = AuditEntry.objects.filter(object_type="team").order_by("id")
    assert [(one.before, one.after) for one in entries] == [
        ({"name": ""}, {"name": "West clinic"}),
        ({"name": "West clinic"}, {"name": "East clinic"}),
    ]
    page = client.get(reverse("labs:account", args=[account.pk])).content.decode()
    assert "<strong>East clinic</strong>" in page


def test_team_names_are_unique(client: Client, administrator: User, account: LabAccount) -> None:
    Team.objects.create(id=uid("team", 9), name="West clinic")
    answer = client.post(f"{LIST}{OTHER_TEAM}/", {"name": "west CLINIC"})
    assert answer.status_code == 200
    assert "Another team already has this name." in answer.content.decode()
    assert client.post(f"{LIST}add/", {"id": str(OTHER_TEAM), "name": "New"}).status_code == 302
    assert Team.objects.count() == 2
    for key in (uid("team", 77), "nonsense"):
        assert client.get(f"{LIST}{key}/").status_code in (302, 404)


def test_team_name_confirms_removal_of_its_last_account(
    client: Client, administrator: User, account: LabAccount
) -> None:
    Team.objects.create(id=OTHER_TEAM, name="West Clinic")
    Team.objects.create(id=uid("team", 3), name="West")
    LabAccountTeam.objects.create(account=account, team_id=uid("team", 3))
    address = reverse("labs:account-teams", args=[account.pk])
    form = {
        "form_id": "5ad1f000-0000-4000-8000-0000000000f1",
        "expected": " ".join(map(str, (TEAM, OTHER_TEAM, uid("team", 3)))),
        "looked_at": str(TEAM),
        "teams": [str(TEAM)],
        "reason": "made up",
    }
    page = client.post(address, {**form, "confirm": "west clinic"}).content.decode()
    assert "To confirm, type: " in page and "West Clinic" in page
    assert not CommandRecord.objects.exists(), "the longer name does not confirm the shorter one"
    answer = client.post(address, {**form, "confirm": "WEST, west  clinic"})
    assert answer.status_code == 302 and CommandRecord.objects.count() == 1


def test_open_requests_are_shown_before_removal_of_our_team(
    client: Client, administrator: User, account: LabAccount
) -> None:
    for n, state in enumerate(("waiting", "undecided", "done")):
        CommandRecord.objects.create(
            kind="order.import", title="Import", subject_type="patient", subject_id=str(n),
            payload={"body": {"lab_account_id": str(account.pk)}}, form_id=uid("form", n),
            requested_by=administrator, idempotency_key=uid("key", n), state=state,
        )  # fmt: skip
    address = reverse("labs:account-effects", args=[account.pk])
    page = client.get(address, {"teams": [str(OTHER_TEAM)]}).content.decode()
    assert "2 requests to place or import orders under this account are still open" in page
    page = client.get(address, {"teams": [str(TEAM)]}).content.decode()
    assert "still open" not in page
