"""The list of staff: who may see it, and its filters."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from allauth.mfa.models import Authenticator
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from tests.accounts.people import sign_in_recently_authenticated
from tests.api.rows import staff

pytestmark = pytest.mark.django_db

LIST = "/system/staff/"


@pytest.fixture
def people(client: Client) -> dict[str, User]:
    """Sign in an administrator. Vera works here, Otto has left, Nils has no role, Rob is root."""
    now = timezone.now()
    values: dict[str, dict[str, Any]] = {
        "vera": {"last_login": now - timedelta(days=1), "email": "vera@example.invalid"},
        "otto": {"last_login": now - timedelta(days=100), "is_active": False},
        "nils": {},
    }
    users = {"vera": staff("clinician", "vera"), "otto": staff("front desk", "otto")}
    users["nils"] = User.objects.create_user("nils")
    users["rob"] = User.objects.create_superuser("rob")
    for name, changes in values.items():
        User.objects.filter(pk=users[name].pk).update(first_name=name.capitalize(), **changes)
    Authenticator.objects.create(user=users["vera"], type="totp", data={"secret": "made up"})
    users["ada"] = staff("administrator", "ada")
    sign_in_recently_authenticated(client, users["ada"])
    return users


def found(client: Client, **query: Any) -> set[str]:
    answer = client.post(LIST, query, follow=True) if "q" in query else client.get(LIST, query)
    return {user.username for user in answer.context["page"].rows}


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({}, {"vera", "otto", "nils", "rob", "ada"}),
        ({"role": "clinician"}, {"vera"}),
        ({"role": ["clinician", "front desk"]}, {"vera", "otto"}),
        ({"role": "administrator"}, {"rob", "ada"}),
        ({"role": "none"}, {"nils"}),
        ({"role": ["none", "clinician"]}, {"nils", "vera"}),
        ({"active": "false"}, {"otto"}),
        ({"active": "true", "second_factor": "false"}, {"nils", "rob", "ada"}),
        ({"second_factor": "true"}, {"vera"}),
        ({"signed_in": "never"}, {"nils", "rob"}),
        ({"signed_in": "dormant"}, {"otto"}),
        ({"q": "VER example"}, {"vera"}),
        ({"q": "nobody"}, set()),
    ],
)
def test_staff_are_filtered(
    client: Client, people: dict[str, User], query: dict[str, Any], names: set[str]
) -> None:
    assert found(client, **query) == names


def test_list_requires_recent_authentication(people: dict[str, User]) -> None:
    client = Client()
    client.force_login(people["ada"])
    proof = f"/accounts/proof/?{urlencode({'next': f'{LIST}?role=clinician'})}"
    query = {"role": "clinician", "q": "Vera"}
    assert client.get(LIST, query)["Location"] == proof
    part = client.get(LIST, query, headers={"HX-Request": "true"})
    assert part["HX-Redirect"] == proof and not part.content
    answer = client.post(f"{LIST}export/", {"query": "", "everything": "1"})
    assert answer["Location"].startswith("/accounts/proof/")


def test_row_links_to_the_person_in_the_administration(
    client: Client, people: dict[str, User]
) -> None:
    page = client.get(LIST).content.decode()
    for user in people.values():
        assert f'href="{reverse("admin:accounts_user_change", args=[user.pk])}"' in page
    assert (
        "None: can’t open any page" in page and "Never" in page and "vera@example.invalid" in page
    )
    entry = AuditEntry.objects.latest("id")
    assert (entry.action, entry.object_type) == ("list", "member of staff")


def test_sort_by_sign_in_says_who_is_missing(client: Client, people: dict[str, User]) -> None:
    answer = client.get(LIST, {"order_key": "last_login"})
    assert [user.username for user in answer.context["page"].rows] == ["ada", "vera", "otto"]
    assert "People who have never signed in are not listed" in answer.content.decode()


def test_names_stand_in_no_address(client: Client, people: dict[str, User]) -> None:
    answer = client.post(LIST, {"q": "Vera"})
    assert answer.status_code == 302 and "Vera" not in answer["Location"]
    page = client.get(LIST, {"order_key": "name", "size": "2"}).context["page"]
    assert page.next and len(page.next) < 12, "the cursor holds the key only"


def test_roles_page_and_administration_link_to_the_list(
    client: Client, people: dict[str, User]
) -> None:
    assert (
        f'href="{LIST}?role=front%20desk&amp;active=true"'
        in client.get("/system/roles/").content.decode()
    )
    assert f'href="{LIST}"' in client.get("/admin/").content.decode()
    client.force_login(staff("auditor"))
    assert LIST not in client.get("/system/roles/").content.decode()


def test_number_of_queries_is_fixed(client: Client, people: dict[str, User]) -> None:
    client.get(LIST)
    with CaptureQueriesContext(connection) as few:
        client.get(LIST)
    for n in range(20):
        staff("viewer", f"viewer-{n}")
    with CaptureQueriesContext(connection) as many:
        client.get(LIST)
    assert len(few) == len(many)
