"""System > API tokens."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from backoffice.accounts.access import ADMINISTRATOR, SERVICE_ACCOUNT
from backoffice.accounts.models import User
from backoffice.api import tokens
from backoffice.api.models import ApiToken
from backoffice.audit.models import AuditEntry
from tests.accounts.people import sign_in_recently_authenticated
from tests.api.rows import staff

pytestmark = pytest.mark.django_db
TEXT = re.compile(r"bo_[0-9a-z]{12}_[0-9A-Za-z]{43}")


@pytest.fixture
def asker(client: Client) -> Client:
    sign_in_recently_authenticated(client, staff(ADMINISTRATOR))
    return client


def asked(**changes: Any) -> dict[str, Any]:
    fields = {"form_id": str(uuid4()), "account": "reporting", "name": "the warehouse"}
    return {**fields, "scopes": ["labs.view", "orders.view"], "days": "90", **changes}


def test_a_token_is_made_shown_once_and_recorded(asker: Client) -> None:
    assert asker.get("/system/tokens/new/").status_code == 200
    fields = asked()
    page = asker.post("/system/tokens/new/", fields)
    assert page.headers["Cache-Control"] == "no-store, private"
    text = TEXT.findall(page.content.decode())[0]
    token = ApiToken.objects.get()
    assert (token.user.username, token.name, token.scopes) == (
        "reporting",
        "the warehouse",
        ["orders.view", "labs.view"],
    )
    assert token.created_by == User.objects.get(username=ADMINISTRATOR)
    assert not token.user.has_usable_password()
    entry = AuditEntry.objects.get(object_type="make token")
    assert entry.object_ids == [token.key_id, "reporting"]
    answer = Client().get("/api/labs/", headers={"Authorization": f"Token {text}"})
    assert answer.status_code == 200
    again = asker.post("/system/tokens/new/", fields).content.decode()
    assert not TEXT.search(again) and "has already created its token" in again
    listed = asker.get("/system/tokens/").content.decode()
    assert token.key_id in listed and not TEXT.search(listed)
    assert ApiToken.objects.count() == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"account": "casey"}, "casey is a staff member"),
        ({"account": ""}, "This field is required"),
        ({"account": "a\x00b"}, "Null characters are not allowed"),
        ({"scopes": []}, "Check at least one"),
        ({"scopes": ["audit.view"]}, "not one of the available choices"),
        ({"days": "9999"}, "not one of the available choices"),
    ],
)
def test_what_cannot_be_made_is_said_and_nothing_typed_is_lost(
    asker: Client, changes: dict[str, Any], words: str
) -> None:
    staff("clinician", "casey")
    answer = asker.post("/system/tokens/new/", asked(**changes))
    page = answer.content.decode()
    assert answer.status_code == 422
    assert words in page
    assert 'value="the warehouse"' in page
    assert ApiToken.objects.count() == 0


def test_without_an_end_takes_a_choice_of_its_own(asker: Client) -> None:
    asker.post("/system/tokens/new/", asked(days="0"))
    assert ApiToken.objects.get().expires_at is None


def test_revoking_asks_once_more_and_ends_it_at_once(asker: Client) -> None:
    token, text = tokens.issue(staff(SERVICE_ACCOUNT, "reporting"))
    address = f"/system/tokens/{token.pk}/revoke/"
    assert "Revoke token" in asker.get(address).content.decode()
    assert ApiToken.objects.get().revoked_at is None
    for _ in range(2):
        assert asker.post(address).headers["Location"] == "/system/tokens/"
    answer = Client().get("/api/labs/", headers={"Authorization": f"Token {text}"})
    assert answer.status_code == 401
    assert AuditEntry.objects.get(object_type="revoke token").object_ids == [token.key_id]
    assert "no longer works" in asker.get(address).content.decode()
    assert "Revoked" in asker.get("/system/tokens/").content.decode()
