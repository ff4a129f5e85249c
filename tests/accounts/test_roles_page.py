"""The roles page shows the permissions that the code enforces."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from pytest_django import Settings

from backoffice.accounts import access
from tests.api.rows import staff

pytestmark = pytest.mark.django_db
ADDRESS = "/system/roles/"


def parse_table(page: str) -> dict[str, list[str]]:
    """Return the header of each row with `yes`, `no` or a number for each role."""
    body = page.split("<tbody>", 1)[1].split("</tbody>")[0]
    rows = {}
    for row in body.split("</tr>")[:-1]:
        name = re.search(r'<th scope="row">([^<]+)', row)
        assert name
        cells = re.findall(r"<td>(.*?)</td>", row, re.S)
        rows[name[1]] = [re.sub("<svg.*?</svg>|<[^>]+>", "", cell, flags=re.S) for cell in cells]
    return rows


def test_roles_page_lists_all_permissions_of_all_roles(client: Client, settings: Settings) -> None:
    settings.SECOND_FACTOR_ROLES = frozenset({"lab admin"})
    client.force_login(staff("auditor"))
    rows = parse_table(client.get(ADDRESS).content.decode())
    for name, words in access.PERMISSIONS.items():
        granted = ["yes" if name in access.ROLES[role] else "no" for role in access.ROLES]
        assert rows[words[0].upper() + words[1:]] == granted, name
    required = dict(zip(access.ROLES, rows["Second factor required"], strict=True))
    assert [role for role, cell in required.items() if cell == "yes"] == ["lab admin"]
    assert "People" not in rows


def test_administrators_see_number_of_people_per_role(client: Client) -> None:
    client.force_login(staff("administrator"))
    for n in range(3):
        staff("clinician", f"clinician {n}")
    closed = staff("clinician", "closed")
    closed.is_active = False
    closed.save()
    rows = parse_table(client.get(ADDRESS).content.decode())
    counts = dict(zip(access.ROLES, rows["People"], strict=True))
    assert (counts["clinician"], counts["administrator"], counts["viewer"]) == ("3", "1", "0")


@pytest.mark.parametrize("role", sorted(access.ROLES))
def test_roles_page_requires_audit_permission(client: Client, role: str) -> None:
    client.force_login(staff(role))
    allowed = "audit.view" in access.ROLES[role]
    assert client.get(ADDRESS).status_code == (200 if allowed else 403)
