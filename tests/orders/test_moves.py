"""An order that the service gives to another patient: told everywhere, until it is settled."""

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
from orders.models import Handling, Happening, Order, OrderMove, Review
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


def heard(steps: int, user: object = USER, **changed: Any) -> None:
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
def moved(coordinator: User) -> Order:
    """Of USER, then of OTHER."""
    patient(3, id=USER).save()
    demographics(1, user_id=USER, first_name="Earlier").save()
    heard(3)
    heard(4, OTHER)
    return Order.objects.get(pk=ORDER)


def waiting() -> list[UUID]:
    return [row.pk for row in queue.group_page(queue.MOVED, timezone.now()).rows]


def exceptions_of(user: User) -> int:
    """As Today counts them."""
    work, _ = tiles(user)
    return next(tile for tile in work if tile.label == "Exceptions").count.value


def seen(client: Client) -> dict[str, str]:
    """What the order's card, opened now, sends along."""
    page = client.get(f"/exceptions/moved/{ORDER}/").content.decode()
    return dict(re.findall(r'name="(event|move|seen)" value="([^"]*)"', page))


def record(client: Client, card: dict[str, str], given: dict[str, str]) -> int:
    return client.post(f"/exceptions/moved/{ORDER}/", {**card, **given}).status_code


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
    counts = queue.group_counts(timezone.now(), coordinator)
    assert counts[queue.MOVED].value == 1
    assert exceptions_of(coordinator) == 1
    told = digest.build_digest(coordinator, sees_results=True)
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


@pytest.mark.parametrize(
    ("low", "bucket"),
    [("lost", "needs-action"), ("decided_so", "needs-action"), ("teleported", "unknown")],
)
def test_in_trouble_besides_it_counts_once_on_today(
    coordinator: User, moved: Order, low: str, bucket: str
) -> None:
    Order.objects.update(low_level_status=low, bucket=bucket)
    assert exceptions_of(coordinator) == 1


def test_critical_besides_it_counts_once_for_who_sees_results_and_who_does_not(
    coordinator: User, moved: Order
) -> None:
    receive_result(ORDER, ("Potassium", "6.9", "critical"))
    assert exceptions_of(coordinator) == 1
    assert exceptions_of(staff("front desk", "ben")) == 1


@pytest.mark.django_db(transaction=True)
def test_a_move_alone_is_news(coordinator: User) -> None:
    heard(3)
    digest.mark_all_seen(coordinator, live.now_of(coordinator))
    assert digest.build_digest(coordinator, sees_results=True).groups == []
    Order.objects.update(user=OTHER)
    (group,) = digest.build_digest(coordinator, sees_results=True).groups
    assert (group.about, group.rank) == (OTHER, 1)


def test_it_is_settled_by_an_outcome_and_stays_in_the_history(client: Client, moved: Order) -> None:
    assert record(client, seen(client), HANDLED) == 302
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
    assert record(client, seen(client), given) == 302
    assert waiting() == [] and OrderMove.objects.get().settled_at is None
    Handling.objects.update(until=timezone.now() - timedelta(seconds=1))
    assert waiting() == [ORDER]


@pytest.mark.parametrize("given", [HANDLED, {"outcome": "spoke", "note": "of the first"}])
def test_a_move_nobody_saw_is_settled_by_nobody(
    client: Client, coordinator: User, given: dict[str, str]
) -> None:
    """It comes without an event while the card stands open; and once more, back again."""
    heard(4)
    for minutes, owner in ((600, OTHER), (1200, USER)):
        card = seen(client)
        heard(4, owner, updated_at=at(minutes))
        assert record(client, card, given) == 409
        assert not OrderMove.objects.exclude(settled_at=None).exists()
        assert not Note.objects.exists() and not Contact.objects.exists()
        assert waiting() == [ORDER]
    assert OrderMove.objects.count() == 2
    assert record(client, seen(client), given) == 302


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
    receive_result(ORDER, ("Sodium", "4.1", "normal"))
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
