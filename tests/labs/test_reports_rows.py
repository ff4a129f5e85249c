"""Rows of a report: checks, corrections and conflicts."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.test import Client

from backoffice.accounts.models import User
from labs.models import Report, ReportJob, RowCheck
from labs.reports import review, sync
from labs.reports.review import confidence
from tests.labs.report_pages import HTMX_HEADERS, detail_page, row_address, row_form
from tests.labs.reporting import (
    FRAGILITY,
    GLUCOSE,
    attach_job,
    job_json,
    job_record,
    stored_report,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("report_folder")]


def test_row_can_be_checked_and_unchecked(client: Client, report: Report) -> None:
    first = row_form(report)
    tick = {"reading": first["reading"], "latest": "0", "checked": "yes"}
    answer = client.post(row_address(report), tick, headers=HTMX_HEADERS)
    assert answer.status_code == 200
    assert 'aria-pressed="true"' in answer.content.decode()
    assert "<html" not in answer.content.decode()
    assert "1</span> of 2 checked" in detail_page(client, report)
    check = RowCheck.objects.get()
    assert (check.by.username, check.checked, check.corrections) == ("clinician", True, {})
    untick = {"reading": first["reading"], "latest": str(check.pk), "checked": "no"}
    client.post(row_address(report), untick, headers=HTMX_HEADERS)
    assert "0</span> of 2 checked" in detail_page(client, report)
    assert RowCheck.objects.count() == 2, "the earlier check is kept"


def test_correction_is_shown_with_parsed_value(client: Client, report: Report) -> None:
    sent = row_form(
        report, value="54.0", units="mg/dL", min_reference_range="", loinc_code="2339-0"
    )
    answer = client.post(row_address(report), sent)
    assert answer["Location"].endswith("#row-0")
    assert RowCheck.objects.get().corrections == {
        "value": "54.0",
        "units": "mg/dL",
        "min_reference_range": None,
        "loinc_code": "2339-0",
    }
    shown = detail_page(client, report)
    for words in ("54.0", "mg/dL", "Corrected.", "5.40", "mmol/L", "up to 5.6", "2339-0"):
        assert words in shown
    assert ReportJob.objects.get().results.get(position=0).value == "5.40", (
        "the parsed value is never overwritten"
    )


def test_invalid_correction_keeps_typed_values(client: Client, report: Report) -> None:
    sent = row_form(report, value="77", min_reference_range="9", max_reference_range="3")
    for headers in ({}, HTMX_HEADERS):
        answer = client.post(row_address(report), {**sent, "loinc_code": "x"}, headers=headers)
        shown = answer.content.decode()
        assert "The upper limit is below the lower limit" in shown
        assert "A LOINC code looks like 2345-7" in shown
        assert 'value="77"' in shown
    for name, broken in (("min_reference_range", "many"), ("value", ""), ("test_name", "")):
        client.post(row_address(report), {**row_form(report), name: broken}, headers=HTMX_HEADERS)
    assert RowCheck.objects.count() == 0


@pytest.mark.parametrize(
    "unusual_values",
    [
        {"value": ""},
        {"test_name": ""},
        {"value": "x" * 2500},
        {"units": "u" * 80},
        {"min_reference_range": 9.0, "max_reference_range": 3.0},
        {"loinc_matches": [{"loinc_code": "LP-1", "loinc_name": "x", "confidence_score": 1}]},
    ],
)
def test_row_with_unusual_values_can_be_checked(
    client: Client, doctor: User, unusual_values: dict[str, Any]
) -> None:
    report = stored_report(doctor)
    attach_job(report, results=[{**GLUCOSE, **unusual_values}])
    line = review.reviewed_row(report, 0)
    assert line is not None
    tick = {"reading": line.reading, "latest": "0", "checked": "yes"}
    assert (
        'aria-pressed="true"'
        in client.post(row_address(report), tick, headers=HTMX_HEADERS).content.decode()
    )
    assert RowCheck.objects.get().checked
    for broken in ({"reading": "x"}, {"latest": "-1"}, {"latest": ""}):
        assert (
            client.post(row_address(report), {**tick, **broken}, headers=HTMX_HEADERS).status_code
            == 400
        )
    assert RowCheck.objects.count() == 1


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (150, "150"),
        (3.9, "3.9"),
        (1234567.8, "1234567.8"),
        (10000000, "10000000"),
        (0.00004321987, "0.00004321987"),
        (-0.5, "-0.5"),
        (0, "0"),
        (1e300, "1e+300"),
    ],
)
def test_reference_limit_is_shown_as_sent(
    client: Client, doctor: User, number: float, shown: str
) -> None:
    report = stored_report(doctor)
    limits = {"min_reference_range": None, "max_reference_range": number}
    attach_job(report, results=[{**GLUCOSE, **limits}])
    assert f">up to {shown}</span>" in detail_page(client, report)
    edited = client.get(row_address(report) + "?edit", headers=HTMX_HEADERS).content.decode()
    assert f'value="{shown}"' in edited
    client.post(row_address(report), row_form(report, max_reference_range=shown, value="7"))
    assert RowCheck.objects.get().corrections == {"value": "7"}


def test_row_changed_by_a_colleague_is_a_conflict(client: Client, report: Report) -> None:
    first = row_form(report)
    client.post(row_address(report), {**first, "value": "1"}, headers=HTMX_HEADERS)
    answer = client.post(row_address(report), {**first, "value": "2"}, headers=HTMX_HEADERS)
    assert "This row changed in the meantime" in answer.content.decode()
    assert RowCheck.objects.get().corrections == {"value": "1"}


def test_check_ends_when_the_row_is_parsed_again(client: Client, report: Report) -> None:
    client.post(row_address(report), row_form(report, value="9"), headers=HTMX_HEADERS)
    again = job_json(report.job_id or uuid.uuid4(), is_reviewed=True, results=[
        {**GLUCOSE, "value": "5.5"}, FRAGILITY,
    ])  # fmt: skip
    sync.store_jobs([(job_record(again), None)])
    shown = detail_page(client, report)
    assert "The lab service read this row again" in shown
    assert "0</span> of 2 checked" in shown
    assert "5.5" in shown


def test_row_form_is_served_with_and_without_htmx(client: Client, report: Report) -> None:
    fragment = client.get(row_address(report) + "?edit", headers=HTMX_HEADERS).content.decode()
    assert "Save and mark as checked" in fragment
    assert "<html" not in fragment
    whole = client.get(row_address(report) + "?edit").content.decode()
    assert whole.count("Save and mark as checked") == 1
    assert "<html" in whole
    assert client.get(row_address(report, 7)).status_code == 404


@pytest.mark.parametrize(
    ("score", "words"),
    [
        (1, "very likely"),
        (0.9, "very likely"),
        (0.75, "likely"),
        (0.5, "possible"),
        (0.01, "doubtful"),
        (-3, "doubtful"),
        (None, "confidence not given"),
        ("0.9", "confidence not given"),
        (True, "confidence not given"),
    ],
)
def test_confidence_is_shown_as_text(score: Any, words: str) -> None:
    assert confidence(score) == words
