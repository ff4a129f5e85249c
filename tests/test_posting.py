"""What a request may change: nothing without its token, nothing by a harmless method, no field
that its form does not have; and what no answer carries."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from uuid import UUID

import pytest
from django.db import connection
from django.forms import model_to_dict
from django.test import Client
from django.urls import resolve

from backoffice.models import User
from tests.api.rows import demographics, envelope, order, patient, staff, uid
from tests.test_access import routes
from tests.test_preferences import FORM

SAMPLES = {
    "uuid": str(UUID(int=5)),
    "int": "5",
    "str": "sample",
    "slug": "sample",
    "path": "sample",
    "date": "2026-11-20",
}
WITHOUT_TOKEN = {"webhooks", "webhooks/"}
"""Signed by the service instead; no session is looked at."""
UNSAFE = ("post", "put", "patch", "delete")


def addresses() -> Iterator[tuple[str, str]]:
    """Every route of the house with an address that fits it."""
    for route, _ in routes():
        # Regular expressions of the JSON API, and the converters of `path`.
        plain = re.sub(r"\(\?P<\w+>[^()]*(?:\([^()]*\)[^()]*)*\)", SAMPLES["uuid"], route)
        plain = re.sub(r"<(?:(\w+):)?\w+>", lambda m: SAMPLES.get(m[1] or "str", "x"), plain)
        yield route, "/" + plain.replace("^", "").replace("$", "").replace("\\", "")


def test_every_route_has_an_address_that_fits_it() -> None:
    found = dict(addresses())
    assert len(found) > 150
    wrong = [(route, address) for route, address in found.items() if resolve(address) is None]
    assert wrong == []


@pytest.mark.django_db
@pytest.mark.parametrize("method", UNSAFE)
def test_nothing_is_changed_without_a_token_of_ours(method: str) -> None:
    """As another site would have a browser send it: with the cookie, without our token."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(staff("administrator"))
    answers = {}
    for route, address in addresses():
        if route not in WITHOUT_TOKEN:
            sent = getattr(client, method)(
                address, '{"a": 1}', content_type="text/plain", HTTP_ORIGIN="https://evil.example"
            )
            answers[route] = sent.status_code
    assert {route: code for route, code in answers.items() if code not in (403, 404, 405)} == {}
    assert list(answers.values()).count(403) > 100


@pytest.mark.django_db
def test_no_address_answers_trace_or_a_method_nobody_made() -> None:
    client = Client()
    client.force_login(staff("administrator"))
    answered = set()
    for route, address in addresses():
        for method in ("TRACE", "CONNECT", "SPROUT"):
            answer = client.generic(method, address, "Canary", HTTP_X_SAMPLE="Canary")
            assert b"Canary" not in answer.content
            if answer.status_code not in (403, 404, 405):
                answered.add((route.partition("/")[0], answer.status_code))
    # Who is logged in is sent on from the pages of logging in, whatever they ask there.
    assert answered <= {("accounts", 302)}


@pytest.mark.django_db
def test_reading_changes_nothing_but_what_is_recorded_of_it() -> None:
    user = staff("administrator")
    client = Client()
    client.force_login(user)
    patient(1).save()
    told = json.dumps({"first_name": "Ada1", "last_name": "Testperson"})
    demographics(1, **envelope(told)).save()
    order(1, user_id=uid("patient", 1)).save()
    before = contents()
    asked = 0
    for _, address in addresses():
        for sample in ("patient", "order"):
            here = address.replace(SAMPLES["uuid"], str(uid(sample, 1)))
            asked += client.get(here).status_code == 200
    assert asked > 60
    after = contents()
    # The session holds the token that forms on the pages carry.
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"backoffice_auditentry", "django_session"}


def contents() -> dict[str, str]:
    """A fingerprint of every table."""
    found = {}
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(
                f"SELECT coalesce(md5(string_agg(md5(t::text), '' ORDER BY md5(t::text))), '')"
                f' FROM "{table}" t'
            )
            found[table] = cursor.fetchone()[0]
    return found


@pytest.mark.django_db
def test_a_field_the_form_does_not_have_is_not_written(client: Client) -> None:
    user = staff("clinician")
    client.force_login(user)
    claimed = {
        **FORM, "time_zone": "America/Denver", "username": "root", "password": "x", "user": "1",
        "is_superuser": "on", "is_staff": "on", "is_active": "", "groups": "1",
    }  # fmt: skip
    before = model_to_dict(user)
    assert client.post("/preferences/", claimed).status_code == 302
    after = model_to_dict(User.objects.get(pk=user.pk))
    changed = {name for name, value in after.items() if value != before[name]}
    assert "time_zone" in changed
    assert not changed & (claimed.keys() - FORM.keys())


@pytest.mark.django_db
def test_no_other_site_may_read_an_answer(client: Client) -> None:
    client.force_login(staff("administrator"))
    for address in ("/orders/", "/api/orders/", "/health/live", "/accounts/login/", "/static/x"):
        for origin in ("https://evil.example", "null"):
            answer = client.get(address, headers={"Origin": origin})
            asked = client.options(
                address, headers={"Origin": origin, "Access-Control-Request-Method": "POST"}
            )
            for one in (answer, asked):
                assert not [name for name in one.headers if name.startswith("Access-Control")]
