"""Members of staff: made, given roles, ended; and nobody locks everybody out."""

from __future__ import annotations

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
    user = named(staff("administrator"), "Ada")
    sign_in_recently_authenticated(client, user)
    return user


def named(user: User, first: str) -> User:
    user.first_name, user.last_name = first, "Sample"
    user.email = f"{first.lower()}@example.invalid"
    user.save()
    return user


def of(user: User, **changes: Any) -> dict[str, Any]:
    """The form of an account as it stands, but for some changes."""
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
    return client.post(f"{LIST}{user.pk}/", of(user, **changes))


def roles(user: User) -> frozenset[str]:
    return roles_of(User.objects.get(pk=user.pk))


def test_migrations_make_a_group_of_every_role() -> None:
    assert {group.name for group in Group.objects.all()} == ROLES.keys()


def test_a_member_of_staff_is_made_and_recorded(client: Client, administrator: User) -> None:
    answer = client.post(f"{LIST}add/", PERSON)
    assert answer.status_code == 200 and "shown only this once" in answer.content.decode()
    made = User.objects.get(username="new-sample")
    assert made.get_full_name() == "Nora Sample" and made.time_zone == "America/Denver"
    assert made.has_usable_password() and made.first_password_until is not None
    assert roles(made) == {"clinician", "front desk"}
    assert not made.is_staff and not made.is_superuser
    entry = AuditEntry.objects.get(object_type="member of staff")
    assert (entry.actor, entry.object_ids) == (administrator, [str(made.pk)])
    assert entry.before == {} and (entry.after or {})["roles"] == "clinician, front desk"
    assert "password" not in str(entry.after)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"email": ""}, "This field is required"),
        ({"first_name": ""}, "This field is required"),
        ({"last_name": " "}, "This field is required"),
        ({"email": "nobody"}, "valid email"),
        ({"email": "ADA@example.invalid"}, "Another account has this"),
        ({"username": "Administrator"}, "Another account has this"),
        ({"username": "a b"}, "valid username"),
        ({"roles": ["owner"]}, "Select a valid choice"),
        ({"roles": ["service account"]}, "Select a valid choice"),
        ({"time_zone": "Nowhere"}, "no time zone of this name"),
    ],
)
def test_an_account_of_nobody_in_particular_is_refused(
    client: Client, administrator: User, changes: dict[str, Any], words: str
) -> None:
    answer = client.post(f"{LIST}add/", {**PERSON, **changes})
    assert answer.status_code == 200 and words in answer.content.decode()
    assert User.objects.count() == 1
    assert not AuditEntry.objects.filter(object_type="member of staff").exists()


def test_what_was_typed_is_not_lost(client: Client, administrator: User) -> None:
    page = client.post(f"{LIST}add/", {**PERSON, "email": ""}).content.decode()
    assert 'value="Nora"' in page and 'value="new-sample"' in page
    assert page.count(" checked") == 3  # two roles, and that the account is open


@pytest.mark.parametrize(
    "extra", ["is_superuser", "is_staff", "user_permissions", "groups", "password"]
)
def test_what_the_form_does_not_ask_is_not_written(
    client: Client, administrator: User, extra: str
) -> None:
    other = named(staff("viewer"), "Vera")
    other.set_password("made up and long 1")
    other.save()
    group = Group.objects.get(name=ADMINISTRATOR)
    sent = {extra: [str(group.pk)] if extra == "groups" else "1"}
    assert change(client, other, **sent).status_code == 302
    other.refresh_from_db()
    assert not other.is_superuser and not other.is_staff and roles(other) == {"viewer"}
    assert other.check_password("made up and long 1")


def test_roles_are_given_and_taken_and_sessions_end(client: Client, administrator: User) -> None:
    other = named(staff("viewer"), "Vera")
    theirs = Client()
    theirs.force_login(other)
    choir = Group.objects.create(name="choir")
    other.groups.add(choir)
    change(client, other, last_name="Other")
    assert theirs.get("/preferences/").status_code == 200, "a name is no reason"
    other.refresh_from_db()
    change(client, other, roles=["clinician"])
    assert roles(other) == {"clinician"} and choir in other.groups.all()
    assert theirs.get("/preferences/").status_code == 302
    assert client.get(LIST).status_code == 200, "ours goes on"
    entry = AuditEntry.objects.filter(object_type="member of staff").latest("id")
    assert (entry.before, entry.after) == ({"roles": "viewer"}, {"roles": "clinician"})


def test_a_closed_account_is_out_at_once_and_stays_on_record(
    client: Client, administrator: User
) -> None:
    other = named(staff("viewer"), "Vera")
    headers = token_for(other)
    theirs = Client()
    theirs.force_login(other)
    assert change(client, other, is_active=None).status_code == 302
    assert theirs.get("/preferences/").status_code == 302
    assert client.get("/api/labs/", headers=headers).status_code in (401, 403)
    assert User.objects.filter(pk=other.pk, is_active=False).exists()
    change(client, other)
    assert theirs.get("/preferences/").status_code == 302, "an old session does not come back"


def test_a_forgotten_password_is_replaced_and_recorded(client: Client, administrator: User) -> None:
    other = named(staff("viewer"), "Vera")
    theirs = Client()
    theirs.force_login(other)
    assert change(client, other, anew="on").status_code == 200
    assert theirs.get("/preferences/").status_code == 302
    entry = AuditEntry.objects.filter(object_type="member of staff").latest("id")
    assert (entry.before, entry.after) == ({}, {"password": "set anew"})


def test_second_factors_are_taken_from_those_who_are_ticked(
    client: Client, administrator: User
) -> None:
    vera, vito = named(staff("viewer"), "Vera"), named(staff("viewer", "vito"), "Vito")
    for user in (vera, vito):
        Authenticator.objects.create(user=user, type="totp", data={"secret": "made up"})
    theirs = Client()
    theirs.force_login(vera)
    form = {"action": "take_second_factors", "index": "0", "_selected_action": str(vera.pk)}
    client.post(LIST, {**form, "select_across": "1"})
    assert [one.user for one in Authenticator.objects.exclude(user=administrator)] == [vito]
    assert theirs.get("/preferences/").status_code == 302
    entry = AuditEntry.objects.filter(object_type="second factor").latest("id")
    assert (entry.actor, entry.object_ids) == (administrator, [str(vera.pk)])
    assert entry.reason == "taken away"


# Nobody locks everybody out


def test_nobody_takes_the_administration_from_themselves(
    client: Client, administrator: User
) -> None:
    for changes, words in (
        ({"roles": ["viewer"]}, "Nobody takes the administration from themselves"),
        ({"roles": []}, "Nobody takes the administration from themselves"),
        ({"is_active": None}, "Nobody ends their own account"),
    ):
        answer = change(client, administrator, **changes)
        assert answer.status_code == 200 and words in answer.content.decode()
    administrator.refresh_from_db()
    assert administrator.is_active and roles(administrator) == {ADMINISTRATOR}
    assert change(client, administrator, roles=[ADMINISTRATOR, "viewer"]).status_code == 302
    assert client.get(LIST).status_code == 200


def test_a_superuser_is_an_administrator_until_it_is_taken(
    client: Client, administrator: User
) -> None:
    root = named(User.objects.create_superuser("root-sample"), "Rob")
    page = client.get(f"{LIST}{root.pk}/").content.decode()
    assert 'value="administrator" id="id_roles_6" checked' in page or "checked" in page
    change(client, root, roles=["viewer"])
    root.refresh_from_db()
    assert not root.is_superuser and roles(root) == {"viewer"}


@pytest.mark.django_db(transaction=True)
def test_two_who_take_it_from_each_other_leave_one() -> None:
    people = [named(staff("administrator", name), name) for name in ("Ada", "Bea")]
    clients = [Client(), Client()]
    for client, user in zip(clients, people, strict=True):
        sign_in_recently_authenticated(client, user)
    start = threading.Barrier(2)
    answers: list[int] = []

    def take(client: Client, other: User) -> None:
        form = of(other, roles=["viewer"])
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
    left = [user for user in people if ADMINISTRATOR in roles(user)]
    assert len(left) == 1 and answers.count(302) == 1, answers


def test_a_service_account_needs_no_name_and_keeps_its_role(
    client: Client, administrator: User
) -> None:
    machine = staff("service account", "import-sample")
    form = of(machine, is_active=None)
    assert client.post(f"{LIST}{machine.pk}/", form).status_code == 302
    machine.refresh_from_db()
    assert not machine.is_active and {g.name for g in machine.groups.all()} == {"service account"}


# Accounts that lead nowhere

NO_ROLE = "has no role: whoever logs in with this account finds no pages."


def test_an_account_made_without_a_role_is_warned_of(client: Client, administrator: User) -> None:
    answer = client.post(f"{LIST}add/", {**PERSON, "roles": []})
    made = User.objects.get(username="new-sample")
    warned = f"Nora Sample {NO_ROLE}"
    assert answer.content.decode().count(warned) == 2, "told, and where the password stands"
    assert f"<p>{warned}</p></div>" in client.get(f"{LIST}{made.pk}/").content.decode()
    assert "none: finds no pages" in client.get(LIST).content.decode()


def test_roles_that_are_all_taken_are_warned_of(client: Client, administrator: User) -> None:
    other = named(staff("viewer"), "Vera")
    page = client.get(f"{LIST}{other.pk}/").content.decode()
    assert NO_ROLE not in page
    answer = client.post(f"{LIST}{other.pk}/", of(other, roles=[], _continue="1"), follow=True)
    assert roles(other) == frozenset(), "warned, not refused"
    assert answer.content.decode().count(f"Vera Sample {NO_ROLE}") == 2, "told, and on the record"
    change(client, other, roles=["viewer"])
    assert NO_ROLE not in client.get(f"{LIST}{other.pk}/", follow=True).content.decode()


def test_an_ended_account_needs_no_role(client: Client, administrator: User) -> None:
    other = named(staff("viewer"), "Vera")
    change(client, other, roles=[], is_active=None)
    page = client.get(f"{LIST}{other.pk}/").content.decode()
    assert NO_ROLE not in page and "finds no pages" not in client.get(LIST).content.decode()


# The list and the roles


def test_the_list_tells_who_may_what(client: Client, administrator: User) -> None:
    for n in range(5):
        named(staff("viewer", f"viewer-{n}"), f"Vera{n}")
    client.get(LIST)
    with CaptureQueriesContext(connection) as few:
        page = client.get(LIST).content.decode()
    assert page.count(">viewer</span>") == 5 and "vera3@example.invalid" in page
    for n in range(5, 30):
        named(staff("viewer", f"viewer-{n}"), f"Vera{n}")
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


def test_the_list_is_in_the_zone_of_who_looks(client: Client, administrator: User) -> None:
    at = datetime(2026, 11, 24, 2, 26, tzinfo=UTC)
    User.objects.filter(pk=administrator.pk).update(time_zone="America/Chicago", last_login=at)
    page = client.get(LIST).content.decode()
    assert "20:26 CST" in page and "02:26 UTC" not in page


def test_what_a_role_may_do_is_said_in_words(client: Client, administrator: User) -> None:
    for address in (f"{LIST}add/", "/admin/auth/group/"):
        page = client.get(address).content.decode()
        assert "Can only view orders, appointments and the catalogue of labs" in page
        assert "Can only view the audit trail" in page and "Everything" in page
        assert "things" not in page and f" of {len(PERMISSIONS)}" not in page


def test_every_permission_lies_in_one_area() -> None:
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
def test_rights_in_a_sentence(granted: Collection[str], words: str) -> None:
    assert summarize(granted) == words


def test_roles_can_be_read_and_not_changed(client: Client, administrator: User) -> None:
    page = client.get("/admin/auth/group/").content.decode()
    assert all(role.capitalize() in page for role in ROLES)
    group = Group.objects.get(name="viewer")
    named(staff("viewer"), "Vera")
    page = client.get(f"/admin/auth/group/{group.pk}/").content.decode()
    assert "Vera Sample" in page and page.count('data-st="result-in"') == len(ROLES["viewer"])
    for path in ("", "add/", f"{group.pk}/"):
        client.post(f"/admin/auth/group/{path}", {"name": "owner", "_save": "1"})
    assert Group.objects.filter(name="viewer").exists()
    assert not Group.objects.filter(name="owner").exists()
