"""The matrix says what the code decides."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from pytest_django import Settings

from backoffice.core import access
from tests.api.rows import staff

pytestmark = pytest.mark.django_db
ADDRESS = "/system/roles/"


def table(page: str) -> dict[str, list[str]]:
    """First words of each row, and `yes`, `no` or a number of each role."""
    body = page.split("<tbody>", 1)[1].split("</tbody>")[0]
    rows = {}
    for row in body.split("</tr>")[:-1]:
        name = re.search(r'<th scope="row">([^<]+)', row)
        assert name
        cells = re.findall(r"<td>(.*?)</td>", row, re.S)
        rows[name[1]] = [re.sub("<svg.*?</svg>|<[^>]+>", "", cell, flags=re.S) for cell in cells]
    return rows


def test_every_right_of_every_role_stands_there(client: Client, settings: Settings) -> None:
    settings.SECOND_FACTOR_ROLES = frozenset({"lab admin"})
    client.force_login(staff("auditor"))
    rows = table(client.get(ADDRESS).content.decode())
    for name, words in access.PERMISSIONS.items():
        granted = ["yes" if name in access.ROLES[role] else "no" for role in access.ROLES]
        assert rows[words[0].upper() + words[1:]] == granted, name
    demanded = dict(zip(access.ROLES, rows["Second factor required"], strict=True))
    assert [role for role, said in demanded.items() if said == "yes"] == ["lab admin"]
    assert "People" not in rows


def test_administrators_see_how_many_people_have_a_role(client: Client) -> None:
    client.force_login(staff("administrator"))
    for n in range(3):
        staff("clinician", f"clinician {n}")
    closed = staff("clinician", "closed")
    closed.is_active = False
    closed.save()
    rows = table(client.get(ADDRESS).content.decode())
    counts = dict(zip(access.ROLES, rows["People"], strict=True))
    assert (counts["clinician"], counts["administrator"], counts["viewer"]) == ("3", "1", "0")


@pytest.mark.parametrize("role", sorted(access.ROLES))
def test_it_is_for_those_who_see_the_access_log(client: Client, role: str) -> None:
    client.force_login(staff(role))
    allowed = "audit.view" in access.ROLES[role]
    assert client.get(ADDRESS).status_code == (200 if allowed else 403)
