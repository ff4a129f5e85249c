"""The exception queue: what waits, how it leaves, when it comes back, and two people at once."""

from __future__ import annotations

import json
import re
import threading
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from backoffice.accounts.access import roles_of
from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.outbox.models import CommandRecord
from backoffice.team.models import Assignment, Contact, Note
from orders.exceptions import queue
from orders.exceptions.outcomes import outcome_stamp
from orders.local_time import local_clock_of
from orders.models import Appointment, Handling, Order, OrderEvent, UnmatchedResult
from tests.api.rows import envelope, order, patient, staff, uid

pytestmark = pytest.mark.django_db

PHOENIX = ZoneInfo("America/Phoenix")
RECORD = {
    "patient_address": {"city": "Phoenix", "state": "AZ", "first_line": "1 Sample Street"},
    "patient_details": {"phone_number": "+15550100123"},
}
BUCKETS = {"teleported": "unknown", "with_customer": "with-patient", "completed": "result-in",
           "cancelled": "closed"}  # fmt: skip
GROUP_OF = {
    "lost": "lost", "sample_error": "lost", "lab_processing_blocked": "stuck",
    "problem_in_transit_customer": "delivery", "problem_in_transit_lab": "delivery",
    "failure_to_deliver_to_customer": "delivery", "failure_to_deliver_to_lab": "delivery",
    "redraw_available": "draw", "appointment_cancelled": "draw", "teleported": "unknown",
    "with_customer": "quiet", "completed": "", "cancelled": "",
}  # fmt: skip


@pytest.fixture
def coordinator(client: Client) -> User:
    user = staff("lab coordinator", "ana")
    client.force_login(user)
    return user


def make(n: int, low: str = "lost", days_over: float = 3, **values: Any) -> Order:
    now = timezone.now()
    row = order(
        n,
        **{
            "low_level_status": low,
            "bucket": BUCKETS.get(low, "needs-action"),
            "method": "testkit",
            "last_event_at": now - timedelta(days=days_over + 1),
            "quiet_at": now - timedelta(days=days_over),
            "patient_first_name": f"Maria{n}",
            "patient_last_name": "Testperson",
            **envelope(json.dumps(RECORD)),
            **values,
        },
    )
    row.save()
    return row


def keys(group: str) -> list[UUID]:
    rows = queue.group_page(group, timezone.now()).rows
    return [row.order_id if isinstance(row, Handling) else row.pk for row in rows]


def counted(role: str = "lab coordinator") -> dict[str, int]:
    found = queue.group_counts(timezone.now(), staff(role, f"reader-{User.objects.count()}"))
    return {key: count.value for key, count in found.items() if count.value}


def send(client: Client, row: Order, outcome: str, **more: Any) -> Any:
    """An outcome, as a page that was opened just now would send it."""
    last = Handling.objects.filter(pk=row.pk).first()
    given = {"outcome": outcome, "event": row.last_event_id, "seen": outcome_stamp(last), **more}
    group = queue.group_of(row, timezone.now()) or "lost"
    return client.post(f"/exceptions/{group}/{row.pk}/", given)


def come(row: Order, *, after: timedelta) -> None:
    """As if that much time had passed since the last outcome."""
    held = Handling.objects.get(pk=row.pk)
    held.until = held.until - after if held.until else None
    held.save()


# What waits


def test_every_status_waits_in_its_group_and_the_counts_say_so() -> None:
    rows = {low: make(n, low) for n, low in enumerate(GROUP_OF)}
    expected: dict[str, set[UUID]] = {}
    for low, group in GROUP_OF.items():
        if group:
            expected.setdefault(group, set()).add(rows[low].pk)
    assert {group: set(keys(group)) for group in expected} == expected
    assert counted() == {group: len(found) for group, found in expected.items()}


def test_counts_are_one_query_and_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(4):
        make(n)
    monkeypatch.setattr(queue, "COUNT_CAP", 3)
    user = staff("lab coordinator")
    roles_of(user)
    with CaptureQueriesContext(connection) as seen:
        found = queue.group_counts(timezone.now(), user)
    assert len(seen) == 1
    assert str(found["lost"]) == "3+"


def test_dates_to_come_nothing_and_gone_orders_do_not_wait() -> None:
    """Null is not zero, and what is due later is not late."""
    make(1, "with_customer", days_over=-1)
    make(2, "with_customer", quiet_at=None)
    make(3, "lost", missing_since=timezone.now())
    late = make(4, "with_customer", days_over=0.001)
    assert counted() == {"quiet": 1}
    assert keys("quiet") == [late.pk]


def test_trouble_waits_though_its_time_is_not_over() -> None:
    """A redraw may rest for days before it is late, but it needs a person now."""
    row = make(1, "redraw_available", days_over=-2)
    assert keys("draw") == [row.pk]


def test_the_longest_over_stands_first_and_pages_follow_each_other(
    client: Client, coordinator: User
) -> None:
    rows = [make(n, days_over=n) for n in range(1, queue.PAGE_SIZE + 4)]
    first = client.get("/exceptions/lost/")
    shown = [row["order"].pk for row in first.context["rows"]]
    assert shown == [row.pk for row in rows[::-1]][: queue.PAGE_SIZE]
    more = client.get(f"/exceptions/lost/?after={first.context['page'].next}")
    shown += [row["order"].pk for row in more.context["rows"]]
    assert shown == [row.pk for row in rows[::-1]]


def test_the_queue_opens_where_something_waits(client: Client, coordinator: User) -> None:
    assert "All clear" in client.get("/exceptions/").content.decode()
    make(1, "redraw_available")
    page = client.get("/exceptions/").content.decode()
    assert "Maria1 Testperson" in page and "3 d over" in page
    assert "Nothing here" in client.get("/exceptions/lost/").content.decode()


def test_requests_and_results_without_an_order_wait_too(client: Client, coordinator: User) -> None:
    UnmatchedResult(
        id=uid("unmatched", 1), status="pending_customer_review", decision_code="x",
        lab_name="North laboratory", created_at=timezone.now(),
        updated_at=timezone.now(), **envelope(),
    ).save()  # fmt: skip
    CommandRecord(
        kind="x", title="Cancel the order", subject_type="order", subject_id="1", payload={},
        form_id=uid("form", 1), requested_by=coordinator, idempotency_key=uid("key", 1),
        state="undecided",
    ).save()  # fmt: skip
    assert counted() == {"stuck": 1, "unknown": 1}
    assert "North laboratory" in client.get("/exceptions/stuck/").content.decode()
    assert "Needs your decision" in client.get("/exceptions/unknown/").content.decode()


def test_nothing_is_counted_that_its_reader_is_not_shown(client: Client) -> None:
    """The front desk does not match results: what it cannot see does not wait for it."""
    UnmatchedResult(
        id=uid("unmatched", 1), status="pending_customer_review", decision_code="x",
        lab_name="North laboratory", created_at=timezone.now(),
        updated_at=timezone.now(), **envelope(),
    ).save()  # fmt: skip
    assert counted() == {"stuck": 1}
    assert counted("front desk") == {}
    client.force_login(staff("front desk"))
    assert "All clear" in client.get("/exceptions/").content.decode()
    page = client.get("/today/").content.decode()
    tile = page[page.index('href="/exceptions/"', page.index('id="tiles"')) :][:400]
    assert ">0<" in tile, tile


def test_a_note_that_cannot_be_kept_says_why_and_stays(client: Client, coordinator: User) -> None:
    row = make(1)
    answer = send(client, row, "spoke", note="y" * 2_001)
    page = answer.content.decode()
    assert answer.status_code == 400 and not Handling.objects.exists()
    assert "at most 2000 characters" in page and "y" * 2_001 in page


# How it leaves, and when it comes back


@pytest.mark.parametrize(
    ("outcome", "days"), [("spoke", 3), ("voicemail", 1), ("wrong_number", 1), ("reship_asked", 2)]
)
def test_an_outcome_keeps_the_contact_and_the_next_due_in_the_patients_time(
    client: Client, coordinator: User, outcome: str, days: int
) -> None:
    row = make(1)
    answer = send(client, row, outcome, note="They will look for it")
    assert answer.status_code == 302
    contact = Contact.objects.get()
    assert (contact.subject_id, contact.outcome) == (str(row.pk), outcome)
    assert (contact.note, contact.by) == ("They will look for it", coordinator)
    assert contact.next_due_at is not None
    local = contact.next_due_at.astimezone(PHOENIX)
    assert (local.hour, local.minute) == (10, 0)
    first = timezone.now().astimezone(PHOENIX).date() + timedelta(days=days)
    assert local.date() == first + timedelta(days={5: 2, 6: 1}.get(first.weekday(), 0))
    assert keys("lost") == []
    come(row, after=contact.next_due_at - timezone.now() - timedelta(minutes=1))
    assert keys("lost") == [], "a minute too early"
    come(row, after=timedelta(minutes=2))
    assert keys("lost") == [row.pk], "its time has come"


def test_news_brings_it_back_before_its_time(client: Client, coordinator: User) -> None:
    row = make(1)
    send(client, row, "spoke")
    Order.objects.filter(pk=row.pk).update(last_event_id=row.last_event_id + 1)
    assert keys("lost") == [row.pk]
    assert counted() == {"lost": 1}, "and it is no longer put off"


def test_handled_needs_words_and_stays_out_until_there_is_news(
    client: Client, coordinator: User
) -> None:
    row = make(1)
    client.post(f"/exceptions/lost/{row.pk}/take/")
    assert Assignment.objects.count() == 1
    refused = send(client, row, "handled")
    assert refused.status_code == 400 and "Say what was done." in refused.content.decode()
    assert send(client, row, "handled", done="Ordered again").status_code == 302
    assert keys("lost") == [] and counted() == {}
    assert Note.objects.get().text == "Handled: Ordered again"
    assert not Assignment.objects.exists()
    assert Handling.objects.get().until is None


def test_snoozed_until_a_time_of_the_patients_day(client: Client, coordinator: User) -> None:
    row = make(1)
    day = (timezone.now() + timedelta(days=5)).date()
    answer = send(client, row, "snoozed", reason="On a trip", at=f"{day}T07:30", until="nonsense")
    assert answer.status_code == 302
    held = Handling.objects.get()
    assert held.until == datetime(day.year, day.month, day.day, 7, 30, tzinfo=PHOENIX)
    assert Contact.objects.get().outcome == "snoozed"
    page = client.get("/exceptions/put-off/").content.decode()
    assert "Maria1" in page and counted() == {"put-off": 1}
    card = client.get(f"/exceptions/lost/{row.pk}/").content.decode()
    assert "Not in the queue" in card and "07:30 MST" in card
    client.post(f"/exceptions/put-off/{row.pk}/back/")
    assert keys("lost") == [row.pk] and counted() == {"lost": 1}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"outcome": "snoozed", "reason": "", "until": "x"}, "Say why it can wait."),
        ({"outcome": "snoozed", "reason": "kept words", "until": "x"}, "Give a day and a time"),
        ({"outcome": "snoozed", "reason": "kept words", "at": "2020-01-01T10:00"}, "to come"),
        ({"outcome": "snoozed", "reason": "kept words", "at": "2099-01-01T10:00"}, "a year"),
        ({"outcome": "snoozed", "reason": "kept words", "at": "9999-12-31T23:59"}, "calendar"),
        ({"outcome": "vanished", "note": "kept words"}, "Choose how the call ended."),
        ({"note": "kept words"}, "Choose how the call ended."),
        ({"outcome": "handled", "done": ""}, "Say what was done."),
    ],
)
def test_bad_input_keeps_the_card_and_what_was_typed(
    client: Client, coordinator: User, given: dict[str, str], words: str
) -> None:
    row = make(1)
    answer = client.post(
        f"/exceptions/lost/{row.pk}/", {"event": row.last_event_id, "seen": "", **given}
    )
    page = answer.content.decode()
    assert answer.status_code == 400 and words in page
    if "kept words" in given.values():
        assert "kept words" in page
    assert keys("lost") == [row.pk]
    assert not Contact.objects.exists() and not Note.objects.exists()


def test_a_time_that_clocks_leave_out_is_refused(client: Client, coordinator: User) -> None:
    spring = next(
        day
        for day in (date(timezone.now().year + more, 3, n) for more in (0, 1) for n in range(8, 15))
        if day.weekday() == 6 and day > timezone.now().date()
    )
    record = {"patient_address": {"state": "NY"}}
    row = make(1, **envelope(json.dumps(record)))
    answer = send(client, row, "snoozed", reason="later", at=f"{spring}T02:30")
    assert "Clocks go forward then" in answer.content.decode()
    assert send(client, row, "snoozed", reason="later", at=f"{spring}T03:30").status_code == 302


def test_looking_at_cards_moves_nothing(client: Client, coordinator: User) -> None:
    row = make(1)
    for path in ("", "lost/", f"lost/{row.pk}/", f"quiet/{row.pk}/"):
        assert client.get(f"/exceptions/{path}").status_code == 200
    client.post(f"/exceptions/lost/{row.pk}/check/")
    client.post(f"/exceptions/lost/{row.pk}/take/")
    assert keys("lost") == [row.pk]
    assert client.post(f"/exceptions/lost/{row.pk}/", {}).status_code == 400
    assert keys("lost") == [row.pk]


# What a card shows


def test_a_card_says_why_whom_to_call_and_what_time_it_is_there(
    client: Client, coordinator: User
) -> None:
    row = make(1, "sample_error", status_detail="sample_hemolyzed")
    OrderEvent(order_id=row.pk, event_id=1, created_at=row.updated_at, status="x.y.sample_error",
               low_level_status="sample_error").save()  # fmt: skip
    page = client.get(f"/exceptions/lost/{row.pk}/").content.decode()
    there = timezone.now().astimezone(PHOENIX)
    for words in ("Sample unusable, 4 d ago", "Sample haemolysed", "(555) 010-0123",
                  f"{there:%H:}", "MST in Phoenix", "Order again",
                  "The lab could not use your sample"):  # fmt: skip
        assert words in page, words
    assert ("Too early" in page) is (there.hour < 8)
    assert ("Too late" in page) is (there.hour >= 20)


def card(client: Client, row: Order, group: str = "lost") -> str:
    """The card alone, as it reads."""
    page = client.get(f"/exceptions/{group}/{row.pk}/").content.decode()
    return page[page.index("callcard") :]


def test_a_card_shows_the_address_it_asks_about(client: Client, coordinator: User) -> None:
    row = make(1, "failure_to_deliver_to_customer")
    page = card(client, row, "delivery")
    assert "Is this address still right?" in page
    assert "1 Sample Street" in page and "Phoenix, AZ" in page
    blocked = make(2, "lab_processing_blocked", **envelope("{}"))
    assert "No address known" in card(client, blocked, "stuck")


def test_where_somebody_visits_the_card_shows_that_address(
    client: Client, coordinator: User
) -> None:
    row = make(1, "sample_error", method="at_home_phlebotomy")
    where = {"first_line": "5 Other Road", "city": "Tucson", "state": "AZ", "zip_code": "85701"}
    visit = Appointment(
        id=uid("appointment", 1), user_id=row.user_id, order_id=row.pk, type="phlebotomy",
        provider="p", status="confirmed", event_status="scheduled", **where, **envelope(),
    )  # fmt: skip
    visit.save()
    page = card(client, row)
    assert "Visit at" in page and "5 Other Road" in page and "1 Sample Street" not in page
    visit.type = "patient_service_center"
    visit.save()
    page = card(client, row)
    assert "1 Sample Street" in page and "5 Other Road" not in page, "a centre is not asked about"


def test_a_kit_on_its_way_to_the_lab_is_not_asked_for_the_patients_address(
    client: Client, coordinator: User
) -> None:
    page = card(client, make(1, "problem_in_transit_lab"), "delivery")
    assert "When did you send it" in page and "Is this address still right?" not in page


NOBODY: dict[str, Any] = {
    "patient_first_name": "",
    "patient_last_name": "",
    **envelope(
        json.dumps(
            {
                "patient_details": None,
                "patient_address": None,
                "shipping_details": {"receiver_name": "Clinic", "first_line": "9 Depot Way"},
            }
        )
    ),
}


def test_where_nobody_can_be_called_no_call_is_offered(client: Client, coordinator: User) -> None:
    User.objects.update(time_zone="America/Denver")
    row = make(1, "problem_in_transit_customer", **NOBODY)
    page = re.sub(
        r'name="(csrfmiddlewaretoken|about)" value="[^"]*"', "", card(client, row, "delivery")
    )
    for words in ("Hello", "What to say", "Spoke", "Voicemail", "Wrong number", "UTC", "Local time",
                  "their place is not known", "the patient’s clock"):  # fmt: skip
        assert words not in page, words
    for words in ("Nobody to call", "9 Depot Way", "Re-ship requested", "Put off", "Handled",
                  "your clock"):  # fmt: skip
        assert words in page, words
    refused = send(client, row, "spoke")
    assert refused.status_code == 400 and not Contact.objects.exists()
    assert send(client, row, "reship_asked").status_code == 302
    until = Handling.objects.get().until
    assert until is not None and until.astimezone(ZoneInfo("America/Denver")).hour == 10


@pytest.mark.parametrize("method", ["walk_in_test", "on_site_collection", "at_home_phlebotomy"])
@pytest.mark.parametrize("low", ["sample_error", "redraw_available", "lost", "teleported"])
def test_without_a_kit_none_is_promised(
    client: Client, coordinator: User, method: str, low: str
) -> None:
    row = make(1, low, method=method)
    group = GROUP_OF[low]
    page = card(client, row, group)
    assert "Hello, this is the clinic" in page and "Spoke" in page
    assert " kit" not in page and "Re-ship" not in page
    assert send(client, row, "reship_asked").status_code == 400
    assert not Handling.objects.exists()
    assert send(client, row, "spoke").status_code == 302


def test_a_kit_may_be_sent_again(client: Client, coordinator: User) -> None:
    page = card(client, make(1, "sample_error"))
    assert "May we send you a new kit" in page and "Re-ship requested" in page


def test_the_clock_of_a_patient_is_found_or_said_to_be_unknown() -> None:
    def zone(record: str, fallback: str | None = None) -> tuple[str, bool, bool]:
        someone = patient(1, fallback_time_zone=fallback)
        place = local_clock_of(order(1, user=someone, user_id=someone.pk, **envelope(record)))
        return place.name, place.sure, place.known

    def state(name: str) -> str:
        return json.dumps({"patient_address": {"state": name}})

    assert zone(state("az")) == ("America/Phoenix", True, True)
    assert zone(state("TX")) == ("America/Chicago", False, True)
    assert zone(state("TX"), "America/Denver") == ("America/Denver", True, True)
    assert zone(state("AZ"), "America/Denver") == ("America/Phoenix", True, True)
    assert zone("{}", "Europe/Paris") == ("Europe/Paris", True, True)
    for record in ("{}", "null", state("??"), '{"patient_address": {"state": 7}}'):
        assert zone(record, "Not/AZone") == ("UTC", False, False)


# Two people at once


def test_who_comes_second_is_told_who_was_first_and_nothing_typed_is_lost(
    client: Client, coordinator: User
) -> None:
    row = make(1)
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


def test_a_card_somebody_took_is_theirs(client: Client, coordinator: User) -> None:
    row, free = make(1, days_over=5), make(2, days_over=4)
    other = Client()
    ben = staff("front desk", "ben")
    other.force_login(ben)
    other.post(f"/exceptions/lost/{row.pk}/take/")
    assert "ben</strong> is on this" in client.get("/exceptions/lost/").content.decode()
    took = client.post(f"/exceptions/lost/{row.pk}/take/", follow=True).content.decode()
    assert "ben took this" in took
    answer = send(client, row, "spoke")
    assert answer.status_code == 409 and "ben is on this" in answer.content.decode()
    assert not Contact.objects.exists()
    third = make(3, days_over=6)
    leads = send(client, third, "spoke").headers["Location"]
    assert leads == f"/exceptions/lost/{free.pk}/", "the one that is taken is passed over"
    assert send(other, row, "spoke").status_code == 302


def test_news_since_the_card_was_opened_stops_an_outcome(client: Client, coordinator: User) -> None:
    row = make(1)
    Order.objects.filter(pk=row.pk).update(last_event_id=row.last_event_id + 1)
    answer = send(client, row, "spoke", note="typed words")
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "Something happened to this order since you opened it" in page and "typed words" in page
    assert not Contact.objects.exists()
    row.refresh_from_db()
    assert send(client, row, "spoke").status_code == 302


@pytest.mark.django_db(transaction=True)
def test_of_two_at_the_same_moment_one_wins() -> None:
    row = make(1)
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


# The next card


def test_the_next_card_is_further_down_then_on_top_then_in_the_next_group(
    client: Client, coordinator: User
) -> None:
    first, second, third = (make(n, days_over=10 - n) for n in (1, 2, 3))
    draw = make(4, "redraw_available")
    assert send(client, second, "spoke").headers["Location"] == f"/exceptions/lost/{third.pk}/"
    assert send(client, third, "spoke").headers["Location"] == f"/exceptions/lost/{first.pk}/"
    assert send(client, first, "spoke").headers["Location"] == f"/exceptions/draw/{draw.pk}/"
    assert send(client, draw, "spoke").headers["Location"] == "/exceptions/"
    assert "All clear" in client.get("/exceptions/").content.decode()


# Who may, and what is recorded


def test_roles(client: Client) -> None:
    row = make(1)
    for role in ("viewer", "auditor"):
        client.force_login(staff(role))
        for path in ("", "lost/", f"lost/{row.pk}/"):
            assert client.get(f"/exceptions/{path}").status_code == 403
        assert send(client, row, "spoke").status_code == 403
    client.force_login(staff("front desk"))
    page = client.get("/exceptions/").content.decode()
    assert "Maria1" in page and "Clinical urgency" not in page
    assert client.get("/exceptions/critical/").status_code == 404
    assert client.get("/exceptions/nonsense/").status_code == 404
    assert client.get(f"/exceptions/lost/{uid('order', 99)}/").status_code == 404
    client.logout()
    assert client.get("/exceptions/").status_code == 302


def test_who_saw_and_who_did_is_recorded(client: Client, coordinator: User) -> None:
    row = make(1)
    client.get("/exceptions/lost/")
    client.get(f"/exceptions/lost/{row.pk}/")
    send(client, row, "spoke")
    done = AuditEntry.objects.filter(patient_ids__contains=[row.user_id])
    assert list(done.order_by("pk").values_list("action", "object_type")) == [
        ("list", "exception"),
        ("view", "exception"),
        ("change", "contact"),
    ]


@pytest.fixture
def warm(client: Client, coordinator: User) -> None:
    client.get("/exceptions/")  # the first page of a session also stores its CSRF secret


def test_the_number_of_queries_is_fixed(client: Client, warm: None) -> None:
    def queries(path: str) -> int:
        with CaptureQueriesContext(connection) as seen:
            assert client.get(path).status_code == 200
        return len(seen)

    row = make(0)
    few = queries("/exceptions/lost/"), queries(f"/exceptions/lost/{row.pk}/")
    for n in range(1, 12):
        send(client, make(n), "spoke")
        make(100 + n)
    many = queries("/exceptions/lost/"), queries(f"/exceptions/lost/{row.pk}/")
    assert many == few
    assert few[0] <= 13 and few[1] <= 26, few


def test_the_groups_are_read_by_their_indexes() -> None:
    """At a million orders nothing else would do; here plans are only asked to be possible."""
    now = datetime(2026, 11, 20, tzinfo=UTC)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_bitmapscan = off")
        cursor.execute("SET LOCAL enable_sort = off")
        for key, name in (
            ("lost", "exception_lost"),
            ("stuck", "exception_stuck"),
            ("delivery", "exception_delivery"),
            ("draw", "exception_draw"),
            ("quiet", "exception_quiet"),
        ):
            rows = queue.group_orders(key, now).order_by("quiet_at", "id")[:25]
            assert name in rows.explain(), (key, rows.explain())
