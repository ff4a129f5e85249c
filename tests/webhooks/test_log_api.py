"""`/api/events/`."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from backoffice.audit.models import AuditEntry
from tests.api.rows import staff, token_for, uid
from tests.webhooks.events import event, failed

pytestmark = pytest.mark.django_db


def get(client: Client, address: str, role: str, **query: str) -> Any:
    answer = client.get(f"/api/events/{address}", query, headers=token_for(staff(role)))
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_api_returns_event_with_body(client: Client) -> None:
    row = event(1)
    item = get(client, f"{row.pk}/", "service account")
    assert item["id"] == row.pk
    assert (item["state"], item["outcome"], item["attempts"]) == ("done", "applied", 0)
    assert item["user_id"] == str(uid("patient", 1))
    assert item["record"]["data"]["sample_id"] == "Canary-sample"
    assert AuditEntry.objects.get().patient_ids == [uid("patient", 1)]


def test_api_hides_body_without_record_permission(client: Client) -> None:
    row = event(1)
    headers = token_for(staff("lab coordinator"))
    one = client.get(f"/api/events/{row.pk}/", headers=headers)
    some = client.get("/api/events/", headers=headers)
    assert one.json()["record"] is None
    assert some.json()["results"][0]["record"] is None
    assert b"Canary" not in one.content + some.content


def test_api_list_omits_long_and_non_json_bodies(client: Client) -> None:
    event(1)
    long = event(2, data={"id": "x", "text": "y" * 40_000})
    failed(3, body=b"{\xff")
    event(4, body=None)
    headers = token_for(staff("service account"))
    rows = client.get("/api/events/", headers=headers).json()["results"]
    assert [row["record"] is not None for row in rows] == [True, False, False, False]
    one = client.get(f"/api/events/{long.pk}/", headers=headers).json()
    assert len(one["record"]["data"]["text"]) == 40_000


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, [1, 2]),
        ({"state": "dead"}, [2]),
        ({"event_type": "labtest.order.updated"}, [1]),
        ({"user_id": str(uid("patient", 2))}, [2]),
        ({"subject_id": str(uid("order", 1))}, [1]),
        ({"message_id": "msg_2"}, [2]),
    ],
)
def test_filters(client: Client, query: dict[str, str], expected: list[int]) -> None:
    event(1)
    failed(2, event_type="provider.device.created", user=2)
    rows = get(client, "", "service account", **query)["results"]
    assert [row["message_id"] for row in rows] == [f"msg_{n}" for n in expected]


@pytest.mark.parametrize("role", ["clinician", "front desk", "auditor"])
def test_roles_without_permission_get_no_events(client: Client, role: str) -> None:
    assert client.get("/api/events/", headers=token_for(staff(role))).status_code == 403
