"""Tests of `/api/samples/` and `/api/summaries/`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from backoffice.api.pagination import encode_cursor
from backoffice.audit.models import AuditEntry
from patients.wearables.handlers import handle_samples, handle_summaries
from tests.api.rows import staff, token_for, uid
from tests.wearables.test_samples import NOON, latest_samples, sample, samples_event
from tests.wearables.test_summaries import activity

pytestmark = pytest.mark.django_db


@pytest.fixture
def headers() -> dict[str, str]:
    return token_for(staff("service account"))


def read_all_pages(
    client: Client, headers: dict[str, str], address: str, **query: str
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        parameters = {"cursor": cursor} if cursor else {}
        answer = client.get(f"/api/{address}/", {**query, **parameters}, headers=headers)
        assert answer.status_code == 200, answer.content
        found += answer.json()["results"]
        cursor = answer.json()["next"]
    return found


def mixed_events() -> list[Any]:
    data = [sample(NOON + timedelta(minutes=n), 60 + n % 9) for n in range(40)]
    later = [sample(NOON + timedelta(days=n), 70) for n in range(1, 45)]
    pressure = {**sample(NOON, None), "systolic": 121, "diastolic": 79.5, "unit": "mmHg"}
    interval = {**sample(NOON, 12), "start": NOON.isoformat(),
                "end": (NOON + timedelta(seconds=60)).isoformat()}  # fmt: skip
    return [
        samples_event(1, "heartrate", data),
        samples_event(2, "heartrate", later),
        samples_event(3, "heartrate", data[:3], who=2),
        samples_event(4, "blood_pressure", [pressure]),
        samples_event(5, "steps", [interval], app_id="com.example.app"),
        samples_event(6, "note", [sample(NOON, "felt fine", tags=["food"])]),
    ]


@pytest.mark.parametrize("limit", ["1000", "7"])
def test_api_paging_lists_every_sample_once(
    client: Client, headers: dict[str, str], limit: str
) -> None:
    events = mixed_events()
    handle_samples(events)
    found = read_all_pages(client, headers, "samples", limit=limit)
    keys = {
        f"{user}:{resource}:{provider}:{kind}:{reading}:{at.isoformat().replace('+00:00', 'Z')}"
        for user, resource, provider, kind, reading, at in latest_samples(events)
    }
    assert len(found) == len(keys)
    assert {item["id"] for item in found} == keys


def test_api_returns_sample_as_sent(client: Client, headers: dict[str, str]) -> None:
    handle_samples(mixed_events())
    found = {
        item["resource"]: item for item in read_all_pages(client, headers, "samples", limit="1000")
    }
    pressure = found["blood_pressure"]
    assert (pressure["value"], pressure["systolic"], pressure["diastolic"]) == (None, 121, 79.5)
    steps = found["steps"]
    assert (steps["start"], steps["end"]) == ("2026-03-29T12:00:00Z", "2026-03-29T12:01:00Z")
    assert steps["app_id"] == "com.example.app" and steps["timezone_offset"] == -25200
    note = found["note"]
    assert (note["value"], note["tags"]) == ("felt fine", ["food"])
    for item in (pressure, steps, note):
        one = client.get(f"/api/samples/{item['id']}/", headers=headers)
        assert one.json() == item


def test_api_accepts_any_character_in_provider(client: Client, headers: dict[str, str]) -> None:
    """Ids are joined by ":". A colon in a provider must not end the paging or lose an item."""
    data = [sample(NOON + timedelta(minutes=n), n) for n in range(9)]
    names = ["a:b", "a", "2026-03-29T12:00:00Z", "ü/?#"]
    handle_samples([samples_event(n, "heartrate", data, provider=name, type="x:y")
                  for n, name in enumerate(names, 1)])  # fmt: skip
    found = read_all_pages(client, headers, "samples", limit="2")
    assert len(found) == len({item["id"] for item in found}) == 36
    for item in found[::5]:
        one = client.get(f"/api/samples/{quote(item['id'])}/", headers=headers)
        assert one.json() == item


def test_api_page_reads_only_its_series(client: Client, headers: dict[str, str]) -> None:
    handle_samples([samples_event(n, "heartrate", [sample(NOON, n)], who=n, provider=f"p{n % 2}")
                  for n in range(1, 60)])  # fmt: skip
    for parameters in ({}, {"provider": "p1"}):
        with CaptureQueriesContext(connection) as queries:
            client.get("/api/samples/", {"limit": "5", **parameters}, headers=headers)
        statements = [query["sql"] for query in queries]
        (read,) = [sql for sql in statements if 'FROM "wearables_series" WHERE' in sql
                   and "SELECT \"wearables_series\".\"id\", " in sql]  # fmt: skip
        # Columns and at most twenty chunk ids.
        assert '"id" IN (' in read and read.count(",") < 40


@pytest.mark.parametrize("position", ["x", "1", "1:", "1:2026", ":2026-03-29T12:00:00Z",
                                   "99999999999:2026-03-29T12:00:00Z", "-1:2026-03-29T12:00:00Z",
                                   "1:0001-01-01T00:00:00+14:00"])  # fmt: skip
def test_api_rejects_invalid_cursor(client: Client, headers: dict[str, str], position: str) -> None:
    cursor = encode_cursor("wearables.sample", position)
    answer = client.get("/api/samples/", {"cursor": cursor}, headers=headers)
    assert answer.status_code == 400 and "cursor" in answer.json()["message"]


def test_api_filters_samples_and_answers_404_for_unknown_ids(
    client: Client, headers: dict[str, str]
) -> None:
    handle_samples(mixed_events())
    of_two = read_all_pages(client, headers, "samples", user_id=str(uid("patient", 2)))
    assert [item["value"] for item in of_two] == [60, 61, 62]
    assert len(read_all_pages(client, headers, "samples", resource="note")) == 1
    assert read_all_pages(client, headers, "samples", provider="ring") == []
    for wrong in ("x", f"{uid('patient', 1)}:note:band:watch::1", "a:b:c:d:e:f"):
        assert client.get(f"/api/samples/{wrong}/", headers=headers).status_code == 404
    assert client.get("/api/samples/", {"user_id": "x"}, headers=headers).status_code == 400


def test_api_records_whose_samples_were_viewed(client: Client, headers: dict[str, str]) -> None:
    handle_samples(mixed_events())
    read_all_pages(client, headers, "samples", resource="note")
    assert AuditEntry.objects.latest("at").patient_ids == [uid("patient", 1)]


def test_api_requires_permission(client: Client) -> None:
    auditor = token_for(staff("auditor"))
    for resource in ("samples", "summaries"):
        assert client.get(f"/api/{resource}/").status_code == 401
        assert client.get(f"/api/{resource}/", headers=auditor).status_code == 403


def test_api_summary_has_columns_and_record(client: Client, headers: dict[str, str]) -> None:
    handle_summaries([activity(1, steps=4321)])
    (item,) = read_all_pages(client, headers, "summaries", resource="activity")
    assert item["steps"] == 4321 and item["record"]["steps"] == 4321
    assert item["calendar_date"] == "2026-03-29" and item["provider"] == "band"
    one = client.get(f"/api/summaries/{item['id']}/", headers=headers)
    assert one.json() == item
