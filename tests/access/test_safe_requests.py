"""GET requests change nothing, and forged forms are refused."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client

from backoffice.accounts.access import ADMINISTRATOR
from backoffice.accounts.models import User
from tests.access.routes import SEARCHES
from tests.access.visits import Visitor, probes

pytestmark = pytest.mark.django_db

WRITTEN_BY_GET = {
    *("audit_auditentry", "accounts_staffsession"),
    "accounts_user",  # time of the last sign-in
    "team_notification",  # an opened notification is marked as seen
}
WRITING = ("POST", "DELETE")
OWN_CHECKS = ("/reports/upload/", "/accounts/login/")
"""Routes with their own check.

The upload checks its token after it knows the allowed size; the sign-in opens a new form.
"""
WITHOUT_PAGES = ("/api/", "/webhooks")
"""For programs, which send a token or signature in every request instead of a cookie."""


def table_digests() -> dict[str, str]:
    """Return a digest of the rows of each table."""
    digests = {}
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            if table not in WRITTEN_BY_GET:
                cursor.execute(
                    f"SELECT count(*) || coalesce(md5(string_agg(t::text, '|' ORDER BY t::text)),"
                    f" '') FROM \"{table}\" t"
                )
                digests[table] = cursor.fetchone()[0]
    return digests


def test_get_requests_change_nothing(small_data_set: None) -> None:
    visitor = Visitor(ADMINISTRATOR)
    paths = [probe.path for probe in probes() if probe.method == "GET"]
    before = table_digests()
    for path in paths:
        visitor.send("GET", path)
    changed = {table for table, rows in table_digests().items() if before[table] != rows}
    assert not changed


@pytest.mark.parametrize("is_logged_in", [True, False])
def test_forms_without_csrf_token_are_refused_everywhere(
    small_data_set: None, is_logged_in: bool
) -> None:
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    if is_logged_in:
        client.force_login(User.objects.get(username=ADMINISTRATOR))
    before = table_digests()
    accepted = []
    for path in {one.path for one in probes() if one.is_real and one.route}:
        if not path.startswith(WITHOUT_PAGES):
            for method in WRITING:
                answer = client.generic(method, path, headers={"Origin": "https://evil.example"})
                wanted = {403, 302, 405} if path.startswith(OWN_CHECKS) else {403}
                if answer.status_code not in wanted:
                    accepted.append(f"{method} {path} answers {answer.status_code}")
    assert not accepted, "\n".join(accepted)
    assert table_digests() == before


def test_api_refuses_writes_and_cookies(small_data_set: None) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.get(username=ADMINISTRATOR))
    for path in {one.path for one in probes() if one.path.startswith("/api/") and one.route}:
        for method in (*WRITING, "OPTIONS"):
            answer = client.generic(method, path, headers={"X-HTTP-Method-Override": "GET"})
            if answer.status_code == 405:
                reads = "POST" if path in SEARCHES.values() else "GET, HEAD"
                assert answer.headers["Allow"] == reads, path
            elif answer.status_code == 403:
                assert method == "POST" and path in SEARCHES.values(), path
            else:
                assert answer.status_code == 404 and path == "/api/", path


def test_no_cors_headers_are_sent(small_data_set: None) -> None:
    visitor = Visitor(ADMINISTRATOR)
    for path in ("/api/patients/", "/patients/", "/health/ready", "/live/?since=1:1:&about=orders"):
        for origin in ("null", "https://evil.example"):
            answer = visitor.client.get(path, headers={"Origin": origin})
            found = [name for name in answer.headers if name.startswith("Access-Control-")]
            assert not found and answer.status_code in (200, 204), path


@pytest.mark.parametrize("path", ["/patients/", "/orders/", "/api/patients/", "/today/", "/find/"])
def test_pages_are_not_cached(small_data_set: None, path: str) -> None:
    answer = Visitor(ADMINISTRATOR).send("GET", path)
    assert answer.status_code == 200
    assert "no-store" in answer.headers["Cache-Control"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
