"""The hand-over sheet: what was done, what is open, its last note, and when it is due."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.audit.recording import record_action
from backoffice.outbox.models import CommandRecord
from backoffice.team.actions import add_note, assign, record_contact
from orders.today.handover import HandoverForm
from tests.api.rows import demographics, patient, uid
from tests.audit.trail import as_table_owner
from tests.today.test_page import log_in, make_critical, make_order

pytestmark = pytest.mark.django_db(transaction=True)

ADDRESS = "/today/hand-over/"


@pytest.fixture
def shift() -> tuple[Client, User, Any]:
    """Return a nurse with a client, and a request for writing notes."""
    for n in (1, 2, 3):
        patient(n).save()
        demographics(n).save()
        make_order(n)
    client, user = log_in()
    return client, user, client.get("/today/").wsgi_request


def make_command(user: User, n: int, **values: Any) -> CommandRecord:
    return CommandRecord.objects.create(
        **{
            "kind": "order.cancel", "title": f"Cancel order {n}", "subject_type": "order",
            "subject_id": str(uid("order", n)), "patient_id": uid("patient", n), "payload": {},
            "form_id": uid("form", n), "requested_by": user, "idempotency_key": uid("key", n),
            **values,
        }
    )  # fmt: skip


def test_sheet_lists_open_work_with_last_note_and_due_time(
    shift: tuple[Client, User, Any],
) -> None:
    client, user, request = shift
    assign(request, "order", uid("order", 1), user, uid("patient", 1))
    add_note(request, "order", uid("order", 1), "Asked for the address", uid("patient", 1))
    due = timezone.now() + timedelta(hours=20)
    record_contact(
        request, uid("patient", 1), "order", uid("order", 1), "voicemail", "Rings till noon", due
    )
    assign(request, "order", uid("order", 2), user, uid("patient", 2))
    make_command(user, 3)
    answer = client.get(ADDRESS)
    sheet = answer.context["sheet"]
    assert [(one.row.subject_id, one.due_at) for one in sheet.assigned] == [
        (str(uid("order", 1)), due),
        (str(uid("order", 2)), None),
    ]
    assert sheet.assigned[0].last_message.note == "Rings till noon"
    page = answer.content.decode()
    for said in ("Rings till noon", "Ada1 Testperson", "Ada2 Testperson", "Cancel order 3"):
        assert said in page
    assert [one.what for one in sheet.entries] == ["Note", "Left a voicemail"]
    assert set(sheet.counts) == {
        "2 assignment changes", "1 note", "1 patient contact",
    }  # fmt: skip


def test_sheet_can_be_filtered_by_period_and_staff(shift: tuple[Client, User, Any]) -> None:
    client, _, request = shift
    add_note(request, "order", uid("order", 1), "Mine and early", uid("patient", 1))
    with as_table_owner():
        notes = AuditEntry.objects.filter(object_type="note")
        notes.update(at=timezone.now() - timedelta(hours=30))
    add_note(request, "order", uid("order", 1), "Mine and late", uid("patient", 1))
    colleague, _ = log_in("lab coordinator")
    theirs = colleague.get("/today/").wsgi_request
    add_note(theirs, "order", uid("order", 2), "Of a colleague", uid("patient", 2))
    begin = f"{timezone.now() - timedelta(days=2):%Y-%m-%dT%H:%M}"

    def texts(**query: str) -> list[str]:
        return [one.text for one in client.get(ADDRESS, query).context["sheet"].entries]

    assert texts() == ["Mine and late"]
    assert texts(begin=begin) == ["Mine and early", "Mine and late"]
    assert texts(whose="all") == ["Mine and late", "Of a colleague"]
    end = f"{timezone.now() - timedelta(days=1):%Y-%m-%dT%H:%M}"
    assert texts(begin=begin, end=end) == ["Mine and early"]


@pytest.mark.parametrize(
    "query",
    [
        {"begin": "yesterday"},
        {"begin": "2031-01-02T10:00", "end": "2031-01-02T10:00"},
        {"begin": "2030-01-01T00:00", "end": "2030-02-01T00:00"},
        {"whose": "everything"},
        {"end": "\x00"},
    ],
)
def test_invalid_period_is_refused_and_kept_in_the_form(
    shift: tuple[Client, User, Any], query: dict[str, str]
) -> None:
    client, _, _ = shift
    answer = client.get(ADDRESS, query)
    assert answer.status_code == 400 and b'role="alert"' in answer.content
    assert "sheet" not in answer.context
    if "yesterday" in query.values():
        assert b'value="yesterday"' in answer.content


def sheet_exceptions(client: Client, **query: str) -> list[tuple[str, int, int | None, list[Any]]]:
    sheet = client.get(ADDRESS, query).context["sheet"]
    return [
        (one.group.key, one.count.value, one.assigned_count, [order.pk for order in one.oldest])
        for one in sheet.exceptions
    ]


def make_lost_order(n: int, days: int) -> Any:
    quiet = timezone.now() - timedelta(days=days)
    return make_order(n, low_level_status="lost", bucket="needs-action", quiet_at=quiet).pk


def test_sheet_counts_exceptions_and_lists_the_oldest(
    shift: tuple[Client, User, Any],
) -> None:
    client, _, _ = shift
    keys = [make_lost_order(10 + n, days=n) for n in range(1, 6)]
    make_order(20, low_level_status="redraw_available", bucket="needs-action")
    assert sheet_exceptions(client, whose="all") == [
        ("lost", 5, None, [keys[4], keys[3], keys[2]]),
        ("draw", 1, None, [uid("order", 20)]),
    ]
    page = client.get(ADDRESS, {"whose": "all"}).content.decode()
    assert 'href="/exceptions/?group=lost"' in page and "Ada15 Testperson" in page
    assert "Ada11 Testperson" not in page
    entry = AuditEntry.objects.filter(action="print").latest("at")
    assert str(keys[4]) in entry.object_ids and uid("patient", 15) in entry.patient_ids


def test_own_sheet_lists_assigned_exceptions(
    shift: tuple[Client, User, Any],
) -> None:
    client, user, request = shift
    keys = [make_lost_order(10 + n, days=n) for n in range(1, 6)]
    assert sheet_exceptions(client) == [("lost", 5, 0, [])]
    assign(request, "order", keys[0], user, uid("patient", 11))
    assert sheet_exceptions(client) == [("lost", 5, 1, [keys[0]])]
    assert "1 assigned to you" in client.get(ADDRESS).content.decode()


def test_request_names_a_patient_without_demographics(
    shift: tuple[Client, User, Any],
) -> None:
    """Some patients have a name only on orders, and a person being registered is no patient yet."""
    client, user, request = shift
    make_order(7)
    moved = make_command(user, 7, title="Move the visit at home to Tue")
    born = {"info": {"first_name": "Nadia", "last_name": "Notreal"}}
    new = make_command(
        user, 8, kind="patient.create", title="Register a patient", subject_type="new patient",
        subject_id="ref-8", patient_id=None, payload=born,
    )  # fmt: skip
    for row in (moved, new):
        record_action(request, row.kind, [row.pk, row.subject_id], [row.patient_id])
    for state in (CommandRecord.State.WAITING, CommandRecord.State.DONE):
        CommandRecord.objects.update(state=state)
        page = client.get(ADDRESS).content.decode()
        assert "Ada7 Testperson" in page and "Nadia Notreal" in page, state
    CommandRecord.objects.filter(pk=new.pk).update(remote_id=str(uid("patient", 1)))
    client.get(ADDRESS)
    assert uid("patient", 1) in AuditEntry.objects.filter(action="print").latest("at").patient_ids


@pytest.mark.parametrize(
    ("kind", "one", "many"),
    [
        ("exception", "1 exception handled", "2 exceptions handled"),
        ("member of staff", "1 staff account change", "2 staff account changes"),
        ("bulk take", "1 bulk action", "2 bulk actions"),
        ("something new", "1 change: something new", "2 changes: something new"),
    ],
)
def test_entry_counts_use_singular_and_plural(
    shift: tuple[Client, User, Any], kind: str, one: str, many: str
) -> None:
    client, _, request = shift
    for said in (one, many):
        record_action(request, kind, ["about"], [])
        assert client.get(ADDRESS).context["sheet"].counts == [said]


def test_sheet_lists_criticals_only_with_the_results_permission(
    shift: tuple[Client, User, Any],
) -> None:
    client, _, _ = shift
    make_critical(make_order(9, user_id=uid("patient", 3)))
    assert "not yet acknowledged, since" in client.get(ADDRESS).content.decode()
    desk, _ = log_in("front desk")
    assert "not yet acknowledged, since" not in desk.get(ADDRESS).content.decode()
    assert log_in("viewer")[0].get(ADDRESS).status_code == 403


def test_sheet_is_audited_as_a_print(shift: tuple[Client, User, Any]) -> None:
    client, user, request = shift
    assign(request, "order", uid("order", 1), user, uid("patient", 1))
    client.get(ADDRESS)
    entry = AuditEntry.objects.get(action="print")
    assert (entry.actor, entry.object_type) == (user, "hand-over")
    assert entry.object_ids == [str(uid("order", 1))]
    assert uid("patient", 1) in entry.patient_ids


def test_sheet_has_a_limit_and_says_so(shift: tuple[Client, User, Any]) -> None:
    client, user, _ = shift
    AuditEntry.objects.bulk_create(
        AuditEntry(actor=user, action="change", object_type="sign result", object_ids=["x"])
        for _ in range(1_005)
    )
    answer = client.get(ADDRESS)
    assert b"1,000 results signed" in answer.content
    assert b"Too many entries for one sheet" in answer.content


def test_empty_sheet_says_so() -> None:
    client, _ = log_in()
    page = client.get(ADDRESS).content
    assert b"No open work." in page and b"Nothing was recorded in this period." in page


def test_notes_on_results_need_the_results_permission(
    shift: tuple[Client, User, Any],
) -> None:
    clinician, user, request = shift
    who = uid("patient", 1)
    assign(request, "result", uid("order", 1), user, who)
    add_note(request, "result", uid("order", 1), "Potassium 6.9", who)
    for client, told in ((clinician, True), (log_in("front desk")[0], False)):
        page = client.get(ADDRESS, {"whose": "all"}).content.decode()
        assert ("Potassium 6.9" in page) is told


def test_audit_entry_of_any_kind_breaks_no_sheet(
    shift: tuple[Client, User, Any],
) -> None:
    client, _, request = shift
    for kind in ("made.up", "note", "contact", "make token"):
        record_action(request, kind, ["no id of a row"], [])
    answer = client.get(ADDRESS)
    assert answer.status_code == 200
    assert "1 API token created" in answer.content.decode()


@pytest.mark.parametrize(
    ("now", "begin", "end"),
    [
        ("2027-03-14T15:30Z", "2027-03-14T01:31", "2027-03-14T10:31"),  # 02:31 there is not.
        ("2026-11-01T14:30Z", "2026-11-01T00:31", "2026-11-01T08:31"),  # 01:31 there is twice.
        ("2026-11-01T06:30Z", "2026-10-31T17:31", "2026-11-01T02:31"),
        ("2026-06-01T14:30Z", "2026-06-01T01:31", "2026-06-01T09:31"),
    ],
)
def test_shift_may_begin_or_end_at_a_change_of_clocks(now: str, begin: str, end: str) -> None:
    with timezone.override("America/Chicago"):
        form = HandoverForm({}, datetime.fromisoformat(now))
        assert form.is_valid(), form.errors
        assert (form["begin"].value(), form["end"].value()) == (begin, end)
