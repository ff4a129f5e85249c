"""What is changed in the back office itself is kept with what it was."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest
from django.contrib.auth.models import Group
from django.db import transaction
from django.test import Client, RequestFactory

from backoffice import audit
from backoffice.models import AuditEntry, User
from tests.api.rows import staff
from tests.audit.trail import ENTRIES, sql

pytestmark = pytest.mark.django_db

PASSWORD = "several made-up words"


@pytest.fixture
def root(client: Client) -> User:
    user = User.objects.create_superuser("root-sample", password=PASSWORD)
    client.force_login(user)
    return user


def form_of(user: User, **values: object) -> dict[str, object]:
    """What the admin's form of a user is sent with."""
    return {"username": user.username, "is_active": "on", "time_zone": "UTC", **values}


def entry(kind: str = "user") -> AuditEntry:
    return AuditEntry.objects.get(action="change", object_type=kind)


def test_only_what_differs_is_kept(rf: RequestFactory) -> None:
    request = rf.get("/")
    request.user = staff("lab admin")
    key = uuid4()
    audit.changed(
        request,
        "setting",
        ["x"],
        before={"same": 1, "at": datetime(2026, 1, 1, tzinfo=UTC), "gone": key},
        after={"same": 1, "at": None, "come": [key]},
        reason="made up",
    )
    made = entry("setting")
    assert made.before == {"at": "2026-01-01T00:00:00Z", "gone": str(key)}
    assert made.after == {"at": None, "come": [str(key)]}
    assert made.reason == "made up"


def test_a_change_of_a_book_is_none(rf: RequestFactory) -> None:
    request = rf.get("/")
    request.user = staff("lab admin")
    with pytest.raises(ValueError, match="letters"), transaction.atomic():
        audit.changed(request, "setting", [], before={}, after={"text": "x" * 30_000})
    assert not AuditEntry.objects.exists()


def test_roles_that_are_given_and_taken(client: Client, root: User) -> None:
    user = staff("viewer", "vera-sample")
    desk, _ = Group.objects.get_or_create(name="front desk")
    answer = client.post(
        f"/admin/backoffice/user/{user.pk}/change/", form_of(user, groups=[desk.pk])
    )
    assert answer.status_code == 302, answer.content
    made = entry()
    assert (made.actor, made.object_ids) == (root, [str(user.pk)])
    assert made.before == {"groups": ["viewer"]}
    assert made.after == {"groups": ["front desk"]}


def test_an_account_that_is_closed_and_made_an_administrator(client: Client, root: User) -> None:
    user = staff("viewer", "vera-sample")
    form = form_of(user, groups=[group.pk for group in user.groups.all()], is_superuser="on")
    del form["is_active"]
    assert client.post(f"/admin/backoffice/user/{user.pk}/change/", form).status_code == 302
    made = entry()
    assert made.before == {"is_superuser": False, "is_active": True}
    assert made.after == {"is_superuser": True, "is_active": False}


def test_a_new_account_and_one_that_is_deleted(client: Client, root: User) -> None:
    form = {"username": "new-sample", "usable_password": "true", "password1": PASSWORD,
            "password2": PASSWORD, "time_zone": "UTC"}  # fmt: skip
    assert client.post("/admin/backoffice/user/add/", form).status_code == 302
    made = entry()
    assert made.after is not None
    assert made.before == {} and made.after["username"] == "new-sample"
    assert PASSWORD not in str(made.after) and "password" not in made.after
    user = User.objects.get(username="new-sample")
    gone = client.post(f"/admin/backoffice/user/{user.pk}/delete/", {"post": "yes"})
    assert gone.status_code == 302
    last = AuditEntry.objects.filter(object_type="user").latest("pk")
    assert last.before is not None and last.before["username"] == "new-sample"
    assert last.after == {}


def test_several_that_are_deleted_at_once(client: Client, root: User) -> None:
    keys = [User.objects.create_user(f"new-{n}").pk for n in range(3)]
    form = {"action": "delete_selected", "_selected_action": keys, "post": "yes"}
    assert client.post("/admin/backoffice/user/", form).status_code == 302
    assert not User.objects.filter(pk__in=keys).exists()
    assert AuditEntry.objects.filter(object_type="user", after={}).count() == 3


def test_of_a_password_only_that_it_is_another(client: Client, root: User) -> None:
    user = staff("viewer", "vera-sample")
    form = {"password1": PASSWORD, "password2": PASSWORD, "set-password": "1"}
    form["usable_password"] = "true"
    answer = client.post(f"/admin/backoffice/user/{user.pk}/password/", form)
    assert answer.status_code == 302, answer.content
    made = entry()
    assert (made.before, made.after) == ({}, {"password": "changed"})


def test_roles_themselves(client: Client, root: User) -> None:
    group = Group.objects.create(name="choir")
    assert client.post(f"/admin/auth/group/{group.pk}/change/", {"name": "band"}).status_code == 302
    made = entry("group")
    assert (made.before, made.after) == ({"name": "choir"}, {"name": "band"})


def test_without_the_log_nobody_gets_a_role(client: Client, root: User) -> None:
    user = staff("viewer", "vera-sample")
    form = form_of(user, is_superuser="on")
    client.raise_request_exception = False
    place = transaction.savepoint()
    sql(f"ALTER TABLE {ENTRIES} RENAME TO audit_away")
    answer = client.post(f"/admin/backoffice/user/{user.pk}/change/", form)
    assert answer.status_code == 500
    user.refresh_from_db()
    assert not user.is_superuser
    transaction.savepoint_rollback(place)
