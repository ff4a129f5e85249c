"""Acceptance of reports: what it covers, what ends it, and comparison with the patient."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from backoffice.accounts.models import User
from labs.models import Report, ReportJob
from labs.reports import acceptance, sync
from labs.reports.review import compare_with_patient, has_contradiction
from patients.models import Demographics
from tests.labs.documents import pdf
from tests.labs.report_pages import (
    HTMX_HEADERS,
    accept,
    detail_page,
    message_texts,
    row_address,
    row_form,
)
from tests.labs.reporting import (
    ADA,
    FRAGILITY,
    attach_job,
    file,
    job_json,
    job_record,
    person,
    stored_report,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("report_folder")]


CASES = Path(__file__).parents[1] / "cases"


def test_report_without_patient_cannot_be_accepted(client: Client, doctor: User) -> None:
    for status in ("completed", "failed"):
        report = stored_report(doctor, 1, file(pdf(1, padding=len(status))))
        attach_job(report, status)
        Report.objects.filter(pk=report.pk).update(user=None)
        shown = detail_page(client, report)
        assert "Accept for" not in shown
        assert "Upload another file" not in shown
        accept(client, report)
    assert not Report.objects.filter(accepted_at__isnull=False).exists()
    assert client.get("/reports/?show=all").status_code == 200


def test_acceptance_is_recorded_once(client: Client, report: Report, doctor: User) -> None:
    assert "Report accepted." in message_texts(accept(client, report))
    report.refresh_from_db()
    assert (report.accepted_by, report.accepted_at is not None) == (doctor, True)
    assert "Accept for" not in detail_page(client, report)
    first = report.accepted_at
    accept(client, report)
    report.refresh_from_db()
    assert report.accepted_at == first


def test_unseen_changes_are_not_accepted(client: Client, report: Report) -> None:
    answer = client.post(reverse("reports:accept", args=[report.pk]), {"seen": "00"})
    assert "Nothing was saved" in message_texts(answer)
    assert Report.objects.get().accepted_at is None


def test_parsing_again_requires_new_acceptance(client: Client, report: Report) -> None:
    accept(client, report)
    raw = job_json(report.job_id or uuid.uuid4(), is_reviewed=True, results=[FRAGILITY])
    sync.store_jobs([(job_record(raw), None)])
    shown = detail_page(client, report)
    assert "Changed since accepted" in shown
    assert "Accept for" in shown
    before = Report.objects.get().accepted_at
    accept(client, report)
    after = Report.objects.get().accepted_at
    assert before is not None
    assert after is not None
    assert after > before
    assert "Changed since accepted" not in detail_page(client, report)


def waiting_reports(client: Client) -> list[uuid.UUID]:
    return [row["report"].pk for row in client.get("/reports/").context["rows"]]


def test_changed_report_is_in_the_first_tab_again(client: Client, report: Report) -> None:
    accept(client, report)
    assert waiting_reports(client) == []
    again = job_json(report.job_id or uuid.uuid4(), is_reviewed=True, results=[FRAGILITY])
    sync.store_jobs([(job_record(again), None)])
    assert waiting_reports(client) == [report.pk]
    accepted = client.get("/reports/", {"show": "accepted"})
    assert accepted.context["rows"] == []
    assert "Changed since accepted" in client.get("/reports/").content.decode()
    accept(client, report)
    assert waiting_reports(client) == []
    sync.store_jobs([(job_record(again), None)])
    assert waiting_reports(client) == [], "an identical job is no change"


@pytest.mark.parametrize("change", ["correction", "tick"])
def test_check_after_acceptance_is_not_covered(client: Client, report: Report, change: str) -> None:
    client.post(row_address(report), row_form(report, value="5.5"), headers=HTMX_HEADERS)
    old = acceptance.page_digest(report)
    accept(client, report)
    assert "Changed since accepted" not in detail_page(client, report)
    sent = row_form(report, value="54.0")
    if change == "tick":
        sent = {"reading": sent["reading"], "latest": sent["latest"], "checked": "no"}
    answer = client.post(
        row_address(report), {**sent, "seen": old}, headers=HTMX_HEADERS
    ).content.decode()
    assert "Changed since accepted" in answer, "immediately, beside the row"
    assert "Changed since accepted" in detail_page(client, report)
    assert waiting_reports(client) == [report.pk]
    accept(client, report, seen=old)
    assert waiting_reports(client) == [report.pk], (
        "the earlier page digest does not cover the change"
    )
    accept(client, report)
    assert waiting_reports(client) == []


def test_page_digest_covers_own_checks_only(client: Client, report: Report) -> None:
    opened = client.get(reverse("reports:detail", args=[report.pk])).context["seen"]
    own_check = client.post(
        row_address(report), {**row_form(report), "seen": opened}, headers=HTMX_HEADERS
    )
    assert own_check.context["seen"] == acceptance.page_digest(report)
    client.post(row_address(report, 1), row_form(report, 1, value="13"), headers=HTMX_HEADERS)
    stale = {**row_form(report, value="6"), "seen": own_check.context["seen"]}
    late_check = client.post(row_address(report), stale, headers=HTMX_HEADERS)
    assert late_check.context["seen"] == own_check.context["seen"]
    accept(client, report, seen=late_check.context["seen"])
    assert Report.objects.get().accepted_at is None


def test_report_in_review_cannot_be_accepted(client: Client, doctor: User) -> None:
    report = stored_report(doctor)
    attach_job(report, needs_human_review=True)
    assert report.state == "pending_review"
    shown = detail_page(client, report)
    assert "after the lab service finishes its own review" in shown
    assert "Accept for" not in shown
    assert "Nothing was saved" in message_texts(accept(client, report))
    assert Report.objects.get().accepted_at is None


def test_report_of_another_person_needs_confirmation(client: Client, doctor: User) -> None:
    report = stored_report(doctor)
    attach_job(report, metadata={**ADA, "patient_first_name": "Bea", "dob": "1 Jan 1990"})
    shown = detail_page(client, report)
    assert shown.count("Differs") == 2
    assert "The report names a different person" in shown
    assert "names a different person" in message_texts(accept(client, report))
    assert Report.objects.get().accepted_at is None
    accept(client, report, same_person="yes")
    assert Report.objects.get().accepted_at is not None


@pytest.mark.parametrize("status", ["started", "failed"])
def test_unparsed_report_cannot_be_accepted(client: Client, doctor: User, status: str) -> None:
    report = stored_report(doctor)
    attach_job(report, status)
    accept(client, report)
    assert Report.objects.get().accepted_at is None


@pytest.mark.parametrize(
    ("printed", "same"),
    [
        ("1980-03-12", True),
        ("03/12/1980", True),
        ("12/03/1980", True),
        ("12.03.1980", True),
        ("12 Mar 1980", True),
        ("March 12, 1980", True),
        ("3/12/80", True),
        ("1980-03-12 00:00:00", True),
        ("13/03/1980", False),
        ("1980-03-13", False),
        ("forty-six", None),
        ("", None),
    ],
)
def test_birth_dates_are_compared_in_any_format(printed: str, same: bool | None) -> None:
    person(1)
    known = Demographics.objects.get()
    facts = compare_with_patient(ReportJob(dob=printed), known)
    assert facts[1].same is same


@pytest.mark.parametrize(
    ("printed", "same"),
    [
        ("ADA1", True),
        ("  ada1 ", True),
        ("Áda1", True),
        ("Ada-1", True),
        ("Ada", False),
        ("", None),
        (None, None),
    ],
)
def test_names_are_compared_by_letters(printed: str | None, same: bool | None) -> None:
    person(1)
    known = Demographics.objects.get()
    last = known.last_name if printed else None
    facts = compare_with_patient(
        ReportJob(patient_first_name=printed, patient_last_name=last), known
    )
    assert facts[0].same is same
    assert has_contradiction(facts) is (same is False)


def test_middle_initial_and_no_apostrophe_is_same_person(client: Client, doctor: User) -> None:
    """tests/cases/B17.json: the job as received and the patient here."""
    case = json.loads((CASES / "B17.json").read_text())
    report = stored_report(doctor)
    Demographics.objects.filter(pk=report.user_id).update(**case["our patient"])
    attach_job(report, metadata=case["data"]["metadata"])
    shown = detail_page(client, report)
    assert "No mismatches" in shown and "Differs" not in shown
    accept(client, report)
    assert Report.objects.get().accepted_at is not None


def test_unknown_person_is_no_contradiction() -> None:
    assert not has_contradiction(compare_with_patient(ReportJob(**ADA), None))
