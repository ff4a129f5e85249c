"""How often one may ask; and that a good token is let in however many bad ones were shown."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from backoffice.accounts.access import SERVICE_ACCOUNT
from backoffice.audit.models import AuditEntry
from tests.api.rows import staff, token_for

pytestmark = pytest.mark.django_db
BAD = {"Authorization": "Token bad"}


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing counted yet, and the hour is not about to end."""
    cache.clear()
    monkeypatch.setattr("time.time", lambda: 1_800_000_000.0 + 60)


def test_more_than_the_rate_is_told_when_to_go_on(client: Client, settings: Any) -> None:
    settings.API_RATE = (3, 3600)
    headers = token_for(staff(SERVICE_ACCOUNT))
    answers = [client.get("/api/labs/", headers=headers) for _ in range(4)]
    assert [each.status_code for each in answers] == [200, 200, 200, 429]
    assert answers[3].headers["Retry-After"] == "3540"
    assert answers[3].json()["code"] == "throttled"
    assert answers[3].json()["message"] == "Too many requests. Go on in 3540 seconds."
    assert client.get("/api/labs/", headers=token_for(staff("clinician"))).status_code == 200


def test_all_tokens_of_an_account_count_together(client: Client, settings: Any) -> None:
    settings.API_RATE = (2, 3600)
    account = staff(SERVICE_ACCOUNT)
    found = [client.get("/api/labs/", headers=token_for(account)).status_code for _ in range(3)]
    assert found == [200, 200, 429]


def test_a_flood_of_bad_tokens_fills_no_audit_trail(client: Client, settings: Any) -> None:
    settings.API_FAILED_RATE = (2, 3600)
    found = [client.get("/api/labs/", headers=BAD).status_code for _ in range(5)]
    assert found == [401, 401, 429, 429, 429]
    assert AuditEntry.objects.count() == 2
    assert client.get("/api/labs/").status_code == 429
    assert client.get("/api/labs/", REMOTE_ADDR="192.0.2.7").status_code == 401
    assert client.get("/api/labs/", headers=token_for(staff(SERVICE_ACCOUNT))).status_code == 200


def test_who_forges_an_address_is_counted_all_the_same(client: Client, settings: Any) -> None:
    settings.API_FAILED_RATE = (1, 3600)
    given = [client.get("/api/labs/", headers={"X-Forwarded-For": ip}) for ip in ("10.0.0.1", "x")]
    assert [each.status_code for each in given] == [401, 429]


def test_without_redis_nobody_is_held_back(client: Client, settings: Any) -> None:
    settings.API_RATE = settings.API_FAILED_RATE = (1, 3600)
    headers = token_for(staff(SERVICE_ACCOUNT))
    settings.CACHES = {
        "default": {**settings.CACHES["default"], "LOCATION": "redis://127.0.0.1:9/0"}
    }
    assert [client.get("/api/labs/", headers=headers).status_code for _ in range(3)] == [200] * 3
    assert [client.get("/api/labs/", headers=BAD).status_code for _ in range(3)] == [401] * 3
