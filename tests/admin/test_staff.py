"""Staff accounts: creation, roles and closing, and that one administrator always remains."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import Group
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from backoffice.accounts.access import ADMINISTRATOR, PERMISSIONS, ROLES, roles_of
from backoffice.accounts.models import User
from backoffice.accounts.role_summary import AREAS, summarize
from backoffice.audit.models import AuditEntry
from tests.accounts.people import sign_in_recently_authenticated
from tests.api.rows import staff, token_for

pytestmark = pytest.mark.django_db

LIST = "/admin/accounts/user/"
PERSON = {
    "username": "new-sample",
    "first_name": "Nora",
    "last_name": "Sample",
    "email": "nora@example.invalid",
    "roles": ["clinician", "front desk"],
    "time_zone": "america/denver",
    "is_active": "on",
}


@pytest.fixture
def administrator(client: Client) -> User:
    user = set_name(staff("administrator"), "Ada")
    sign_in_recently_authenticated(client, user)
    return user


def set_name(user: User, first: str) -> User:
    user.first_name, user.last_name = first, "Sample"
    user.email = f"{first.lower()}@example.invalid"
    user.save()
    return user


def form_values(user: User, **changes: Any) -> dict[str, Any]:
    """Return the current form values of an account with some changes."""
    form: dict[str, Any] = {
        "username": user.username,
        "first_name": user.first_name,
        "last_name": user.last_name,
        "email": user.email,
        "roles": [group.name for group in user.groups.all()],
        "time_zone": user.time_zone,
        "is_active": "on",
        **changes,
    }
    return {name: value for name, value in form.items() if value is not None}


def change(client: Client, user: User, **changes: Any) -> Any:
    return client.post(f"{LIST}{user.pk}/", form_values(user, **changes))


def current_roles(user: User) -> frozenset[str]:
    return roles_of(User.objects.get(pk=user.pk))


def test_migrations_create_a_group_for_every_role() -> None:
    assert {group.name for group in Group.objects.all()} == ROLES.keys()


def test_account_is_created_and_recorded(client: Client, administrator: User) -> None:
    answer = client.post(f"{LIST}add/", PERSON)
    assert answer.status_code == 200 and "won’t see this password again" in answer.content.decode()
    created = User.objects.get(username="new-sample")
    assert created.get_full_name() == "Nora Sample" and created.time_zone == "America/Denver"
    assert created.has_usable_password() and created.first_password_until is not None
    assert current_roles(created) == {"clinician", "front desk"}
    assert not created.is_staff and not created.is_superuser
    entry = AuditEntry.objects.get(object_type="member of staff")
    assert (entry.actor, entry.object_ids) == (administrator, [str(created.pk)])
    assert entry.before == {} and (entry.after or {})["roles"] == "clinician, front desk"
    assert "password" not in str(entry.after)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"email": ""}, "This field is required"),
        ({"first_name": ""}, "This field is required"),
        ({"last_name": " "}, "This field is required"),
        ({"email": "nobody"}, "valid email"),
        ({"email": "ADA@example.invalid"}, "Another account already has this"),
        ({"username": "Administrator"}, "Another account already has this"),
        ({"username": "a b"}, "valid username"),
        ({"roles": ["owner"]}, "Select a valid choice"),
        ({"roles": ["service account"]}, "Select a valid choice"),
        ({"time_zone": "Nowhere"}, "There is no time zone with this name."),
    ],
)
def test_invalid_account_is_refused(
    client: Client, administrator: User, changes: dict[str, Any], words: str
) -> None:
    answer = client.post(f"{LIST}add/", {**PERSON, **changes})
    assert answer.status_code == 200 and words in answer.content.decode()
    assert User.objects.count() == 1
    assert not AuditEntry.objects.filter(object_type="member of staff").exists()


def test_invalid_form_keeps_typed_values(client: Client, administrator: User) -> None:
    page = client.post(f"{LIST}add/", {**PERSON, "email": ""}).content.decode()
    assert 'value="Nora"' in page and 'value="new-sample"' in page
    assert len(re.findall(r"<input[^>]* checked", page)) == 3  # two roles and the active flag


@pytest.mark.parametrize(
    "extra", ["is_superuser", "is_staff", "user_permissions", "groups", "password"]
)
def test_unknown_form_fields_are_not_written(
    client: Client, administrator: User, extra: str
) -> None:
    other = set_name(staff("viewer"), "Vera")
    other.set_password("made up and long 1")
    other.save()
    group = Group.objects.get(name=ADMINISTRATOR)
    sent = {extra: [str(group.pk)] if extra == "groups" else "1"}
    assert change(client, other, **sent).status_code == 302
    other.refresh_from_db()
    assert not other.is_superuser and not other.is_staff and current_roles(other) == {"viewer"}
    assert other.check_password("made up and long 1")


def test_changed_roles_end_sessions(client: Client, administrator: User) -> None:
    other = set_name(staff("viewer"), "Vera")
    their_client = Client()
    their_client.force_login(other)
    other_group = Group.objects.create(name="choir")
    other.groups.add(other_group)
    change(client, other, last_name="Other")
    assert their_client.get("/preferences/").status_code == 200, (
        "a changed name does not end sessions"
    )
    other.refresh_from_db()
    change(client, other, roles=["clinician"])
    assert current_roles(other) == {"clinician"} and other_group in other.groups.all()
    assert their_client.get("/preferences/").status_code == 302
    assert client.get(LIST).status_code == 200, "the session of the administrator continues"
    entry = AuditEntry.objects.filter(object_type="member of staff").latest("id")
    assert (entry.before, entry.after) == ({"roles": "viewer"}, {"roles": "clinician"})


def test_closed_account_loses_access_immediately(client: Client, administrator: User) -> None:
    other = set_name(staff("viewer"), "Vera")
    headers = token_for(other)
    their_client = Client()
    their_client.force_login(other)
    assert change(client, other, is_active=None).status_code == 302
    assert their_client.get("/preferences/").status_code == 302
    assert client.get("/api/labs/", headers=headers).status_code in (401, 403)
    assert User.objects.filter(pk=other.pk, is_active=False).exists()
    change(client, other)
    assert their_client.get("/preferences/").status_code == 302, "an old session stays ended"


def test_password_reset_is_recorded_and_ends_sessions(client: Client, administrator: User) -> None:
    other = set_name(staff("viewer"), "Vera")
    their_client = Client()
    their_client.force_login(other)
    assert change(client, other, anew="on").status_code == 200
    assert their_client.get("/preferences/").status_code == 302
    entry = AuditEntry.objects.filter(object_type="member of staff").latest("id")
    assert (entry.before, entry.after) == ({}, {"password": "reset"})


def test_second_factors_are_removed_from_selected_accounts(
    client: Client, administrator: User
) -> None:
    vera, vito = set_name(staff("viewer"), "Vera"), set_name(staff("viewer", "vito"), "Vito")
    for user in (vera, vito):
        Authenticator.objects.create(user=user, type="totp", data={"secret": "made up"})
    their_client = Client()
    their_client.force_login(vera)
    form = {"action": "take_second_factors", "index": "0", "_selected_action": str(vera.pk)}
    client.post(LIST, {**form, "select_across": "1"})
    assert [one.user for one in Authenticator.objects.exclude(user=administrator)] == [vito]
    assert their_client.get("/preferences/").status_code == 302
    entry = AuditEntry.objects.filter(object_type="second factor").latest("id")
    assert (entry.actor, entry.object_ids) == (administrator, [str(vera.pk)])
    assert entry.reason == "removed by an administrator"


# The last administrator


def test_administrator_cannot_remove_own_role(client: Client, administrator: User) -> None:
    for changes, words in (
        ({"roles": ["viewer"]}, "remove your own administrator role"),
        ({"roles": []}, "remove your own administrator role"),
        ({"is_active": None}, "deactivate your own account"),
    ):
        answer = change(client, administrator, **changes)
        assert answer.status_code == 200 and words in answer.content.decode()
    administrator.refresh_from_db()
    assert administrator.is_active and current_roles(administrator) == {ADMINISTRATOR}
    assert change(client, administrator, roles=[ADMINISTRATOR, "viewer"]).status_code == 302
    assert client.get(LIST).status_code == 200


def test_superuser_loses_administration_with_the_role(client: Client, administrator: User) -> None:
    root = set_name(User.objects.create_superuser("root-sample"), "Rob")
    page = client.get(f"{LIST}{root.pk}/").content.decode()
    assert re.search(r'<input[^>]* value="administrator"[^>]* checked', page)
    change(client, root, roles=["viewer"])
    root.refresh_from_db()
    assert not root.is_superuser and current_roles(root) == {"viewer"}


@pytest.mark.django_db(transaction=True)
def test_concurrent_role_removal_leaves_one_administrator() -> None:
    people = [set_name(staff("administrator", name), name) for name in ("Ada", "Bea")]
    clients = [Client(), Client()]
    for client, user in zip(clients, people, strict=True):
        sign_in_recently_authenticated(client, user)
    start = threading.Barrier(2)
    answers: list[int] = []

    def take(client: Client, other: User) -> None:
        form = form_values(other, roles=["viewer"])
        start.wait(20)
        try:
            answers.append(client.post(f"{LIST}{other.pk}/", form).status_code)
        finally:
            connection.close()

    threads = [threading.Thread(target=take, args=(clients[n], people[1 - n])) for n in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    left = [user for user in people if ADMINISTRATOR in current_roles(user)]
    assert len(left) == 1 and answers.count(302) == 1, answers


def test_service_account_needs_no_name_and_keeps_its_role(
    client: Client, administrator: User
) -> None:
    machine = staff("service account", "import-sample")
    form = form_values(machine, is_active=None)
    assert client.post(f"{LIST}{machine.pk}/", form).status_code == 302
    machine.refresh_from_db()
    assert not machine.is_active and {g.name for g in machine.groups.all()} == {"service account"}


# Accounts without a role

NO_ROLE_WARNING = "has no role and can’t open any page. Choose a role."


def test_new_account_without_role_shows_warning(client: Client, administrator: User) -> None:
    answer = client.post(f"{LIST}add/", {**PERSON, "roles": []})
    created = User.objects.get(username="new-sample")
    warning = f"Nora Sample {NO_ROLE_WARNING}"
    assert answer.content.decode().count(warning) == 2, "in the message and beside the password"
    assert f"<p>{warning}</p></div>" in client.get(f"{LIST}{created.pk}/").content.decode()
    assert "None: can’t open any page" in client.get(LIST).content.decode()


def test_removal_of_all_roles_shows_warning(client: Client, administrator: User) -> None:
    other = set_name(staff("viewer"), "Vera")
    page = client.get(f"{LIST}{other.pk}/").content.decode()
    assert NO_ROLE_WARNING not in page
    answer = client.post(
        f"{LIST}{other.pk}/", form_values(other, roles=[], _continue="1"), follow=True
    )
    assert current_roles(other) == frozenset(), "the change is not refused"
    assert answer.content.decode().count(f"Vera Sample {NO_ROLE_WARNING}") == 2, (
        "in the message and on the page"
    )
    change(client, other, roles=["viewer"])
    assert NO_ROLE_WARNING not in client.get(f"{LIST}{other.pk}/", follow=True).content.decode()


def test_closed_account_without_role_shows_no_warning(client: Client, administrator: User) -> None:
    other = set_name(staff("viewer"), "Vera")
    change(client, other, roles=[], is_active=None)
    page = client.get(f"{LIST}{other.pk}/").content.decode()
    assert NO_ROLE_WARNING not in page and "open any page" not in client.get(LIST).content.decode()


# The list and the roles


def test_list_shows_roles_with_fixed_query_count(client: Client, administrator: User) -> None:
    for n in range(5):
        set_name(staff("viewer", f"viewer-{n}"), f"Vera{n}")
    client.get(LIST)
    with CaptureQueriesContext(connection) as few:
        page = client.get(LIST).content.decode()
    assert page.count(">Viewer</span>") == 5 and "vera3@example.invalid" in page
    for n in range(5, 30):
        set_name(staff("viewer", f"viewer-{n}"), f"Vera{n}")
    with CaptureQueriesContext(connection) as many:
        client.get(LIST)
    assert len(few) == len(many)
    found = client.get(LIST, {"role": ADMINISTRATOR}).context["cl"].result_list
    assert [user.pk for user in found] == [administrator.pk]
    found = client.get(LIST, {"q": "vera7"}).context["cl"].result_list
    assert [user.username for user in found] == ["viewer-7"]
    User.objects.filter(username="viewer-3").update(is_active=False)
    found = client.get(LIST, {"is_active__exact": "0"}).context["cl"].result_list
    assert [user.username for user in found] == ["viewer-3"]


def test_list_uses_time_zone_of_viewer(client: Client, administrator: User) -> None:
    at = datetime(2026, 11, 24, 2, 26, tzinfo=UTC)
    User.objects.filter(pk=administrator.pk).update(time_zone="America/Chicago", last_login=at)
    page = client.get(LIST).content.decode()
    assert "8:26 PM CST" in page and "2:26 AM UTC" not in page


def test_permissions_of_roles_are_summarized(client: Client, administrator: User) -> None:
    for address in (f"{LIST}add/", "/admin/auth/group/"):
        page = client.get(address).content.decode()
        assert "Can only view orders, appointments and the lab catalog" in page
        assert "Can only view the audit trail" in page and "Everything" in page
        assert "things" not in page and f" of {len(PERMISSIONS)}" not in page


def test_every_permission_is_in_one_area() -> None:
    assert sorted(chain.from_iterable(AREAS.values())) == sorted(PERMISSIONS)


@pytest.mark.parametrize(
    ("granted", "words"),
    [
        ((), "Nothing"),
        (("audit.view",), "Can only view the audit trail"),
        (("notes.write",), "Works on notes"),
        (("orders.view", "orders.change"), "Works on orders"),
        (("orders.change", "results.view", "patients.view"),
         "Works on orders; can only view patients and results"),
        (PERMISSIONS, "Everything"),
    ],
)  # fmt: skip
def test_permissions_are_summarized_in_a_sentence(granted: Collection[str], words: str) -> None:
    assert summarize(granted) == words


def test_roles_are_read_only(client: Client, administrator: User) -> None:
    page = client.get("/admin/auth/group/").content.decode()
    assert all(role.capitalize() in page for role in ROLES)
    group = Group.objects.get(name="viewer")
    set_name(staff("viewer"), "Vera")
    page = client.get(f"/admin/auth/group/{group.pk}/").content.decode()
    assert "Vera Sample" in page and page.count('data-st="result-in"') == len(ROLES["viewer"])
    for path in ("", "add/", f"{group.pk}/"):
        client.post(f"/admin/auth/group/{path}", {"name": "owner", "_save": "1"})
    assert Group.objects.filter(name="viewer").exists()
    assert not Group.objects.filter(name="owner").exists()
