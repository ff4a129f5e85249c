"""Pages of reports: states, lists, permissions and the API."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.pages.paging.counts import Count
from labs.models import Report, RowCheck
from labs.reports.report_list import REPORT_LIST
from tests.api.rows import staff, token_for, uid
from tests.audit.trail import delete_all_entries
from tests.labs.documents import pdf, png
from tests.labs.report_pages import accept, detail_page, message_texts, row_address, row_form
from tests.labs.reporting import (
    ADA,
    GLUCOSE,
    attach_job,
    file,
    stored_report,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("report_folder")]


def test_detail_shows_document_and_rows(client: Client, report: Report) -> None:
    shown = detail_page(client, report)
    assert f'<iframe src="/reports/{report.pk}/files/0/#' in shown
    for words in ("Glucose", "5.40", "mmol/L", "3.9 – 5.6", "2345-7", "very likely", "Critical"):
        assert words in shown
    assert "Unrecognized unit · No code found" in shown, (
        "a warning that does not prevent acceptance"
    )
    assert "No mismatches" in shown
    assert "Accept for <bdi>Ada1 Testperson</bdi>" in shown
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.object_ids, entry.patient_ids) == (
        "view",
        [str(report.pk)],
        [uid("patient", 1)],
    )


def test_page_may_frame_only_own_documents(client: Client, report: Report) -> None:
    answer = client.get(reverse("reports:detail", args=[report.pk]))
    assert "frame-src 'self'" in answer["Content-Security-Policy"]
    assert "script-src 'self'" in answer["Content-Security-Policy"]
    assert "frame-src" not in client.get("/reports/")["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("state", "words", "buttons"),
    [
        ("stored", "Waiting to be sent", []),
        ("sending", "is being sent to the lab service", []),
        ("upload_pending", "The lab service is reading the report", []),
        ("started", "The lab service is reading the report", []),
        ("pending_review", "staff are verifying the values", []),
        ("uncertain", "We don’t know if", ["Send again", "Don’t send"]),
        ("refused", "“Not this one.”", ["Send again", "Don’t send"]),
        ("given_up", "decided not to send this report", ["Send now"]),
    ],
)
def test_detail_explains_every_state(
    client: Client, doctor: User, state: str, words: str, buttons: list[str]
) -> None:
    report = stored_report(doctor)
    Report.objects.update(
        state=state, refusal="Not this one.", attempts=1, sent_at="2026-01-01T00:00Z"
    )
    shown = detail_page(client, report)
    assert words in shown
    for button in ("Send again", "Don’t send", "Send now"):
        assert (button in shown) is (button in buttons)
    is_waiting = state in ("stored", "sending", "upload_pending", "started")
    assert ('hx-trigger="every 3s"' in shown) is is_waiting


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("low_quality", "too poor to read"),
        ("not_english", "not in English"),
        ("invalid_input", "does not look like a lab report"),
        ("too_many_pages", "too many pages"),
        ("processing_error", "failed while reading"),
        ("gremlins", "gremlins"),
        (None, "gave no reason"),
    ],
)
def test_detail_shows_reason_of_failed_job(
    client: Client, doctor: User, reason: str | None, words: str
) -> None:
    report = stored_report(doctor)
    attach_job(report, "failed", failure_reason=reason)
    shown = detail_page(client, report)
    assert words in shown
    assert "Try again" in shown


def test_uncertain_report_offers_decisions(client: Client, doctor: User) -> None:
    report = stored_report(doctor)
    Report.objects.update(state="uncertain", attempts=3)
    again = reverse("reports:again", args=[report.pk])
    answer = client.post(again, {"attempt": "2"})
    assert "Nothing was saved" in message_texts(answer)
    assert Report.objects.get().state == "uncertain"
    assert "sent again" in message_texts(client.post(again, {"attempt": "3"}))
    assert Report.objects.get().state == "stored"
    assert AuditEntry.objects.filter(action="change").count() == 2
    for invalid in ("", "x", "-1", "9" * 40, "١"):
        assert client.post(again, {"attempt": invalid}).status_code == 400
    assert client.get(again).status_code == 405


def test_waiting_page_reloads_on_new_state(client: Client, doctor: User) -> None:
    report = stored_report(doctor)
    address = reverse("reports:progress", args=[report.pk])
    same = client.get(address, {"state": "stored"})
    assert (same.status_code, same.content, same.headers.get("HX-Refresh")) == (204, b"", None)
    assert client.get(address, {"state": "sending"})["HX-Refresh"] == "true"


def test_report_uploaded_elsewhere_has_no_document(client: Client, doctor: User) -> None:
    report = stored_report(doctor)
    attach_job(report)
    report.files.all().delete()
    Report.objects.update(uploaded_by=None)
    shown = detail_page(client, report)
    assert "was not uploaded here" in shown
    assert "Glucose" in shown


def test_markup_in_report_is_escaped(client: Client, doctor: User) -> None:
    markup = "<script>alert(1)</script>"
    report = stored_report(doctor, 1, file(png(), "<b>x.png"))
    attach_job(
        report,
        results=[{**GLUCOSE, "test_name": markup, "value": markup, "units": markup}],
        metadata={**ADA, "patient_first_name": markup, "lab_name": markup},
    )
    Report.objects.update(refusal=markup)
    shown = detail_page(client, report)
    assert markup not in shown
    assert "<b>x" not in shown
    assert "&lt;script&gt;" in shown


PAGES_BY_GET = ("detail", "progress")


@pytest.mark.parametrize("role", ["viewer", "auditor"])
def test_users_without_permission_see_nothing(client: Client, report: Report, role: str) -> None:
    client.force_login(staff(role))
    for name in (*PAGES_BY_GET, "file", "row", "again", "accept", "give-up", "arrived"):
        more = [0] if name in ("file", "row") else []
        method = client.get if name in (*PAGES_BY_GET, "file", "row") else client.post
        answer = method(reverse(f"reports:{name}", args=[report.pk, *more]))
        assert answer.status_code == 403, name
    assert client.get("/reports/").status_code == 403
    assert RowCheck.objects.count() == 0
    assert Report.objects.get().accepted_at is None


def test_front_desk_sees_report_without_values(client: Client, report: Report) -> None:
    client.force_login(staff("front desk"))
    shown = re.sub(r'datetime="[^"]*"', "", detail_page(client, report))
    assert "Only clinicians can view the values" in shown
    for hidden in ("Glucose", "5.40", "<iframe", "Accept for"):
        assert hidden not in shown
    assert client.get(reverse("reports:file", args=[report.pk, 0])).status_code == 403
    assert client.post(row_address(report), row_form(report)).status_code == 403
    assert accept(client, report).status_code == 403


@pytest.mark.parametrize("name", ["detail", "progress", "again", "accept", "give-up", "arrived"])
def test_unknown_report_is_404(client: Client, doctor: User, name: str) -> None:
    address = reverse(f"reports:{name}", args=[uuid.uuid4()])
    method = client.get if name in PAGES_BY_GET else client.post
    assert method(address, {"attempt": "1", "job": str(uuid.uuid4())}).status_code == 404


def test_first_tab_has_reports_waiting_for_staff(
    client: Client, report: Report, doctor: User
) -> None:
    Report.objects.filter(pk=report.pk).update(uploaded_at="2026-01-01T00:00Z")
    in_progress = stored_report(doctor, 1, file(pdf(2)))
    answer = client.get("/reports/")
    assert [row["report"].pk for row in answer.context["rows"]] == [report.pk]
    for tab, expected in (
        ("under-way", [in_progress.pk]),
        ("accepted", []),
        ("all", [in_progress.pk, report.pk]),
    ):
        answer = client.get("/reports/", {"show": tab})
        assert [row["report"].pk for row in answer.context["rows"]] == expected, tab
    accept(client, report)
    assert "No reports here" in client.get("/reports/").content.decode()
    for wrong in ({"user_id": "x"}, {"show": "nonsense"}):
        assert client.get("/reports/", wrong).status_code == 400


def listed(client: Client, **parameters: str | list[str]) -> list[uuid.UUID]:
    answer = client.get("/reports/", parameters)
    assert answer.status_code == 200
    return [row["report"].pk for row in answer.context["rows"]]


def test_reports_of_a_patient_are_shown_whatever_their_state(
    client: Client, report: Report, doctor: User
) -> None:
    in_progress = stored_report(doctor, 1, file(pdf(2)))
    one_patient = str(uid("patient", 1))
    assert listed(client, user_id=one_patient) == [in_progress.pk, report.pk]
    assert listed(client, user_id=one_patient, show="todo") == [report.pk]
    page = client.get("/reports/", {"user_id": one_patient}).content.decode()
    assert reverse("reports:upload", args=[one_patient]) in page
    nobody = client.get("/reports/", {"user_id": str(uid("patient", 2))}).content.decode()
    assert "No matching reports" in nobody and "One patient" not in nobody


def test_filters_find_reports_by_state_uploader_and_day(
    client: Client, report: Report, doctor: User
) -> None:
    elsewhere = stored_report(staff("front desk"), 1, file(pdf(2)))
    Report.objects.filter(pk=elsewhere.pk).update(
        uploaded_by=None, uploaded_at="2026-01-01T12:00Z", state="failed"
    )
    for found, parameters in (
        ([report.pk], {"state": ["completed", "started"]}),
        ([elsewhere.pk], {"state": "failed"}),
        ([report.pk], {"uploaded_by": "me"}),
        ([report.pk], {"uploaded_by": str(doctor.pk)}),
        ([elsewhere.pk], {"uploaded_by": "elsewhere"}),
        ([report.pk, elsewhere.pk], {"uploaded_by": ["me", "elsewhere"]}),
        ([elsewhere.pk], {"until": "2026-01-01"}),
        ([report.pk], {"since": "2026-01-02"}),
        ([report.pk], {"uploaded": "today"}),
        ([elsewhere.pk], {"order_key": "state", "order_direction": "desc", "until": "2026-02-01"}),
    ):
        assert listed(client, **parameters) == found, parameters


def test_only_accepted_reports_are_sorted_by_acceptance(client: Client, report: Report) -> None:
    accept(client, report)
    for tab, sort in (("accepted", "accepted_at"), ("all", "uploaded_at")):
        answer = client.get("/reports/", {"show": tab, "order_key": "accepted_at"})
        assert answer.context["list"].sort == sort
        assert answer.context["filters"].can_sort_by("accepted_at") is (tab == "accepted")


def test_tab_counts_what_waits_for_staff(client: Client, report: Report, doctor: User) -> None:
    stored_report(doctor, 1, file(pdf(2)))
    tabs = client.get("/reports/", {"show": "all"}).context["tabs"]
    assert {tab.label: tab.count for tab in tabs} == {
        "To review": Count(1),
        "In progress": None,
        "Accepted": None,
        "All": None,
    }
    assert [tab.label for tab in tabs if tab.current] == ["All"]


def test_names_are_in_rows_of_those_who_may_see_them(report: Report) -> None:
    viewer, desk = staff("viewer"), staff("front desk")
    for user, names in ((viewer, ("", "")), (desk, ("Ada1", "Testperson"))):
        (row,) = REPORT_LIST.with_related(list(REPORT_LIST.visible_rows(user)), user)
        lead = {cell.header: cell.read(row) or "" for cell in REPORT_LIST.columns[0].cells}
        assert (lead["First name"], lead["Last name"]) == names
        assert bool(lead["Born"]) is (user is desk)


def test_download_is_recorded_with_patients(client: Client, report: Report) -> None:
    client.force_login(staff("front desk"))
    delete_all_entries()
    answer = client.post("/reports/export/", {"query": "show=all", "everything": "1"})
    text = b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]
    assert "Ada1,Testperson,1980-03-12,Read" in text
    entry = AuditEntry.objects.get(action="export")
    assert (entry.object_ids, entry.patient_ids) == ([str(report.pk)], [uid("patient", 1)])


def test_patient_page_shows_reports_of_patient(client: Client, report: Report) -> None:
    patient_page = client.get(f"/patients/{uid('patient', 1)}/").content.decode()
    assert reverse("reports:upload", args=[uid("patient", 1)]) in patient_page
    part = reverse("reports:of-patient", args=[uid("patient", 1)])
    assert part in patient_page
    delete_all_entries()
    assert f"/reports/{report.pk}/" in client.get(part).content.decode()
    assert AuditEntry.objects.get().patient_ids == [uid("patient", 1)]
    assert client.get(reverse("reports:of-patient", args=[uuid.uuid4()])).status_code == 404


@pytest.mark.parametrize("rows", [1, 30])
def test_query_count_does_not_grow_with_rows(
    client: Client, doctor: User, rows: int, django_assert_num_queries: Any
) -> None:
    report = stored_report(doctor)
    attach_job(report, results=[{**GLUCOSE, "test_name": f"Test {n}"} for n in range(rows)])
    for n in range(rows):
        attach_job(stored_report(doctor, 1, file(pdf(1, padding=n + 1))))
    client.get("/reports/")
    # Session, user with roles; queries of the page; notifications; audit in its transaction.
    for address, queries in (
        ("/reports/?show=all", 2 + 7 + 1 + 3),
        (f"/reports/{report.pk}/", 2 + 6 + 1 + 3),
        (f"/reports/of/{uid('patient', 1)}/", 2 + 2 + 3),
    ):
        with django_assert_num_queries(queries):
            client.get(address)


def test_api_returns_jobs_with_values(client: Client, report: Report) -> None:
    headers = token_for(staff("service account"))
    (item,) = client.get("/api/reports/", headers=headers).json()["results"]
    assert item["id"] == str(report.job_id)
    assert (item["user_id"], item["status"]) == (str(uid("patient", 1)), "completed")
    assert [one["value"] for one in item["results"]] == ["5.40", "12"]
    assert item["results"][0]["loinc_matches"][0]["loinc_code"] == "2345-7"
    assert item["upload"]["state"] == "completed"
    assert item["record"]["id"] == str(report.job_id)
    one = client.get(f"/api/reports/{report.job_id}/", headers=headers).json()
    assert one == item
    assert client.get("/api/reports/?status=failed", headers=headers).json()["results"] == []
    client.force_login(staff("front desk"))
    assert client.get("/api/reports/").status_code == 403
