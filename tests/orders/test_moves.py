"""Orders that the service moves to another patient are reported until someone settles the move."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from django.utils import timezone

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.mirror.models import Drift
from backoffice.pages import live
from backoffice.team.models import Contact, Note
from orders.exceptions import queue
from orders.models import Handling, Order, OrderActivity, OrderPatientChange, Review
from orders.today import digest
from orders.today.tiles import tiles
from tests.api.rows import demographics, patient, staff, uid
from tests.reviewing.rows import receive_result
from tests.webhooks.records import USER, at, order, order_id
from tests.webhooks.rows import put
from webhooks import apply_events

pytestmark = pytest.mark.django_db

OTHER = uid("patient", 2)
ORDER = UUID(order_id(1))
HANDLED = {"outcome": "handled", "done": "Asked the lab"}


def apply_order_event(steps: int, user: object = USER, **changed: Any) -> None:
    event = put("labtest.order.updated", order(1, steps, user_id=str(user), **changed))
    apply_events.drain()
    event.refresh_from_db()
    assert (event.state, event.outcome) == ("done", "applied")


@pytest.fixture
def coordinator(client: Client) -> User:
    user = staff("lab coordinator", "ana")
    client.force_login(user)
    for n in (1, 2):
        patient(n).save()
        demographics(n).save()
    return user


@pytest.fixture
def moved_order(coordinator: User) -> Order:
    """An order of USER that then moves to OTHER."""
    patient(3, id=USER).save()
    demographics(1, user_id=USER, first_name="Earlier").save()
    apply_order_event(3)
    apply_order_event(4, OTHER)
    return Order.objects.get(pk=ORDER)


def moved_queue() -> list[UUID]:
    return [row.pk for row in queue.group_page(queue.MOVED, timezone.now()).rows]


def exception_count(user: User) -> int:
    """Return the number of exceptions that Today shows."""
    work, _ = tiles(user)
    return next(tile for tile in work if tile.label == "Exceptions").count.value


def card_fields(client: Client) -> dict[str, str]:
    """Return the fields that the card of the order, opened now, sends."""
    page = client.get(f"/exceptions/moved/{ORDER}/").content.decode()
    return dict(re.findall(r'name="(event|move|seen)" value="([^"]*)"', page))


def record_outcome(client: Client, card: dict[str, str], given: dict[str, str]) -> int:
    return client.post(f"/exceptions/moved/{ORDER}/", {**card, **given}).status_code


def test_move_is_applied_and_stores_both_patients(moved_order: Order) -> None:
    assert moved_order.user_id == OTHER
    (move,) = OrderPatientChange.objects.all()
    assert (move.order_id, str(move.before), move.after) == (ORDER, USER, OTHER)
    (drift,) = Drift.objects.all()
    assert (drift.kind, drift.resource, drift.key) == ("moved", "orders_order", str(ORDER))


def test_move_is_shown_in_queue_order_page_and_today(
    client: Client, coordinator: User, moved_order: Order
) -> None:
    assert moved_queue() == [ORDER]
    counts = queue.group_counts(timezone.now(), coordinator)
    assert counts[queue.MOVED].value == 1
    assert exception_count(coordinator) == 1
    built = digest.build_digest(coordinator, sees_results=True)
    labels = [line.term.label for news in built.groups[0].orders for line in news.lines]
    assert labels[0] == "Moved to another patient"
    assert "Moved to another patient" in client.get("/today/").content.decode()
    for address in (f"/exceptions/moved/{ORDER}/", f"/orders/{ORDER}/"):
        page = client.get(address).content.decode()
        assert "The lab service moved this order to another patient" in page, address
        assert "Earlier Testperson" in page and f"/patients/{USER}/" in page, address
        entry = AuditEntry.objects.latest("pk")
        assert {UUID(USER), OTHER} <= set(entry.patient_ids), address
    assert "Order moved here" in client.get(f"/patients/{OTHER}/activity/").content.decode()


@pytest.mark.parametrize(
    ("low", "bucket"),
    [("lost", "needs-action"), ("decided_so", "needs-action"), ("teleported", "unknown")],
)
def test_moved_order_in_trouble_counts_once_on_today(
    coordinator: User, moved_order: Order, low: str, bucket: str
) -> None:
    Order.objects.update(low_level_status=low, bucket=bucket)
    assert exception_count(coordinator) == 1


def test_moved_critical_order_counts_once_for_every_role(
    coordinator: User, moved_order: Order
) -> None:
    receive_result(ORDER, ("Potassium", "6.9", "critical"))
    assert exception_count(coordinator) == 1
    assert exception_count(staff("front desk", "ben")) == 1


@pytest.mark.django_db(transaction=True)
def test_move_alone_appears_in_digest(coordinator: User) -> None:
    apply_order_event(3)
    digest.mark_all_seen(coordinator, live.current_snapshot(coordinator))
    assert digest.build_digest(coordinator, sees_results=True).groups == []
    Order.objects.update(user=OTHER)
    (group,) = digest.build_digest(coordinator, sees_results=True).groups
    assert (group.about, group.rank) == (OTHER, 1)


def test_outcome_settles_move_and_keeps_history(client: Client, moved_order: Order) -> None:
    assert record_outcome(client, card_fields(client), HANDLED) == 302
    assert moved_queue() == []
    move = OrderPatientChange.objects.get()
    assert move.settled_at and move.settled_by and move.settled_by.username == "ana"
    apply_order_event(5, OTHER)
    assert moved_queue() == [], "a new event of the order does not reopen the move"
    page = client.get(f"/orders/{ORDER}/?stream=everything").content.decode()
    assert "The lab service moved" not in page and "Moved from another patient" in page


def test_snooze_does_not_settle_move(client: Client, moved_order: Order) -> None:
    until = timezone.now() + timedelta(days=1)
    given = {"outcome": "snoozed", "reason": "Asked", "until": until.isoformat()}
    assert record_outcome(client, card_fields(client), given) == 302
    assert moved_queue() == [] and OrderPatientChange.objects.get().settled_at is None
    Handling.objects.update(until=timezone.now() - timedelta(seconds=1))
    assert moved_queue() == [ORDER]


@pytest.mark.parametrize("given", [HANDLED, {"outcome": "spoke", "note": "of the first"}])
def test_unseen_move_cannot_be_settled(
    client: Client, coordinator: User, given: dict[str, str]
) -> None:
    """The move arrives without an event while the card is open; then once more, back again."""
    apply_order_event(4)
    for minutes, owner in ((600, OTHER), (1200, USER)):
        card = card_fields(client)
        apply_order_event(4, owner, updated_at=at(minutes))
        assert record_outcome(client, card, given) == 409
        assert not OrderPatientChange.objects.exclude(settled_at=None).exists()
        assert not Note.objects.exists() and not Contact.objects.exists()
        assert moved_queue() == [ORDER]
    assert OrderPatientChange.objects.count() == 2
    assert record_outcome(client, card_fields(client), given) == 302


def test_earlier_handling_does_not_hide_move(coordinator: User) -> None:
    apply_order_event(4)
    row = Order.objects.get()
    Handling.objects.create(
        order=row, event_id=row.last_event_id + 900, outcome="handled", until=None,
        by=coordinator, at=timezone.now(),
    )  # fmt: skip
    apply_order_event(4, OTHER, updated_at=at(600))
    assert moved_queue() == [ORDER]


def test_review_follows_moved_order(coordinator: User) -> None:
    apply_order_event(6)
    receive_result(ORDER, ("Sodium", "4.1", "normal"))
    assert str(Review.objects.get().user_id) == USER
    apply_order_event(6, OTHER, updated_at=at(600))
    assert Review.objects.get().user_id == OTHER


def test_viewer_sees_move_without_names(client: Client, moved_order: Order) -> None:
    client.force_login(staff("viewer"))
    page = client.get(f"/orders/{ORDER}/").content.decode()
    assert "moved this order to another patient" in page
    assert "Earlier" not in page and USER not in page


def test_kit_that_gets_its_patient_is_no_move(coordinator: User) -> None:
    nobody = {"first_name": None, "last_name": None, "dob": None}
    apply_order_event(2, patient_details=nobody)
    apply_order_event(3, OTHER)
    assert not OrderPatientChange.objects.exists() and not Drift.objects.exists()


def test_event_of_same_patient_is_no_move(coordinator: User) -> None:
    apply_order_event(2)
    apply_order_event(3)
    assert not OrderPatientChange.objects.exists()
    assert not OrderActivity.objects.filter(kind=OrderActivity.MOVED).exists()
