"""Tokens: what is kept of them, how long and for what they are good, and how they end."""

from __future__ import annotations

import hashlib
import re
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.urls import get_resolver
from django.utils import timezone

from backoffice.accounts.access import ROLES, SERVICE_ACCOUNT, declared_permissions
from backoffice.accounts.models import User
from backoffice.api import tokens
from backoffice.api.models import ApiToken
from backoffice.api.viewsets import ResourceViewSet
from backoffice.audit.models import AuditEntry
from tests.api.rows import order, patient, staff

pytestmark = pytest.mark.django_db


def ask(client: Client, text: str, address: str = "labs/") -> Any:
    return client.get(f"/api/{address}", headers={"Authorization": f"Token {text}"})


def refused(client: Client, text: str) -> str:
    answer = ask(client, text)
    assert answer.status_code == 401
    assert answer.json()["code"] == "authentication_failed"
    return str(answer.json()["message"])


@pytest.fixture
def account() -> User:
    return staff(SERVICE_ACCOUNT, "reporting")


def test_scopes_equal_permissions_of_resources() -> None:
    get_resolver().url_patterns  # noqa: B018 - all resources are loaded with them
    asked = {"records.view"}
    for viewset in ResourceViewSet.__subclasses__():
        asked |= set(declared_permissions(viewset) or ())
        asked |= set(viewset.serializer_class.field_permissions.values())
    assert asked == set(tokens.SCOPES)
    assert asked <= ROLES[SERVICE_ACCOUNT]


def test_the_text_is_kept_nowhere(account: User) -> None:
    token, text = tokens.issue(account)
    assert re.fullmatch(r"bo_[0-9a-z]{12}_[0-9A-Za-z]{43}", text)
    assert token.key_id in text
    with connection.cursor() as cursor:
        cursor.execute("SELECT t::text FROM api_apitoken t")
        ((row,),) = cursor.fetchall()
    assert text.rpartition("_")[2] not in row
    assert hashlib.sha256(text.encode()).hexdigest() not in row


@pytest.mark.parametrize(
    "change", [lambda t: t[:-1] + ("a" if t[-1] != "a" else "b"), lambda t: t + "x", str.upper]
)
def test_another_text_with_its_key_id_is_refused(
    client: Client, account: User, change: Any
) -> None:
    _, text = tokens.issue(account)
    assert refused(client, change(text)) == "This token is not known."


@pytest.mark.parametrize("text", ["", "bo_", "é", "bo_x_y", "a" * 9000, "a b", "%00"])
def test_what_is_no_token_is_refused(client: Client, text: str) -> None:
    assert refused(client, text) == "This token is not known."


def test_a_token_ends_at_its_time(client: Client, account: User) -> None:
    token, text = tokens.issue(account, days=30)
    assert ask(client, text).status_code == 200
    ApiToken.objects.filter(pk=token.pk).update(expires_at=timezone.now())
    assert re.fullmatch(r"This token expired on 20.* UTC\.", refused(client, text))
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.object_type, entry.outcome) == ("login", "token", "refused")
    assert entry.object_ids == [token.key_id]
    assert entry.reason.startswith("This token expired")


def test_a_revoked_token_is_refused_at_once_and_its_row_stays(
    client: Client, account: User
) -> None:
    token, text = tokens.issue(account, days=None)
    tokens.revoke(token)
    first = ApiToken.objects.get().revoked_at
    tokens.revoke(token)
    assert refused(client, text).startswith("This token was revoked on")
    assert ApiToken.objects.get().revoked_at == first is not None


def test_what_was_refused_says_nothing_of_an_unknown_token(client: Client) -> None:
    refused(client, "bo_aaaaaaaaaaaa_" + "b" * 43)
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.object_ids, entry.reason) == (None, [], "This token is not known.")


def test_a_token_reads_what_its_scopes_and_its_roles_both_allow(client: Client) -> None:
    order(1, interpretation="critical", record='{"id": 1}').save()
    _, narrow = tokens.issue(staff(SERVICE_ACCOUNT, "one"), scopes=["orders.view", "patients.view"])
    (item,) = ask(client, narrow, "orders/").json()["results"]
    assert item["record"] is None and item["interpretation"] is None
    answer = ask(client, narrow, "results/")
    assert answer.status_code == 403
    assert answer.json()["message"].endswith("This token lacks results.view.")
    assert ask(client, narrow, "schema/").status_code == 200
    _, wide = tokens.issue(staff("front desk"), scopes=tokens.SCOPES)
    assert ask(client, wide, "results/").status_code == 403
    assert ask(client, wide, "orders/").json()["results"][0]["record"] is None


def test_a_scope_opens_no_page(client: Client, account: User) -> None:
    patient(1).save()
    _, text = tokens.issue(account)
    for address in ("/patients/", "/system/", "/live/"):
        answer = client.get(address, headers={"Authorization": f"Token {text}"})
        assert answer.status_code == 302


def test_a_token_gets_the_pepper_of_a_new_secret_key(
    client: Client, account: User, settings: Any
) -> None:
    (_, used), (_, unused) = tokens.issue(account), tokens.issue(account)
    former = settings.SECRET_KEY
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "n" * 60, [former]
    assert ask(client, used).status_code == 200
    settings.SECRET_KEY_FALLBACKS = []
    assert ask(client, used).status_code == 200
    assert refused(client, unused) == "This token is not known."


def manage(*words: str) -> tuple[str, str]:
    out, said = StringIO(), StringIO()
    call_command(*words, stdout=out, stderr=said)
    return out.getvalue(), said.getvalue()


def test_createtoken_says_how_long_and_for_what(client: Client) -> None:
    out, said = manage("createtoken", "reporting", "--scope", "labs.view", "--days", "3")
    token = ApiToken.objects.get()
    assert token.expires_at and token.expires_at - timezone.now() < timedelta(days=3)
    assert f"Valid until {token.expires_at:%Y-%m-%d}, for labs.view." in said
    text = out.splitlines()[-1]
    assert ask(client, text).status_code == 200
    assert ask(client, text, "orders/").status_code == 403
    manage("createtoken", "reporting", "--never", "--label", "the warehouse")
    assert ApiToken.objects.get(name="the warehouse").expires_at is None
    entries = AuditEntry.objects.filter(action="change").order_by("pk")
    assert {(one.actor_kind, one.object_type) for one in entries} == {("machine", "make token")}


@pytest.mark.parametrize("words", [("--days", "0"), ("--days", "99999"), ("--label", "a\nb")])
def test_createtoken_refuses_nonsense(words: tuple[str, ...]) -> None:
    with pytest.raises(CommandError):
        manage("createtoken", "reporting", *words)
    assert ApiToken.objects.count() == User.objects.count() == 0


def test_tokens_are_listed_and_revoked_on_the_machine(client: Client) -> None:
    text = manage("createtoken", "reporting")[0].splitlines()[-1]
    token = ApiToken.objects.get()
    listed, _ = manage("listtokens")
    assert token.key_id in listed and text not in listed
    manage("revoketoken", token.key_id)
    assert refused(client, text).startswith("This token was revoked")
    assert manage("listtokens")[0] == ""
    assert "revoked" in manage("listtokens", "reporting", "--all")[0]
    with pytest.raises(CommandError, match="It was revoked on"):
        manage("revoketoken", token.key_id)
    with pytest.raises(CommandError, match="no token with this key id"):
        manage("revoketoken", "nothing")
