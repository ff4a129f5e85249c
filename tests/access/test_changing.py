"""Nothing changes by looking, and nothing by a form that somebody else has made."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client

from backoffice.accounts.access import ADMINISTRATOR
from backoffice.accounts.models import User
from tests.access.routes import SEARCHES
from tests.access.visits import Visitor, probes

pytestmark = pytest.mark.django_db

WRITTEN_BY_LOOKING = {
    *("audit_auditentry", "accounts_staffsession"),
    "accounts_user",  # when they last logged in
    "team_notification",  # one that was opened has been seen
}
WRITING = ("POST", "DELETE")
OTHERWISE = ("/reports/upload/", "/accounts/login/")
"""Looks at the token of its form itself, once it knows how large an upload it may read; and the
log-in, which opens anew."""
WITHOUT_PAGES = ("/api/", "/webhooks")
"""Asked by programs, with a token or a signature in every request instead of a cookie."""


def everything_kept() -> dict[str, str]:
    """A digest of the rows of each table."""
    kept = {}
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            if table not in WRITTEN_BY_LOOKING:
                cursor.execute(
                    f"SELECT count(*) || coalesce(md5(string_agg(t::text, '|' ORDER BY t::text)),"
                    f" '') FROM \"{table}\" t"
                )
                kept[table] = cursor.fetchone()[0]
    return kept


def test_looking_changes_nothing(small_world: None) -> None:
    visitor = Visitor(ADMINISTRATOR)
    paths = [probe.path for probe in probes() if probe.method == "GET"]
    before = everything_kept()
    for path in paths:
        visitor.ask("GET", path)
    changed = {table for table, rows in everything_kept().items() if before[table] != rows}
    assert not changed


@pytest.mark.parametrize("logged_in", [True, False])
def test_a_form_without_its_token_is_refused_everywhere(small_world: None, logged_in: bool) -> None:
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    if logged_in:
        client.force_login(User.objects.get(username=ADMINISTRATOR))
    before = everything_kept()
    let_in = []
    for path in {one.path for one in probes() if one.real and one.route}:
        if not path.startswith(WITHOUT_PAGES):
            for method in WRITING:
                answer = client.generic(method, path, headers={"Origin": "https://evil.example"})
                wanted = {403, 302, 405} if path.startswith(OTHERWISE) else {403}
                if answer.status_code not in wanted:
                    let_in.append(f"{method} {path} answers {answer.status_code}")
    assert not let_in, "\n".join(let_in)
    assert everything_kept() == before


def test_programs_cannot_write_and_a_cookie_is_no_signature(small_world: None) -> None:
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


def test_no_other_site_may_read(small_world: None) -> None:
    visitor = Visitor(ADMINISTRATOR)
    for path in ("/api/patients/", "/patients/", "/health/ready", "/live/?since=1:1:&about=orders"):
        for origin in ("null", "https://evil.example"):
            answer = visitor.client.get(path, headers={"Origin": origin})
            found = [name for name in answer.headers if name.startswith("Access-Control-")]
            assert not found and answer.status_code in (200, 204), path


@pytest.mark.parametrize("path", ["/patients/", "/orders/", "/api/patients/", "/today/", "/find/"])
def test_what_was_shown_is_kept_by_nobody(small_world: None, path: str) -> None:
    answer = Visitor(ADMINISTRATOR).ask("GET", path)
    assert answer.status_code == 200
    assert "no-store" in answer.headers["Cache-Control"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
