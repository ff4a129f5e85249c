"""Look-ups that fail: alone, visibly, and without losing a reason to look (in this process)."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError, connection, transaction

from backoffice import sync
from backoffice.models import Lookup, UnreadRecord
from backoffice.service import Record
from backoffice.service.orders import ORDER
from backoffice.service.orders import Order as OrderRecord
from backoffice.service.users import UserInfo
from orders.models import Order
from orders.sync.orders import ORDER_LOOKUP, store_orders
from patients.models import Connection, Demographics
from patients.sync import LOOKUP_TYPES
from tests.sync.conftest import Point
from tests.sync.standin import Asked, Reply
from tests.test_mirror import until_waiting, worker
from tests.webhooks.records import order, order_id

pytestmark = pytest.mark.django_db(transaction=True)

BY_KIND = {lookup_type.kind: lookup_type for lookup_type in LOOKUP_TYPES}
DEMOGRAPHICS, CONNECTIONS = BY_KIND["demographics"], BY_KIND["connections"]
DOWN = Reply({}, 503, {"retry-after": "0"})


def user_of(asked: Asked) -> int:
    return next(UUID(part).int for part in asked.path.split("/") if len(part) == 36)


def info(number: int, **changes: object) -> Reply:
    names = {"first_name": f"First{number}", "last_name": "Testperson"}
    return Reply({**names, "email": "a@example.invalid", **changes})


def connected(number: int) -> Reply:
    band = {"slug": "band-one", "name": "Band One", "status": "connected"}
    return Reply({"providers": [{**band, "created_on": "2026-03-01T08:00:00+00:00"}]})


def marked(kind: str, numbers: range) -> None:
    sync.schedule_lookups(kind, [UUID(int=number) for number in numbers])


def row(kind: str, number: int) -> Lookup:
    return Lookup.objects.get(kind=kind, key=str(UUID(int=number)))


def read() -> set[int]:
    return {key.int for key in Demographics.objects.values_list("pk", flat=True)}


def waits(lookup: Lookup) -> float:
    """Seconds until the row is due again; negative when it is due."""
    assert lookup.due_at is not None
    return (lookup.due_at - datetime.now(UTC)).total_seconds()


def put_forward(seconds: float = 0) -> None:
    """As if the time to look again had come."""
    Lookup.objects.update(due_at=datetime.now(UTC) - timedelta(seconds=seconds))


@pytest.mark.parametrize(
    "answer",
    [Reply({"first_name": ["not", "text"]}), Reply(b"<html>"), Reply({"detail": "no"}, 403)],
    ids=["misfit", "html", "refused"],
)
def test_one_bad_answer_is_about_itself(point: Point, answer: Reply) -> None:
    """Whatever an answer says about one record, the others of its kind are asked and stored."""
    point(lambda asked: answer if user_of(asked) == 7 else info(user_of(asked)))
    marked("demographics", range(1, 31))
    assert sync.run_due_lookups([DEMOGRAPHICS]) == 29
    assert read() == set(range(1, 31)) - {7}
    seven = row("demographics", 7)
    assert seven.error and seven.attempts == 1 and seven.lease_token is None
    assert 1 < waits(seven) <= 10
    assert not Lookup.objects.exclude(key=seven.key).exclude(error="").exists()


def test_unreadable_answer_is_kept_until_it_can_be_read(point: Point) -> None:
    readable = False

    def answer(asked: Asked) -> Reply:
        number = user_of(asked)
        return info(number) if readable or number != 7 else info(number, first_name={"a": "b"})

    point(answer)
    marked("demographics", range(5, 9))
    sync.run_due_lookups([DEMOGRAPHICS])
    kept = UnreadRecord.objects.get()
    assert (kept.resource, kept.key) == ("demographics", str(UUID(int=7)))
    assert kept.path == "$.first_name" and '"Testperson"' in kept.record
    put_forward()
    sync.run_due_lookups([DEMOGRAPHICS])
    assert UnreadRecord.objects.get().first_seen == kept.first_seen  # still one
    assert row("demographics", 7).attempts == 2
    readable = True
    put_forward()
    assert sync.run_due_lookups([DEMOGRAPHICS]) == 4
    assert not UnreadRecord.objects.exists() and row("demographics", 7).error == ""
    assert read() == {5, 6, 7, 8}


@pytest.mark.parametrize("gone", [False, True])
def test_unreachable_closes_its_kind_alone(point: Point, gone: bool) -> None:
    """The rest of the kind is not asked for, given back as it was, and due for the next tick."""
    down = True
    asked_for: list[int] = []

    def answer(asked: Asked) -> Reply:
        if "/info" not in asked.path:
            return connected(user_of(asked))
        asked_for.append(user_of(asked))
        refusal = Reply({"detail": "key"}, 401) if gone else DOWN
        return refusal if down else info(user_of(asked))

    point(answer)
    marked("demographics", range(1, 41))
    marked("connections", range(1, 41))
    assert sync.run_due_lookups([DEMOGRAPHICS, CONNECTIONS]) == 40
    assert Connection.objects.count() == 40 and not read()
    failed = Lookup.objects.filter(kind="demographics").exclude(error="")
    left = Lookup.objects.filter(kind="demographics", error="")
    assert 1 <= failed.count() <= 8 and failed.count() + left.count() == 40
    assert len(set(asked_for)) == failed.count()
    for lookup in left:
        assert (lookup.lease_token, lookup.lease_until, lookup.attempts) == (None, None, 0)
        assert lookup.looked_at is None and waits(lookup) <= 0
    due, down = left.count(), False
    assert sync.run_due_lookups([DEMOGRAPHICS]) == due == len(read())


def test_answer_that_cannot_be_stored_is_put_back_alone(point: Point) -> None:
    """An error of ours about one answer: the other answers and the missing ones are settled."""
    point(
        lambda asked: (
            Reply({"detail": "User not found"}, 404)
            if user_of(asked) == 3
            else info(user_of(asked))
        )
    )

    def store(answers: Mapping[str, Record[UserInfo]]) -> Mapping[str, timedelta | None]:
        if any(answer.data.first_name == "First7" for answer in answers.values()):
            raise ZeroDivisionError("about one record")
        return DEMOGRAPHICS.store(answers)

    lookup_type = replace(DEMOGRAPHICS, store=store)
    marked("demographics", range(1, 31))
    assert sync.run_due_lookups([lookup_type]) == 29
    assert read() == set(range(1, 31)) - {3, 7}
    seven = row("demographics", 7)
    assert (seven.error, seven.attempts, seven.lease_token) == ("ZeroDivisionError", 1, None)
    assert seven.looked_at is None and 1 < waits(seven) <= 5
    others = Lookup.objects.exclude(key=seven.key)
    assert not others.exclude(error="").exists()
    assert not others.filter(looked_at=None).exists()
    put_forward()
    sync.run_due_lookups([lookup_type])
    assert row("demographics", 7).attempts == 2 and waits(row("demographics", 7)) > 5
    put_forward()
    assert sync.run_due_lookups([DEMOGRAPHICS]) == 30 and 7 in read()


def test_error_of_ours_while_asking(point: Point) -> None:
    """A call that fails by our own fault does not take its neighbours with it."""
    point(lambda asked: info(user_of(asked)))

    def fetch(service: Any, key: str) -> Any:
        if UUID(key).int == 7:
            raise KeyError("ours")
        return DEMOGRAPHICS.fetch(service, key)

    marked("demographics", range(1, 21))
    assert sync.run_due_lookups([replace(DEMOGRAPHICS, fetch=fetch)]) == 19
    assert read() == set(range(1, 21)) - {7}
    seven = row("demographics", 7)
    assert (seven.error, seven.attempts) == ("KeyError", 1) and waits(seven) > 1


def reasoned(reply: Callable[[int], Reply]) -> Callable[[Asked], Reply]:
    """While the first call is on its way, there is a newer reason to look."""
    told: set[int] = set()

    def answer(asked: Asked) -> Reply:
        number = user_of(asked)
        if number not in told:
            told.add(number)
            sync.schedule_lookups("demographics", [UUID(int=number)])
            connection.close()
        return reply(number)

    return answer


def test_newer_reason_during_a_call_that_fails(point: Point) -> None:
    """The wait belongs to the reason that failed; the newer one is due now."""
    point(reasoned(lambda number: DOWN))
    marked("demographics", range(1, 2))
    assert sync.run_due_lookups([DEMOGRAPHICS]) == 0
    first = row("demographics", 1)
    assert first.generation == 2 and "Unreachable" in first.error
    assert waits(first) <= 0 and first.lease_token is None
    # Without a newer one it waits.
    sync.run_due_lookups([DEMOGRAPHICS])
    assert waits(row("demographics", 1)) > 1


def test_newer_reason_during_a_call_that_is_answered(point: Point) -> None:
    """What was asked for before the reason does not answer it: it is asked for again at once."""
    asked_for: list[int] = []

    def reply(number: int) -> Reply:
        asked_for.append(number)
        return info(number)

    point(reasoned(reply))
    marked("demographics", range(1, 4))
    assert sync.run_due_lookups([DEMOGRAPHICS]) == 6
    assert sorted(asked_for) == [1, 1, 2, 2, 3, 3]
    assert waits(row("demographics", 1)) > 3600


def test_wait_the_service_asked_for(point: Point) -> None:
    point(lambda asked: Reply({}, 429, {"retry-after": "200"}))
    marked("demographics", range(1, 2))
    sync.run_due_lookups([DEMOGRAPHICS])
    assert 190 < waits(row("demographics", 1)) <= 200


def test_waits_grow_to_an_hour(point: Point) -> None:
    point(lambda asked: Reply({"detail": "no"}, 403))
    marked("demographics", range(1, 2))
    waited = []
    for _ in range(12):
        put_forward()
        sync.run_due_lookups([DEMOGRAPHICS])
        waited.append(round(waits(row("demographics", 1))))
    assert waited[:4] == pytest.approx([5, 10, 20, 40], abs=1)
    assert waited == sorted(waited) and waited[-1] == pytest.approx(3600, abs=2)


def told(steps: int) -> Record[OrderRecord]:
    record = ORDER.read(json.dumps(order(1, steps)).encode(), datetime.now(UTC))
    assert isinstance(record, Record)
    return record


def test_deadlock_with_a_worker_that_applies_events(point: Point) -> None:
    """It holds the look-up and wants the order, we hold the order and want the look-up: our
    answers are stored again, without a second request.

    Once more or twice: whoever gets the lock first after the first deadlock is open."""
    asked: list[Asked] = []
    turns: list[int] = []
    stored, marked = threading.Event(), threading.Event()

    def answer(request: Asked) -> Reply:
        asked.append(request)
        return Reply(order(1, 3))

    def store(answers: Mapping[str, Record[OrderRecord]]) -> Mapping[str, timedelta | None]:
        turns.append(len(asked))
        again = ORDER_LOOKUP.store(answers)
        if not stored.is_set():
            stored.set()
            assert marked.wait(10)
            until_waiting()
        return again

    def apply_events() -> None:
        assert stored.wait(10)
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL deadlock_timeout = '1min'")  # So that the other one loses.
            sync.schedule_lookups("orders", [order_id(1)])
            marked.set()
            store_orders([told(4)])

    point(answer)
    store_orders([told(2)])
    sync.schedule_lookups("orders", [order_id(1)])
    with worker(apply_events) as raised:
        # The second is for the mark of the other worker.
        assert sync.run_due_lookups([replace(ORDER_LOOKUP, store=store)]) == 2
    assert raised == []
    assert turns[:2] == [1, 1] and turns[-1] == 2, turns
    assert turns.count(2) == 1
    assert Order.objects.get().low_level_status == "appointment_scheduled"
    assert Lookup.objects.get(kind="orders").lease_token is None


def test_trouble_of_the_database_with_one_kind(point: Point) -> None:
    """The answers of the other kinds are stored, and nothing stays claimed."""

    def store(answers: Mapping[str, Any]) -> Mapping[str, timedelta | None]:
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 1; SELECT pg_sleep(1)")
        raise AssertionError

    point(lambda asked: (info if "/info" in asked.path else connected)(user_of(asked)))
    marked("demographics", range(1, 4))
    marked("connections", range(1, 4))
    with pytest.raises(OperationalError):
        sync.run_due_lookups([replace(DEMOGRAPHICS, store=store), CONNECTIONS])
    assert Connection.objects.count() == 3
    assert not Lookup.objects.exclude(lease_token=None).exists()
    assert sync.run_due_lookups([DEMOGRAPHICS, CONNECTIONS]) == 3


def test_a_reason_keeps_its_key_letter_by_letter() -> None:
    keys = {'a "b"', "c\\d", "{e,f}", "", " g ", "NULL", "ü\n\t", '\\"', "it's %s"}
    sync.schedule_lookups("payors", keys)
    assert set(Lookup.objects.values_list("key", flat=True)) == keys
