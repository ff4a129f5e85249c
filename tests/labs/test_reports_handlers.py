"""Handlers of parsing job events: late, repeated, out of order, and final states."""

from __future__ import annotations

import itertools
import uuid
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from backoffice.core.models import UnknownValue
from backoffice.sync.models import Lookup
from labs.models import Report, ReportJob
from labs.reports.handlers import handle_report_jobs
from labs.reports.sync import create_missing_reports
from tests.api.rows import staff, uid
from tests.labs.reporting import (
    FRAGILITY,
    GLUCOSE,
    attach_job,
    job_event,
    job_json,
    person,
    stored_report,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("report_folder")]
PATIENT_ID = uid("patient", 1)


def job_history(job_id: UUID) -> list[bytes]:
    """Return the JSON of a job from start to end, with human review."""
    return [
        job_json(job_id, "upload_pending", needs_human_review=True),
        job_json(job_id, "started", needs_human_review=True),
        job_json(job_id, "completed", needs_human_review=True, results=[FRAGILITY]),
        job_json(job_id, "completed", needs_human_review=True, is_reviewed=True),
    ]


def handle_events(*events: tuple[int, bytes], user_id: UUID | None = PATIENT_ID) -> dict[str, str]:
    with transaction.atomic():
        return dict(handle_report_jobs([job_event(n, raw, user_id) for n, raw in events]) or {})


def test_job_uploaded_elsewhere_becomes_a_report() -> None:
    job_id = uuid.uuid4()
    handle_events((1, job_json(job_id)))
    report = Report.objects.get()
    assert (report.user_id, report.job_id, report.state) == (PATIENT_ID, job_id, "completed")
    assert (report.uploaded_by, report.files.count()) == (None, 0)
    assert [row.value for row in ReportJob.objects.get().results.order_by("position")] == [
        "5.40",
        "12",
    ], "the text as received"
    assert Lookup.objects.get(kind="report-jobs").key == str(job_id)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
@pytest.mark.parametrize("are_in_one_batch", [True, False])
def test_events_in_any_order_end_in_the_last_state(
    order: tuple[int, ...], are_in_one_batch: bool
) -> None:
    job_id = uuid.uuid4()
    history = job_history(job_id)
    events = [(number, history[step]) for number, step in enumerate(order)]
    if are_in_one_batch:
        handle_events(*events)
    else:
        for event in events:
            handle_events(event)
    job = ReportJob.objects.get()
    assert (job.status, job.is_reviewed, job.state) == ("completed", True, "completed")
    assert job.record.encode() == history[3]
    assert [row.test_name for row in job.results.order_by("position")] == ["Glucose", "Fragility"]
    assert Report.objects.get().state == "completed"


def test_repeated_event_is_stale() -> None:
    job_id = uuid.uuid4()
    assert handle_events((1, job_json(job_id))) == {}
    assert handle_events((2, job_json(job_id)), (3, job_json(job_id, "started"))) == {
        "msg_2": "stale",
        "msg_3": "stale",
    }
    assert ReportJob.objects.get().status == "completed"


def test_later_event_of_same_status_wins() -> None:
    job_id = uuid.uuid4()
    handle_events((1, job_json(job_id, results=[GLUCOSE])))
    handle_events((2, job_json(job_id, results=[FRAGILITY])))
    assert [row.test_name for row in ReportJob.objects.get().results.all()] == ["Fragility"]


def test_uploaded_report_changes_state_and_keeps_patient() -> None:
    person(1)
    report = stored_report(staff("clinician"))
    job_id = attach_job(report, "started")
    handle_events(
        (1, job_json(job_id, "failed", failure_reason="not_english")), user_id=uid("patient", 5)
    )
    report.refresh_from_db()
    assert report.state == "failed"
    assert ReportJob.objects.get().user_id == PATIENT_ID
    assert Report.objects.count() == 1


@pytest.mark.parametrize("state", ["sending", "uncertain"])
def test_job_waits_while_an_upload_is_open(state: str) -> None:
    person(1)
    report = stored_report(staff("clinician"))
    Report.objects.update(state=state)
    handle_events((1, job_json(uuid.uuid4(), "started")))
    handle_events((2, job_json(uuid.uuid4(), "started")), user_id=uid("patient", 2))
    assert Report.objects.exclude(pk=report.pk).get().user_id == uid("patient", 2)
    Report.objects.filter(pk=report.pk).update(state="given_up")
    handle_events((3, job_json(uuid.uuid4(), "started")), user_id=uid("patient", 3))
    assert Report.objects.count() == 3
    assert create_missing_reports() == 1, "as the hourly task does"
    assert Report.objects.count() == 4


def test_unknown_status_is_shown_and_looked_up_again() -> None:
    handle_events((1, job_json(uuid.uuid4(), "resting")))
    assert Report.objects.get().state == "resting"
    assert UnknownValue.objects.get(vocabulary="report.state").value == "resting"


def test_pending_review_is_two_flags_or_a_status() -> None:
    flags, word = uuid.uuid4(), uuid.uuid4()
    handle_events(
        (1, job_json(flags, needs_human_review=True)), (2, job_json(word, "pending_review"))
    )
    assert set(Report.objects.values_list("state", flat=True)) == {"pending_review"}


def test_job_id_is_read_from_both_spellings() -> None:
    job_id = uuid.uuid4()
    handle_events((1, job_json(job_id, "started").replace(b'"id"', b'"job_id"')))
    assert ReportJob.objects.get().pk == job_id


@pytest.mark.parametrize(
    "raw",
    [
        b"null",
        b"[]",
        b"{}",
        b'{"id": "x"}',
    ],
)
def test_unreadable_job_fails_its_whole_batch(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r" at |does not fit"):
        handle_events((1, job_json(uuid.uuid4())), (2, raw))
    assert ReportJob.objects.count() == 0, (
        "all or nothing: the drain then handles the events one by one"
    )


@pytest.mark.parametrize(
    ("changed", "value"),
    [({"value": "a\x00b"}, "a\N{REPLACEMENT CHARACTER}b"), ({"loinc_matches": 7}, "5.40")],
)
def test_unfitting_field_of_a_job_is_dropped(changed: dict[str, Any], value: str) -> None:
    raw = job_json(uuid.uuid4(), results=[{**GLUCOSE, **changed}, FRAGILITY])
    handle_events((1, raw))
    job = ReportJob.objects.get()
    assert job.record.encode() == raw, "as received"
    assert next(row.value for row in job.results.order_by("position")) == value
    assert job.results.count() == 2


def test_status_that_is_no_text_is_unknown_state() -> None:
    job_id = uuid.uuid4()
    handle_events((1, job_json(job_id, "started").replace(b'"started"', b'{"a": 1}')))
    assert Report.objects.get().state not in ("completed", "pending_review")
    assert Lookup.objects.get(kind="report-jobs").key == str(job_id)


def test_event_without_patient_creates_report() -> None:
    handle_events((1, job_json(uuid.uuid4())), user_id=None)
    assert Report.objects.get().user_id is None
