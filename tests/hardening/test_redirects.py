"""Nobody is led elsewhere: sixty hostile addresses at every place that goes back to one."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urljoin, urlsplit

import pytest
from django.contrib.auth.hashers import make_password
from django.test import Client
from django.urls import reverse

from backoffice.management.commands.demo_users import PASSWORD
from backoffice.models import User
from backoffice.team.subjects import Subject
from tests.api.rows import staff, uid

pytestmark = pytest.mark.django_db

HERE = "http://testserver"
ELSEWHERE = (
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


def leads(location: str) -> str:
    """Where a browser goes: it drops some characters, and takes a backslash for a slash."""
    for dropped in "\t\r\n":
        location = location.replace(dropped, "")
    location = location.strip(" \x00\x01").replace("\\", "/")
    found = urlsplit(urljoin(f"{HERE}/accounts/login/", location))
    return f"{found.scheme}://{found.netloc}"


def stays(response: Any, wanted: str) -> None:
    assert response.status_code in (200, 302, 400, 403), wanted
    location = response.headers.get("Location", "/")
    assert leads(location) == HERE, f"{wanted!r} leads to {location!r}"
    assert not location.startswith("//"), location


def test_the_corpus_is_large_enough() -> None:
    assert len(set(ELSEWHERE)) >= 60


@pytest.fixture
def ana() -> User:
    person = staff("clinician")
    # Two hundred log-ins: a slow hash would be all that is measured here.
    person.password = make_password(PASSWORD, hasher="pbkdf2_sha256")
    person.save()
    return person


def test_logging_in_and_out(client: Client, ana: User) -> None:
    given = {"username": ana.username, "password": PASSWORD}
    for wanted in ELSEWHERE:
        stays(client.post(f"/accounts/login/?next={quote(wanted)}", given), wanted)
        stays(client.get(f"/accounts/login/?next={quote(wanted)}"), wanted)  # logged in already
        stays(client.post(f"/accounts/logout/?next={quote(wanted)}"), wanted)
        stays(client.post("/accounts/login/", {**given, "next": wanted}), wanted)
        client.logout()


def test_the_theme_and_the_team(client: Client, ana: User) -> None:
    client.force_login(ana)
    about = Subject("patient", str(uid("patient", 1))).signed()
    for wanted in ELSEWHERE:
        stays(client.post("/theme/", {"theme": "dark", "next": wanted}), wanted)
        for route in ("team:note", "team:take", "team:give", "team:release"):
            given = {"about": about, "text": "x", "next": wanted}
            response = client.post(reverse(route), given)
            stays(response, wanted)
            assert "/accounts/login/" not in response.headers.get("Location", "")


def test_a_page_that_asks_to_log_in_first(client: Client) -> None:
    """The address itself, with two slashes or a backslash in it."""
    for wanted in ELSEWHERE:
        path = wanted if wanted.startswith("/") else f"/{wanted}"
        response = client.get(quote(path, safe="/\\:?@%#"))
        assert leads(response.headers.get("Location", "/")) == HERE, wanted
