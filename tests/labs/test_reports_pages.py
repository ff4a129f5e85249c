"""Pages of reports: who sees what, rows and acceptance, and how files are served."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse

from backoffice.models import AuditEntry, User
from labs.models import Report, ReportJob, RowCheck
from labs.reports import acceptance, review, sync
from labs.reports.intake import display_file_name
from labs.reports.review import compare_with_patient, confidence, has_contradiction
from patients.models import Demographics
from tests.api.rows import staff, token_for, uid
from tests.audit.trail import forget
from tests.labs.documents import jpeg, pdf, png
from tests.labs.reporting import ADA, FRAGILITY, GLUCOSE, file, kept, person, record, with_job
from tests.labs.reporting import answer as told

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("folder")]
HX = {"HX-Request": "true"}
CASES = Path(__file__).parents[1] / "cases"


@pytest.fixture
def doctor(client: Client) -> User:
    user = staff("clinician")
    client.force_login(user)
    person(1)
    return user


@pytest.fixture
def report(doctor: User) -> Report:
    """A report that was read."""
    made = kept(doctor)
    with_job(made)
    forget()
    return made


def page(client: Client, report: Report) -> str:
    answer = client.get(reverse("reports:detail", args=[report.pk]))
    assert answer.status_code == 200
    return str(answer.content.decode())


def row_address(report: Report, position: int = 0) -> str:
    return reverse("reports:row", args=[report.pk, position])


def row_form(report: Report, position: int = 0, **values: Any) -> dict[str, Any]:
    """The correction form as the page would send it."""
    line = review.reviewed_row(Report.objects.get(pk=report.pk), position)
    assert line is not None
    shown = {name: "" if value is None else value for name, value in line.shown.items()}
    return {**shown, "reading": line.reading, "latest": line.latest, "correct": "1", **values}


def said(answer: Any) -> str:
    return " ".join(str(message) for message in get_messages(answer.wsgi_request))


def body(answer: Any) -> bytes:
    return b"".join(answer.streaming_content)


# One report


def test_detail_shows_document_and_rows(client: Client, report: Report) -> None:
    shown = page(client, report)
    assert f'<iframe src="/reports/{report.pk}/files/0/#' in shown
    for words in ("Glucose", "5.40", "mmol/L", "3.9 – 5.6", "2345-7", "very likely", "Critical"):
        assert words in shown
    assert "Unit not known here · No code found" in shown, "amber, and no obstacle"
    assert "Nothing contradicts" in shown
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
        ("stored", "waiting to be sent", []),
        ("sending", "Being sent", []),
        ("upload_pending", "The service is reading it", []),
        ("started", "The service is reading it", []),
        ("pending_review", "Somebody at the service checks", []),
        ("uncertain", "Nobody knows whether", ["Send it again", "Do not send it"]),
        ("refused", "“Not this one.”", ["Send it again", "Do not send it"]),
        ("given_up", "somebody decided so", ["Send it after all"]),
    ],
)
def test_detail_explains_every_state(
    client: Client, doctor: User, state: str, words: str, buttons: list[str]
) -> None:
    report = kept(doctor)
    Report.objects.update(
        state=state, refusal="Not this one.", attempts=1, sent_at="2026-01-01T00:00Z"
    )
    shown = page(client, report)
    assert words in shown
    for button in ("Send it again", "Do not send it", "Send it after all"):
        assert (button in shown) is (button in buttons)
    waits = state in ("stored", "sending", "upload_pending", "started")
    assert ('hx-trigger="every 3s"' in shown) is waits


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("low_quality", "too poor to read"),
        ("not_english", "not in English"),
        ("invalid_input", "does not look like a lab report"),
        ("too_many_pages", "too many pages"),
        ("processing_error", "failed while reading"),
        ("gremlins", "gremlins"),
        (None, "did not say why"),
    ],
)
def test_a_failed_job_says_why(
    client: Client, doctor: User, reason: str | None, words: str
) -> None:
    report = kept(doctor)
    with_job(report, "failed", failure_reason=reason)
    shown = page(client, report)
    assert words in shown
    assert "Try again" in shown


def test_uncertain_report_offers_decisions(client: Client, doctor: User) -> None:
    report = kept(doctor)
    Report.objects.update(state="uncertain", attempts=3)
    again = reverse("reports:again", args=[report.pk])
    answer = client.post(again, {"attempt": "2"})
    assert "Nothing was changed" in said(answer)
    assert Report.objects.get().state == "uncertain"
    assert "sent again" in said(client.post(again, {"attempt": "3"}))
    assert Report.objects.get().state == "stored"
    assert AuditEntry.objects.filter(action="change").count() == 2
    for broken in ("", "x", "-1", "9" * 40, "١"):
        assert client.post(again, {"attempt": broken}).status_code == 400
    assert client.get(again).status_code == 405


def test_waiting_page_reloads_on_new_state(client: Client, doctor: User) -> None:
    report = kept(doctor)
    address = reverse("reports:progress", args=[report.pk])
    same = client.get(address, {"state": "stored"})
    assert (same.status_code, same.content, same.headers.get("HX-Refresh")) == (204, b"", None)
    assert client.get(address, {"state": "sending"})["HX-Refresh"] == "true"


def test_a_report_uploaded_elsewhere_has_no_document(client: Client, doctor: User) -> None:
    report = kept(doctor)
    with_job(report)
    report.files.all().delete()
    Report.objects.update(uploaded_by=None)
    shown = page(client, report)
    assert "was not uploaded here" in shown
    assert "Glucose" in shown


def test_report_without_patient_cannot_be_accepted(client: Client, doctor: User) -> None:
    for status in ("completed", "failed"):
        report = kept(doctor, 1, file(pdf(1, padding=len(status))))
        with_job(report, status)
        Report.objects.filter(pk=report.pk).update(user=None)
        shown = page(client, report)
        assert "Accept for" not in shown
        assert "Upload another file" not in shown
        accept(client, report)
    assert not Report.objects.filter(accepted_at__isnull=False).exists()
    assert client.get("/reports/?show=all").status_code == 200


def test_a_record_full_of_markup_is_only_text(client: Client, doctor: User) -> None:
    evil = "<script>alert(1)</script>"
    report = kept(doctor, 1, file(png(), "<b>x.png"))
    with_job(
        report,
        results=[{**GLUCOSE, "test_name": evil, "value": evil, "units": evil}],
        metadata={**ADA, "patient_first_name": evil, "lab_name": evil},
    )
    Report.objects.update(refusal=evil)
    shown = page(client, report)
    assert evil not in shown
    assert "<b>x" not in shown
    assert "&lt;script&gt;" in shown


# Rows


def test_ticking_a_row_and_taking_the_tick_away(client: Client, report: Report) -> None:
    first = row_form(report)
    tick = {"reading": first["reading"], "latest": "0", "checked": "yes"}
    answer = client.post(row_address(report), tick, headers=HX)
    assert answer.status_code == 200
    assert 'aria-pressed="true"' in answer.content.decode()
    assert "<html" not in answer.content.decode()
    assert "1</span> of 2 checked" in page(client, report)
    check = RowCheck.objects.get()
    assert (check.by.username, check.checked, check.corrections) == ("clinician", True, {})
    untick = {"reading": first["reading"], "latest": str(check.pk), "checked": "no"}
    client.post(row_address(report), untick, headers=HX)
    assert "0</span> of 2 checked" in page(client, report)
    assert RowCheck.objects.count() == 2, "what was said before is kept"


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
    shown = page(client, report)
    for words in ("54.0", "mg/dL", "Corrected.", "5.40", "mmol/L", "up to 5.6", "2339-0"):
        assert words in shown
    assert ReportJob.objects.get().results.get(position=0).value == "5.40", "never overwritten"


def test_a_correction_that_makes_no_sense_keeps_what_was_typed(
    client: Client, report: Report
) -> None:
    sent = row_form(report, value="77", min_reference_range="9", max_reference_range="3")
    for headers in ({}, HX):
        answer = client.post(row_address(report), {**sent, "loinc_code": "x"}, headers=headers)
        shown = answer.content.decode()
        assert "The upper limit is below the lower one" in shown
        assert "A LOINC code looks like 2345-7" in shown
        assert 'value="77"' in shown
    for name, broken in (("min_reference_range", "many"), ("value", ""), ("test_name", "")):
        client.post(row_address(report), {**row_form(report), name: broken}, headers=HX)
    assert RowCheck.objects.count() == 0


@pytest.mark.parametrize(
    "odd",
    [
        {"value": ""},
        {"test_name": ""},
        {"value": "x" * 2500},
        {"units": "u" * 80},
        {"min_reference_range": 9.0, "max_reference_range": 3.0},
        {"loinc_matches": [{"loinc_code": "LP-1", "loinc_name": "x", "confidence_score": 1}]},
    ],
)
def test_a_row_read_oddly_can_be_ticked_as_printed(
    client: Client, doctor: User, odd: dict[str, Any]
) -> None:
    report = kept(doctor)
    with_job(report, results=[{**GLUCOSE, **odd}])
    line = review.reviewed_row(report, 0)
    assert line is not None
    tick = {"reading": line.reading, "latest": "0", "checked": "yes"}
    assert (
        'aria-pressed="true"' in client.post(row_address(report), tick, headers=HX).content.decode()
    )
    assert RowCheck.objects.get().checked
    for broken in ({"reading": "x"}, {"latest": "-1"}, {"latest": ""}):
        assert client.post(row_address(report), {**tick, **broken}, headers=HX).status_code == 400
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
def test_a_limit_is_shown_as_it_was_sent(
    client: Client, doctor: User, number: float, shown: str
) -> None:
    report = kept(doctor)
    limits = {"min_reference_range": None, "max_reference_range": number}
    with_job(report, results=[{**GLUCOSE, **limits}])
    assert f">up to {shown}</span>" in page(client, report)
    edited = client.get(row_address(report) + "?edit", headers=HX).content.decode()
    assert f'value="{shown}"' in edited
    client.post(row_address(report), row_form(report, max_reference_range=shown, value="7"))
    assert RowCheck.objects.get().corrections == {"value": "7"}


def test_row_changed_by_a_colleague_is_a_conflict(client: Client, report: Report) -> None:
    first = row_form(report)
    client.post(row_address(report), {**first, "value": "1"}, headers=HX)
    answer = client.post(row_address(report), {**first, "value": "2"}, headers=HX)
    assert "This row was changed meanwhile" in answer.content.decode()
    assert RowCheck.objects.get().corrections == {"value": "1"}


def test_check_ends_when_the_row_is_parsed_again(client: Client, report: Report) -> None:
    client.post(row_address(report), row_form(report, value="9"), headers=HX)
    again = record(report.job_id or uuid.uuid4(), is_reviewed=True, results=[
        {**GLUCOSE, "value": "5.5"}, FRAGILITY,
    ])  # fmt: skip
    sync.store_jobs([(told(again), None)])
    shown = page(client, report)
    assert "The service read this row again" in shown
    assert "0</span> of 2 checked" in shown
    assert "5.5" in shown


def test_the_form_of_a_row_with_and_without_a_script(client: Client, report: Report) -> None:
    fragment = client.get(row_address(report) + "?edit", headers=HX).content.decode()
    assert "Save as checked" in fragment
    assert "<html" not in fragment
    whole = client.get(row_address(report) + "?edit").content.decode()
    assert whole.count("Save as checked") == 1
    assert "<html" in whole
    assert client.get(row_address(report, 7)).status_code == 404


# Acceptance


def accept(client: Client, report: Report, **more: str) -> Any:
    sent = {"seen": acceptance.page_digest(Report.objects.get(pk=report.pk)), **more}
    return client.post(reverse("reports:accept", args=[report.pk]), sent)


def test_accepting(client: Client, report: Report, doctor: User) -> None:
    assert "Accepted." in said(accept(client, report))
    report.refresh_from_db()
    assert (report.accepted_by, report.accepted_at is not None) == (doctor, True)
    assert "Accept for" not in page(client, report)
    first = report.accepted_at
    accept(client, report)
    report.refresh_from_db()
    assert report.accepted_at == first


def test_unseen_changes_are_not_accepted(client: Client, report: Report) -> None:
    answer = client.post(reverse("reports:accept", args=[report.pk]), {"seen": "00"})
    assert "Nothing was changed" in said(answer)
    assert Report.objects.get().accepted_at is None


def test_parsing_again_requires_new_acceptance(client: Client, report: Report) -> None:
    accept(client, report)
    raw = record(report.job_id or uuid.uuid4(), is_reviewed=True, results=[FRAGILITY])
    sync.store_jobs([(told(raw), None)])
    shown = page(client, report)
    assert "Changed since accepted" in shown
    assert "Accept for" in shown
    before = Report.objects.get().accepted_at
    accept(client, report)
    after = Report.objects.get().accepted_at
    assert before is not None
    assert after is not None
    assert after > before
    assert "Changed since accepted" not in page(client, report)


def waiting(client: Client) -> list[uuid.UUID]:
    return [row["report"].pk for row in client.get("/reports/").context["rows"]]


def test_changed_report_is_in_the_first_tab_again(client: Client, report: Report) -> None:
    accept(client, report)
    assert waiting(client) == []
    again = record(report.job_id or uuid.uuid4(), is_reviewed=True, results=[FRAGILITY])
    sync.store_jobs([(told(again), None)])
    assert waiting(client) == [report.pk]
    accepted = client.get("/reports/", {"show": "accepted"})
    assert accepted.context["rows"] == []
    assert "changed since" in client.get("/reports/").content.decode()
    accept(client, report)
    assert waiting(client) == []
    sync.store_jobs([(told(again), None)])
    assert waiting(client) == [], "the same again is no change"


@pytest.mark.parametrize("change", ["correction", "tick"])
def test_check_after_acceptance_is_not_covered(client: Client, report: Report, change: str) -> None:
    client.post(row_address(report), row_form(report, value="5.5"), headers=HX)
    old = acceptance.page_digest(report)
    accept(client, report)
    assert "Changed since accepted" not in page(client, report)
    sent = row_form(report, value="54.0")
    if change == "tick":
        sent = {"reading": sent["reading"], "latest": sent["latest"], "checked": "no"}
    answer = client.post(row_address(report), {**sent, "seen": old}, headers=HX).content.decode()
    assert "Changed since accepted" in answer, "at once, beside the row"
    assert "Changed since accepted" in page(client, report)
    assert waiting(client) == [report.pk]
    accept(client, report, seen=old)
    assert waiting(client) == [report.pk], "what was seen before the word does not cover it"
    accept(client, report)
    assert waiting(client) == []


def test_page_digest_covers_own_checks_only(client: Client, report: Report) -> None:
    opened = client.get(reverse("reports:detail", args=[report.pk])).context["seen"]
    mine = client.post(row_address(report), {**row_form(report), "seen": opened}, headers=HX)
    assert mine.context["seen"] == acceptance.page_digest(report)
    client.post(row_address(report, 1), row_form(report, 1, value="13"), headers=HX)
    stale = {**row_form(report, value="6"), "seen": mine.context["seen"]}
    late = client.post(row_address(report), stale, headers=HX)
    assert late.context["seen"] == mine.context["seen"]
    accept(client, report, seen=late.context["seen"])
    assert Report.objects.get().accepted_at is None


def test_report_in_review_cannot_be_accepted(client: Client, doctor: User) -> None:
    report = kept(doctor)
    with_job(report, needs_human_review=True)
    assert report.state == "pending_review"
    shown = page(client, report)
    assert "once the service’s own check is done" in shown
    assert "Accept for" not in shown
    assert "Nothing was changed" in said(accept(client, report))
    assert Report.objects.get().accepted_at is None


def test_report_of_another_person_needs_confirmation(client: Client, doctor: User) -> None:
    report = kept(doctor)
    with_job(report, metadata={**ADA, "patient_first_name": "Bea", "dob": "1 Jan 1990"})
    shown = page(client, report)
    assert shown.count("Differs") == 2
    assert "The report names somebody else" in shown
    assert "names somebody else" in said(accept(client, report))
    assert Report.objects.get().accepted_at is None
    accept(client, report, same_person="yes")
    assert Report.objects.get().accepted_at is not None


@pytest.mark.parametrize("status", ["started", "failed"])
def test_unparsed_report_cannot_be_accepted(client: Client, doctor: User, status: str) -> None:
    report = kept(doctor)
    with_job(report, status)
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
def test_birth_dates_in_whatever_format(printed: str, same: bool | None) -> None:
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
def test_names_are_compared_by_their_letters(printed: str | None, same: bool | None) -> None:
    person(1)
    known = Demographics.objects.get()
    last = known.last_name if printed else None
    facts = compare_with_patient(
        ReportJob(patient_first_name=printed, patient_last_name=last), known
    )
    assert facts[0].same is same
    assert has_contradiction(facts) is (same is False)


def test_middle_initial_and_no_apostrophe_is_the_same_person(client: Client, doctor: User) -> None:
    """tests/cases/B17.json: the job as received beside our patient."""
    case = json.loads((CASES / "B17.json").read_text())
    report = kept(doctor)
    Demographics.objects.filter(pk=report.user_id).update(**case["our patient"])
    with_job(report, metadata=case["data"]["metadata"])
    shown = page(client, report)
    assert "Nothing contradicts" in shown and "Differs" not in shown
    accept(client, report)
    assert Report.objects.get().accepted_at is not None


def test_unknown_person_is_no_contradiction() -> None:
    assert not has_contradiction(compare_with_patient(ReportJob(**ADA), None))


@pytest.mark.parametrize(
    ("score", "words"),
    [
        (1, "very likely"),
        (0.9, "very likely"),
        (0.75, "likely"),
        (0.5, "possible"),
        (0.01, "doubtful"),
        (-3, "doubtful"),
        (None, "not told"),
        ("0.9", "not told"),
        (True, "not told"),
    ],
)
def test_confidence_is_shown_as_text(score: Any, words: str) -> None:
    assert confidence(score) == words


# Files


@pytest.mark.parametrize(
    ("content", "name", "kind"),
    [
        (pdf(), "Ada1 Testperson.pdf", "application/pdf"),
        (png(), "a.png", "image/png"),
        (jpeg(), "a.jpg", "image/jpeg"),
    ],
    ids=["pdf", "png", "jpeg"],
)
def test_document_is_served_in_a_sandbox(
    client: Client, doctor: User, content: bytes, name: str, kind: str
) -> None:
    report = kept(doctor, 1, file(content, name))
    forget()
    address = reverse("reports:file", args=[report.pk, 0])
    answer = client.get(address)
    assert body(answer) == content
    assert answer["Content-Type"] == kind
    assert answer["Content-Security-Policy"] == (
        "sandbox; default-src 'none'; frame-ancestors 'self'"
    )
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["X-Frame-Options"] == "SAMEORIGIN"
    assert answer["Cache-Control"] == "no-store, private"
    assert answer["Content-Disposition"].startswith('inline; filename="report-1.')
    assert "Ada" not in str(answer.headers)
    saved = client.get(address, {"save": ""})
    assert body(saved) == content
    assert saved["Content-Disposition"].startswith('attachment; filename="report-1.')
    assert [(entry.action, entry.object_type) for entry in AuditEntry.objects.order_by("id")] == [
        ("view", "report file"),
        ("export", "report file"),
    ]


@pytest.mark.parametrize(
    ("given", "saved"),
    [
        ("../../etc/passwd.png", "passwd.png"),
        ("a\r\nSet-Cookie: x=1.png", "aSet-Cookie_%20x%3D1.png"),
        ("résumé.exe.png", "r%C3%A9sum%C3%A9.exe.png"),
        ("....png", "report.png"),
        ("CON.png", "CON.png"),
    ],
)
def test_given_file_name_cannot_inject_headers(
    client: Client, doctor: User, given: str, saved: str
) -> None:
    report = kept(doctor, 1, file(png(), "a.png"))
    one = report.files.get()
    one.given_name = display_file_name(given.rpartition("/")[2])
    one.save()
    answer = client.get(reverse("reports:file", args=[report.pk, 0]), {"save": ""})
    assert body(answer) == png()
    assert answer["Content-Disposition"] == (
        f"attachment; filename=\"report-1.png\"; filename*=UTF-8''{saved}"
    )
    assert "Set-Cookie" not in answer.headers


def test_a_file_that_is_not_there(client: Client, report: Report) -> None:
    assert client.get(reverse("reports:file", args=[report.pk, 1])).status_code == 404
    assert client.get(reverse("reports:file", args=[uuid.uuid4(), 0])).status_code == 404


# Who may


GETS = ("detail", "progress")


@pytest.mark.parametrize("role", ["viewer", "auditor"])
def test_users_without_permission_see_nothing(client: Client, report: Report, role: str) -> None:
    client.force_login(staff(role))
    for name in (*GETS, "file", "row", "again", "accept", "give-up", "arrived"):
        more = [0] if name in ("file", "row") else []
        method = client.get if name in (*GETS, "file", "row") else client.post
        answer = method(reverse(f"reports:{name}", args=[report.pk, *more]))
        assert answer.status_code == 403, name
    assert client.get("/reports/").status_code == 403
    assert RowCheck.objects.count() == 0
    assert Report.objects.get().accepted_at is None


def test_the_front_desk_uploads_and_follows_but_sees_no_values(
    client: Client, report: Report
) -> None:
    client.force_login(staff("front desk"))
    shown = re.sub(r'datetime="[^"]*"', "", page(client, report))
    assert "Your role does not show values" in shown
    for hidden in ("Glucose", "5.40", "<iframe", "Accept for"):
        assert hidden not in shown
    assert client.get(reverse("reports:file", args=[report.pk, 0])).status_code == 403
    assert client.post(row_address(report), row_form(report)).status_code == 403
    assert accept(client, report).status_code == 403


@pytest.mark.parametrize("name", ["detail", "progress", "again", "accept", "give-up", "arrived"])
def test_a_report_that_does_not_exist(client: Client, doctor: User, name: str) -> None:
    address = reverse(f"reports:{name}", args=[uuid.uuid4()])
    method = client.get if name in GETS else client.post
    assert method(address, {"attempt": "1", "job": str(uuid.uuid4())}).status_code == 404


# Lists


def test_first_tab_has_reports_waiting_for_staff(
    client: Client, report: Report, doctor: User
) -> None:
    Report.objects.filter(pk=report.pk).update(uploaded_at="2026-01-01T00:00Z")
    waiting = kept(doctor, 1, file(pdf(2)))
    answer = client.get("/reports/")
    assert [row["report"].pk for row in answer.context["rows"]] == [report.pk]
    for tab, expected in (
        ("under-way", [waiting.pk]),
        ("accepted", []),
        ("all", [waiting.pk, report.pk]),
        ("nonsense", [report.pk]),
    ):
        answer = client.get("/reports/", {"show": tab})
        assert [row["report"].pk for row in answer.context["rows"]] == expected, tab
    accept(client, report)
    assert "Nothing here" in client.get("/reports/").content.decode()
    answer = client.get("/reports/", {"user_id": str(uid("patient", 2))})
    assert "No reports yet" in answer.content.decode()
    assert client.get("/reports/", {"user_id": "x"}).status_code == 400


def test_on_the_patients_page(client: Client, report: Report) -> None:
    patient_page = client.get(f"/patients/{uid('patient', 1)}/").content.decode()
    assert reverse("reports:upload", args=[uid("patient", 1)]) in patient_page
    part = reverse("reports:of-patient", args=[uid("patient", 1)])
    assert part in patient_page
    forget()
    assert f"/reports/{report.pk}/" in client.get(part).content.decode()
    assert AuditEntry.objects.get().patient_ids == [uid("patient", 1)]
    assert client.get(reverse("reports:of-patient", args=[uuid.uuid4()])).status_code == 404


@pytest.mark.parametrize("rows", [1, 30])
def test_queries_do_not_grow(
    client: Client, doctor: User, rows: int, django_assert_num_queries: Any
) -> None:
    report = kept(doctor)
    with_job(report, results=[{**GLUCOSE, "test_name": f"Test {n}"} for n in range(rows)])
    for n in range(rows):
        with_job(kept(doctor, 1, file(pdf(1, padding=n + 1))))
    client.get("/reports/")
    # Session, user with roles; the page’s own; what the frame shows; audit in its transaction.
    for address, queries in (
        ("/reports/?show=all", 2 + 4 + 1 + 3),
        (f"/reports/{report.pk}/", 2 + 6 + 1 + 3),
        (f"/reports/of/{uid('patient', 1)}/", 2 + 2 + 3),
    ):
        with django_assert_num_queries(queries):
            client.get(address)


# The JSON API


def test_the_api_has_jobs_with_their_values(client: Client, report: Report) -> None:
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
