"""How the files of reports are served."""

from __future__ import annotations

import uuid

import pytest
from django.test import Client
from django.urls import reverse

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from labs.models import Report
from labs.reports.intake import display_file_name
from tests.audit.trail import delete_all_entries
from tests.labs.documents import jpeg, pdf, png
from tests.labs.report_pages import response_body
from tests.labs.reporting import (
    file,
    stored_report,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("report_folder")]


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
    report = stored_report(doctor, 1, file(content, name))
    delete_all_entries()
    address = reverse("reports:file", args=[report.pk, 0])
    answer = client.get(address)
    assert response_body(answer) == content
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
    assert response_body(saved) == content
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
    report = stored_report(doctor, 1, file(png(), "a.png"))
    one = report.files.get()
    one.given_name = display_file_name(given.rpartition("/")[2])
    one.save()
    answer = client.get(reverse("reports:file", args=[report.pk, 0]), {"save": ""})
    assert response_body(answer) == png()
    assert answer["Content-Disposition"] == (
        f"attachment; filename=\"report-1.png\"; filename*=UTF-8''{saved}"
    )
    assert "Set-Cookie" not in answer.headers


def test_missing_file_is_404(client: Client, report: Report) -> None:
    assert client.get(reverse("reports:file", args=[report.pk, 1])).status_code == 404
    assert client.get(reverse("reports:file", args=[uuid.uuid4(), 0])).status_code == 404
