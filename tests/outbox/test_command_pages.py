"""Pages of commands: the list, one command, withdrawing, resolving."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import timedelta
from inspect import unwrap
from typing import Any

import pytest
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.core.vocabulary.data import VOCABULARIES
from backoffice.outbox.command import Command
from backoffice.outbox.enqueueing import typed_values
from backoffice.outbox.models import CommandRecord
from backoffice.outbox.template_functions import MAX_ENDED, record_commands
from backoffice.pages.models import SavedView
from tests.api.rows import staff

State = CommandRecord.State
pytestmark = pytest.mark.django_db(transaction=True)


def create_command(requested_by: User, **values: Any) -> CommandRecord:
    defaults = {
        "kind": "order.cancel",
        "title": "Cancel the order",
        "subject_type": "order",
        "subject_id": str(uuid.uuid4()),
        "payload": {},
        "form_id": uuid.uuid4(),
        "idempotency_key": uuid.uuid4(),
        "requested_by": requested_by,
        **values,
    }
    row = CommandRecord.objects.create(**defaults)
    row.refresh_from_db()
    return row


@pytest.fixture
def nurse() -> User:
    return staff("clinician")


def signed_in_client(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_tabs_list_commands_by_state(nurse: User) -> None:
    waiting = create_command(nurse)
    undecided = create_command(nurse, state=State.UNDECIDED, title="Book a visit")
    refused = create_command(
        nurse, state=State.REFUSED, refusal="Not this way.", title="Move a visit"
    )
    client = signed_in_client(nurse)
    ids_by_tab = {
        tab: {
            row.pk
            for row in client.get(reverse("commands:list"), {"show": tab}).context["page"].rows
        }
        for tab in ("", "mine", "decide", "open", "refused")
    }
    all_ids = {waiting.pk, undecided.pk, refused.pk}
    assert ids_by_tab == {
        "": all_ids,
        "mine": all_ids,
        "decide": {undecided.pk},
        "open": {waiting.pk, undecided.pk},
        "refused": {refused.pk},
    }
    assert client.get(reverse("commands:list"), {"show": "nonsense"}).status_code == 400


def test_requests_are_filtered(nurse: User) -> None:
    patient_id = uuid.uuid4()
    old = create_command(
        nurse, requested_at=timezone.now() - timedelta(days=40), patient_id=patient_id
    )
    placed = create_command(staff("front desk"), kind="order.create", state=State.DONE)
    client = signed_in_client(nurse)
    for query, rows in (
        ({"state": "done"}, [placed]),
        ({"state": ["done", "waiting"]}, [placed, old]),
        ({"kind": "order.cancel"}, [old]),
        ({"person": str(placed.requested_by_id)}, [placed]),
        ({"person": str(nurse.pk), "show": "mine"}, [old]),
        ({"kind": "order.create", "show": "mine"}, []),
        ({"day": "last_7"}, [placed]),
        ({"until": (timezone.now() - timedelta(days=9)).date().isoformat()}, [old]),
        ({"patient": str(patient_id)}, [old]),
        ({"record": f" {placed.subject_id} "}, [placed]),
    ):
        assert client.get(reverse("commands:list"), query).context["page"].rows == rows, query
    for query in ({"person": "nobody"}, {"patient": "1"}, {"record": "\x00"}):
        assert client.get(reverse("commands:list"), query).status_code == 400, query


def test_tab_stays_in_saved_views_and_download(nurse: User) -> None:
    create_command(nurse, title="Cancel the one order")
    refused = create_command(nurse, state=State.REFUSED, title="Move a visit")
    client = signed_in_client(nurse)
    client.post(reverse("commands:views"), {"name": "Refused ones", "query": "show=refused"})
    view = SavedView.objects.get(listing="commands")
    answer = client.get(reverse("commands:view", args=[view.pk]), follow=True)
    assert answer.context["page"].rows == [refused]
    answer = client.post(reverse("commands:export"), {"query": "show=refused", "everything": "1"})
    text = b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]
    assert "Move a visit" in text and "Cancel the one order" not in text


def test_every_kind_of_command_has_a_label() -> None:
    kinds = {command.kind for command in _all_commands(Command) if hasattr(command, "kind")}
    assert kinds >= {"order.cancel", "webhook.rotate"}
    assert {kind for kind in kinds if not kind.startswith("test")} == VOCABULARIES[
        "command.kind"
    ].keys()


def _all_commands(base: type[Command]) -> Iterator[type[Command]]:
    for command in base.__subclasses__():
        yield command
        yield from _all_commands(command)


def test_unsent_command_can_be_withdrawn_by_its_requester(nurse: User) -> None:
    row = create_command(nurse)
    stranger = signed_in_client(staff("front desk"))
    stranger.post(reverse("commands:withdraw", args=[row.pk]))
    row.refresh_from_db()
    assert row.state == State.WAITING
    signed_in_client(nurse).post(reverse("commands:withdraw", args=[row.pk]))
    row.refresh_from_db()
    assert row.state == State.WITHDRAWN and row.decided_by == nurse
    assert AuditEntry.objects.filter(object_type="order.cancel withdrawn").count() == 1


def test_sent_command_cannot_be_withdrawn(nurse: User) -> None:
    row = create_command(nurse, first_sent_at="2026-01-01T00:00Z")
    response = signed_in_client(nurse).post(
        reverse("commands:withdraw", args=[row.pk]), follow=True
    )
    row.refresh_from_db()
    assert row.state == State.WAITING
    assert "too late" in response.content.decode()


@pytest.mark.parametrize(
    ("decision", "state"),
    [("again", State.WAITING), ("give-up", State.GIVEN_UP), ("exists", State.DONE)],
)
def test_undecided_command_is_resolved_once(nurse: User, decision: str, state: str) -> None:
    found = [{"id": "visit-1", "words": "A visit on Tuesday"}]
    row = create_command(
        nurse, state=State.UNDECIDED, attempts=1, found=found, sent_at="2026-01-01T00:00Z"
    )
    client = signed_in_client(nurse)
    page = client.get(reverse("commands:detail", args=[row.pk])).content.decode()
    assert "A visit on Tuesday" in page and "What happened?" in page
    values = {"decision": decision, "attempt": "1", "exists": "visit-1", "reason": "I called them"}
    client.post(reverse("commands:decide", args=[row.pk]), values)
    row.refresh_from_db()
    assert row.state == state
    assert row.remote_id == ("visit-1" if decision == "exists" else "")
    late_response = client.post(
        reverse("commands:decide", args=[row.pk]), {**values, "decision": "again"}, follow=True
    )
    row.refresh_from_db()
    assert row.state == state and "has changed in the meantime" in late_response.content.decode()


def test_resolve_refuses_a_record_that_was_not_found(nurse: User) -> None:
    row = create_command(nurse, state=State.UNDECIDED, attempts=1)
    values = {"decision": "exists", "attempt": "1", "exists": "made-up"}
    response = signed_in_client(nurse).post(reverse("commands:decide", args=[row.pk]), values)
    assert response.status_code == 400


def test_command_strip_polls_until_the_command_ends(nurse: User) -> None:
    row = create_command(nurse, state=State.SENDING, sent_at="2026-01-01T00:00Z")
    client = signed_in_client(nurse)
    address = reverse("commands:strip", args=[row.pk])
    in_progress = client.get(address)
    assert "hx-get" in in_progress.content.decode() and "HX-Trigger" not in in_progress.headers
    CommandRecord.objects.filter(pk=row.pk).update(state=State.DONE, done_url="/orders/")
    ended = client.get(address)
    assert json.loads(ended.headers["HX-Trigger"]) == {"command-ended": {"leads": "/orders/"}}
    assert 'href="/orders/" data-anew' in ended.content.decode()


def test_undecided_command_stays_on_its_record_page(nurse: User) -> None:
    order_id = str(uuid.uuid4())
    undecided = create_command(nurse, subject_id=order_id, state=State.UNDECIDED)
    ended = [
        create_command(nurse, subject_id=order_id, state=State.DONE, finished_at=timezone.now()).pk
        for _ in range(5)
    ]
    request = RequestFactory().get("/")
    request.user = nurse
    commands = unwrap(record_commands)({"request": request}, "order", order_id)["commands"]
    assert undecided.pk in {row.pk for row in commands}
    assert len(commands) == 1 + MAX_ENDED and {row.pk for row in commands} - {undecided.pk} <= set(
        ended
    )


def test_viewer_without_permission_sees_no_commands(nurse: User) -> None:
    row = create_command(nurse)
    request = RequestFactory().get("/")
    request.user = staff("viewer")
    assert unwrap(record_commands)({"request": request}, "order", row.subject_id)["commands"] == []


def test_form_values_drop_nul_characters(nurse: User) -> None:
    request = RequestFactory().post("/", {"a\x00b": "c\x00d", "form_id": "x"})
    assert typed_values(request) == {"ab": ["cd"]}


def test_api_lists_commands_without_their_contents(nurse: User) -> None:
    row = create_command(
        nurse, payload={"first_name": "Canary"}, form_data={"first_name": ["Canary"]}
    )
    body = signed_in_client(nurse).get("/api/commands/").content.decode()
    assert str(row.pk) in body and "Canary" not in body
