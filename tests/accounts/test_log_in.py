"""The door: the same words for everybody it keeps out, a new key for everybody it lets in."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

import pytest
from django.conf import settings as configured
from django.test import Client
from pytest_django import Settings

from backoffice.models import AuditEntry, StaffSession, User
from tests.accounts.people import PASSWORD, log_in, person

pytestmark = pytest.mark.django_db
WORDS = "Log-in name and password do not match"
PAGE = "/accounts/sessions/end/"


def logged_in(client: Client) -> bool:
    return client.get("/preferences/").status_code == 200


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("ada-sample", "wrong"),
        ("nobody-here", PASSWORD),
        ("closed-sample", PASSWORD),
        ("ADA-sample", PASSWORD),
        ("ada-sample", PASSWORD + " "),
    ],
)
def test_whoever_is_kept_out_is_told_the_same(client: Client, name: str, password: str) -> None:
    person()
    person("closed-sample", is_active=False)
    answer = log_in(client, name, password)
    assert answer.status_code == 200
    assert WORDS in answer.content.decode()
    assert f'value="{name}"' in answer.content.decode()
    assert PASSWORD not in answer.content.decode()
    assert not logged_in(client)
    assert AuditEntry.objects.get(action="login").outcome == "refused"


def test_the_key_of_the_session_is_new_after_the_log_in(client: Client) -> None:
    user = person()
    client.get("/accounts/login/")
    client.get("/accounts/login/passkey/", headers={"accept": "application/json"})
    before = client.cookies[configured.SESSION_COOKIE_NAME].value
    log_in(client, headers={"user-agent": "Mozilla/5.0 (X11; Linux) Firefox/140.0"})
    after = client.cookies[configured.SESSION_COOKIE_NAME].value
    assert before != after
    row = StaffSession.objects.get()
    assert (row.session_key, row.user, row.ip) == (after, user, "127.0.0.1")
    assert "Firefox" in row.agent and row.began_at is not None


def test_the_log_out_ends_the_session_and_what_the_browser_keeps(client: Client) -> None:
    person()
    log_in(client)
    stolen = client.cookies[configured.SESSION_COOKIE_NAME].value
    answer = client.post("/accounts/logout/")
    assert answer["Clear-Site-Data"] == '"cache"'
    assert not StaffSession.objects.exists()
    thief = Client()
    thief.cookies[configured.SESSION_COOKIE_NAME] = stolen
    assert not logged_in(thief)
    assert client.get("/accounts/logout/").status_code == 405


@pytest.mark.parametrize("what", ["closed", "password"])
def test_sessions_end_with_the_account_and_with_the_password(client: Client, what: str) -> None:
    user = person()
    log_in(client)
    assert logged_in(client)
    if what == "closed":
        User.objects.filter(pk=user.pk).update(is_active=False)
    else:
        user.set_password("another made up one 8")
        user.save()
    assert not logged_in(client)


def test_changing_the_password_ends_the_other_sessions(client: Client) -> None:
    person()
    other = Client()
    log_in(client)
    log_in(other)
    assert StaffSession.objects.count() == 2
    form = {"old_password": PASSWORD, "new_password1": "short", "new_password2": "short"}
    page = client.post("/accounts/password/", form).content.decode()
    assert "at least 12 characters" in page and 'value="short"' not in page
    new = "another made up one 8"
    form = {"old_password": "wrong", "new_password1": new, "new_password2": new}
    assert client.post("/accounts/password/", form).status_code == 200
    answer = client.post("/accounts/password/", {**form, "old_password": PASSWORD})
    assert answer.status_code == 302
    assert logged_in(client) and not logged_in(other)
    assert StaffSession.objects.count() == 1
    assert AuditEntry.objects.filter(action="change", object_type="password").count() == 1


def test_other_sessions_can_be_ended_and_are_listed(client: Client) -> None:
    person()
    other = Client()
    log_in(client)
    log_in(other, headers={"user-agent": "Mozilla/5.0 (Windows NT 10.0) Chrome/1 Safari/1 Edg/1"})
    page = client.get("/accounts/").content.decode()
    assert "Edge on Windows" in page and page.count("This one") == 1
    stranger = Client()
    person("eve-sample")
    log_in(stranger, "eve-sample")
    asked = client.get("/accounts/sessions/end/").content.decode()
    assert "Edge on Windows" in asked and logged_in(other)
    client.post("/accounts/sessions/end/")
    assert logged_in(client) and not logged_in(other) and logged_in(stranger)
    assert "Log out everywhere else" not in client.get("/accounts/").content.decode()


def test_one_session_of_the_list_can_be_ended(client: Client) -> None:
    user = person()
    phone, desk, stranger = Client(), Client(), Client()
    log_in(client)
    log_in(phone, headers={"user-agent": "Mozilla/5.0 (iPhone) Safari/1"})
    log_in(desk, headers={"user-agent": "Mozilla/5.0 (Windows NT 10.0) Firefox/1"})
    page = client.get("/accounts/").content.decode()
    found = re.findall(
        r'href="(/accounts/sessions/end/\?session=\w+)">Log out<[^>]*> ([^<]+)', page
    )
    ways = {device: way for way, device in found}
    assert ways.keys() == {"Safari on iPhone", "Firefox on Windows"}
    for one in StaffSession.objects.all():
        assert one.session_key not in page
    asked = client.get(ways["Safari on iPhone"]).content.decode()
    assert "Safari on iPhone" in asked and "Firefox" not in asked
    person("eve-sample")
    log_in(stranger, "eve-sample")
    assert "has ended" in stranger.post(ways["Safari on iPhone"]).content.decode()
    assert logged_in(phone)
    assert not AuditEntry.objects.filter(object_type="sessions").exists()
    answer = client.post(ways["Safari on iPhone"], follow=True)
    assert "You are logged out there" in answer.content.decode()
    assert not logged_in(phone) and logged_in(desk) and logged_in(client) and logged_in(stranger)
    entry = AuditEntry.objects.get(object_type="sessions")
    assert (entry.actor, entry.action, entry.object_ids) == (user, "change", [str(user.pk)])
    assert entry.reason == "one ended"
    assert "has ended" in client.post(ways["Safari on iPhone"]).content.decode()
    assert AuditEntry.objects.filter(object_type="sessions").count() == 1


@pytest.mark.parametrize("which", ["", "?session=1234"])
def test_sessions_are_ended_by_somebody_who_proved_it_a_short_while_ago(
    client: Client, which: str
) -> None:
    person()
    other = Client()
    log_in(other)
    client.force_login(User.objects.get())
    for ask in (client.get, client.post):
        answer = ask(PAGE + which)
        assert answer["Location"] == f"/accounts/proof/?{urlencode({'next': PAGE + which})}"
    assert logged_in(other)
    proof = {"password": PASSWORD, "next": PAGE + which}
    assert client.post("/accounts/proof/", proof)["Location"] == PAGE + which
    assert client.get(PAGE + which).status_code == 200


ELSEWHERE = [
    *("//evil.example", "/\\evil.example", "\\\\evil.example", "https:evil.example"),
    *("https://evil.example/", "http://evil.example", "https:///evil.example", "///evil.example"),
    *("javascript:alert(1)", "data:text/html,x", "ftp://evil.example", "//evil.example/%2e%2e"),
    *("/\t/evil.example", "\t//evil.example", " //evil.example", "http:\\\\evil.example"),
    *("https://testserver@evil.example/", "https://testserver.evil.example/", "//testserver:1/"),
    *("https://evil.example\\@testserver/", "/\r\n//evil.example", "\x00//evil.example"),
]


@pytest.mark.parametrize("target", ELSEWHERE)
def test_a_log_in_leads_nowhere_else(client: Client, target: str) -> None:
    person()
    form = {"username": "ada-sample", "password": PASSWORD, "next": target}
    answer = client.post("/accounts/login/", form)
    assert answer.status_code == 302
    assert answer["Location"] in ("/", "/%0D%0A//evil.example")  # a path of ours


def test_it_leads_where_one_wanted_to(client: Client) -> None:
    person()
    form = {"username": "ada-sample", "password": PASSWORD, "next": "/orders/?status=lost"}
    assert client.post("/accounts/login/", form)["Location"] == "/orders/?status=lost"


def test_nobody_signs_up_and_the_rest_of_allauth_is_not_there(client: Client) -> None:
    for path in ("signup/", "email/", "inactive/", "confirm-email/", "social/connections/", "2fa/"):
        assert client.get(f"/accounts/{path}").status_code == 404


@pytest.mark.parametrize("staff", [True, False])
def test_the_admin_has_no_door_of_its_own(client: Client, staff: bool) -> None:
    person(is_staff=staff, is_superuser=staff)
    answer = client.get("/admin/", follow=True)
    assert answer.redirect_chain[-1][0].startswith("/accounts/login/")
    form = {"username": "ada-sample", "password": PASSWORD}
    assert client.post("/admin/login/", form).status_code == 404 and not logged_in(client)
    log_in(client)
    assert client.get("/admin/", follow=True).status_code == (200 if staff else 403)


def test_the_admin_asks_for_a_fresh_proof(client: Client) -> None:
    user = person(is_staff=True, is_superuser=True)
    client.force_login(user)
    answer = client.get("/admin/backoffice/user/")
    assert answer["Location"] == "/accounts/proof/?next=%2Fadmin%2Fbackoffice%2Fuser%2F"
    proof = {"password": "wrong", "next": "/admin/backoffice/user/"}
    assert "not your password" in client.post("/accounts/proof/", proof).content.decode()
    assert client.get("/admin/backoffice/user/").status_code == 302
    answer = client.post("/accounts/proof/", {**proof, "password": PASSWORD})
    assert answer["Location"] == "/admin/backoffice/user/"
    assert client.get("/admin/backoffice/user/").status_code == 200


def test_people_get_in_while_redis_is_away(client: Client, settings: Settings) -> None:
    caches: dict[str, Any] = {"default": {**configured.CACHES["default"]}}
    settings.CACHES = {"default": {**caches["default"], "LOCATION": "redis://127.0.0.1:1/0"}}
    person()
    assert WORDS in log_in(client, password="wrong").content.decode()
    assert log_in(client).status_code == 302
    assert logged_in(client)


def test_cookies_are_for_this_host_alone(client: Client, settings: Settings) -> None:
    person()
    settings.HTTPS_ONLY = True
    answer = log_in(client, secure=True)
    device = answer.cookies["__Host-bo-device"]
    assert device["secure"] and device["httponly"] and device["samesite"] == "Strict"
    assert device["path"] == "/" and not device["domain"]
    assert "ada-sample" not in device.value
