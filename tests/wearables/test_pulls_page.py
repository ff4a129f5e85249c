"""The page of historical pulls of all patients, failing ones first and grouped by error."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from patients.wearables.models import HistoricalPull
from tests.api.rows import NOW, demographics, envelope, patient, staff, uid

pytestmark = pytest.mark.django_db

ADDRESS = "/system/pulls/"


def pull(n: int, resource: str = "sleep", **values: Any) -> HistoricalPull:
    row = HistoricalPull(
        **{
            "user_id": uid("patient", n),
            "provider": "band-one",
            "resource": resource,
            "status": "success",
            "days_with_data": 12,
            "scheduled_at": NOW - timedelta(hours=3),
            "started_at": NOW - timedelta(hours=2),
            "ended_at": NOW - timedelta(hours=1),
            "trace_id": f"trace-{n}",
            **envelope(),
            **values,
        }
    )
    row.save()
    return row


@pytest.fixture
def coordinator(client: Client) -> User:
    user = staff("lab coordinator")
    client.force_login(user)
    return user


@pytest.fixture
def pulls_of_six_patients(coordinator: User) -> None:
    late = NOW - timedelta(days=3)
    pull(1)
    pull(2, status="failure", error_details="retry_quota_exhausted", ended_at=late)
    pull(2, "activity", status="failure", error_details="retry_quota_exhausted")
    pull(3, status="failure", error_details="retry_quota_exhausted")
    pull(4, status="failure", provider="ring-two", error_details=None)
    pull(5, status="retrying", error_details="provider_unavailable", ended_at=None)
    pull(6, status="failure", error_details="gremlins", missing_since=NOW)


def listed_pulls(client: Client, **query: str) -> list[tuple[int, str]]:
    numbers = {uid("patient", n): n for n in range(100)}
    rows = client.get(ADDRESS, query).context["rows"]
    return sorted((numbers[row["pull"].user_id], row["pull"].resource) for row in rows)


def test_pulls_page_shows_failing_pulls(client: Client, pulls_of_six_patients: None) -> None:
    patient(2).save()
    demographics(2).save()
    page = client.get(ADDRESS).content.decode()
    for text in (
        "Failed after several retries",
        "The provider is not responding",
        "No reason given",
        "Ada2 Testperson",
        "trace-2",
        "band-one",
        "Sleep",
        "5 pulls",
    ):
        assert text in page, text
    assert "gremlins" not in page


def test_groups_show_counts_and_oldest_failure(client: Client, pulls_of_six_patients: None) -> None:
    groups = client.get(ADDRESS).context["groups"]
    assert [(g.status, g.provider, g.error_details, g.pulls, g.patients) for g in groups] == [
        ("failure", "band-one", "retry_quota_exhausted", 3, 2),
        ("failure", "ring-two", None, 1, 1),
        ("retrying", "band-one", "provider_unavailable", 1, 1),
    ]
    assert groups[0].since == NOW - timedelta(days=3)
    assert groups[2].since == NOW - timedelta(hours=2)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, [(2, "activity"), (2, "sleep"), (3, "sleep"), (4, "sleep"), (5, "sleep")]),
        ({"status": "retrying"}, [(5, "sleep")]),
        ({"status": "success"}, [(1, "sleep")]),
        ({"provider": "ring-two"}, [(4, "sleep")]),
        ({"error": "retry_quota_exhausted", "resource": "activity"}, [(2, "activity")]),
        ({"user_id": str(uid("patient", 1))}, [(1, "sleep")]),
        ({"user_id": str(uid("patient", 2)), "resource": "sleep"}, [(2, "sleep")]),
    ],
)
def test_pulls_page_filters_pulls(
    client: Client,
    pulls_of_six_patients: None,
    query: dict[str, str],
    expected: list[tuple[int, str]],
) -> None:
    assert listed_pulls(client, **query) == expected


def test_pulls_page_shows_all_pulls(client: Client, pulls_of_six_patients: None) -> None:
    assert len(listed_pulls(client, show="all")) == 6


def test_each_group_links_to_its_pulls(client: Client, pulls_of_six_patients: None) -> None:
    page = client.get(ADDRESS).content.decode()
    link = "?status=failure&amp;provider=band-one&amp;error=retry_quota_exhausted"
    assert link in page


@pytest.mark.parametrize("query", [{"user_id": "42"}, {"status": "a\x00"}])
def test_pulls_page_rejects_invalid_filter(
    client: Client, pulls_of_six_patients: None, query: dict[str, str]
) -> None:
    assert client.get(ADDRESS, query).status_code == 400


def test_pulls_page_of_patient_has_no_groups_and_is_audited(
    client: Client, pulls_of_six_patients: None
) -> None:
    page = client.get(ADDRESS, {"user_id": str(uid("patient", 2))}).content.decode()
    assert "grouped by error" not in page
    assert AuditEntry.objects.latest("pk").patient_ids == [uid("patient", 2)]


def test_pulls_page_needs_patients_permission(client: Client) -> None:
    client.force_login(staff("viewer"))
    assert client.get(ADDRESS).status_code == 403


def test_pulls_page_says_when_no_pull_fails(client: Client, coordinator: User) -> None:
    assert b"No pulls yet" in client.get(ADDRESS).content
    pull(1)
    page = client.get(ADDRESS).content
    assert b"No pulls are failing or being retried." in page


def test_pulls_page_query_count_does_not_grow(client: Client, coordinator: User) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            client.get(ADDRESS)
        return len(captured)

    pull(1, status="failure")
    queries()
    one = queries()
    for n in range(2, 90):
        patient(n).save()
        demographics(n).save()
        pull(n, status="failure", error_details=f"error {n % 9}")
    assert queries() == one
    # Session, user with roles; page, names, groups, total, audit in its transaction; in the page
    # frame the counts of failures, notifications and reviews.
    assert one <= 13
