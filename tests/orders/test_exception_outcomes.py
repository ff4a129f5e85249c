"""Outcomes of exceptions: due times, conflicts and the next card."""

from __future__ import annotations

import json
import threading
from datetime import date, datetime, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from backoffice.accounts.models import User
from backoffice.team.models import Assignment, Contact, Note
from orders.models import Handling, Order
from tests.api.rows import envelope, staff
from tests.orders.exceptions import (
    PHOENIX,
    count_groups,
    create_order,
    keys_in_group,
    pass_time,
    send_outcome,
)

pytestmark = pytest.mark.django_db


def test_too_long_note_is_refused_and_stays_in_form(client: Client, coordinator: User) -> None:
    row = create_order(1)
    answer = send_outcome(client, row, "spoke", note="y" * 2_001)
    page = answer.content.decode()
    assert answer.status_code == 400 and not Handling.objects.exists()
    assert "at most 2000 characters" in page and "y" * 2_001 in page


@pytest.mark.parametrize(
    ("outcome", "days"), [("spoke", 3), ("voicemail", 1), ("wrong_number", 1), ("reship_asked", 2)]
)
def test_outcome_stores_contact_and_due_time_of_patient(
    client: Client, coordinator: User, outcome: str, days: int
) -> None:
    row = create_order(1)
    answer = send_outcome(client, row, outcome, note="They will look for it")
    assert answer.status_code == 302
    contact = Contact.objects.get()
    assert (contact.subject_id, contact.outcome) == (str(row.pk), outcome)
    assert (contact.note, contact.by) == ("They will look for it", coordinator)
    assert contact.next_due_at is not None
    local = contact.next_due_at.astimezone(PHOENIX)
    assert (local.hour, local.minute) == (10, 0)
    first = timezone.now().astimezone(PHOENIX).date() + timedelta(days=days)
    assert local.date() == first + timedelta(days={5: 2, 6: 1}.get(first.weekday(), 0))
    assert keys_in_group("lost") == []
    pass_time(row, after=contact.next_due_at - timezone.now() - timedelta(minutes=1))
    assert keys_in_group("lost") == [], "it is not due for another minute"
    pass_time(row, after=timedelta(minutes=2))
    assert keys_in_group("lost") == [row.pk], "it is due"


def test_new_event_returns_order_before_due_time(client: Client, coordinator: User) -> None:
    row = create_order(1)
    send_outcome(client, row, "spoke")
    Order.objects.filter(pk=row.pk).update(last_event_id=row.last_event_id + 1)
    assert keys_in_group("lost") == [row.pk]
    assert count_groups() == {"lost": 1}, "it is no longer snoozed"


def test_handled_needs_a_description_and_leaves_queue(client: Client, coordinator: User) -> None:
    row = create_order(1)
    client.post(f"/exceptions/lost/{row.pk}/take/")
    assert Assignment.objects.count() == 1
    refused = send_outcome(client, row, "handled")
    assert refused.status_code == 400 and "Enter what was done." in refused.content.decode()
    assert send_outcome(client, row, "handled", done="Ordered again").status_code == 302
    assert keys_in_group("lost") == [] and count_groups() == {}
    assert Note.objects.get().text == "Handled: Ordered again"
    assert not Assignment.objects.exists()
    assert Handling.objects.get().until is None


def test_snooze_uses_time_zone_of_patient(client: Client, coordinator: User) -> None:
    row = create_order(1)
    day = (timezone.now() + timedelta(days=5)).date()
    answer = send_outcome(
        client, row, "snoozed", reason="On a trip", at=f"{day}T07:30", until="nonsense"
    )
    assert answer.status_code == 302
    handling = Handling.objects.get()
    assert handling.until == datetime(day.year, day.month, day.day, 7, 30, tzinfo=PHOENIX)
    assert Contact.objects.get().outcome == "snoozed"
    page = client.get("/exceptions/?group=put-off").content.decode()
    assert "Maria1" in page and count_groups() == {"put-off": 1}
    card_text = client.get(f"/exceptions/lost/{row.pk}/").content.decode()
    assert "Not in the queue" in card_text and "7:30 AM MST" in card_text
    client.post(f"/exceptions/put-off/{row.pk}/back/")
    assert keys_in_group("lost") == [row.pk] and count_groups() == {"lost": 1}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"outcome": "snoozed", "reason": "", "until": "x"}, "Enter why it can wait."),
        ({"outcome": "snoozed", "reason": "kept words", "until": "x"}, "Enter a date and time"),
        ({"outcome": "snoozed", "reason": "kept words", "at": "2020-01-01T10:00"}, "future time"),
        ({"outcome": "snoozed", "reason": "kept words", "at": "2099-01-01T10:00"}, "one year"),
        ({"outcome": "snoozed", "reason": "kept words", "at": "9999-12-31T23:59"}, "calendar"),
        ({"outcome": "vanished", "note": "kept words"}, "Choose an outcome."),
        ({"note": "kept words"}, "Choose an outcome."),
        ({"outcome": "handled", "done": ""}, "Enter what was done."),
    ],
)
def test_invalid_outcome_keeps_card_and_typed_text(
    client: Client, coordinator: User, given: dict[str, str], words: str
) -> None:
    row = create_order(1)
    answer = client.post(
        f"/exceptions/lost/{row.pk}/", {"event": row.last_event_id, "seen": "", **given}
    )
    page = answer.content.decode()
    assert answer.status_code == 400 and words in page
    if "kept words" in given.values():
        assert "kept words" in page
    assert keys_in_group("lost") == [row.pk]
    assert not Contact.objects.exists() and not Note.objects.exists()


def test_nonexistent_local_time_is_refused(client: Client, coordinator: User) -> None:
    spring = next(
        day
        for day in (date(timezone.now().year + more, 3, n) for more in (0, 1) for n in range(8, 15))
        if day.weekday() == 6 and day > timezone.now().date()
    )
    record = {"patient_address": {"state": "NY"}}
    row = create_order(1, **envelope(json.dumps(record)))
    answer = send_outcome(client, row, "snoozed", reason="later", at=f"{spring}T02:30")
    assert "the clocks move forward" in answer.content.decode()
    assert (
        send_outcome(client, row, "snoozed", reason="later", at=f"{spring}T03:30").status_code
        == 302
    )


def test_second_outcome_is_a_conflict_that_keeps_typed_text(
    client: Client, coordinator: User
) -> None:
    row = create_order(1)
    other = Client()
    other.force_login(staff("front desk", "ben"))
    seen = {"event": row.last_event_id, "seen": ""}
    assert (
        other.post(f"/exceptions/lost/{row.pk}/", {"outcome": "spoke", **seen}).status_code == 302
    )
    answer = client.post(
        f"/exceptions/lost/{row.pk}/", {"outcome": "voicemail", "note": "typed words", **seen}
    )
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "ben recorded" in page and "typed words" in page
    assert Contact.objects.get().by.username == "ben"


def test_taken_card_rejects_outcomes_of_others(client: Client, coordinator: User) -> None:
    row, free = create_order(1, days_over=5), create_order(2, days_over=4)
    other = Client()
    ben = staff("front desk", "ben")
    other.force_login(ben)
    other.post(f"/exceptions/lost/{row.pk}/take/")
    shown = client.get("/exceptions/", {"group": "lost"}).context["rows"]
    assert [row.assignment and row.assignment.user for row in shown] == [ben, None]
    assert (
        "Assigned to <strong>ben</strong>"
        in client.get(f"/exceptions/lost/{free.pk}/").content.decode()
    )
    taken_page = client.post(f"/exceptions/lost/{row.pk}/take/", follow=True).content.decode()
    assert "Already assigned to ben" in taken_page
    answer = send_outcome(client, row, "spoke")
    assert answer.status_code == 409 and "Assigned to ben" in answer.content.decode()
    assert not Contact.objects.exists()
    third = create_order(3, days_over=6)
    next_url = send_outcome(client, third, "spoke").headers["Location"]
    assert next_url == f"/exceptions/lost/{free.pk}/", "the taken card is skipped"
    assert send_outcome(other, row, "spoke").status_code == 302


def test_new_event_since_card_was_opened_stops_outcome(client: Client, coordinator: User) -> None:
    row = create_order(1)
    Order.objects.filter(pk=row.pk).update(last_event_id=row.last_event_id + 1)
    answer = send_outcome(client, row, "spoke", note="typed words")
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "This order changed since you opened it" in page and "typed words" in page
    assert not Contact.objects.exists()
    row.refresh_from_db()
    assert send_outcome(client, row, "spoke").status_code == 302


@pytest.mark.django_db(transaction=True)
def test_concurrent_outcomes_store_only_one() -> None:
    row = create_order(1)
    people = [staff("front desk", name) for name in ("ana", "ben", "cleo")]
    begin = threading.Barrier(len(people))
    codes: list[int] = []

    def answer(user: User) -> None:
        client = Client()
        client.force_login(user)
        seen = {"event": row.last_event_id, "seen": "", "outcome": "spoke"}
        begin.wait(20)
        codes.append(client.post(f"/exceptions/lost/{row.pk}/", seen).status_code)
        connection.close()

    threads = [threading.Thread(target=answer, args=(user,)) for user in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(codes) == [302, 409, 409]
    assert Contact.objects.count() == 1


def test_next_card_is_below_then_first_then_in_next_group(
    client: Client, coordinator: User
) -> None:
    first, second, third = (create_order(n, days_over=10 - n) for n in (1, 2, 3))
    draw = create_order(4, "redraw_available")
    assert (
        send_outcome(client, second, "spoke").headers["Location"] == f"/exceptions/lost/{third.pk}/"
    )
    assert (
        send_outcome(client, third, "spoke").headers["Location"] == f"/exceptions/lost/{first.pk}/"
    )
    assert (
        send_outcome(client, first, "spoke").headers["Location"] == f"/exceptions/draw/{draw.pk}/"
    )
    assert send_outcome(client, draw, "spoke").headers["Location"] == "/exceptions/"
    assert "All clear" in client.get("/exceptions/").content.decode()
