"""The upload flow in a real browser, with the sandbox as the service."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from backoffice.sync.lookups import run_due_lookups
from backoffice.sync.models import Lookup
from labs.models import Report
from labs.reports import delivery
from labs.reports.sync import JOB_LOOKUP
from patients.models import Patient
from tests.api.rows import demographics, patient, staff
from tests.browser import Browser, browser, missing_programs
from tests.labs.documents import HTML, pdf, png
from tests.sandboxes import Sandbox
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("report_folder"),
    pytest.mark.skipif(
        bool(missing_programs()) and "CI" not in os.environ, reason=missing_programs()
    ),
]
PASSWORD = "made-up-people-only"


@pytest.fixture
def known_patient(service_sandbox: Sandbox) -> Patient:
    """A patient that the service knows."""
    with service_sandbox.service() as client:
        page = client.users.list(limit=1)
    created = patient(1, id=page.records[0].data.user_id)
    created.save()
    demographics(1, user_id=created.pk).save()
    return created


def sign_in(page: Browser, url: str, role: str = "clinician") -> None:
    user = staff(role)
    user.set_password(PASSWORD)
    user.save()
    page.open(f"{url}/accounts/login/")
    page.type("input[name=username]", user.username)
    page.type("input[name=password]", PASSWORD)
    page.click("main button[type=submit], button[type=submit]")
    page.find(".nav")


def run_scheduled_work() -> None:
    """Run the work that Celery beat schedules."""
    delivery.send_due()
    Lookup.objects.filter(kind="report-jobs").update(due_at=timezone.now())
    run_due_lookups([JOB_LOOKUP], seconds=10)


def test_report_goes_from_patient_page_to_acceptance(
    live_server: Any, service_sandbox: Sandbox, known_patient: Patient, tmp_path: Path
) -> None:
    first, second, page_file = tmp_path / "p2.png", tmp_path / "p1.png", tmp_path / "evil.pdf"
    first.write_bytes(png(shade=10))
    second.write_bytes(png(shade=20))
    page_file.write_bytes(HTML)
    with browser() as page:
        sign_in(page, live_server.url)
        page.open(f"{live_server.url}/patients/{known_patient.pk}/")
        page.wait_for_text("No reports yet.")
        page.click_text("Upload a report")
        page.wait_for_text("Upload for Ada1 Testperson")

        page.type("#files", str(page_file))
        page.wait_for_text("The file is not a PDF, JPEG or PNG.")
        page.click("[data-do=remove]")
        page.click_text("Upload for Ada1 Testperson")
        page.wait_for_text("Choose the report")
        assert Report.objects.count() == 0

        page.type("#files", f"{first}\n{second}")
        page.wait_for_text("p1.png")
        page.click("li:nth-child(2) [data-do=up]")
        page.click_text("Upload for Ada1 Testperson")
        page.wait_for_text("Waiting to be sent")
        report = Report.objects.get()
        assert page.url.endswith(f"/reports/{report.pk}/")
        names = report.files.order_by("position").values_list("given_name", flat=True)
        assert list(names) == ["p1.png", "p2.png"], "files keep the order of the list"

        run_scheduled_work()
        page.wait_for_text("The lab service is reading the report")
        service_sandbox.control("reports", {"steps": 2})
        run_scheduled_work()
        page.wait_for_text("Values read from the report")
        image_widths = (
            "return [...document.querySelectorAll('.pages img')].map(i => i.naturalWidth)"
        )
        wait_until(lambda: page.run(image_widths) == [40, 40], 60, "both pictures are shown")

        page.click("#row-0 [aria-pressed]")
        page.wait_for_text("Checked by")
        assert page.text("[data-checked]") == "1"
        page.click("#row-1 a.btn")
        page.type("#row-1 input[name=units]", "x")
        page.click_text("Save and mark as checked")
        page.wait_for_text("Corrected.")
        assert page.text("[data-checked]") == "2"
        assert report.checks.count() == 2

        if page.find_all("input[name=same_person]"):
            page.click("input[name=same_person]")
        page.click_text("Accept for Ada1 Testperson")
        page.find("#accept-card .st")
        page.click("#row-0 [aria-pressed]")
        page.wait_for_text("Changed since accepted")
        assert "Changed since accepted" in page.text("#accepted-mark")
        if page.find_all("input[name=same_person]"):
            page.click("input[name=same_person]")
        page.click_text("Accept for Ada1 Testperson")
        page.find("#accepted-mark [data-st=result-in]")
    report.refresh_from_db()
    assert report.accepted_by is not None
    assert not report.changed_since_accepted


def test_refused_upload_keeps_the_chosen_files(
    live_server: Any, service_sandbox: Sandbox, known_patient: Patient, tmp_path: Path
) -> None:
    path = tmp_path / "scan.pdf"
    path.write_bytes(pdf(extra=b"/OpenAction<</S/JavaScript/JS(1)>>"))
    with browser(390, 800) as page:
        sign_in(page, live_server.url)
        page.open(f"{live_server.url}/reports/upload/{known_patient.pk}/")
        page.click("input[name=review][value=yes]")
        page.type("#files", str(path))
        page.wait_for_text("scan.pdf")
        page.click_text("Upload for Ada1 Testperson")
        page.wait_for_text("contains scripts, forms that send data, or other files")
        assert "scan.pdf" in page.text(".chosen"), "the file is still chosen"
        assert page.run("return document.querySelector('[name=review]:checked').value") == "yes"
        assert page.run("return document.documentElement.scrollWidth") <= 390
    assert Report.objects.count() == 0


def test_too_large_file_is_reported_before_sending(
    live_server: Any, known_patient: Patient, tmp_path: Path
) -> None:
    limit = 10 * 1024 * 1024
    base = len(pdf(padding=limit - 1000)) - (limit - 1000)
    path = tmp_path / "large.pdf"
    path.write_bytes(pdf(padding=limit - base + 1))
    with browser() as page:
        sign_in(page, live_server.url)
        page.open(f"{live_server.url}/reports/upload/{known_patient.pk}/")
        page.type("#files", str(path))
        page.wait_for_text("The limit is 10 MB")
        page.run("window.sent = 0; XMLHttpRequest.prototype.send = () => { window.sent += 1 }")
        page.click_text("Upload for Ada1 Testperson")
        assert page.run("return window.sent") == 0


def test_pdf_is_shown_in_a_sandbox_without_scripts(
    live_server: Any, known_patient: Patient, tmp_path: Path
) -> None:
    path = tmp_path / "scan.pdf"
    path.write_bytes(pdf())
    with browser() as page:
        sign_in(page, live_server.url)
        page.open(f"{live_server.url}/reports/upload/{known_patient.pk}/")
        page.type("#files", str(path))
        page.wait_for_text("scan.pdf")
        page.click_text("Upload for Ada1 Testperson")
        page.wait_for_text("Waiting to be sent")
        assert page.find_all("iframe[title]")
        address = f"{live_server.url}/reports/{Report.objects.get().pk}/files/0/"
        shown = page.run(
            "return fetch(arguments[0]).then(r => [r.status,"
            " r.headers.get('content-security-policy'), r.headers.get('content-type')])",
            address,
        )
        assert shown == [
            200,
            "sandbox; default-src 'none'; frame-ancestors 'self'",
            "application/pdf",
        ]
