"""Views that redirect to a given URL stay on our host, for sixty hostile URLs."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urljoin, urlsplit

import pytest
from django.contrib.auth.hashers import make_password
from django.test import Client
from django.urls import reverse

from backoffice.accounts.models import User
from backoffice.management.commands.demo_users import PASSWORD
from backoffice.team.subjects import Subject
from tests.api.rows import staff, uid

pytestmark = pytest.mark.django_db

ORIGIN = "http://testserver"
HOSTILE_URLS = (
    "http://evil.invalid", "https://evil.invalid/", "HTTPS://EVIL.INVALID", "//evil.invalid",
    "///evil.invalid", "////evil.invalid", "/\\evil.invalid", "\\/evil.invalid", "\\\\evil.invalid",
    "/\\/evil.invalid", "\\evil.invalid", "http:evil.invalid", "http:/evil.invalid",
    "http:///evil.invalid", "https:evil.invalid", "https:\\\\evil.invalid", "http:\\evil.invalid",
    "javascript:alert(1)", "JaVaScRiPt:alert(1)", "java\tscript:alert(1)",
    "\x01javascript:alert(1)", " javascript:alert(1)", "javascript://testserver/%0aalert(1)",
    "data:text/html,x", "vbscript:msgbox(1)", "file:///etc/passwd", "ftp://evil.invalid",
    "blob:http://evil.invalid/x", "http://testserver@evil.invalid/",
    "http://testserver:80@evil.invalid/", "http://evil.invalid#testserver",
    "http://evil.invalid?testserver", "http://testserver.evil.invalid",
    "http://evil.invalid\\@testserver", "http://evil.invalid\\.testserver", "//evil.invalid/%2f..",
    "//evil.invalid\\@testserver", "//testserver@evil.invalid", "/\t/evil.invalid",
    "/\n/evil.invalid", "/\r/evil.invalid", "\t//evil.invalid", " //evil.invalid",
    "\n//evil.invalid", "\x00//evil.invalid", "/\x00/evil.invalid", "//evil。invalid",
    "//evil.invalid:80", "//[::1]", "//[evil", "http://[evil", "//2130706433", "http://0x7f000001",
    "//evil.invalid\u2044", "／／evil.invalid", "/／evil.invalid", "https://evil.invalid/%00",
    "?next=//evil.invalid", "/%09/evil.invalid", "/..//evil.invalid", "//%65vil.invalid",
    "/%2f%2fevil.invalid", "/%5cevil.invalid", "x:y", "mailto:a@evil.invalid",
)  # fmt: skip


def target_origin(location: str) -> str:
    """Return the origin that a browser opens. It drops some characters and treats \\ as /."""
    for dropped in "\t\r\n":
        location = location.replace(dropped, "")
    location = location.strip(" \x00\x01").replace("\\", "/")
    found = urlsplit(urljoin(f"{ORIGIN}/accounts/login/", location))
    return f"{found.scheme}://{found.netloc}"


def assert_stays_on_host(response: Any, url: str) -> None:
    assert response.status_code in (200, 302, 400, 403), url
    location = response.headers.get("Location", "/")
    assert target_origin(location) == ORIGIN, f"{url!r} leads to {location!r}"
    assert not location.startswith("//"), location


def test_corpus_has_at_least_sixty_urls() -> None:
    assert len(set(HOSTILE_URLS)) >= 60


@pytest.fixture
def clinician() -> User:
    person = staff("clinician")
    # The tests sign in two hundred times, so the hash must be fast.
    person.password = make_password(PASSWORD, hasher="pbkdf2_sha256")
    person.save()
    return person


def test_sign_in_and_sign_out_redirect_to_own_host(client: Client, clinician: User) -> None:
    credentials = {"username": clinician.username, "password": PASSWORD}
    for url in HOSTILE_URLS:
        assert_stays_on_host(client.post(f"/accounts/login/?next={quote(url)}", credentials), url)
        assert_stays_on_host(
            client.get(f"/accounts/login/?next={quote(url)}"), url
        )  # already signed in
        assert_stays_on_host(client.post(f"/accounts/logout/?next={quote(url)}"), url)
        assert_stays_on_host(client.post("/accounts/login/", {**credentials, "next": url}), url)
        client.logout()


def test_theme_and_team_forms_redirect_to_own_host(client: Client, clinician: User) -> None:
    client.force_login(clinician)
    about = Subject("patient", str(uid("patient", 1))).signed()
    for url in HOSTILE_URLS:
        assert_stays_on_host(client.post("/theme/", {"theme": "dark", "next": url}), url)
        for route in ("team:note", "team:take", "team:give", "team:release"):
            data = {"about": about, "text": "x", "next": url}
            response = client.post(reverse(route), data)
            assert_stays_on_host(response, url)
            assert "/accounts/login/" not in response.headers.get("Location", "")


def test_sign_in_redirect_of_hostile_path_stays_on_own_host(client: Client) -> None:
    """The requested path itself contains two slashes or a backslash."""
    for url in HOSTILE_URLS:
        path = url if url.startswith("/") else f"/{url}"
        response = client.get(quote(path, safe="/\\:?@%#"))
        assert target_origin(response.headers.get("Location", "/")) == ORIGIN, url
