"""Single sign-on over real sockets: who gets in, as whom, and with which roles."""

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
from backoffice.models import AuditEntry, User
from tests.accounts.people import log_in, person, with_app
from tests.accounts.provider import CLIENT, SECRET, Provider, new_key, providing
from tests.team.posting import Post, posting

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
    with providing() as provider:
        settings.OIDC_SERVER_URL, settings.OIDC_NAME = provider.url, "the clinic"
        app = {
            "provider_id": "oidc",
            "name": "the clinic",
            "client_id": CLIENT,
            "secret": SECRET,
            "settings": {"server_url": provider.url},
        }
        settings.SOCIALACCOUNT_PROVIDERS = {
            "openid_connect": {"OAUTH_PKCE_ENABLED": True, "APPS": [app]}
        }
        provider.person = dict(ADA)
        provider.comes_back = "http://testserver/accounts/oidc/login/callback/"
        yield provider


@pytest.fixture
def post(settings: Settings) -> Iterator[Post]:
    with posting() as post:
        settings.EMAIL_URL, settings.EMAIL_FROM = post.url, "office@clinic.invalid"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", post.port
        settings.SITE_URL = "https://office.invalid"
        yield post


def led_to(page: Any) -> str:
    """Where the page in between leads, by itself and by its link."""
    text = page.content.decode()
    found = re.search(r"""content="0;URL=(?:&#x27;|')(.+?)(?:&#x27;|')">""", text)
    assert found, text
    address = unescape(found[1])
    assert f'href="{found[1]}"' in text
    return address


def sent_back(address: str) -> str:
    """What a browser that is logged in at the provider is told there."""
    parts = urlsplit(address)
    connection = HTTPConnection(parts.netloc, timeout=10)
    connection.request("GET", f"{parts.path}?{parts.query}")
    answer = connection.getresponse()
    assert answer.status == 302
    back = urlsplit(answer.headers["Location"])
    return f"{back.path}?{back.query}"


def come_in(client: Client, **form: str) -> Any:
    """The whole way."""
    return client.get(sent_back(led_to(client.post("/accounts/oidc/login/", form))))


def inside(client: Client) -> bool:
    return client.get("/preferences/").status_code == 200


def test_somebody_with_an_account_gets_in_and_is_known_again(
    client: Client, provider: Provider
) -> None:
    user = person(email="ada@clinic.invalid", role="clinician")
    assert "Log in with the clinic" in client.get("/accounts/login/").content.decode()
    answer = come_in(client, next="/orders/")
    assert answer["Location"] == "/orders/"
    assert inside(client)
    entry = AuditEntry.objects.get(action="login")
    assert (entry.actor, entry.outcome) == (user, "ok")
    # From now on by the provider's own id, whatever the address.
    provider.person |= {"email": "new@clinic.invalid", "email_verified": False}
    again = Client()
    come_in(again)
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
def test_nobody_else_does(
    client: Client, provider: Provider, claims: dict[str, Any], accounts: int
) -> None:
    for n in range(accounts):
        person(f"ada-{n}", email="ada@clinic.invalid")
    provider.person |= claims
    answer = come_in(client)
    assert answer.status_code == 403
    assert "no account for you" in answer.content.decode()
    assert not inside(client) and User.objects.count() == accounts
    assert AuditEntry.objects.get(action="login").reason == "no account"


def test_linked_account_is_never_linked_to_another_identity(
    client: Client, provider: Provider
) -> None:
    user = person(email="ada@clinic.invalid", role="clinician")
    come_in(client)
    provider.person |= {"sub": "sample-8"}
    other = Client()
    answer = come_in(other)
    assert answer.status_code == 403
    assert "already linked to another identity" in answer.content.decode()
    assert not inside(other)
    assert SocialAccount.objects.get(user=user).uid == "sample-7"
    refusal = AuditEntry.objects.filter(action="login").exclude(outcome="ok").get()
    assert refusal.reason == "linked to another identity"


def test_link_is_recorded_and_mailed(client: Client, provider: Provider, post: Post) -> None:
    user = person(email="ada@clinic.invalid", role="clinician")
    come_in(client)
    come_in(Client())  # Known by then: nothing new to record or to mail.
    entry = AuditEntry.objects.get(action="change", object_type="single sign-on")
    assert entry.object_ids == [str(user.pk)]
    assert entry.after == {"single sign-on": "linked to sample-7"}
    assert emails.send_due() == 1
    (mail,) = post.taken
    assert (mail["To"], mail["Subject"]) == ("ada@clinic.invalid", single_sign_on.LINKED)


def test_administrator_unlinks_and_another_identity_can_link(
    client: Client, provider: Provider, post: Post
) -> None:
    user = person(email="ada@clinic.invalid", role="clinician")
    come_in(client)
    boss = Client()
    person("boss", role="administrator")
    log_in(boss, "boss")
    form = {"action": "unlink_single_sign_on", "_selected_action": [user.pk]}
    boss.post("/admin/backoffice/user/", form)
    assert not SocialAccount.objects.exists() and not inside(client)
    provider.person |= {"sub": "sample-8"}
    come_in(client)
    assert SocialAccount.objects.get(user=user).uid == "sample-8" and inside(client)
    assert emails.send_due() == 3
    subjects = [mail["Subject"] for mail in post.taken]
    assert subjects == [single_sign_on.LINKED, single_sign_on.UNLINKED, single_sign_on.LINKED]


def test_an_account_that_was_closed_stays_closed(client: Client, provider: Provider) -> None:
    person(email="ada@clinic.invalid", is_active=False)
    assert come_in(client)["Location"] == "/accounts/login/"
    assert not inside(client)


def test_accounts_are_made_where_that_is_wanted_without_a_role(
    client: Client, provider: Provider, settings: Settings
) -> None:
    settings.OIDC_CREATE = True
    assert come_in(client).status_code == 302
    made = User.objects.get()
    assert (made.username, made.first_name, made.email) == ("ada.there", "Ada", ADA["email"])
    entry = AuditEntry.objects.get(object_type="member of staff")
    assert (entry.object_ids, entry.before) == ([str(made.pk)], {})
    assert (entry.after or {})["log-in name"] == "ada.there"
    assert not made.groups.exists() and not made.has_usable_password()
    assert client.get("/orders/").status_code == 403
    assert "Confirm that it is you" in client.get("/accounts/proof/").content.decode()


def test_roles_come_from_the_claim_and_go_with_it(
    client: Client, provider: Provider, settings: Settings
) -> None:
    settings.OIDC_ROLES_CLAIM = "realm.roles"
    user = person(email="ada@clinic.invalid", role="lab admin")
    told: list[Any] = [
        ["clinician", "viewer", "service account", "choir"],
        "clinician, auditor",
        None,
    ]
    found = [{"clinician", "viewer"}, {"clinician", "auditor"}, set()]
    for said, roles in zip(told, found, strict=True):
        provider.person["realm"] = {"roles": said}
        assert come_in(Client()).status_code == 302
        assert set(user.groups.values_list("name", flat=True)) == roles
    kept = AuditEntry.objects.filter(object_type="member of staff").order_by("pk")
    assert [(one.before, one.after) for one in kept] == [
        ({"roles": "lab admin"}, {"roles": "clinician, viewer"}),
        ({"roles": "clinician, viewer"}, {"roles": "auditor, clinician"}),
        ({"roles": "auditor, clinician"}, {"roles": ""}),
    ]
    assert {(*one.object_ids, one.reason) for one in kept} == {
        (str(user.pk), "said at the single sign-on")
    }


@pytest.mark.parametrize("named", [True, False])
def test_the_claim_decides_who_is_administrator_whatever_made_them_one(
    client: Client, provider: Provider, settings: Settings, named: bool
) -> None:
    settings.OIDC_ROLES_CLAIM = "roles"
    person(email="ada@clinic.invalid", is_superuser=True)
    provider.person["roles"] = ["administrator"] if named else ["viewer"]
    come_in(client)
    assert client.get("/admin/").status_code == (200 if named else 403)
    assert User.objects.get().is_superuser is named
    entries = AuditEntry.objects.filter(object_type="member of staff")
    found = [] if named else [({"roles": "administrator"}, {"roles": "viewer"})]
    assert [(one.before, one.after) for one in entries] == found


@pytest.mark.parametrize("taken", [["ADA.there"], ["ada.there", "ada@clinic.invalid"]])
def test_a_name_that_is_taken_is_no_reason_to_break(
    client: Client, provider: Provider, settings: Settings, taken: list[str]
) -> None:
    settings.OIDC_CREATE = True
    for name in taken:
        person(name)
    answer = come_in(client)
    made = User.objects.exclude(username__in=taken)
    if len(taken) == 1:
        assert answer.status_code == 302 and made.get().username == ADA["email"]
    else:
        assert "no account for you" in answer.content.decode() and not made.exists()


@pytest.mark.django_db(transaction=True)
def test_of_two_first_log_ins_of_one_person_none_ends_in_an_error(
    provider: Provider, settings: Settings
) -> None:
    settings.OIDC_CREATE = True
    browsers = [Client(), Client()]
    ways = [sent_back(led_to(one.post("/accounts/oidc/login/"))) for one in browsers]
    start = threading.Barrier(2)
    answers: list[int] = []

    def come(client: Client, way: str) -> None:
        start.wait(20)
        try:
            answers.append(client.get(way).status_code)
        finally:
            connection.close()

    both = [threading.Thread(target=come, args=pair) for pair in zip(browsers, ways, strict=True)]
    for one in both:
        one.start()
    for one in both:
        one.join(60)
    assert answers == [302, 302]
    assert User.objects.count() == 1
    assert any(inside(one) for one in browsers)


def test_a_second_factor_of_ours_is_asked_for(client: Client, provider: Provider) -> None:
    person(email="ada@clinic.invalid")
    log_in(client)
    with_app(client)
    other = Client()
    assert come_in(other)["Location"] == "/accounts/login/second-factor/"
    assert not inside(other)


@pytest.mark.parametrize("theirs", [True, False])
def test_theirs_counts_where_we_are_told_so(
    client: Client, provider: Provider, settings: Settings, theirs: bool
) -> None:
    settings.SECOND_FACTOR_ROLES = frozenset({"all"})
    settings.OIDC_SECOND_FACTOR = theirs
    person(email="ada@clinic.invalid")
    come_in(client)
    assert inside(client) is theirs


def test_two_answers_about_two_people_are_no_answer(client: Client, provider: Provider) -> None:
    person(email="ada@clinic.invalid")
    provider.info = {**ADA, "sub": "somebody-else"}
    assert come_in(client)["Location"] == "/accounts/login/"
    assert not inside(client)
    assert "did not work" in client.get("/accounts/login/").content.decode()


@pytest.mark.parametrize("broken", ["/token", "/userinfo", "/keys", "cancelled", "forged", "twice"])
def test_what_goes_wrong_on_the_way_is_said(
    client: Client, provider: Provider, broken: str
) -> None:
    person(email="ada@clinic.invalid")
    back = led_to(client.post("/accounts/oidc/login/"))
    if broken == "cancelled":
        provider.person = {}
    back = sent_back(back)
    if broken == "forged":
        back = re.sub("state=[^&]+", "state=forged", back)
    if broken == "twice":
        assert client.get(back).status_code == 302
        client.post("/accounts/logout/")
    provider.broken = broken
    answer = client.get(f"{back}&_redir=")
    assert answer["Location"] == "/accounts/login/"
    assert not inside(client)
    assert "did not work" in client.get("/accounts/login/").content.decode()
    assert AuditEntry.objects.filter(reason="single sign-on").count() == 1


FORGED: dict[str, dict[str, Any]] = {
    "signed by nobody": {"algorithm": "none", "key": None},
    "signed with a secret": {"algorithm": "HS256", "key": SECRET * 2},
    "signed with the public key as a secret": {"algorithm": "HS256", "key": "public"},
    "signed with another key": {"key": new_key()},
    "signed with a key nobody published": {"key": new_key(), "kid": "sample-9"},
    "of another issuer": {"said": {"iss": "https://elsewhere.invalid"}},
    "for another client": {"said": {"aud": "somebody-else"}},
    "for us, and made for another client": {"said": {"aud": [CLIENT, "x"], "azp": "x"}},
    "over": {"said": {"exp": int(time.time()) - 300}},
    "without an end": {"said": {"exp": None}},
    "of the future": {"said": {"nbf": int(time.time()) + 86_400}},
    "made in the future": {"said": {"iat": int(time.time()) + 86_400}},
    "without a time": {"said": {"iat": None}},
    "about nobody": {"said": {"sub": None}},
    "asked for by somebody else": {"said": {"nonce": "another"}},
    "asked for by nobody": {"said": {"nonce": None}},
}


@pytest.mark.parametrize("forged", FORGED)
def test_a_token_that_is_not_from_the_provider_for_us_and_now_is_refused(
    client: Client, provider: Provider, forged: str
) -> None:
    person(email="ada@clinic.invalid")
    for name, value in FORGED[forged].items():
        setattr(provider, name, value)
    if provider.key == "public":
        provider.key = json.dumps(provider.keys()["keys"][0])
    assert come_in(client)["Location"] == "/accounts/login/"
    assert not inside(client)
    assert "did not work" in client.get("/accounts/login/").content.decode()
    assert AuditEntry.objects.get(action="login").reason == "single sign-on"
    assert not SocialAccount.objects.exists()


def test_an_answer_without_a_token_is_none(client: Client, provider: Provider) -> None:
    person(email="ada@clinic.invalid")
    provider.tells_who = False
    assert come_in(client)["Location"] == "/accounts/login/"
    assert not inside(client)


@pytest.mark.parametrize("algorithm", ["RS256", "RS512", "PS256"])
def test_keys_are_asked_for_anew_when_they_rotate(
    client: Client, provider: Provider, algorithm: str
) -> None:
    person(email="ada@clinic.invalid")
    provider.algorithm = algorithm
    come_in(client)
    assert inside(client)
    old = (provider.kid, provider.key)
    provider.rotate()
    other = Client()
    come_in(other)
    assert inside(other)
    provider.kid, provider.key = old
    third = Client()
    come_in(third)
    assert not inside(third)


@pytest.mark.parametrize("issuer", ["https://elsewhere.invalid", "{url}.invalid", "{url}/realm"])
def test_a_document_of_another_issuer_is_refused(
    client: Client, provider: Provider, issuer: str
) -> None:
    person(email="ada@clinic.invalid")
    provider.issuer = issuer.format(url=provider.url)
    answer = client.post("/accounts/oidc/login/", follow=True)
    assert "The log-in at the clinic did not work" in answer.content.decode()


def test_an_issuer_may_end_with_a_slash(client: Client, provider: Provider) -> None:
    person(email="ada@clinic.invalid")
    provider.issuer = f"{provider.url}/"
    come_in(client)
    assert inside(client)


def test_addresses_of_the_provider_are_https(
    client: Client, provider: Provider, settings: Settings
) -> None:
    settings.LOCAL = False
    answer = client.post("/accounts/oidc/login/", follow=True)
    assert "The log-in at the clinic did not work" in answer.content.decode()


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/token", "/keys"])
def test_what_the_provider_is_told_goes_nowhere_else(
    client: Client, provider: Provider, path: str
) -> None:
    person(email="ada@clinic.invalid")
    way = client.post("/accounts/oidc/login/")
    provider.moved = path
    back = sent_back(led_to(way))
    assert client.get(back)["Location"] == "/accounts/login/"
    assert not inside(client)


def test_people_come_in_while_redis_is_away(
    client: Client, provider: Provider, settings: Settings
) -> None:
    settings.CACHES = {
        "default": {**configured.CACHES["default"], "LOCATION": "redis://127.0.0.1:1/0"}
    }
    person(email="ada@clinic.invalid")
    come_in(client)
    assert inside(client)


def test_a_provider_that_is_away_is_said(client: Client, provider: Provider) -> None:
    provider.broken = "/.well-known/openid-configuration"
    answer = client.post("/accounts/oidc/login/", follow=True)
    assert "The log-in at the clinic did not work" in answer.content.decode()


def test_without_a_provider_there_is_no_such_door(client: Client) -> None:
    assert configured.OIDC_SERVER_URL == ""
    assert "Log in with" not in client.get("/accounts/login/").content.decode().replace(
        "Log in with a passkey", ""
    )
    assert client.post("/accounts/oidc/login/").status_code == 404
    assert client.get("/accounts/oidc/login/callback/").status_code == 404
