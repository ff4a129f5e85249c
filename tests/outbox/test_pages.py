"""What was asked, on pages: the list, one command, taking back, deciding."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from django.template import Context
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone

from backoffice.models import AuditEntry, CommandRecord, User
from backoffice.outbox.enqueueing import typed_values
from backoffice.templatetags.commands import SHOWN, asked_about
from tests.api.rows import staff

State = CommandRecord.State
pytestmark = pytest.mark.django_db(transaction=True)


def asked(by: User, **values: Any) -> CommandRecord:
    given = {
        "kind": "order.cancel",
        "title": "Cancel the order",
        "subject_type": "order",
        "subject_id": str(uuid.uuid4()),
        "payload": {},
        "form_id": uuid.uuid4(),
        "idempotency_key": uuid.uuid4(),
        "requested_by": by,
        **values,
    }
    row = CommandRecord.objects.create(**given)
    row.refresh_from_db()
    return row


@pytest.fixture
def nurse() -> User:
    return staff("clinician")


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_tabs_show_what_stands_where(nurse: User) -> None:
    open_one = asked(nurse)
    unclear = asked(nurse, state=State.UNDECIDED, title="Book a visit")
    no = asked(nurse, state=State.REFUSED, refusal="Not this way.", title="Move a visit")
    client = signed_in(nurse)
    shown = {
        show: {
            row.pk
            for row in client.get(reverse("commands:list"), {"show": show}).context["page"].rows
        }
        for show in ("", "mine", "decide", "open", "refused")
    }
    every = {open_one.pk, unclear.pk, no.pk}
    assert shown == {
        "": every,
        "mine": every,
        "decide": {unclear.pk},
        "open": {open_one.pk, unclear.pk},
        "refused": {no.pk},
    }
    assert client.get(reverse("commands:list"), {"show": "nonsense"}).status_code == 400


def test_what_was_not_sent_can_be_taken_back_by_who_asked(nurse: User) -> None:
    row = asked(nurse)
    stranger = signed_in(staff("front desk"))
    stranger.post(reverse("commands:withdraw", args=[row.pk]))
    row.refresh_from_db()
    assert row.state == State.WAITING
    signed_in(nurse).post(reverse("commands:withdraw", args=[row.pk]))
    row.refresh_from_db()
    assert row.state == State.WITHDRAWN and row.decided_by == nurse
    assert AuditEntry.objects.filter(object_type="order.cancel withdrawn").count() == 1


def test_what_was_sent_cannot_be_taken_back(nurse: User) -> None:
    row = asked(nurse, first_sent_at="2026-01-01T00:00Z")
    answer = signed_in(nurse).post(reverse("commands:withdraw", args=[row.pk]), follow=True)
    row.refresh_from_db()
    assert row.state == State.WAITING
    assert "too late" in answer.content.decode()


@pytest.mark.parametrize(
    ("decision", "state"),
    [("again", State.WAITING), ("give-up", State.GIVEN_UP), ("exists", State.DONE)],
)
def test_a_person_decides_once(nurse: User, decision: str, state: str) -> None:
    found = [{"id": "visit-1", "words": "A visit on Tuesday"}]
    row = asked(nurse, state=State.UNDECIDED, attempts=1, found=found, sent_at="2026-01-01T00:00Z")
    client = signed_in(nurse)
    page = client.get(reverse("commands:detail", args=[row.pk])).content.decode()
    assert "A visit on Tuesday" in page and "What happened?" in page
    given = {"decision": decision, "attempt": "1", "exists": "visit-1", "reason": "I called them"}
    client.post(reverse("commands:decide", args=[row.pk]), given)
    row.refresh_from_db()
    assert row.state == state
    assert row.remote_id == ("visit-1" if decision == "exists" else "")
    late = client.post(
        reverse("commands:decide", args=[row.pk]), {**given, "decision": "again"}, follow=True
    )
    row.refresh_from_db()
    assert row.state == state and "Someone was faster" in late.content.decode()


def test_only_what_was_found_can_be_it(nurse: User) -> None:
    row = asked(nurse, state=State.UNDECIDED, attempts=1)
    given = {"decision": "exists", "attempt": "1", "exists": "made-up"}
    answer = signed_in(nurse).post(reverse("commands:decide", args=[row.pk]), given)
    assert answer.status_code == 400


def test_the_strip_asks_until_it_has_ended(nurse: User) -> None:
    row = asked(nurse, state=State.SENDING, sent_at="2026-01-01T00:00Z")
    client = signed_in(nurse)
    address = reverse("commands:strip", args=[row.pk])
    moving = client.get(address)
    assert "hx-get" in moving.content.decode() and "HX-Trigger" not in moving.headers
    CommandRecord.objects.filter(pk=row.pk).update(state=State.DONE, done_url="/orders/")
    ended = client.get(address)
    assert json.loads(ended.headers["HX-Trigger"]) == {"command-ended": {"leads": "/orders/"}}
    assert 'href="/orders/" data-anew' in ended.content.decode()


def test_what_needs_a_decision_stays_on_the_page_of_what_it_is_about(nurse: User) -> None:
    key = str(uuid.uuid4())
    unclear = asked(nurse, subject_id=key, state=State.UNDECIDED)
    ended = [
        asked(nurse, subject_id=key, state=State.DONE, finished_at=timezone.now()).pk
        for _ in range(5)
    ]
    request = RequestFactory().get("/")
    request.user = nurse
    shown = asked_about(Context({"request": request}), "order", key)["commands"]
    assert unclear.pk in {row.pk for row in shown}
    assert len(shown) == 1 + SHOWN and {row.pk for row in shown} - {unclear.pk} <= set(ended)


def test_who_may_not_see_requests_sees_none_on_a_record(nurse: User) -> None:
    row = asked(nurse)
    request = RequestFactory().get("/")
    request.user = staff("viewer")
    assert asked_about(Context({"request": request}), "order", row.subject_id)["commands"] == []


def test_nul_in_a_form_is_no_fault(nurse: User) -> None:
    request = RequestFactory().post("/", {"a\x00b": "c\x00d", "form_id": "x"})
    assert typed_values(request) == {"ab": ["cd"]}


def test_the_api_tells_commands_without_what_they_carry(nurse: User) -> None:
    row = asked(nurse, payload={"first_name": "Canary"}, form_data={"first_name": ["Canary"]})
    body = signed_in(nurse).get("/api/commands/").content.decode()
    assert str(row.pk) in body and "Canary" not in body
