"""An order that the service gives to another patient: told everywhere, until it is settled."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from django.utils import timezone

from backoffice import live
from backoffice.models import AuditEntry, Drift, User
from orders.exceptions import queue
from orders.exceptions.handling import stamp
from orders.models import Handling, Happening, Order, OrderMove, Review
from orders.today import digest
from orders.today.tiles import tiles
from tests.api.rows import demographics, patient, staff, uid
from tests.reviewing.rows import came
from tests.webhooks.records import USER, at, order, order_id
from tests.webhooks.rows import put
from webhooks import applying

pytestmark = pytest.mark.django_db

OTHER = uid("patient", 2)
ORDER = UUID(order_id(1))


def heard(steps: int, user: object = USER, **changed: Any) -> None:
    event = put("labtest.order.updated", order(1, steps, user_id=str(user), **changed))
    applying.drain()
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
def moved(coordinator: User) -> Order:
    """Of USER, then of OTHER."""
    demographics(1, user_id=USER, first_name="Earlier").save()
    heard(3)
    heard(4, OTHER)
    return Order.objects.get(pk=ORDER)


def waiting() -> list[UUID]:
    return [row.pk for row in queue.page(queue.MOVED, timezone.now()).rows]


def settle(client: Client, row: Order) -> Any:
    last = Handling.objects.filter(pk=row.pk).first()
    given = {"outcome": "handled", "done": "Asked the lab", "event": row.last_event_id}
    return client.post(f"/exceptions/moved/{row.pk}/", {**given, "seen": stamp(last)})


def test_it_is_applied_and_both_patients_are_kept(moved: Order) -> None:
    assert moved.user_id == OTHER
    (move,) = OrderMove.objects.all()
    assert (move.order_id, str(move.before), move.after) == (ORDER, USER, OTHER)
    (drift,) = Drift.objects.all()
    assert (drift.kind, drift.resource, drift.key) == ("moved", "orders_order", str(ORDER))


def test_it_waits_in_the_queue_on_its_page_and_on_today(
    client: Client, coordinator: User, moved: Order
) -> None:
    assert waiting() == [ORDER]
    counts = queue.counts(timezone.now(), coordinator)
    assert counts[queue.MOVED].value == 1
    work, _ = tiles(coordinator)
    assert next(tile for tile in work if tile.label == "Exceptions").count.value == 1
    told = digest.digest(coordinator, sees_results=True)
    labels = [line.term.label for news in told.groups[0].orders for line in news.lines]
    assert labels[0] == "Moved to another patient"
    assert "Moved to another patient" in client.get("/today/").content.decode()
    for address in (f"/exceptions/moved/{ORDER}/", f"/orders/{ORDER}/"):
        page = client.get(address).content.decode()
        assert "The service moved this order to another patient" in page, address
        assert "Earlier Testperson" in page and f"/patients/{USER}/" in page, address
        entry = AuditEntry.objects.latest("pk")
        assert {UUID(USER), OTHER} <= set(entry.patient_ids), address
    assert "Order moved here" in client.get(f"/patients/{OTHER}/activity/").content.decode()


@pytest.mark.django_db(transaction=True)
def test_a_move_alone_is_news(coordinator: User) -> None:
    heard(3)
    digest.see_all(coordinator, live.now_of(coordinator))
    assert digest.digest(coordinator, sees_results=True).groups == []
    Order.objects.update(user=OTHER)
    (group,) = digest.digest(coordinator, sees_results=True).groups
    assert (group.about, group.rank) == (OTHER, 1)


def test_it_is_settled_by_an_outcome_and_stays_in_the_history(client: Client, moved: Order) -> None:
    assert settle(client, moved).status_code == 302
    assert waiting() == []
    move = OrderMove.objects.get()
    assert move.settled_at and move.settled_by and move.settled_by.username == "ana"
    heard(5, OTHER)
    assert waiting() == [], "news of the order does not bring the move back"
    page = client.get(f"/orders/{ORDER}/?stream=everything").content.decode()
    assert "The service moved" not in page and "Moved from another patient" in page


def test_to_put_it_off_settles_nothing(client: Client, moved: Order) -> None:
    last = timezone.now() + timedelta(days=1)
    given = {"outcome": "snoozed", "reason": "Asked", "until": last.isoformat()}
    sent = {**given, "event": moved.last_event_id, "seen": ""}
    assert client.post(f"/exceptions/moved/{ORDER}/", sent).status_code == 302
    assert waiting() == [] and OrderMove.objects.get().settled_at is None
    Handling.objects.update(until=timezone.now() - timedelta(seconds=1))
    assert waiting() == [ORDER]


def test_what_was_put_off_before_hides_no_move(coordinator: User) -> None:
    heard(4)
    row = Order.objects.get()
    Handling.objects.create(
        order=row, event_id=row.last_event_id + 900, outcome="handled", until=None,
        by=coordinator, at=timezone.now(),
    )  # fmt: skip
    heard(4, OTHER, updated_at=at(600))
    assert waiting() == [ORDER]


def test_the_review_of_its_result_follows_it(coordinator: User) -> None:
    heard(6)
    came(ORDER, ("Sodium", "4.1", "normal"))
    assert str(Review.objects.get().user_id) == USER
    heard(6, OTHER, updated_at=at(600))
    assert Review.objects.get().user_id == OTHER


def test_who_sees_no_names_is_told_no_name(client: Client, moved: Order) -> None:
    client.force_login(staff("viewer"))
    page = client.get(f"/orders/{ORDER}/").content.decode()
    assert "moved this order to another patient" in page
    assert "Earlier" not in page and USER not in page


def test_a_kit_that_gets_its_patient_has_not_moved(coordinator: User) -> None:
    nobody = {"first_name": None, "last_name": None, "dob": None}
    heard(2, patient_details=nobody)
    heard(3, OTHER)
    assert not OrderMove.objects.exists() and not Drift.objects.exists()


def test_news_of_the_same_patient_are_no_move(coordinator: User) -> None:
    heard(2)
    heard(3)
    assert not OrderMove.objects.exists()
    assert not Happening.objects.filter(kind=Happening.MOVED).exists()
