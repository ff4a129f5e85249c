"""Parsing jobs told by events: late, twice, out of order, and the states they may not undo."""

from __future__ import annotations

import itertools
import uuid
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from backoffice.models import Lookup, UnknownValue
from labs.models import Report, ReportJob
from labs.reports.handlers import handle_report_jobs
from labs.reports.sync import create_missing_reports
from tests.api.rows import staff, uid
from tests.labs.reporting import FRAGILITY, GLUCOSE, heard, kept, person, record, with_job

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("folder")]
WHO = uid("patient", 1)


def life(job_id: UUID) -> list[bytes]:
    """A job from start to end, people included."""
    return [
        record(job_id, "upload_pending", needs_human_review=True),
        record(job_id, "started", needs_human_review=True),
        record(job_id, "completed", needs_human_review=True, results=[FRAGILITY]),
        record(job_id, "completed", needs_human_review=True, is_reviewed=True),
    ]


def hear(*events: tuple[int, bytes], user_id: UUID | None = WHO) -> dict[str, str]:
    with transaction.atomic():
        return dict(handle_report_jobs([heard(n, raw, user_id) for n, raw in events]) or {})


def test_a_job_uploaded_elsewhere_becomes_a_report() -> None:
    job_id = uuid.uuid4()
    hear((1, record(job_id)))
    report = Report.objects.get()
    assert (report.user_id, report.job_id, report.state) == (WHO, job_id, "completed")
    assert (report.uploaded_by, report.files.count()) == (None, 0)
    assert [row.value for row in ReportJob.objects.get().results.order_by("position")] == [
        "5.40",
        "12",
    ], "the text as it came"
    assert Lookup.objects.get(kind="report-jobs").key == str(job_id)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
@pytest.mark.parametrize("together", [True, False])
def test_events_in_any_order_end_in_the_last_state(order: tuple[int, ...], together: bool) -> None:
    job_id = uuid.uuid4()
    said = life(job_id)
    events = [(number, said[step]) for number, step in enumerate(order)]
    if together:
        hear(*events)
    else:
        for event in events:
            hear(event)
    job = ReportJob.objects.get()
    assert (job.status, job.is_reviewed, job.state) == ("completed", True, "completed")
    assert job.record.encode() == said[3]
    assert [row.test_name for row in job.results.order_by("position")] == ["Glucose", "Fragility"]
    assert Report.objects.get().state == "completed"


def test_repeated_event_is_stale() -> None:
    job_id = uuid.uuid4()
    assert hear((1, record(job_id))) == {}
    assert hear((2, record(job_id)), (3, record(job_id, "started"))) == {
        "msg_2": "stale",
        "msg_3": "stale",
    }
    assert ReportJob.objects.get().status == "completed"


def test_later_event_of_the_same_step_wins() -> None:
    job_id = uuid.uuid4()
    hear((1, record(job_id, results=[GLUCOSE])))
    hear((2, record(job_id, results=[FRAGILITY])))
    assert [row.test_name for row in ReportJob.objects.get().results.all()] == ["Fragility"]


def test_our_own_report_moves_and_keeps_its_patient() -> None:
    person(1)
    report = kept(staff("clinician"))
    job_id = with_job(report, "started")
    hear((1, record(job_id, "failed", failure_reason="not_english")), user_id=uid("patient", 5))
    report.refresh_from_db()
    assert report.state == "failed"
    assert ReportJob.objects.get().user_id == WHO
    assert Report.objects.count() == 1


@pytest.mark.parametrize("state", ["sending", "uncertain"])
def test_job_waits_while_an_upload_is_open(state: str) -> None:
    person(1)
    report = kept(staff("clinician"))
    Report.objects.update(state=state)
    hear((1, record(uuid.uuid4(), "started")))
    hear((2, record(uuid.uuid4(), "started")), user_id=uid("patient", 2))
    assert Report.objects.exclude(pk=report.pk).get().user_id == uid("patient", 2)
    Report.objects.filter(pk=report.pk).update(state="given_up")
    hear((3, record(uuid.uuid4(), "started")), user_id=uid("patient", 3))
    assert Report.objects.count() == 3
    assert create_missing_reports() == 1, "the hour"
    assert Report.objects.count() == 4


def test_unknown_status_is_shown_and_looked_up_again() -> None:
    hear((1, record(uuid.uuid4(), "resting")))
    assert Report.objects.get().state == "resting"
    assert UnknownValue.objects.get(vocabulary="report.state").value == "resting"


def test_pending_review_is_two_flags_or_a_status() -> None:
    flags, word = uuid.uuid4(), uuid.uuid4()
    hear((1, record(flags, needs_human_review=True)), (2, record(word, "pending_review")))
    assert set(Report.objects.values_list("state", flat=True)) == {"pending_review"}


def test_both_spellings_of_the_id() -> None:
    job_id = uuid.uuid4()
    hear((1, record(job_id, "started").replace(b'"id"', b'"job_id"')))
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
def test_a_job_that_cannot_be_read_fails_alone(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r" at |does not fit"):
        hear((1, record(uuid.uuid4())), (2, raw))
    assert ReportJob.objects.count() == 0, "all or nothing: the drain goes one by one then"


@pytest.mark.parametrize(
    ("changed", "value"),
    [({"value": "a\x00b"}, "a\N{REPLACEMENT CHARACTER}b"), ({"loinc_matches": 7}, "5.40")],
)
def test_unfitting_field_of_a_job_is_dropped(changed: dict[str, Any], value: str) -> None:
    raw = record(uuid.uuid4(), results=[{**GLUCOSE, **changed}, FRAGILITY])
    hear((1, raw))
    job = ReportJob.objects.get()
    assert job.record.encode() == raw, "as received"
    assert next(row.value for row in job.results.order_by("position")) == value
    assert job.results.count() == 2


def test_status_that_is_no_text_is_unknown_state() -> None:
    job_id = uuid.uuid4()
    hear((1, record(job_id, "started").replace(b'"started"', b'{"a": 1}')))
    assert Report.objects.get().state not in ("completed", "pending_review")
    assert Lookup.objects.get(kind="report-jobs").key == str(job_id)


def test_an_event_without_a_patient_is_kept() -> None:
    hear((1, record(uuid.uuid4())), user_id=None)
    assert Report.objects.get().user_id is None
