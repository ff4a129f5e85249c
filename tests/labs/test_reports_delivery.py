"""Reports are sent to the real sandbox and their jobs are read back."""

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

from backoffice.accounts.models import User
from backoffice.core import request_ids
from backoffice.core.logs import JsonFormatter
from backoffice.devtools.embedded import dies_with_parent, free_port
from backoffice.service.events import ReceivedEvent
from backoffice.sync.lookups import run_due_lookups
from backoffice.sync.models import Lookup
from labs import tasks
from labs.models import Report, ReportJob
from labs.reports import delivery, review
from labs.reports import sync as sync_reports
from labs.reports.handlers import handle_report_jobs
from labs.reports.sync import JOB_LOOKUP
from patients.models import Patient
from tests.api.rows import staff
from tests.labs.documents import jpeg, pdf, png
from tests.labs.reporting import (
    attach_job,
    file,
    job_event,
    job_json,
    job_record,
    person,
    stored_report,
)
from tests.sandboxes import Sandbox
from tests.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("report_folder")]


@pytest.fixture
def uploader() -> User:
    return staff("front desk")


@pytest.fixture
def patient(service_sandbox: Sandbox) -> Patient:
    """A patient that the service knows."""
    made = person(1)
    with service_sandbox.service() as client:
        known = client.users.list(limit=1).records[0].data.user_id
    Patient.objects.create(**{**_columns(made), "id": known, "client_user_id": "known"})
    return Patient.objects.get(pk=known)


def _columns(made: Patient) -> dict[str, Any]:
    return {field.attname: getattr(made, field.attname) for field in made._meta.concrete_fields}


def upload_report(patient: Patient, uploader: User, *files: Any, review: bool = False) -> Report:
    report = stored_report(uploader, 1, *files, review=review)
    Report.objects.filter(pk=report.pk).update(user=patient)
    return report


def run_job_lookups(report: Report) -> Report:
    """Read every job now, as the schedule would."""
    Lookup.objects.filter(kind="report-jobs").update(due_at=timezone.now() - timedelta(seconds=1))
    run_due_lookups([JOB_LOOKUP], seconds=10)
    report.refresh_from_db()
    return report


def handle_events(events: list[ReceivedEvent]) -> None:
    """Handle events as the inbox drain does."""
    with transaction.atomic():
        handle_report_jobs(events)


def count_jobs(sandbox: Sandbox) -> int:
    return int(sandbox.query("SELECT count(*) FROM sandbox_reportjob")[0][0])


def test_upload_leads_to_parsed_values(
    service_sandbox: Sandbox, patient: Patient, uploader: User
) -> None:
    report = upload_report(patient, uploader)
    assert delivery.send_due() == 1
    report.refresh_from_db()
    assert (report.state, report.attempts) == ("upload_pending", 1)
    service_sandbox.control("reports", {"steps": 1})
    assert run_job_lookups(report).state == "started"
    service_sandbox.control("reports", {"steps": 1})
    assert run_job_lookups(report).state == "completed"
    job = ReportJob.objects.get(report=report)
    assert job.user_id == patient.pk
    assert job.results.count() > 0
    assert Lookup.objects.get(kind="report-jobs").due_at is None, "a final job is not read again"
    assert delivery.send_due() == 0


def test_report_is_sent_with_id_of_its_web_request(
    service_sandbox: Sandbox, patient: Patient, uploader: User, caplog: pytest.LogCaptureFixture
) -> None:
    with request_ids.use_request_id("a" * 32):
        report = upload_report(patient, uploader)
    service_sandbox.control("reports", {"next_outcomes": ["low_quality"]})
    caplog.handler.setFormatter(JsonFormatter())
    with caplog.at_level(logging.INFO, "backoffice.service"):
        delivery.send_due()
        service_sandbox.control("reports", {"steps": 2})
        assert run_job_lookups(report).state == "failed"
        with request_ids.use_request_id("b" * 32):
            assert delivery.resend(report.pk, 1)
        delivery.send_due()
    lines = [json.loads(line) for line in caplog.text.splitlines()]
    sent = [line for line in lines if line["message"].startswith("POST ")]
    assert [line.get("request_id") for line in sent] == ["a" * 32, "b" * 32]


def test_pictures_are_sent_as_one_report_in_order(
    service_sandbox: Sandbox, patient: Patient, uploader: User
) -> None:
    upload_report(
        patient,
        uploader,
        *(file(png(shade=n), f"{n}.png") for n in range(4)),
        file(jpeg(), "a.jpg"),
    )
    before = count_jobs(service_sandbox)
    delivery.send_due()
    assert count_jobs(service_sandbox) == before + 1
    assert service_sandbox.query(
        "SELECT kind, pages FROM sandbox_reportjob ORDER BY created_at DESC LIMIT 1"
    ) == [("png", 5)]


def test_human_review_is_pending_until_reviewed(
    service_sandbox: Sandbox, patient: Patient, uploader: User
) -> None:
    service_sandbox.control("reports", {"review_enabled": True})
    report = upload_report(patient, uploader, review=True)
    delivery.send_due()
    service_sandbox.control("reports", {"steps": 2})
    assert run_job_lookups(report).state == "pending_review"
    service_sandbox.control("reports", {"steps": 1})
    assert run_job_lookups(report).state == "completed"
    assert ReportJob.objects.get(report=report).is_reviewed


def test_refusal_keeps_message_of_service(
    service_sandbox: Sandbox, patient: Patient, uploader: User
) -> None:
    service_sandbox.control("reports", {"review_enabled": False})
    report = upload_report(patient, uploader, review=True)
    before = count_jobs(service_sandbox)
    delivery.send_due()
    report.refresh_from_db()
    assert (report.state, report.refusal) == (
        "refused",
        "Human review is not enabled for this team",
    )
    assert delivery.send_due() == 0
    assert count_jobs(service_sandbox) == before


def test_failed_job_has_reason_and_can_be_resent(
    service_sandbox: Sandbox, patient: Patient, uploader: User
) -> None:
    service_sandbox.control("reports", {"next_outcomes": ["low_quality"]})
    report = upload_report(patient, uploader)
    delivery.send_due()
    service_sandbox.control("reports", {"steps": 2})
    assert run_job_lookups(report).state == "failed"
    assert report.job is not None
    assert report.job.failure_reason == "low_quality"
    first = report.job_id
    assert delivery.resend(report.pk, 1)
    assert not delivery.resend(report.pk, 1), "a second click"
    delivery.send_due()
    report.refresh_from_db()
    assert report.earlier_job_ids == [first]
    assert report.job_id not in (first, None)
    service_sandbox.control("reports", {"steps": 2})
    assert run_job_lookups(report).state == "completed"


def test_lost_answer_is_uncertain_and_not_resent(
    service_sandbox: Sandbox, patient: Patient, uploader: User
) -> None:
    report = upload_report(patient, uploader)
    service_sandbox.control("faults", {"drop_rate": 1.0, "paths": "parser/job$"})
    before = count_jobs(service_sandbox)
    delivery.send_due()
    service_sandbox.control("faults", method="DELETE")
    report.refresh_from_db()
    assert report.state == "uncertain"
    assert count_jobs(service_sandbox) == before + 1, "the request did arrive"
    for _ in range(3):
        assert delivery.send_due() == 0
    assert count_jobs(service_sandbox) == before + 1


def test_uncertain_report_is_linked_to_received_job(
    service_sandbox: Sandbox, patient: Patient, uploader: User
) -> None:
    report = upload_report(patient, uploader)
    service_sandbox.control("faults", {"drop_rate": 1.0, "paths": "parser/job$"})
    delivery.send_due()
    service_sandbox.control("faults", method="DELETE")
    report.refresh_from_db()
    assert delivery.candidate_jobs(report) == []
    ((job_id,),) = service_sandbox.query(
        "SELECT id FROM sandbox_reportjob ORDER BY created_at DESC LIMIT 1"
    )
    handle_events([job_event(1, job_json(job_id, "started"), patient.pk, "created")])
    assert [job.pk for job in delivery.candidate_jobs(report)] == [job_id]
    assert Report.objects.count() == 1, (
        "the job may answer this report, so it gets no own report yet"
    )
    assert not delivery.link_to_job(report.pk, 0, job_id), "the decision is about another attempt"
    assert not delivery.link_to_job(report.pk, 1, uuid.uuid4())
    assert delivery.link_to_job(report.pk, 1, job_id)
    assert not delivery.link_to_job(report.pk, 1, job_id)
    service_sandbox.control("reports", {"steps": 2})
    assert run_job_lookups(report).state == "completed"


def test_uncertain_report_is_resent_once(
    service_sandbox: Sandbox, patient: Patient, uploader: User
) -> None:
    report = upload_report(patient, uploader)
    service_sandbox.control("faults", {"drop_rate": 1.0, "paths": "parser/job$"})
    delivery.send_due()
    service_sandbox.control("faults", method="DELETE")
    before = count_jobs(service_sandbox)
    assert delivery.resend(report.pk, 1)
    assert not delivery.resend(report.pk, 1)
    delivery.send_due()
    report.refresh_from_db()
    assert (report.state, report.attempts) == ("upload_pending", 2)
    assert count_jobs(service_sandbox) == before + 1


def test_given_up_report_is_not_sent_but_can_be_resent(uploader: User, patient: Patient) -> None:
    report = upload_report(patient, uploader)
    Report.objects.filter(pk=report.pk).update(state="uncertain", attempts=1)
    assert not delivery.give_up(report.pk, 2)
    assert delivery.give_up(report.pk, 1)
    assert delivery.send_due() == 0
    assert delivery.resend(report.pk, 1), "the decision can be changed"


def test_unreachable_service_leaves_report_stored(
    set_service_url: Callable[[str], None], uploader: User
) -> None:
    person(1)
    report = stored_report(uploader)
    set_service_url(f"http://127.0.0.1:{free_port()}")
    delivery.send_due()
    report.refresh_from_db()
    assert (report.state, report.attempts) == ("stored", 1)
    assert report.due_at > timezone.now()
    assert delivery.send_due() == 0, "it is not sent before its due time"


@pytest.mark.parametrize("status", [429, 503, 500])
def test_malformed_answer_is_uncertain(
    service_sandbox: Sandbox, patient: Patient, uploader: User, status: int
) -> None:
    """A 429 was not carried out by definition; after a 5xx the outcome is unknown."""
    report = upload_report(patient, uploader)
    service_sandbox.control(
        "faults", {"rate": 1.0, "statuses": [status], "paths": "parser/job$", "retry_after": 7}
    )
    delivery.send_due()
    report.refresh_from_db()
    assert report.state == ("stored" if status == 429 else "uncertain")
    if status == 429:
        wait = report.due_at - timezone.now()
        assert timedelta(seconds=5) < wait <= timedelta(seconds=7)


def test_worker_killed_while_sending_leaves_report_uncertain(
    uploader: User, patient: Patient
) -> None:
    report = upload_report(patient, uploader)
    claim = delivery.claim_next()
    assert claim is not None
    assert delivery.claim_next() is None, "the report is claimed"
    delivery.send_due()
    report.refresh_from_db()
    assert report.state == "sending", "its lease is still valid"
    Report.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert delivery.send_due() == 0
    report.refresh_from_db()
    assert report.state == "uncertain"


def test_late_answer_counts_unless_decided(uploader: User, patient: Patient) -> None:
    report = upload_report(patient, uploader)
    claim = delivery.claim_next()
    assert claim is not None
    Report.objects.update(state="uncertain")
    late = uuid.uuid4()
    delivery._store_answer(claim, job_record(job_json(late, "upload_pending")))
    report.refresh_from_db()
    assert (report.state, report.job_id) == ("upload_pending", late)

    second = upload_report(patient, uploader, file(pdf(2)))
    claim = delivery.claim_next()
    assert claim is not None
    Report.objects.filter(pk=second.pk).update(state="uncertain")
    assert delivery.resend(second.pk, 1)
    other = uuid.uuid4()
    delivery._store_answer(claim, job_record(job_json(other, "upload_pending")))
    second.refresh_from_db()
    assert (second.state, second.job_id) == ("stored", None)
    assert Report.objects.get(job=other).uploaded_by is None, "its job gets its own report"


def test_event_without_user_does_not_block_the_answer(uploader: User, patient: Patient) -> None:
    report = upload_report(patient, uploader)
    claim = delivery.claim_next()
    assert claim is not None
    job_id = uuid.uuid4()
    handle_events([job_event(1, job_json(job_id), None, "created")])
    unmatched_report = Report.objects.exclude(pk=report.pk).get()
    line = review.reviewed_row(unmatched_report, 0)
    assert line is not None
    review.check_row(unmatched_report, 0, uploader, reading=line.reading, latest=0, checked=True)
    delivery._store_answer(claim, job_record(job_json(job_id, "upload_pending")))
    report = Report.objects.get()
    assert (report.state, report.job_id) == ("completed", job_id)
    assert report.files.count() == 1
    assert review.reviewed_rows(report)[0].checked, "the check of a person is kept"
    assert ReportJob.objects.get().user_id == patient.pk


def test_concurrent_event_does_not_block_the_answer(uploader: User, patient: Patient) -> None:
    """The report of the event exists, uncommitted and invisible, when the answer looks for it."""
    report = upload_report(patient, uploader)
    claim = delivery.claim_next()
    assert claim is not None
    job_id = uuid.uuid4()
    with transaction.atomic():
        sync_reports.store_jobs([(job_record(job_json(job_id, "started")), None)])
    accepting = threading.Thread(target=accept_in_thread, args=(claim, job_id))
    with transaction.atomic():
        sync_reports.create_missing_reports(job_ids=[job_id])
        accepting.start()
        wait_until(is_lock_awaited, 30, "the lock is awaited")
    accepting.join()
    report = Report.objects.get()
    assert (report.state, report.job_id) == ("started", job_id)


def accept_in_thread(claim: delivery.Claim, job_id: uuid.UUID) -> None:
    try:
        delivery._store_answer(claim, job_record(job_json(job_id, "started")))
    finally:
        connection.close()


def is_lock_awaited() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_stat_clear_snapshot()"
        )  # otherwise a transaction sees the first result again
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(cursor.fetchone()[0])


@pytest.mark.parametrize("settle", ["link", "resend", "give up", "answer", "tidy"])
def test_waiting_jobs_get_reports_once_upload_settles(
    uploader: User, patient: Patient, settle: str
) -> None:
    report = upload_report(patient, uploader)
    claim = delivery.claim_next()
    assert claim is not None
    delivery._close(claim, "uncertain")
    own_job_id, other_job_id = uuid.uuid4(), uuid.uuid4()
    for number, job_id in enumerate((own_job_id, other_job_id)):
        handle_events([job_event(number, job_json(job_id, "started"), patient.pk, "created")])
    # This also holds when no person decides for a long time.
    ReportJob.objects.filter(pk=other_job_id).update(as_of=timezone.now() - timedelta(days=30))
    tasks.delete_orphaned_files()
    assert Report.objects.count() == 1
    match settle:
        case "link":
            assert delivery.link_to_job(report.pk, 1, own_job_id)
        case "resend":
            assert delivery.resend(report.pk, 1)
        case "give up":
            assert delivery.give_up(report.pk, 1)
        case "answer":
            delivery._store_answer(claim, job_record(job_json(own_job_id, "started")))
        case _:
            Report.objects.update(state="refused")
            tasks.delete_orphaned_files()
    assert Report.objects.get(job=other_job_id).uploaded_by is None
    assert Report.objects.filter(job=own_job_id).count() == 1


@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_changed_file_is_not_sent(
    service_sandbox: Sandbox, patient: Patient, uploader: User, report_folder: Path, damage: str
) -> None:
    report = upload_report(patient, uploader)
    (path,) = (path for path in report_folder.rglob("*") if path.is_file())
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(pdf(2))
    before = count_jobs(service_sandbox)
    delivery.send_due()
    report.refresh_from_db()
    assert (report.state, report.refusal) == ("refused", delivery.LOST_FILE)
    assert count_jobs(service_sandbox) == before


def test_report_of_unknown_patient_is_refused(service_sandbox: Sandbox, uploader: User) -> None:
    person(1)
    report = stored_report(uploader)
    delivery.send_due()
    report.refresh_from_db()
    assert report.state == "refused"
    assert report.refusal


def test_resent_report_loses_its_acceptance(uploader: User) -> None:
    person(1)
    report = stored_report(uploader)
    attach_job(report, "failed", failure_reason="processing_error")
    Report.objects.update(
        accepted_at=timezone.now(), accepted_by=uploader, changed_since_accepted=True
    )
    assert delivery.resend(report.pk, 1)
    report.refresh_from_db()
    assert (report.accepted_at, report.accepted_by) == (None, None)
    assert not report.changed_since_accepted


def test_killed_worker_never_sends_twice(
    service_sandbox: Sandbox, patient: Patient, uploader: User, report_folder: Path
) -> None:
    """A real process is killed while the service takes long to answer."""
    report = upload_report(patient, uploader)
    before = count_jobs(service_sandbox)
    slow = {"rate": 1.0, "kinds": ["slow"], "latency_ms": 3_000, "paths": "parser/job$"}
    service_sandbox.control("faults", slow)
    database_settings = connection.settings_dict
    database = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{database_settings['NAME']}")
    worker = subprocess.Popen(
        [sys.executable, "manage.py", "shell", "-v0", "-c", SEND_DUE_REPORTS],
        env={
            **os.environ,
            "DATABASE_URL": urlunsplit(database),
            "SERVICE_BASE_URL": service_sandbox.url,
            "REPORT_FOLDER": str(report_folder),
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=dies_with_parent(signal.SIGKILL),
    )
    try:
        wait_until(lambda: Report.objects.get().state == "sending", 30, "the report is sent")
        time.sleep(1)
    finally:
        worker.kill()
        worker.wait()
    assert delivery.send_due() == 0, "its lease is still valid"
    Report.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    service_sandbox.control("faults", method="DELETE")
    for _ in range(3):
        assert delivery.send_due() == 0
    report.refresh_from_db()
    assert (report.state, report.attempts) == ("uncertain", 1)
    time.sleep(3)
    assert count_jobs(service_sandbox) <= before + 1


SEND_DUE_REPORTS = "from labs.reports import delivery; delivery.send_due()"
