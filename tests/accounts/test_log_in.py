"""The sign-in gives everyone it rejects the same message and everyone it accepts a new session
key."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

import pytest
from django.conf import settings as configured
from django.test import Client
from pytest_django import Settings

from backoffice.accounts.models import StaffSession, User
from backoffice.audit.models import AuditEntry
from tests.accounts.people import PASSWORD, log_in, person

pytestmark = pytest.mark.django_db
REJECTION_MESSAGE = "Wrong username or password"
END_SESSIONS_URL = "/accounts/sessions/end/"


def is_logged_in(client: Client) -> bool:
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
def test_every_rejected_log_in_gets_the_same_message(
    client: Client, name: str, password: str
) -> None:
    person()
    person("closed-sample", is_active=False)
    answer = log_in(client, name, password)
    assert answer.status_code == 200
    assert REJECTION_MESSAGE in answer.content.decode()
    assert f'value="{name}"' in answer.content.decode()
    assert PASSWORD not in answer.content.decode()
    assert not is_logged_in(client)
    assert AuditEntry.objects.get(action="login").outcome == "refused"


def test_log_in_changes_session_key(client: Client) -> None:
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


def test_log_out_ends_session_and_clears_browser_cache(client: Client) -> None:
    person()
    log_in(client)
    stolen = client.cookies[configured.SESSION_COOKIE_NAME].value
    answer = client.post("/accounts/logout/")
    assert answer["Clear-Site-Data"] == '"cache"'
    assert not StaffSession.objects.exists()
    thief = Client()
    thief.cookies[configured.SESSION_COOKIE_NAME] = stolen
    assert not is_logged_in(thief)
    assert client.get("/accounts/logout/").status_code == 405


@pytest.mark.parametrize("change", ["closed", "password"])
def test_sessions_end_when_account_or_password_changes(client: Client, change: str) -> None:
    user = person()
    log_in(client)
    assert is_logged_in(client)
    if change == "closed":
        User.objects.filter(pk=user.pk).update(is_active=False)
    else:
        user.set_password("another made up one 8")
        user.save()
    assert not is_logged_in(client)


def test_password_change_ends_other_sessions(client: Client) -> None:
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
    assert is_logged_in(client) and not is_logged_in(other)
    assert StaffSession.objects.count() == 1
    assert AuditEntry.objects.filter(action="change", object_type="password").count() == 1


def test_other_sessions_are_listed_and_can_be_ended(client: Client) -> None:
    person()
    other = Client()
    log_in(client)
    log_in(other, headers={"user-agent": "Mozilla/5.0 (Windows NT 10.0) Chrome/1 Safari/1 Edg/1"})
    page = client.get("/accounts/").content.decode()
    assert "Edge on Windows" in page and page.count("This device") == 1
    other_person = Client()
    person("eve-sample")
    log_in(other_person, "eve-sample")
    confirmation = client.get("/accounts/sessions/end/").content.decode()
    assert "Edge on Windows" in confirmation and is_logged_in(other)
    client.post("/accounts/sessions/end/")
    assert is_logged_in(client) and not is_logged_in(other) and is_logged_in(other_person)
    assert "Sign out everywhere else" not in client.get("/accounts/").content.decode()


def test_single_session_can_be_ended(client: Client) -> None:
    user = person()
    phone, desk, other_person = Client(), Client(), Client()
    log_in(client)
    log_in(phone, headers={"user-agent": "Mozilla/5.0 (iPhone) Safari/1"})
    log_in(desk, headers={"user-agent": "Mozilla/5.0 (Windows NT 10.0) Firefox/1"})
    page = client.get("/accounts/").content.decode()
    found = re.findall(
        r'href="(/accounts/sessions/end/\?session=\w+)">Sign out<[^>]*> ([^<]+)', page
    )
    end_urls = {device: url for url, device in found}
    assert end_urls.keys() == {"Safari on iPhone", "Firefox on Windows"}
    for one in StaffSession.objects.all():
        assert one.session_key not in page
    confirmation = client.get(end_urls["Safari on iPhone"]).content.decode()
    assert "Safari on iPhone" in confirmation and "Firefox" not in confirmation
    person("eve-sample")
    log_in(other_person, "eve-sample")
    assert "has ended" in other_person.post(end_urls["Safari on iPhone"]).content.decode()
    assert is_logged_in(phone)
    assert not AuditEntry.objects.filter(object_type="sessions").exists()
    answer = client.post(end_urls["Safari on iPhone"], follow=True)
    assert "You are signed out on that device" in answer.content.decode()
    assert (
        not is_logged_in(phone)
        and is_logged_in(desk)
        and is_logged_in(client)
        and is_logged_in(other_person)
    )
    entry = AuditEntry.objects.get(object_type="sessions")
    assert (entry.actor, entry.action, entry.object_ids) == (user, "change", [str(user.pk)])
    assert entry.reason == "one ended"
    assert "has ended" in client.post(end_urls["Safari on iPhone"]).content.decode()
    assert AuditEntry.objects.filter(object_type="sessions").count() == 1


@pytest.mark.parametrize("query", ["", "?session=1234"])
def test_ending_sessions_requires_recent_authentication(client: Client, query: str) -> None:
    person()
    other = Client()
    log_in(other)
    client.force_login(User.objects.get())
    for send in (client.get, client.post):
        answer = send(END_SESSIONS_URL + query)
        assert (
            answer["Location"]
            == f"/accounts/proof/?{urlencode({'next': END_SESSIONS_URL + query})}"
        )
    assert is_logged_in(other)
    proof = {"password": PASSWORD, "next": END_SESSIONS_URL + query}
    assert client.post("/accounts/proof/", proof)["Location"] == END_SESSIONS_URL + query
    assert client.get(END_SESSIONS_URL + query).status_code == 200


FOREIGN_TARGETS = [
    *("//evil.example", "/\\evil.example", "\\\\evil.example", "https:evil.example"),
    *("https://evil.example/", "http://evil.example", "https:///evil.example", "///evil.example"),
    *("javascript:alert(1)", "data:text/html,x", "ftp://evil.example", "//evil.example/%2e%2e"),
    *("/\t/evil.example", "\t//evil.example", " //evil.example", "http:\\\\evil.example"),
    *("https://testserver@evil.example/", "https://testserver.evil.example/", "//testserver:1/"),
    *("https://evil.example\\@testserver/", "/\r\n//evil.example", "\x00//evil.example"),
]


@pytest.mark.parametrize("target", FOREIGN_TARGETS)
def test_log_in_does_not_redirect_to_foreign_target(client: Client, target: str) -> None:
    person()
    form = {"username": "ada-sample", "password": PASSWORD, "next": target}
    answer = client.post("/accounts/login/", form)
    assert answer.status_code == 302
    assert answer["Location"] in ("/", "/%0D%0A//evil.example")  # a path on this host


def test_log_in_redirects_to_requested_page(client: Client) -> None:
    person()
    form = {"username": "ada-sample", "password": PASSWORD, "next": "/orders/?status=lost"}
    assert client.post("/accounts/login/", form)["Location"] == "/orders/?status=lost"


def test_sign_up_and_other_allauth_pages_do_not_exist(client: Client) -> None:
    for path in ("signup/", "email/", "inactive/", "confirm-email/", "social/connections/", "2fa/"):
        assert client.get(f"/accounts/{path}").status_code == 404


@pytest.mark.parametrize("is_staff", [True, False])
def test_admin_uses_the_common_log_in(client: Client, is_staff: bool) -> None:
    person(is_staff=is_staff, is_superuser=is_staff)
    answer = client.get("/admin/", follow=True)
    assert answer.redirect_chain[-1][0].startswith("/accounts/login/")
    form = {"username": "ada-sample", "password": PASSWORD}
    assert client.post("/admin/login/", form).status_code == 404 and not is_logged_in(client)
    log_in(client)
    assert client.get("/admin/", follow=True).status_code == (200 if is_staff else 403)


def test_admin_requires_recent_authentication(client: Client) -> None:
    user = person(is_staff=True, is_superuser=True)
    client.force_login(user)
    answer = client.get("/admin/accounts/user/")
    assert answer["Location"] == "/accounts/proof/?next=%2Fadmin%2Faccounts%2Fuser%2F"
    proof = {"password": "wrong", "next": "/admin/accounts/user/"}
    assert "Wrong password" in client.post("/accounts/proof/", proof).content.decode()
    assert client.get("/admin/accounts/user/").status_code == 302
    answer = client.post("/accounts/proof/", {**proof, "password": PASSWORD})
    assert answer["Location"] == "/admin/accounts/user/"
    assert client.get("/admin/accounts/user/").status_code == 200


def test_log_in_works_without_redis(client: Client, settings: Settings) -> None:
    caches: dict[str, Any] = {"default": {**configured.CACHES["default"]}}
    settings.CACHES = {"default": {**caches["default"], "LOCATION": "redis://127.0.0.1:1/0"}}
    person()
    assert REJECTION_MESSAGE in log_in(client, password="wrong").content.decode()
    assert log_in(client).status_code == 302
    assert is_logged_in(client)


def test_device_cookie_is_limited_to_this_host(client: Client, settings: Settings) -> None:
    person()
    settings.HTTPS_ONLY = True
    answer = log_in(client, secure=True)
    device = answer.cookies["__Host-bo-device"]
    assert device["secure"] and device["httponly"] and device["samesite"] == "Strict"
    assert device["path"] == "/" and not device["domain"]
    assert "ada-sample" not in device.value
