"""Every answer carries strict headers: pages, the API, static files, errors, Django's admin."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import DatabaseError
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from pytest_django import Settings

from tests.api.rows import staff
from webhooks.endpoint import STRICT_TRANSPORT_SECURITY

pytestmark = pytest.mark.django_db

REQUIRED = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    STRICT_TRANSPORT_SECURITY[0]: STRICT_TRANSPORT_SECURITY[1],
    "X-Content-Type-Options": "nosniff",
    "X-Permitted-Cross-Domain-Policies": "none",
}
IDS = {
    "uuid": "00000000-0000-4000-8000-000000000000",
    "int": "1",
    "slug": "nothing",
    "str": "nothing",
    "path": "nothing",
}


@pytest.fixture
def visitor(settings: Settings) -> Client:
    """As in production, over HTTPS; an error is an answer, not an exception of the test."""
    settings.HTTPS_ONLY = settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_HSTS_SECONDS = 63_072_000
    settings.SECURE_HSTS_INCLUDE_SUBDOMAINS = settings.SECURE_HSTS_PRELOAD = True
    return Client(raise_request_exception=False)


def addresses(resolver: URLResolver | None = None, prefix: str = "/") -> Iterator[str]:
    """Every address, with made-up ids."""
    for entry in (resolver or get_resolver()).url_patterns:
        found = prefix + re.sub(r"[\^$]|\\Z|\(\?P<[^)]*\)", "", str(entry.pattern))
        if isinstance(entry, URLPattern):
            yield re.sub(r"<(?:(\w+):)?\w+>", lambda part: IDS[part[1] or "str"], found)
        else:
            yield from addresses(entry, found)


def strict(response: Any, where: str) -> None:
    headers = response.headers
    for name, value in REQUIRED.items():
        assert headers.get(name) == value, f"{where}: {name} is {headers.get(name)}"
    assert headers["X-Frame-Options"] in ("DENY", "SAMEORIGIN"), where
    assert "camera=()" in headers["Permissions-Policy"], where
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy, where
    assert "unsafe" not in policy and "*" not in policy and "http" not in policy, where
    for cookie in response.cookies.values():
        if cookie["max-age"] == 0:
            continue  # one that is taken away
        assert cookie["samesite"] in ("Strict", "Lax") and cookie["httponly"], where


def test_every_route_answers_strictly(visitor: Client) -> None:
    visitor.force_login(staff("administrator"))
    seen: dict[int, int] = {}
    for address in dict.fromkeys(addresses()):
        response = visitor.get(address, secure=True)
        seen[response.status_code] = seen.get(response.status_code, 0) + 1
        strict(response, address)
        assert "no-store" in response.headers["Cache-Control"] or address == "/webhooks/", address
    assert seen[200] > 50 and seen[404] > 20, seen
    assert 500 not in seen, seen


def test_strangers_get_the_same(visitor: Client) -> None:
    for address in ("/", "/accounts/login/", "/orders/", "/api/orders/", "/admin/", "/nowhere/"):
        response = visitor.get(address, secure=True)
        strict(response, address)
        assert "no-store" in response.headers["Cache-Control"], address


def test_programs_are_refused_where_people_are_redirected(visitor: Client) -> None:
    for address in ("/api/orders/", "/api/schema/", "/api/nowhere"):
        answer = visitor.get(address, headers={"authorization": "Token bo_made_up"})
        assert (answer.status_code, answer.content) == (403, b"HTTPS only\n"), address
    assert visitor.get("/orders/").status_code == 301
    assert visitor.get("/api/orders/", secure=True).status_code == 401


def test_static_files_are_as_strict_and_may_be_kept(visitor: Client) -> None:
    response = visitor.get("/static/backoffice/base.css", secure=True)
    assert response.status_code == 200
    strict(response, "static")


@pytest.mark.parametrize("status", [400, 403, 404, 405, 500])
def test_errors_are_as_strict_and_tell_nothing(
    status: int, visitor: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor.force_login(staff("viewer" if status == 403 else "administrator"))
    asked: dict[int, Callable[[], Any]] = {
        400: lambda: visitor.get("/orders/", secure=True, headers={"host": "evil.invalid"}),
        403: lambda: visitor.get("/system/", secure=True),
        404: lambda: visitor.get(f"/orders/{IDS['uuid']}/", secure=True),
        405: lambda: visitor.put("/orders/", secure=True),
        500: lambda: _broken(visitor, monkeypatch),
    }
    response = asked[status]()
    assert response.status_code == status
    strict(response, str(status))
    assert "no-store" in response.headers["Cache-Control"]
    assert b"Traceback" not in response.content and b"canary" not in response.content


def _broken(visitor: Client, monkeypatch: pytest.MonkeyPatch) -> Any:
    def fails(*_: object, **__: object) -> None:
        raise DatabaseError("canary: DETAIL: Failing row contains (Testperson, 1990-01-01).")

    monkeypatch.setattr("backoffice.audit.record_list", fails)
    return visitor.get("/orders/", secure=True)
