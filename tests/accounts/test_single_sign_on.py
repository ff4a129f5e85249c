"""Single sign-on over real sockets: who is accepted, with which account and which roles."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from html import unescape
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest
from allauth.socialaccount.models import SocialAccount
from django.conf import settings as configured
from django.db import connection
from django.test import Client
from pytest_django import Settings

from backoffice.accounts import emails, single_sign_on
from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from tests.accounts.people import add_authenticator_app, log_in, person
from tests.accounts.provider import CLIENT_ID, CLIENT_SECRET, Provider, new_key, run_provider
from tests.team.mail_server import MailServer

pytestmark = pytest.mark.django_db
ADA = {
    "sub": "sample-7",
    "email": "Ada@clinic.invalid",
    "email_verified": True,
    "preferred_username": "ada.there",
    "given_name": "Ada",
    "family_name": "Madeup",
}


@pytest.fixture
def provider(settings: Settings) -> Iterator[Provider]:
    with run_provider() as provider:
        settings.OIDC_SERVER_URL, settings.OIDC_NAME = provider.url, "the clinic"
        app = {
            "provider_id": "oidc",
            "name": "the clinic",
            "client_id": CLIENT_ID,
            "secret": CLIENT_SECRET,
            "settings": {"server_url": provider.url},
        }
        settings.SOCIALACCOUNT_PROVIDERS = {
            "openid_connect": {"OAUTH_PKCE_ENABLED": True, "APPS": [app]}
        }
        provider.person = dict(ADA)
        provider.allowed_redirect_uri = "http://testserver/accounts/oidc/login/callback/"
        yield provider


def redirect_target(page: Any) -> str:
    """Return the target of the intermediate page, in its redirect and in its link."""
    text = page.content.decode()
    found = re.search(r"""content="0;URL=(?:&#x27;|&#39;|')(.+?)(?:&#x27;|&#39;|')">""", text)
    assert found, text
    address = unescape(found[1])
    assert f'href="{found[1]}"' in text
    return address


def authorize_at_provider(address: str) -> str:
    """Return the redirect of the provider for a browser that is signed in there."""
    parts = urlsplit(address)
    connection = HTTPConnection(parts.netloc, timeout=10)
    connection.request("GET", f"{parts.path}?{parts.query}")
    answer = connection.getresponse()
    assert answer.status == 302
    back = urlsplit(answer.headers["Location"])
    return f"{back.path}?{back.query}"


def sign_in(client: Client, **form: str) -> Any:
    """Sign in through the whole redirect chain."""
    return client.get(
        authorize_at_provider(redirect_target(client.post("/accounts/oidc/login/", form)))
    )


def is_inside(client: Client) -> bool:
    return client.get("/preferences/").status_code == 200


def test_person_with_account_signs_in_and_is_recognized(client: Client, provider: Provider) -> None:
    user = person(email="ada@clinic.invalid", role="clinician")
    assert "Sign in with the clinic" in client.get("/accounts/login/").content.decode()
    answer = sign_in(client, next="/orders/")
    assert answer["Location"] == "/orders/"
    assert is_inside(client)
    entry = AuditEntry.objects.get(action="login")
    assert (entry.actor, entry.outcome) == (user, "ok")
    # From now on the provider's own ID identifies the person, whatever the address.
    provider.person |= {"email": "new@clinic.invalid", "email_verified": False}
    again = Client()
    sign_in(again)
    assert again.get("/accounts/").context["request"].user == user
    assert User.objects.get().groups.get().name == "clinician"
    assert user.check_password("made up and long 7")


@pytest.mark.parametrize(
    ("claims", "accounts"),
    [
        ({}, 0),
        ({"email_verified": False}, 1),
        ({"email_verified": "true"}, 1),
        ({"email": ""}, 1),
        ({}, 2),
    ],
)
def test_person_without_matching_account_is_rejected(
    client: Client, provider: Provider, claims: dict[str, Any], accounts: int
) -> None:
    for n in range(accounts):
        person(f"ada-{n}", email="ada@clinic.invalid")
    provider.person |= claims
    answer = sign_in(client)
    assert answer.status_code == 403
    assert "No account found" in answer.content.decode()
    assert not is_inside(client) and User.objects.count() == accounts
    assert AuditEntry.objects.get(action="login").reason == "no account"


def test_linked_account_rejects_another_identity(client: Client, provider: Provider) -> None:
    user = person(email="ada@clinic.invalid", role="clinician")
    sign_in(client)
    provider.person |= {"sub": "sample-8"}
    other = Client()
    answer = sign_in(other)
    assert answer.status_code == 403
    assert "already linked to a different" in answer.content.decode()
    assert not is_inside(other)
    assert SocialAccount.objects.get(user=user).uid == "sample-7"
    refusal = AuditEntry.objects.filter(action="login").exclude(outcome="ok").get()
    assert refusal.reason == "linked to another identity"


def test_link_is_recorded_and_mailed(
    client: Client, provider: Provider, mail_server: MailServer
) -> None:
    user = person(email="ada@clinic.invalid", role="clinician")
    sign_in(client)
    sign_in(Client())  # The link exists by now: no new entry and no new mail.
    entry = AuditEntry.objects.get(action="change", object_type="single sign-on")
    assert entry.object_ids == [str(user.pk)]
    assert entry.after == {"single sign-on": "linked to sample-7"}
    assert emails.send_due() == 1
    (mail,) = mail_server.taken
    assert (mail["To"], mail["Subject"]) == ("ada@clinic.invalid", single_sign_on.LINKED)


def test_administrator_unlinks_and_another_identity_can_link(
    client: Client, provider: Provider, mail_server: MailServer
) -> None:
    user = person(email="ada@clinic.invalid", role="clinician")
    sign_in(client)
    boss = Client()
    person("boss", role="administrator")
    log_in(boss, "boss")
    form = {"action": "unlink_single_sign_on", "_selected_action": [user.pk]}
    boss.post("/admin/accounts/user/", form)
    assert not SocialAccount.objects.exists() and not is_inside(client)
    provider.person |= {"sub": "sample-8"}
    sign_in(client)
    assert SocialAccount.objects.get(user=user).uid == "sample-8" and is_inside(client)
    assert emails.send_due() == 3
    subjects = [mail["Subject"] for mail in mail_server.taken]
    assert subjects == [single_sign_on.LINKED, single_sign_on.UNLINKED, single_sign_on.LINKED]


def test_closed_account_stays_closed(client: Client, provider: Provider) -> None:
    person(email="ada@clinic.invalid", is_active=False)
    assert sign_in(client)["Location"] == "/accounts/login/"
    assert not is_inside(client)


def test_created_accounts_have_no_role(
    client: Client, provider: Provider, settings: Settings
) -> None:
    settings.OIDC_CREATE = True
    assert sign_in(client).status_code == 302
    user = User.objects.get()
    assert (user.username, user.first_name, user.email) == ("ada.there", "Ada", ADA["email"])
    entry = AuditEntry.objects.get(object_type="member of staff")
    assert (entry.object_ids, entry.before) == ([str(user.pk)], {})
    assert (entry.after or {})["username"] == "ada.there"
    assert not user.groups.exists() and not user.has_usable_password()
    assert client.get("/orders/").status_code == 403
    assert "Confirm it’s you" in client.get("/accounts/proof/").content.decode()


def test_roles_follow_the_claim(client: Client, provider: Provider, settings: Settings) -> None:
    settings.OIDC_ROLES_CLAIM = "realm.roles"
    user = person(email="ada@clinic.invalid", role="lab admin")
    claims: list[Any] = [
        ["clinician", "viewer", "service account", "choir"],
        "clinician, auditor",
        None,
    ]
    expected = [{"clinician", "viewer"}, {"clinician", "auditor"}, set()]
    for claim, roles in zip(claims, expected, strict=True):
        provider.person["realm"] = {"roles": claim}
        assert sign_in(Client()).status_code == 302
        assert set(user.groups.values_list("name", flat=True)) == roles
    entries = AuditEntry.objects.filter(object_type="member of staff").order_by("pk")
    assert [(entry.before, entry.after) for entry in entries] == [
        ({"roles": "lab admin"}, {"roles": "clinician, viewer"}),
        ({"roles": "clinician, viewer"}, {"roles": "auditor, clinician"}),
        ({"roles": "auditor, clinician"}, {"roles": ""}),
    ]
    assert {(*entry.object_ids, entry.reason) for entry in entries} == {
        (str(user.pk), "reported by single sign-on")
    }


@pytest.mark.parametrize("is_named", [True, False])
def test_claim_decides_who_is_administrator(
    client: Client, provider: Provider, settings: Settings, is_named: bool
) -> None:
    settings.OIDC_ROLES_CLAIM = "roles"
    person(email="ada@clinic.invalid", is_superuser=True)
    provider.person["roles"] = ["administrator"] if is_named else ["viewer"]
    sign_in(client)
    assert client.get("/admin/").status_code == (200 if is_named else 403)
    assert User.objects.get().is_superuser is is_named
    entries = AuditEntry.objects.filter(object_type="member of staff")
    found = [] if is_named else [({"roles": "administrator"}, {"roles": "viewer"})]
    assert [(one.before, one.after) for one in entries] == found


@pytest.mark.parametrize("taken", [["ADA.there"], ["ada.there", "ada@clinic.invalid"]])
def test_taken_username_falls_back_to_email(
    client: Client, provider: Provider, settings: Settings, taken: list[str]
) -> None:
    settings.OIDC_CREATE = True
    for name in taken:
        person(name)
    answer = sign_in(client)
    created = User.objects.exclude(username__in=taken)
    if len(taken) == 1:
        assert answer.status_code == 302 and created.get().username == ADA["email"]
    else:
        assert "No account found" in answer.content.decode() and not created.exists()


@pytest.mark.django_db(transaction=True)
def test_two_concurrent_first_sign_ins_both_succeed(provider: Provider, settings: Settings) -> None:
    settings.OIDC_CREATE = True
    browsers = [Client(), Client()]
    callbacks = [
        authorize_at_provider(redirect_target(one.post("/accounts/oidc/login/")))
        for one in browsers
    ]
    start = threading.Barrier(2)
    answers: list[int] = []

    def open_callback(client: Client, url: str) -> None:
        start.wait(20)
        try:
            answers.append(client.get(url).status_code)
        finally:
            connection.close()

    threads = [
        threading.Thread(target=open_callback, args=pair)
        for pair in zip(browsers, callbacks, strict=True)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert answers == [302, 302]
    assert User.objects.count() == 1
    assert any(is_inside(one) for one in browsers)


def test_second_factor_of_account_is_required(client: Client, provider: Provider) -> None:
    person(email="ada@clinic.invalid")
    log_in(client)
    add_authenticator_app(client)
    other = Client()
    assert sign_in(other)["Location"] == "/accounts/login/second-factor/"
    assert not is_inside(other)


@pytest.mark.parametrize("trusts_provider", [True, False])
def test_second_factor_of_provider_counts_if_configured(
    client: Client, provider: Provider, settings: Settings, trusts_provider: bool
) -> None:
    settings.SECOND_FACTOR_ROLES = frozenset({"all"})
    settings.OIDC_SECOND_FACTOR = trusts_provider
    person(email="ada@clinic.invalid")
    sign_in(client)
    assert is_inside(client) is trusts_provider


def test_contradicting_subjects_are_rejected(client: Client, provider: Provider) -> None:
    person(email="ada@clinic.invalid")
    provider.user_info = {**ADA, "sub": "somebody-else"}
    assert sign_in(client)["Location"] == "/accounts/login/"
    assert not is_inside(client)
    assert "failed" in client.get("/accounts/login/").content.decode()


@pytest.mark.parametrize(
    "failure", ["/token", "/userinfo", "/keys", "cancelled", "forged", "twice"]
)
def test_failure_during_sign_in_is_reported(
    client: Client, provider: Provider, failure: str
) -> None:
    person(email="ada@clinic.invalid")
    url = redirect_target(client.post("/accounts/oidc/login/"))
    if failure == "cancelled":
        provider.person = {}
    url = authorize_at_provider(url)
    if failure == "forged":
        url = re.sub("state=[^&]+", "state=forged", url)
    if failure == "twice":
        assert client.get(url).status_code == 302
        client.post("/accounts/logout/")
    provider.failing_path = failure
    answer = client.get(f"{url}&_redir=")
    assert answer["Location"] == "/accounts/login/"
    assert not is_inside(client)
    assert "failed" in client.get("/accounts/login/").content.decode()
    assert AuditEntry.objects.filter(reason="single sign-on").count() == 1


FORGED_TOKENS: dict[str, dict[str, Any]] = {
    "signed by nobody": {"algorithm": "none", "key": None},
    "signed with a secret": {"algorithm": "HS256", "key": CLIENT_SECRET * 2},
    "signed with the public key as a secret": {"algorithm": "HS256", "key": "public"},
    "signed with another key": {"key": new_key()},
    "signed with a key nobody published": {"key": new_key(), "kid": "sample-9"},
    "of another issuer": {"claim_overrides": {"iss": "https://elsewhere.invalid"}},
    "for another client": {"claim_overrides": {"aud": "somebody-else"}},
    "for us, and made for another client": {
        "claim_overrides": {"aud": [CLIENT_ID, "x"], "azp": "x"}
    },
    "over": {"claim_overrides": {"exp": int(time.time()) - 300}},
    "without an end": {"claim_overrides": {"exp": None}},
    "of the future": {"claim_overrides": {"nbf": int(time.time()) + 86_400}},
    "made in the future": {"claim_overrides": {"iat": int(time.time()) + 86_400}},
    "without a time": {"claim_overrides": {"iat": None}},
    "about nobody": {"claim_overrides": {"sub": None}},
    "asked for by somebody else": {"claim_overrides": {"nonce": "another"}},
    "asked for by nobody": {"claim_overrides": {"nonce": None}},
}


@pytest.mark.parametrize("forged", FORGED_TOKENS)
def test_forged_or_expired_token_is_refused(
    client: Client, provider: Provider, forged: str
) -> None:
    person(email="ada@clinic.invalid")
    for name, value in FORGED_TOKENS[forged].items():
        setattr(provider, name, value)
    if provider.key == "public":
        provider.key = json.dumps(provider.keys()["keys"][0])
    assert sign_in(client)["Location"] == "/accounts/login/"
    assert not is_inside(client)
    assert "failed" in client.get("/accounts/login/").content.decode()
    assert AuditEntry.objects.get(action="login").reason == "single sign-on"
    assert not SocialAccount.objects.exists()


def test_response_without_id_token_is_refused(client: Client, provider: Provider) -> None:
    person(email="ada@clinic.invalid")
    provider.has_id_token = False
    assert sign_in(client)["Location"] == "/accounts/login/"
    assert not is_inside(client)


@pytest.mark.parametrize("algorithm", ["RS256", "RS512", "PS256"])
def test_rotated_provider_keys_are_fetched_again(
    client: Client, provider: Provider, algorithm: str
) -> None:
    person(email="ada@clinic.invalid")
    provider.algorithm = algorithm
    sign_in(client)
    assert is_inside(client)
    old = (provider.kid, provider.key)
    provider.rotate()
    other = Client()
    sign_in(other)
    assert is_inside(other)
    provider.kid, provider.key = old
    third = Client()
    sign_in(third)
    assert not is_inside(third)


@pytest.mark.parametrize("issuer", ["https://elsewhere.invalid", "{url}.invalid", "{url}/realm"])
def test_configuration_of_another_issuer_is_refused(
    client: Client, provider: Provider, issuer: str
) -> None:
    person(email="ada@clinic.invalid")
    provider.issuer = issuer.format(url=provider.url)
    answer = client.post("/accounts/oidc/login/", follow=True)
    assert "Sign-in with the clinic failed" in answer.content.decode()


def test_issuer_with_trailing_slash_is_accepted(client: Client, provider: Provider) -> None:
    person(email="ada@clinic.invalid")
    provider.issuer = f"{provider.url}/"
    sign_in(client)
    assert is_inside(client)


def test_provider_without_https_is_refused(
    client: Client, provider: Provider, settings: Settings
) -> None:
    settings.LOCAL = False
    answer = client.post("/accounts/oidc/login/", follow=True)
    assert "Sign-in with the clinic failed" in answer.content.decode()


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/token", "/keys"])
def test_redirect_of_provider_is_not_followed(
    client: Client, provider: Provider, path: str
) -> None:
    person(email="ada@clinic.invalid")
    page = client.post("/accounts/oidc/login/")
    provider.redirected_path = path
    callback = authorize_at_provider(redirect_target(page))
    assert client.get(callback)["Location"] == "/accounts/login/"
    assert not is_inside(client)


def test_sign_in_works_without_redis(
    client: Client, provider: Provider, settings: Settings
) -> None:
    settings.CACHES = {
        "default": {**configured.CACHES["default"], "LOCATION": "redis://127.0.0.1:1/0"}
    }
    person(email="ada@clinic.invalid")
    sign_in(client)
    assert is_inside(client)


def test_unreachable_provider_is_reported(client: Client, provider: Provider) -> None:
    provider.failing_path = "/.well-known/openid-configuration"
    answer = client.post("/accounts/oidc/login/", follow=True)
    assert "Sign-in with the clinic failed" in answer.content.decode()


def test_sign_in_without_provider_is_not_offered(client: Client) -> None:
    assert configured.OIDC_SERVER_URL == ""
    assert "Sign in with" not in client.get("/accounts/login/").content.decode().replace(
        "Sign in with a passkey", ""
    )
    assert client.post("/accounts/oidc/login/").status_code == 404
    assert client.get("/accounts/oidc/login/callback/").status_code == 404
