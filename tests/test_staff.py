"""Staff of a new installation: the groups of the roles are there, and admin hands them out."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from backoffice.access import ROLES
from backoffice.models import User
from tests.accounts.people import PASSWORD, log_in

pytestmark = pytest.mark.django_db


def test_migrations_make_a_group_of_every_role() -> None:
    assert {group.name for group in Group.objects.all()} == ROLES.keys()


def test_admin_shows_zone_and_roles_of_a_member_of_staff(client: Client) -> None:
    admin = User.objects.create_superuser("admin-sample", password=PASSWORD)
    log_in(client, "admin-sample")
    page = client.get(f"/admin/backoffice/user/{admin.pk}/change/")
    assert page.status_code == 200
    form = page.context["adminform"].form
    assert {"time_zone", "groups", "is_active"} <= form.fields.keys()
    assert "password" in form.fields


def test_admin_makes_a_member_of_staff(client: Client) -> None:
    User.objects.create_superuser("admin-sample", password=PASSWORD)
    log_in(client, "admin-sample")
    answer = client.post(
        "/admin/backoffice/user/add/",
        {
            "username": "new-sample",
            "usable_password": "true",
            "password1": "made up and long 7",
            "password2": "made up and long 7",
            "time_zone": "America/Denver",
        },
    )
    assert answer.status_code == 302
    made = User.objects.get(username="new-sample")
    assert made.time_zone == "America/Denver"
    assert made.check_password("made up and long 7")
