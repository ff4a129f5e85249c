"""Requests may not use unknown methods or write fields that a form does not have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from uuid import UUID

import pytest
from django.forms import model_to_dict
from django.test import Client
from django.urls import resolve

from backoffice.accounts.models import User
from tests.api.rows import staff
from tests.test_access import routes
from tests.test_preferences import FORM

SAMPLES = {
    "uuid": str(UUID(int=5)),
    "int": "5",
    "str": "sample",
    "slug": "sample",
    "path": "sample",
}


def addresses() -> Iterator[tuple[str, str]]:
    """Yield every route of the product with a matching URL."""
    for route, _ in routes():
        plain = re.sub(r"<(?:(\w+):)?\w+>", lambda m: SAMPLES[m[1] or "str"], route)
        yield route, f"/{plain}"


def test_every_route_has_a_matching_url() -> None:
    found = dict(addresses())
    assert len(found) > 150
    assert all(resolve(address).func for address in found.values())


@pytest.mark.django_db
def test_unknown_methods_get_405_everywhere() -> None:
    client = Client()
    client.force_login(staff("administrator"))
    for _, address in addresses():
        for method in ("TRACE", "CONNECT", "SPROUT"):
            answer = client.generic(method, address, "Canary", HTTP_X_SAMPLE="Canary")
            assert b"Canary" not in answer.content
            assert answer.status_code == 405, (method, address)


@pytest.mark.django_db
def test_unknown_form_field_is_not_written(client: Client) -> None:
    user = staff("clinician")
    client.force_login(user)
    claimed = {
        **FORM, "time_zone": "America/Denver", "username": "root", "password": "x", "user": "1",
        "is_superuser": "on", "is_staff": "on", "is_active": "", "groups": "1",
    }  # fmt: skip
    before = model_to_dict(user)
    assert client.post("/preferences/", claimed).status_code == 302
    after = model_to_dict(User.objects.get(pk=user.pk))
    changed = {name for name, value in after.items() if value != before[name]}
    assert "time_zone" in changed
    assert not changed & (claimed.keys() - FORM.keys())
