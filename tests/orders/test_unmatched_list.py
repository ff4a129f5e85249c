"""The list of unmatched results: tabs, filters, sorts, counts and downloads."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from django.test import Client

from backoffice.audit.models import AuditEntry
from labs.models import Lab
from orders.models import UnmatchedResult
from orders.models.unmatched_result import PENDING_SERVICE_REVIEW, Candidate
from tests.api.rows import NOW, envelope, staff, uid, unmatched_result

pytestmark = pytest.mark.django_db

NEWER, OLDER, AT_SERVICE, REJECTED, ACCEPTED, GONE = (uid("unmatched", n) for n in range(6))
ADDRESS = "/unmatched/"


@pytest.fixture
def results() -> None:
    """Create two results that wait for us, and one each of every other kind."""
    UnmatchedResult.objects.bulk_create(
        [
            unmatched_result(0, last_name="Zett", lab_slug="lab-south", interpretation="critical"),
            unmatched_result(1, last_name="Adler", decision_code="match_demo"),
            unmatched_result(2, status=PENDING_SERVICE_REVIEW),
            unmatched_result(
                3, status="resolved", resolution_action="reject", reviewed_at=NOW,
                lab_slug="lab-south",
            ),
            unmatched_result(
                4, status="matched", resolution_action="accept",
                reviewed_at=NOW - timedelta(days=1), resolved_user_id=uid("patient", 4),
            ),
            unmatched_result(5, missing_since=NOW),
        ]
    )  # fmt: skip
    Candidate.objects.create(result_id=NEWER, position=0, user_id=uid("patient", 1))
    Lab.objects.create(id=3, slug="lab-south", name="Lab South", **envelope())


@pytest.fixture
def clinician(client: Client) -> Client:
    client.force_login(staff("clinician"))
    return client


def listed(client: Client, **parameters: str | list[str]) -> list[UUID]:
    answer = client.get(ADDRESS, parameters)
    assert answer.status_code == 200, answer.content.decode()[-2000:]
    return [row.pk for row in answer.context["rows"]]


def test_tabs_show_oldest_waiting_and_latest_decided_first(
    clinician: Client, results: None
) -> None:
    assert listed(clinician) == [OLDER, NEWER]
    assert listed(clinician, order_direction="desc") == [NEWER, OLDER]
    assert listed(clinician, show="service") == [AT_SERVICE]
    assert listed(clinician, show="decided") == [REJECTED, ACCEPTED]
    assert listed(clinician, show="decided", order_direction="asc") == [ACCEPTED, REJECTED]
    assert clinician.get(ADDRESS, {"show": "nonsense"}).status_code == 400


def test_tabs_count_what_the_filters_find(clinician: Client, results: None) -> None:
    for parameters, expected in (({}, ["2", "1", "2"]), ({"lab": "lab-south"}, ["1", "0", "1"])):
        tabs = clinician.get(ADDRESS, parameters).context["tabs"]
        assert [str(tab.count) for tab in tabs] == expected


def test_filters_find_results_by_lab_cause_day_and_result(clinician: Client, results: None) -> None:
    for found, parameters in (
        ([NEWER], {"lab": "lab-south"}),
        ([REJECTED], {"lab": "lab-south", "show": "decided"}),
        ([OLDER], {"decision_code": ["match_demo", "match_completed"]}),
        ([OLDER, NEWER], {"since": "2026-11-01", "until": "2026-11-30"}),
        ([], {"since": "2026-11-25"}),
        ([], {"until": "2026-11-01"}),
        ([NEWER], {"interpretation": "critical"}),
    ):
        assert listed(clinician, **parameters) == found, parameters
    page = clinician.get(ADDRESS, {"lab": "lab-west"}).content.decode()
    assert "No matching results" in page and "Lab South" in page


def test_each_tab_has_its_sorts(clinician: Client, results: None) -> None:
    assert listed(clinician, order_key="name") == [OLDER, NEWER]
    assert listed(clinician, order_key="name", order_direction="desc") == [NEWER, OLDER]
    UnmatchedResult.objects.filter(pk=REJECTED).update(reviewed_at=NOW - timedelta(days=2))
    assert listed(clinician, order_key="reviewed_at", show="decided") == [ACCEPTED, REJECTED]
    UnmatchedResult.objects.filter(pk=REJECTED).update(reviewed_at=None)
    answer = clinician.get(ADDRESS, {"order_key": "reviewed_at", "show": "decided"})
    assert [row.pk for row in answer.context["rows"]] == [ACCEPTED]
    assert "Results without one are not listed" in answer.content.decode()
    for show, key in (("", "reviewed_at"), ("decided", "name")):
        answer = clinician.get(ADDRESS, {"order_key": key, "show": show})
        assert answer.context["list"].sort == "created_at"
        assert not answer.context["filters"].can_sort_by(key)


def test_sort_by_name_puts_no_name_into_addresses(clinician: Client, results: None) -> None:
    page = clinician.get(ADDRESS, {"order_key": "name", "size": "1"})
    following = str(page.context["page"].next)
    second = clinician.get(ADDRESS, {"order_key": "name", "size": "1", "after": following})
    assert [row.pk for row in second.context["rows"]] == [NEWER]
    assert page.context["filters"].keyset().private


def test_decision_is_shown_once(clinician: Client, results: None) -> None:
    page = clinician.get(ADDRESS, {"show": "decided"}).content.decode()
    assert page.count("Rejected") == 1 and "Matched to an order" in page
    columns = {"column": ["person", "why", "decided"], "keep": "1", "here": ""}
    clinician.post("/unmatched/columns/", columns)
    page = clinician.get(ADDRESS, {"show": "decided"}).content.decode()
    assert page.count("Rejected") == 1 and "Matched to an order" in page


def test_front_desk_has_no_result_in_list_filter_or_download(client: Client, results: None) -> None:
    client.force_login(staff("front desk"))
    page = client.get(ADDRESS).content.decode()
    assert "Zett" in page and 'name="interpretation"' not in page and ">Critical" not in page
    assert client.get(ADDRESS, {"interpretation": "critical"}).status_code == 400
    answer = client.post("/unmatched/export/", {"query": "", "everything": "1"})
    text = b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]
    assert "Zett" in text and "ritical" not in text and "Interpretation" not in text


def test_list_and_download_record_suggested_patients(clinician: Client, results: None) -> None:
    clinician.get(ADDRESS)
    answer = clinician.post("/unmatched/export/", {"query": "show=decided", "everything": "1"})
    assert b"".join(answer.streaming_content)  # type: ignore[attr-defined]
    shown, exported = (
        AuditEntry.objects.get(object_type="unmatched result", action=action)
        for action in ("list", "export")
    )
    assert set(shown.object_ids) == {str(NEWER), str(OLDER)}
    assert shown.patient_ids == [uid("patient", 1)]
    assert set(exported.object_ids) == {str(REJECTED), str(ACCEPTED)}
    assert exported.patient_ids == [uid("patient", 4)]
