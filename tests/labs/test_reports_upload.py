"""The upload form: what it accepts and refuses, and that refused files are not stored."""

from __future__ import annotations

import random
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connections
from django.test import Client
from django.test.client import encode_multipart
from django.urls import reverse
from pytest_django import Settings

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from labs.models import Report, ReportFile
from labs.reports import intake, storage
from patients.models import Patient
from tests.api.rows import staff, uid
from tests.labs import odd_files
from tests.labs.documents import HTML, jpeg, pdf, png
from tests.labs.reporting import file, person, stored_report

LIMIT = 10 * 1024 * 1024
JSON = {"Accept": "application/json"}

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("report_folder")]


def address(n: int = 1) -> str:
    return reverse("reports:upload", args=[uid("patient", n)])


def form(*files: SimpleUploadedFile, **fields: str) -> dict[str, Any]:
    return {"form_id": str(uuid.uuid4()), "review": "no", "files": list(files), **fields}


def files_in(report_folder: Path) -> list[Path]:
    return [path for path in report_folder.rglob("*") if path.is_file()]


def test_upload_stores_report_with_its_file(
    client: Client, front_desk_user: User, report_folder: Path
) -> None:
    page = client.get(address()).content.decode()
    assert "Ada1 Testperson" in page
    assert "up to 10 MB" in page
    assert "Human review: a person at the lab service compares" in page
    answer = client.post(address(), form(file(pdf(3), "My scan.pdf"), review="yes"))
    report = Report.objects.get()
    assert answer["Location"] == reverse("reports:detail", args=[report.pk])
    assert (report.state, report.user_id, report.uploaded_by, report.needs_human_review) == (
        "stored",
        uid("patient", 1),
        front_desk_user,
        True,
    )
    stored = report.files.get()
    assert (stored.given_name, stored.kind, stored.pages) == ("My scan.pdf", "application/pdf", 3)
    (path,) = files_in(report_folder)
    assert storage.open_file(path.name).read() == pdf(3) and b"%PDF" not in path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    assert "scan" not in str(path)
    changes = AuditEntry.objects.filter(action="change")
    assert [(entry.object_ids, entry.patient_ids) for entry in changes] == [
        ([str(report.pk)], [uid("patient", 1)])
    ]


def test_motion_photo_is_stored_without_video(client: Client, front_desk_user: User) -> None:
    """Case B15. Sent twice it is still the same upload, although less is stored than was sent."""
    sent = form(file(odd_files.motion_photo(), "report.jpg"))
    first = client.post(address(), sent)
    sent["files"] = [file(odd_files.motion_photo(), "report.jpg")]
    assert client.post(address(), sent)["Location"] == first["Location"]
    stored = Report.objects.get().files.get()
    content = storage.open_file(stored.stored_as).read()
    assert content.endswith(b"\xff\xd9") and b"MotionPhoto_Data" not in content
    assert stored.size == len(content) < len(odd_files.motion_photo())


def test_script_gets_the_target_url(client: Client, front_desk_user: User) -> None:
    answer = client.post(address(), form(file()), headers=JSON)
    assert answer.json() == {"to": reverse("reports:detail", args=[Report.objects.get().pk])}


def test_pictures_keep_their_order(client: Client, front_desk_user: User) -> None:
    sent = [file(png(shade=n), f"{9 - n}.png") for n in range(7)]
    client.post(address(), form(*sent, file(jpeg(), "last.jpg")))
    stored = Report.objects.get().files.order_by("position")
    assert [one.given_name for one in stored] == [f"{9 - n}.png" for n in range(7)] + ["last.jpg"]


@pytest.mark.parametrize(
    ("files", "status", "expected_text"),
    [
        ([], 400, "Choose a file"),
        ([(pdf(), "a.pdf"), (png(), "b.png")], 400, "Upload a PDF on its own"),
        ([(png(), "a.png"), (png(), "b.png")], 400, "twice"),
        ([(png(shade=n), f"{n}.png") for n in range(9)], 400, "can have up to 8 pictures"),
        ([(png(), "a.png"), (HTML, "b.png")], 400, "“b.png” is a web page, whatever its name says"),
        ([(HTML, "<img src=x onerror=1>.pdf")], 400, "“&lt;img src=x"),
    ],
)
def test_rejected_upload_stores_nothing_and_shows_reason(
    client: Client,
    front_desk_user: User,
    report_folder: Path,
    files: list[tuple[bytes, str]],
    status: int,
    expected_text: str,
) -> None:
    sent = form(*(file(*one) for one in files), review="yes")
    for headers in ({}, JSON):
        answer = client.post(address(), sent, headers=headers)
        for one in sent["files"]:
            one.seek(0)
        assert answer.status_code == status
        assert expected_text in answer.content.decode()
    page = client.post(address(), sent).content.decode()
    if len(files) <= 8:
        assert 'value="yes" checked' in page
        assert sent["form_id"] in page
    assert Report.objects.count() == ReportFile.objects.count() == 0
    assert files_in(report_folder) == []


def test_size_limit_is_exact(client: Client, front_desk_user: User, report_folder: Path) -> None:
    base = len(pdf(padding=LIMIT - 1000)) - (LIMIT - 1000)
    exact = pdf(padding=LIMIT - base)
    assert len(exact) == LIMIT
    larger = pdf(padding=LIMIT - base + 1)
    assert len(larger) == LIMIT + 1
    for headers in ({}, JSON):
        answer = client.post(address(), form(file(larger), review="yes"), headers=headers)
        assert answer.status_code == 413
        assert "larger than 10 MB, the limit for one report" in answer.content.decode()
    assert files_in(report_folder) == []
    assert client.post(address(), form(file(exact))).status_code == 302
    assert ReportFile.objects.get().size == LIMIT


def test_size_limit_applies_to_all_pictures_together(
    client: Client, front_desk_user: User, settings: Settings
) -> None:
    settings.REPORT_MAX_BYTES = 1000
    half = png(pixels=bytes(1230))
    assert 60 < len(half) < 500
    fits = form(*(file(png(shade=n), f"{n}.png") for n in range(8)))
    assert client.post(address(), fits).status_code == 302
    settings.REPORT_MAX_BYTES = 8 * len(half) - 1
    answer = client.post(address(), form(*(file(png(shade=50 + n), f"{n}.png") for n in range(8))))
    assert answer.status_code == 413
    assert "bytes, the limit for one report" in answer.content.decode()


def test_huge_body_is_refused_unread(client: Client, front_desk_user: User) -> None:
    class Endless:
        def read(self, size: int = -1) -> bytes:
            raise AssertionError("the body must not be read")

        readline = read

    unread: dict[str, Any] = {"wsgi.input": Endless()}
    answer = client.generic(
        "POST",
        address(),
        b"",
        content_type="multipart/form-data; boundary=x",
        CONTENT_LENGTH=str(5 * LIMIT),
        **unread,
    )
    assert answer.status_code == 413


def test_form_without_csrf_token_is_refused() -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(staff("front desk"))
    person(1)
    assert client.post(address(), form(file())).status_code == 403
    assert Report.objects.count() == 0


def test_csrf_token_precedes_too_large_file() -> None:
    """Data after the limit is not read, so the token must come before the file."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(staff("front desk"))
    person(1)
    page = client.get(address())
    token = page.context["csrf_token"]
    names = ("csrfmiddlewaretoken", "form_id", "review", "files")
    shown = page.content.decode().partition("data-report-upload")[2]
    places = [shown.index(f'name="{name}"') for name in names]
    assert places == sorted(places)
    large = SimpleUploadedFile("a.pdf", b"%PDF-" + bytes(2 * LIMIT), "application/pdf")
    answer = client.post(address(), {"csrfmiddlewaretoken": str(token), **form(large)})
    assert answer.status_code == 413


def test_form_sent_twice_makes_one_report(
    client: Client, front_desk_user: User, report_folder: Path
) -> None:
    sent = form(file())
    first = client.post(address(), sent)
    sent["files"][0].seek(0)
    second = client.post(address(), sent)
    assert first["Location"] == second["Location"]
    assert Report.objects.count() == len(files_in(report_folder)) == 1


@pytest.mark.parametrize("other", ["file", "patient", "order", "colleague"])
def test_reused_form_with_other_files_is_rejected(
    client: Client, front_desk_user: User, report_folder: Path, other: str
) -> None:
    person(2)
    pictures = [file(png(shade=n), f"{n}.png") for n in range(2)]
    first = form(*pictures)
    assert client.post(address(), first).status_code == 302
    (report,) = Report.objects.all()

    def second() -> dict[str, Any]:
        files = [file(png(shade=n), f"{n}.png") for n in range(2)]
        if other == "order":
            files.reverse()
        if other == "file":
            files[1] = file(png(shade=9), "9.png")
        return {**first, "files": files, "review": "yes", "again": "on"}

    if other == "colleague":
        client.force_login(staff("clinician"))
    url = address(2 if other == "patient" else 1)
    answer = client.post(url, second())
    assert answer.status_code == 409
    page = answer.content.decode()
    assert "this form was already used" in page
    assert 'value="yes" checked' in page, "the choices are kept"
    new_form_id = str(answer.context["form"]["form_id"].value())
    assert new_form_id != first["form_id"]
    assert f'name="form_id" value="{new_form_id}"' in page
    assert first["form_id"] not in page
    json_answer = client.post(url, second(), headers=JSON)
    assert json_answer.status_code == 409
    assert (
        f'data-form-id="{json_answer.context["refused"].form_id}"' in json_answer.content.decode()
    )
    assert list(Report.objects.all()) == [report]
    assert len(files_in(report_folder)) == 2
    assert client.post(url, {**second(), "form_id": new_form_id}).status_code == 302
    assert Report.objects.count() == 2


def test_rejection_that_shows_the_patient_is_recorded(
    client: Client, front_desk_user: User
) -> None:
    def count_patient_views() -> int:
        return AuditEntry.objects.filter(
            action="view", object_type="patient", patient_ids=[uid("patient", 1)]
        ).count()

    refused = client.post(address(), form(file(HTML, "a.pdf")))
    assert "Ada1" in refused.content.decode()
    assert count_patient_views() == 1
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(front_desk_user)
    kind, size = "multipart/form-data; boundary=x", str(5 * LIMIT)
    unread = strict.generic("POST", address(), b"", content_type=kind, CONTENT_LENGTH=size)
    assert unread.status_code == 413
    assert "Ada1" in unread.content.decode()
    assert count_patient_views() == 2
    client.post(address(), form(file(HTML, "a.pdf")), headers=JSON)
    assert count_patient_views() == 2, "the reasons alone name no patient"


@pytest.mark.django_db(transaction=True)
def test_concurrent_submissions_make_one_report(report_folder: Path) -> None:
    uploader = staff("front desk")
    patient = person(1)
    form_id = uuid.uuid4()
    gate = threading.Barrier(4)
    report_ids: list[uuid.UUID] = []

    def send() -> None:
        gate.wait()
        try:
            upload = intake.UploadRequest(
                patient, uploader, form_id, [file()], needs_human_review=False
            )
            report_ids.append(intake.create_report(upload, uuid.uuid4()).pk)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert report_ids == [Report.objects.get().pk] * 4
    assert len(files_in(report_folder)) == 1


def test_same_file_again_needs_confirmation(
    client: Client, front_desk_user: User, report_folder: Path
) -> None:
    stored_report(front_desk_user)
    answer = client.post(address(), form(file()))
    assert answer.status_code == 409
    page = answer.content.decode()
    assert "already uploaded for this patient" in page
    assert 'name="again"' in page
    assert len(files_in(report_folder)) == 1
    assert client.post(address(), form(file(), again="on")).status_code == 302
    person(2)
    assert client.post(address(2), form(file())).status_code == 302, (
        "a file of another patient is another file"
    )
    assert Report.objects.count() == 3


def test_daily_upload_limit(client: Client, front_desk_user: User, settings: Settings) -> None:
    stored_report(front_desk_user)
    settings.REPORT_MAX_BYTES = 10
    answer = client.post(address(), form(file(b"%PDF-", "a.pdf")))
    assert "daily upload limit" in answer.content.decode()


def test_disk_error_is_reported(
    client: Client, front_desk_user: User, settings: Settings, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way of a folder")
    settings.REPORT_FOLDER = blocked
    answer = client.post(address(), form(file()))
    assert answer.status_code == 507
    assert "could not be saved" in answer.content.decode()
    assert Report.objects.count() == 0


@pytest.mark.parametrize("seed", range(60))
def test_malformed_body_gets_an_answer(client: Client, front_desk_user: User, seed: int) -> None:
    """Parts are cut, doubled and mixed up: people get an answer and no server error."""
    chance = random.Random(seed)
    body = bytearray(encode_multipart("edge", form(file(), file(png(), "b.png"))))
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(body))
        match chance.randrange(4):
            case 0:
                body[at] = chance.randrange(256)
            case 1:
                del body[at : at + chance.randint(1, 60)]
            case 2:
                body[at:at] = body[at : at + chance.randint(1, 200)]
            case _:
                body[at:at] = chance.choice([b"\r\n--edge\r\n", b"--edge--", b"\x00", b"\xff\xfe"])
    kind = chance.choice(
        ["multipart/form-data; boundary=edge", "multipart/form-data", "text/plain", ""]
    )
    size = chance.choice([str(len(body)), str(len(body)), "", "x", "-5", "7"])
    answer = client.generic("POST", address(), bytes(body), content_type=kind, CONTENT_LENGTH=size)
    assert answer.status_code in (302, 400, 409)
    assert Report.objects.count() == (answer.status_code == 302)


@pytest.mark.parametrize("field", ["form_id", "review"])
def test_unknown_form_is_rejected(client: Client, front_desk_user: User, field: str) -> None:
    for value in ("", "x"):
        answer = client.post(address(), form(file(), **{field: value}))
        assert answer.status_code == 400
    assert Report.objects.count() == 0


@pytest.mark.parametrize("role", ["viewer", "auditor", "service account"])
def test_upload_needs_a_permission(client: Client, role: str) -> None:
    person(1)
    client.force_login(staff(role))
    assert client.get(address()).status_code == 403
    assert client.post(address(), form(file())).status_code == 403
    assert Report.objects.count() == 0


def test_upload_for_unknown_patient_is_404(client: Client, front_desk_user: User) -> None:
    assert client.get(address(9)).status_code == 404
    assert client.post(address(9), form(file())).status_code == 404
    assert Report.objects.count() == 0


def test_patient_is_chosen_before_upload(client: Client, front_desk_user: User) -> None:
    page = client.get(reverse("reports:choose"), {"q": "ada1"}).content.decode()
    assert address() in page
    assert AuditEntry.objects.get().action == "search"
    assert (
        "No matching patients"
        in client.get(reverse("reports:choose"), {"q": "zz"}).content.decode()
    )
    assert client.get(reverse("reports:choose"), {"q": "a\x00"}).status_code == 400
    assert Patient.objects.count() == 1
