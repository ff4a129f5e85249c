"""The change log is derived from stored records, with reasons and previous values."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client, RequestFactory
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.audit.recording import record_action
from backoffice.outbox.models import CommandRecord
from backoffice.team.actions import add_note, assign, record_contact
from backoffice.team.changes import change_log
from backoffice.team.subjects import make_subject
from tests.api.rows import staff
from tests.team.forms import ORDER, PATIENT, render_tag, signed_subject

pytestmark = pytest.mark.django_db
INFO = {"first_name": "Testa", "address": {"city": "Springfield"}, "race": None}


def create_command(user: User, kind: str, minutes: int, **values: Any) -> CommandRecord:
    return CommandRecord.objects.create(
        **{
            "kind": kind,
            "title": kind,
            "subject_type": "order",
            "subject_id": str(ORDER),
            "patient_id": PATIENT,
            "payload": {},
            "form_id": uuid4(),
            "idempotency_key": uuid4(),
            "requested_by": user,
            "requested_at": timezone.now() - timedelta(minutes=minutes),
            "state": "done",
            **values,
        }
    )


def test_every_action_is_listed_once(rf: RequestFactory) -> None:
    ana, ben = staff("front desk", "ana"), staff("lab coordinator", "ben")
    request = rf.get("/")
    request.resolver_match = None
    request.user = ana
    row = create_command(
        ana, "order.cancel", 9, title="Cancel the order", reason="Patient moved away"
    )
    record_action(request, "order.cancel", [row.pk, ORDER], [PATIENT], "Patient moved away")
    request.user = ben
    record_action(request, "order.cancel give-up", [row.pk, ORDER], [PATIENT], "Too late")
    record_action(request, "review", [ORDER], [PATIENT])
    assign(request, "order", ORDER, ana, PATIENT)
    request.user = ana
    assign(request, "order", ORDER, ben, PATIENT, take=True)
    add_note(request, "order", ORDER, "Called the lab", PATIENT)
    record_contact(request, PATIENT, "order", ORDER, "spoke", "Will come")
    add_note(request, "order", uuid4(), "Another order", PATIENT)
    AuditEntry.objects.create(actor=ana, action="view", object_type="order", object_ids=[ORDER])
    found = change_log(make_subject("order", ORDER, PATIENT), sees_results=True)
    assert [(one.what, one.by) for one in found] == [
        ("Spoke with the patient", ana),
        ("Note", ana),
        ("Assigned to a colleague", ana),
        ("Assigned to a colleague", ben),
        ("Review", ben),
        ("Closed without resending: Cancel the order", ben),
        ("Cancel the order", ana),
    ]
    assert found[5].reason == "Too late" and found[6].reason == "Patient moved away"
    (difference,) = found[2].differences
    assert (difference.before, difference.after) == ("ana", "ben")
    on_patient = change_log(make_subject("patient", PATIENT, PATIENT), sees_results=True)
    assert len(on_patient) == len(found) + 1
    assert {one.on for one in on_patient} == {"", "order"}


def test_requests_show_before_and_after() -> None:
    ana = staff("front desk", "ana")
    moved = {"seen": "2026-11-20T15:00:00Z", "time": {"start": "2026-11-21T16:00:00Z"}}
    create_command(ana, "appointment.move", 1, payload=moved)
    create_command(ana, "order.activation", 2, payload={"activate_by": "2026-12-01"})
    move, date = change_log(make_subject("order", ORDER), sees_results=True)
    (difference,) = move.differences
    assert str(difference.before) == "2026-11-20 15:00:00+00:00"
    assert str(difference.after) == "2026-11-21 16:00:00+00:00"
    (difference,) = date.differences
    assert (difference.before, difference.after) == (None, "2026-12-01")


def test_message_switch_shows_before_and_after() -> None:
    ana = staff("clinician", "ana")
    create_command(ana, "order.messages", 1, payload={"seen": None, "sms_enabled": True})
    create_command(ana, "order.messages", 2, payload={"seen": True, "sms_enabled": False})
    changes = change_log(make_subject("order", ORDER), sees_results=True)
    differences = [(one.before, one.after) for change in changes for one in change.differences]
    assert differences == [(None, "On"), ("On", "Off")]


def test_details_are_compared_with_last_saved_ones() -> None:
    ana = staff("front desk", "ana")
    about = {"subject_type": "patient", "subject_id": str(PATIENT)}
    later = {**INFO, "first_name": "Testina", "address": {"city": ""}}
    create_command(ana, "patient.info", 3, payload={"info": INFO}, **about)
    create_command(
        ana, "patient.info", 2, payload={"info": {"first_name": "X"}}, state="refused", **about
    )
    create_command(ana, "patient.info", 1, payload={"info": later}, **about)
    newest, _, first = change_log(make_subject("patient", PATIENT), sees_results=True)
    assert first.differences == []
    differences = [(one.label, one.before, one.after) for one in newest.differences]
    assert sorted(differences) == [
        ("Address city", "Springfield", ""),
        ("First name", "Testa", "Testina"),
    ]


def test_change_log_is_loaded_only_when_opened(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    ana = staff("front desk", "ana")
    create_command(ana, "order.cancel", 1, title="Cancel the order", reason="<b>Why</b>")
    render_tag(ana, 'changes_of("order", order, patient)')
    with django_assert_num_queries(0):
        assert "Change log" in render_tag(ana, 'changes_of("order", order, patient)')
    client.force_login(ana)
    page = client.get("/team/changes/", {"about": signed_subject()}).content.decode()
    assert "Cancel the order" in page and "Reason: &lt;b&gt;Why&lt;/b&gt;" in page
    assert "<html" in page
    fragment = client.get(
        "/team/changes/", {"about": signed_subject()}, headers={"HX-Request": "true"}
    )
    assert "<html" not in fragment.content.decode()
    assert AuditEntry.objects.filter(action="view", object_type="changes").count() == 2
    assert "Change log" not in render_tag(staff("viewer"), 'changes_of("order", order, patient)')
    client.force_login(staff("auditor"))
    assert client.get("/team/changes/", {"about": signed_subject()}).status_code == 403


def test_result_changes_require_results_permission(rf: RequestFactory) -> None:
    request = rf.get("/")
    request.resolver_match = None
    request.user = staff("clinician")
    record_action(request, "sign result", [ORDER], [PATIENT])
    record_action(request, "acknowledge critical", [ORDER], [PATIENT])
    record_action(request, "critical call", [ORDER], [PATIENT])
    add_note(request, "result", ORDER, "Potassium 6.9, call again", PATIENT)
    about = make_subject("patient", PATIENT, PATIENT)
    assert len(change_log(about, sees_results=True)) == 4
    (sign_off,) = change_log(about, sees_results=False)
    assert (sign_off.what, sign_off.on) == ("Signed the result", "order")
    assert sign_off.on_url == f"/orders/{ORDER}/"
    (of_order,) = change_log(make_subject("order", ORDER, PATIENT), sees_results=False)
    assert (of_order.what, of_order.on_url) == ("Signed the result", "")
