"""The way of a report to the service and back, against the real sandbox."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.db import connection, transaction
from django.utils import timezone

from backoffice import sync
from backoffice.core import request_ids
from backoffice.core.logs import JsonFormatter
from backoffice.devtools.embedded import dies_with_parent, free_port
from backoffice.models import Lookup, User
from backoffice.service.events import Heard
from labs import tasks
from labs.models import Report, ReportJob
from labs.reports import delivery, review
from labs.reports import sync as sync_reports
from labs.reports.handlers import handle_report_jobs
from labs.reports.sync import JOB_LOOKUP
from patients.models import Patient
from tests.api.rows import staff
from tests.labs.documents import jpeg, pdf, png
from tests.labs.reporting import answer, file, heard, kept, person, record, with_job
from tests.sandboxes import Sandbox

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("folder")]


@pytest.fixture
def by() -> User:
    return staff("front desk")


@pytest.fixture
def patient(reading: Sandbox) -> Patient:
    """A patient that the service knows."""
    made = person(1)
    with reading.service() as client:
        known = client.users.list(limit=1).records[0].data.user_id
    Patient.objects.create(**{**_columns(made), "id": known, "client_user_id": "known"})
    return Patient.objects.get(pk=known)


def _columns(made: Patient) -> dict[str, Any]:
    return {field.attname: getattr(made, field.attname) for field in made._meta.concrete_fields}


def uploaded(patient: Patient, by: User, *files: Any, review: bool = False) -> Report:
    report = kept(by, 1, *files, review=review)
    Report.objects.filter(pk=report.pk).update(user=patient)
    return report


def look(report: Report) -> Report:
    """Ask for every job now, as the clock would."""
    Lookup.objects.filter(kind="report-jobs").update(due_at=timezone.now() - timedelta(seconds=1))
    sync.run_due_lookups([JOB_LOOKUP], seconds=10)
    report.refresh_from_db()
    return report


def told(events: list[Heard]) -> None:
    """As the drain does it."""
    with transaction.atomic():
        handle_report_jobs(events)


def jobs_at(sandbox: Sandbox) -> int:
    return int(sandbox.query("SELECT count(*) FROM sandbox_reportjob")[0][0])


def test_from_upload_to_values(reading: Sandbox, patient: Patient, by: User) -> None:
    report = uploaded(patient, by)
    assert delivery.send_due() == 1
    report.refresh_from_db()
    assert (report.state, report.attempts) == ("upload_pending", 1)
    reading.control("reports", {"steps": 1})
    assert look(report).state == "started"
    reading.control("reports", {"steps": 1})
    assert look(report).state == "completed"
    job = ReportJob.objects.get(report=report)
    assert job.user_id == patient.pk
    assert job.results.count() > 0
    assert Lookup.objects.get(kind="report-jobs").due_at is None, "a final job is not asked for"
    assert delivery.send_due() == 0


def test_report_is_sent_with_id_of_its_web_request(
    reading: Sandbox, patient: Patient, by: User, caplog: pytest.LogCaptureFixture
) -> None:
    with request_ids.use_request_id("a" * 32):
        report = uploaded(patient, by)
    reading.control("reports", {"next_outcomes": ["low_quality"]})
    caplog.handler.setFormatter(JsonFormatter())
    with caplog.at_level(logging.INFO, "backoffice.service"):
        delivery.send_due()
        reading.control("reports", {"steps": 2})
        assert look(report).state == "failed"
        with request_ids.use_request_id("b" * 32):
            assert delivery.resend(report.pk, 1)
        delivery.send_due()
    lines = [json.loads(line) for line in caplog.text.splitlines()]
    sent = [line for line in lines if line["message"].startswith("POST ")]
    assert [line.get("request_id") for line in sent] == ["a" * 32, "b" * 32]


def test_pictures_go_as_one_report_in_their_order(
    reading: Sandbox, patient: Patient, by: User
) -> None:
    uploaded(
        patient, by, *(file(png(shade=n), f"{n}.png") for n in range(4)), file(jpeg(), "a.jpg")
    )
    before = jobs_at(reading)
    delivery.send_due()
    assert jobs_at(reading) == before + 1
    assert reading.query(
        "SELECT kind, pages FROM sandbox_reportjob ORDER BY created_at DESC LIMIT 1"
    ) == [("png", 5)]


def test_human_review_waits_for_people(reading: Sandbox, patient: Patient, by: User) -> None:
    reading.control("reports", {"review_enabled": True})
    report = uploaded(patient, by, review=True)
    delivery.send_due()
    reading.control("reports", {"steps": 2})
    assert look(report).state == "pending_review"
    reading.control("reports", {"steps": 1})
    assert look(report).state == "completed"
    assert ReportJob.objects.get(report=report).is_reviewed


def test_a_refusal_keeps_the_services_words(reading: Sandbox, patient: Patient, by: User) -> None:
    reading.control("reports", {"review_enabled": False})
    report = uploaded(patient, by, review=True)
    before = jobs_at(reading)
    delivery.send_due()
    report.refresh_from_db()
    assert (report.state, report.refusal) == (
        "refused",
        "Human review is not enabled for this team",
    )
    assert delivery.send_due() == 0
    assert jobs_at(reading) == before


def test_a_failed_job_says_why_and_can_be_tried_again(
    reading: Sandbox, patient: Patient, by: User
) -> None:
    reading.control("reports", {"next_outcomes": ["low_quality"]})
    report = uploaded(patient, by)
    delivery.send_due()
    reading.control("reports", {"steps": 2})
    assert look(report).state == "failed"
    assert report.job is not None
    assert report.job.failure_reason == "low_quality"
    first = report.job_id
    assert delivery.resend(report.pk, 1)
    assert not delivery.resend(report.pk, 1), "a second click"
    delivery.send_due()
    report.refresh_from_db()
    assert report.earlier_job_ids == [first]
    assert report.job_id not in (first, None)
    reading.control("reports", {"steps": 2})
    assert look(report).state == "completed"


def test_lost_answer_is_uncertain_and_not_resent(
    reading: Sandbox, patient: Patient, by: User
) -> None:
    report = uploaded(patient, by)
    reading.control("faults", {"drop_rate": 1.0, "paths": "parser/job$"})
    before = jobs_at(reading)
    delivery.send_due()
    reading.control("faults", method="DELETE")
    report.refresh_from_db()
    assert report.state == "uncertain"
    assert jobs_at(reading) == before + 1, "it did arrive"
    for _ in range(3):
        assert delivery.send_due() == 0
    assert jobs_at(reading) == before + 1


def test_uncertain_report_is_linked_to_received_job(
    reading: Sandbox, patient: Patient, by: User
) -> None:
    report = uploaded(patient, by)
    reading.control("faults", {"drop_rate": 1.0, "paths": "parser/job$"})
    delivery.send_due()
    reading.control("faults", method="DELETE")
    report.refresh_from_db()
    assert delivery.candidate_jobs(report) == []
    ((job_id,),) = reading.query(
        "SELECT id FROM sandbox_reportjob ORDER BY created_at DESC LIMIT 1"
    )
    told([heard(1, record(job_id, "started"), patient.pk, "created")])
    assert [job.pk for job in delivery.candidate_jobs(report)] == [job_id]
    assert Report.objects.count() == 1, "it may be the answer: it is no report of its own yet"
    assert not delivery.link_to_job(report.pk, 0, job_id), "decided on another attempt"
    assert not delivery.link_to_job(report.pk, 1, uuid.uuid4())
    assert delivery.link_to_job(report.pk, 1, job_id)
    assert not delivery.link_to_job(report.pk, 1, job_id)
    reading.control("reports", {"steps": 2})
    assert look(report).state == "completed"


def test_uncertain_report_is_resent_once(reading: Sandbox, patient: Patient, by: User) -> None:
    report = uploaded(patient, by)
    reading.control("faults", {"drop_rate": 1.0, "paths": "parser/job$"})
    delivery.send_due()
    reading.control("faults", method="DELETE")
    before = jobs_at(reading)
    assert delivery.resend(report.pk, 1)
    assert not delivery.resend(report.pk, 1)
    delivery.send_due()
    report.refresh_from_db()
    assert (report.state, report.attempts) == ("upload_pending", 2)
    assert jobs_at(reading) == before + 1


def test_giving_up(by: User, patient: Patient) -> None:
    report = uploaded(patient, by)
    Report.objects.filter(pk=report.pk).update(state="uncertain", attempts=1)
    assert not delivery.give_up(report.pk, 2)
    assert delivery.give_up(report.pk, 1)
    assert delivery.send_due() == 0
    assert delivery.resend(report.pk, 1), "somebody thinks better of it"


def test_a_service_that_cannot_be_reached_changes_nothing(
    point: Callable[[str], None], by: User
) -> None:
    person(1)
    report = kept(by)
    point(f"http://127.0.0.1:{free_port()}")
    delivery.send_due()
    report.refresh_from_db()
    assert (report.state, report.attempts) == ("stored", 1)
    assert report.due_at > timezone.now()
    assert delivery.send_due() == 0, "not before its time"


@pytest.mark.parametrize("status", [429, 503, 500])
def test_malformed_answer_is_uncertain(
    reading: Sandbox, patient: Patient, by: User, status: int
) -> None:
    """429 was not carried out, by its meaning; after a 5xx nobody knows."""
    report = uploaded(patient, by)
    reading.control(
        "faults", {"rate": 1.0, "statuses": [status], "paths": "parser/job$", "retry_after": 7}
    )
    delivery.send_due()
    report.refresh_from_db()
    assert report.state == ("stored" if status == 429 else "uncertain")
    if status == 429:
        wait = report.due_at - timezone.now()
        assert timedelta(seconds=5) < wait <= timedelta(seconds=7)


def test_a_worker_that_died_while_sending_leaves_it_uncertain(by: User, patient: Patient) -> None:
    report = uploaded(patient, by)
    claim = delivery.claim_next()
    assert claim is not None
    assert delivery.claim_next() is None, "taken"
    delivery.send_due()
    report.refresh_from_db()
    assert report.state == "sending", "its lease still holds"
    Report.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert delivery.send_due() == 0
    report.refresh_from_db()
    assert report.state == "uncertain"


def test_late_answer_counts_unless_decided(by: User, patient: Patient) -> None:
    report = uploaded(patient, by)
    claim = delivery.claim_next()
    assert claim is not None
    Report.objects.update(state="uncertain")
    late = uuid.uuid4()
    delivery._store_answer(claim, answer(record(late, "upload_pending")))
    report.refresh_from_db()
    assert (report.state, report.job_id) == ("upload_pending", late)

    second = uploaded(patient, by, file(pdf(2)))
    claim = delivery.claim_next()
    assert claim is not None
    Report.objects.filter(pk=second.pk).update(state="uncertain")
    assert delivery.resend(second.pk, 1)
    other = uuid.uuid4()
    delivery._store_answer(claim, answer(record(other, "upload_pending")))
    second.refresh_from_db()
    assert (second.state, second.job_id) == ("stored", None)
    assert Report.objects.get(job=other).uploaded_by is None, "its job is not lost from sight"


def test_event_without_user_does_not_block_the_answer(by: User, patient: Patient) -> None:
    report = uploaded(patient, by)
    claim = delivery.claim_next()
    assert claim is not None
    job_id = uuid.uuid4()
    told([heard(1, record(job_id), None, "created")])
    stray = Report.objects.exclude(pk=report.pk).get()
    line = review.reviewed_row(stray, 0)
    assert line is not None
    review.check_row(stray, 0, by, reading=line.reading, latest=0, checked=True)
    delivery._store_answer(claim, answer(record(job_id, "upload_pending")))
    report = Report.objects.get()
    assert (report.state, report.job_id) == ("completed", job_id)
    assert report.files.count() == 1
    assert review.reviewed_rows(report)[0].checked, "what a person said is not lost"
    assert ReportJob.objects.get().user_id == patient.pk


def test_concurrent_event_does_not_block_the_answer(by: User, patient: Patient) -> None:
    """The event's report is there, unseen and uncommitted, when the answer looks for it."""
    report = uploaded(patient, by)
    claim = delivery.claim_next()
    assert claim is not None
    job_id = uuid.uuid4()
    with transaction.atomic():
        sync_reports.store_jobs([(answer(record(job_id, "started")), None)])
    accepting = threading.Thread(target=accept_in_thread, args=(claim, job_id))
    with transaction.atomic():
        sync_reports.create_missing_reports(job_ids=[job_id])
        accepting.start()
        wait_until(somebody_waits)
    accepting.join()
    report = Report.objects.get()
    assert (report.state, report.job_id) == ("started", job_id)


def accept_in_thread(claim: delivery.Claim, job_id: uuid.UUID) -> None:
    try:
        delivery._store_answer(claim, answer(record(job_id, "started")))
    finally:
        connection.close()


def somebody_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")  # or a transaction sees the first answer
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(cursor.fetchone()[0])


@pytest.mark.parametrize("settle", ["arrived", "again", "give up", "answer", "the hour"])
def test_waiting_jobs_get_reports_once_upload_settles(
    by: User, patient: Patient, settle: str
) -> None:
    report = uploaded(patient, by)
    claim = delivery.claim_next()
    assert claim is not None
    delivery._close(claim, "uncertain")
    mine, other = uuid.uuid4(), uuid.uuid4()
    for number, job_id in enumerate((mine, other)):
        told([heard(number, record(job_id, "started"), patient.pk, "created")])
    # However long nobody decided.
    ReportJob.objects.filter(pk=other).update(as_of=timezone.now() - timedelta(days=30))
    tasks.tidy_reports()
    assert Report.objects.count() == 1
    match settle:
        case "arrived":
            assert delivery.link_to_job(report.pk, 1, mine)
        case "again":
            assert delivery.resend(report.pk, 1)
        case "give up":
            assert delivery.give_up(report.pk, 1)
        case "answer":
            delivery._store_answer(claim, answer(record(mine, "started")))
        case _:
            Report.objects.update(state="refused")
            tasks.tidy_reports()
    assert Report.objects.get(job=other).uploaded_by is None
    assert Report.objects.filter(job=mine).count() == 1


@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_changed_file_is_not_sent(
    reading: Sandbox, patient: Patient, by: User, folder: Path, damage: str
) -> None:
    report = uploaded(patient, by)
    (path,) = (path for path in folder.rglob("*") if path.is_file())
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(pdf(2))
    before = jobs_at(reading)
    delivery.send_due()
    report.refresh_from_db()
    assert (report.state, report.refusal) == ("refused", delivery.LOST_FILE)
    assert jobs_at(reading) == before


def test_a_patient_the_service_does_not_know(reading: Sandbox, by: User) -> None:
    person(1)
    report = kept(by)
    delivery.send_due()
    report.refresh_from_db()
    assert report.state == "refused"
    assert report.refusal


def test_resent_report_loses_its_acceptance(by: User) -> None:
    person(1)
    report = kept(by)
    with_job(report, "failed", failure_reason="processing_error")
    Report.objects.update(accepted_at=timezone.now(), accepted_by=by, changed_since_accepted=True)
    assert delivery.resend(report.pk, 1)
    report.refresh_from_db()
    assert (report.accepted_at, report.accepted_by) == (None, None)
    assert not report.changed_since_accepted


def test_killed_worker_never_sends_twice(
    reading: Sandbox, patient: Patient, by: User, folder: Path
) -> None:
    """A real process, killed while the service is taking its time."""
    report = uploaded(patient, by)
    before = jobs_at(reading)
    slow = {"rate": 1.0, "kinds": ["slow"], "latency_ms": 3_000, "paths": "parser/job$"}
    reading.control("faults", slow)
    here = connection.settings_dict
    database = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{here['NAME']}")
    worker = subprocess.Popen(
        [sys.executable, "manage.py", "shell", "-v0", "-c", SEND],
        env={
            **os.environ,
            "DATABASE_URL": urlunsplit(database),
            "SERVICE_BASE_URL": reading.url,
            "REPORT_FOLDER": str(folder),
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=dies_with_parent(signal.SIGKILL),
    )
    try:
        wait_until(lambda: Report.objects.get().state == "sending")
        time.sleep(1)
    finally:
        worker.kill()
        worker.wait()
    assert delivery.send_due() == 0, "its lease still holds"
    Report.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    reading.control("faults", method="DELETE")
    for _ in range(3):
        assert delivery.send_due() == 0
    report.refresh_from_db()
    assert (report.state, report.attempts) == ("uncertain", 1)
    time.sleep(3)
    assert jobs_at(reading) <= before + 1


SEND = "from labs.reports import delivery; delivery.send_due()"


def wait_until(true: Callable[[], bool], seconds: float = 30) -> None:
    ends = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < ends, "it did not come to that"
        time.sleep(0.05)
