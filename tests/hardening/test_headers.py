"""All responses have strict headers: pages, API, static files, errors and the admin site."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection
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
    """A client of an HTTPS-only site, as in production. Errors become responses."""
    settings.HTTPS_ONLY = settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_HSTS_SECONDS = 63_072_000
    settings.SECURE_HSTS_INCLUDE_SUBDOMAINS = settings.SECURE_HSTS_PRELOAD = True
    return Client(raise_request_exception=False)


def all_urls(resolver: URLResolver | None = None, prefix: str = "/") -> Iterator[str]:
    """Yield every URL, with invented ids."""
    for entry in (resolver or get_resolver()).url_patterns:
        found = prefix + re.sub(r"[\^$]|\\Z|\(\?P<[^)]*\)", "", str(entry.pattern))
        if isinstance(entry, URLPattern):
            yield re.sub(r"<(?:(\w+):)?\w+>", lambda part: IDS[part[1] or "str"], found)
        else:
            yield from all_urls(entry, found)


def assert_strict_headers(response: Any, where: str) -> None:
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
            continue  # deletes the cookie
        assert cookie["samesite"] in ("Strict", "Lax") and cookie["httponly"], where


def test_every_route_sends_strict_headers(visitor: Client) -> None:
    visitor.force_login(staff("administrator"))
    status_counts: dict[int, int] = {}
    for address in dict.fromkeys(all_urls()):
        response = visitor.get(address, secure=True)
        status_counts[response.status_code] = status_counts.get(response.status_code, 0) + 1
        assert_strict_headers(response, address)
        if address not in ("/webhooks/", "/jsi18n/"):
            assert "no-store" in response.headers["Cache-Control"], address
    assert status_counts[200] > 50 and status_counts[404] > 20, status_counts
    assert 500 not in status_counts, status_counts


def test_anonymous_responses_have_strict_headers(visitor: Client) -> None:
    for address in ("/", "/accounts/login/", "/orders/", "/api/orders/", "/admin/", "/nowhere/"):
        response = visitor.get(address, secure=True)
        assert_strict_headers(response, address)
        assert "no-store" in response.headers["Cache-Control"], address


def test_plain_http_redirects_pages_and_refuses_api_calls(visitor: Client) -> None:
    for address in ("/api/orders/", "/api/schema/", "/api/nowhere"):
        answer = visitor.get(address, headers={"authorization": "Token bo_made_up"})
        assert (answer.status_code, answer.content) == (403, b"HTTPS only\n"), address
    assert visitor.get("/orders/").status_code == 301
    assert visitor.get("/api/orders/", secure=True).status_code == 401


def test_static_files_have_strict_headers(visitor: Client) -> None:
    response = visitor.get("/static/backoffice/base.css", secure=True)
    assert response.status_code == 200
    assert_strict_headers(response, "static")


@pytest.mark.parametrize("status", [400, 403, 404, 405, 500])
def test_error_pages_have_strict_headers_and_no_details(status: int, visitor: Client) -> None:
    visitor.force_login(staff("viewer" if status == 403 else "administrator"))
    requests: dict[int, Callable[[], Any]] = {
        400: lambda: visitor.get("/orders/", secure=True, headers={"host": "evil.invalid"}),
        403: lambda: visitor.get("/system/", secure=True),
        404: lambda: visitor.get(f"/orders/{IDS['uuid']}/", secure=True),
        405: lambda: visitor.put("/orders/", secure=True),
        500: lambda: _request_with_database_error(visitor),
    }
    response = requests[status]()
    assert response.status_code == status
    assert_strict_headers(response, str(status))
    assert "no-store" in response.headers["Cache-Control"]
    assert b"Traceback" not in response.content and b"orders_order" not in response.content


def _request_with_database_error(visitor: Client) -> Any:
    """The error of PostgreSQL names the table: 'relation "orders_order" does not exist'."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE orders_order RENAME TO canary")
    return visitor.get("/orders/", secure=True)
