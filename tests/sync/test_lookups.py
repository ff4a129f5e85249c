"""Failing lookups: each fails alone and visibly, and no newer request for it is lost."""

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

from backoffice.mirror.models import UnreadRecord
from backoffice.service import Record
from backoffice.service.orders import ORDER
from backoffice.service.orders import OrderPayload as OrderRecord
from backoffice.service.users import UserInfo
from backoffice.sync.lookups import run_due_lookups, schedule_lookups
from backoffice.sync.models import Lookup
from orders.models import Order
from orders.sync.orders import ORDER_LOOKUP, store_orders
from patients.models import Connection, Demographics
from patients.sync import LOOKUP_TYPES
from tests.mirror_records import run_in_thread, wait_for_lock_wait
from tests.sync.conftest import StubService
from tests.sync.stub_server import IncomingRequest, Reply
from tests.webhooks.records import order, order_id

pytestmark = pytest.mark.django_db(transaction=True)

BY_KIND = {lookup_type.kind: lookup_type for lookup_type in LOOKUP_TYPES}
DEMOGRAPHICS, CONNECTIONS = BY_KIND["demographics"], BY_KIND["connections"]
UNAVAILABLE = Reply({}, 503, {"retry-after": "0"})


def user_number(request: IncomingRequest) -> int:
    return next(UUID(part).int for part in request.path.split("/") if len(part) == 36)


def user_info(number: int, **changes: object) -> Reply:
    names = {"first_name": f"First{number}", "last_name": "Testperson"}
    return Reply({**names, "email": "a@example.invalid", **changes})


def user_connections(number: int) -> Reply:
    band = {"slug": "band-one", "name": "Band One", "status": "connected"}
    return Reply({"providers": [{**band, "created_on": "2026-03-01T08:00:00+00:00"}]})


def schedule(kind: str, numbers: range) -> None:
    schedule_lookups(kind, [UUID(int=number) for number in numbers])


def lookup(kind: str, number: int) -> Lookup:
    return Lookup.objects.get(kind=kind, key=str(UUID(int=number)))


def stored_demographics() -> set[int]:
    return {key.int for key in Demographics.objects.values_list("pk", flat=True)}


def seconds_until_due(lookup: Lookup) -> float:
    """Return the seconds until the lookup is due. Negative: it is due."""
    assert lookup.due_at is not None
    return (lookup.due_at - datetime.now(UTC)).total_seconds()


def make_all_due(seconds: float = 0) -> None:
    """Make all lookups due since `seconds` ago."""
    Lookup.objects.update(due_at=datetime.now(UTC) - timedelta(seconds=seconds))


@pytest.mark.parametrize(
    "answer",
    [Reply({"first_name": ["not", "text"]}), Reply(b"<html>"), Reply({"detail": "no"}, 403)],
    ids=["misfit", "html", "refused"],
)
def test_bad_answer_fails_only_its_own_lookup(stub_service: StubService, answer: Reply) -> None:
    """Whatever the answer about one record is, the others of its kind are read and stored."""
    stub_service(
        lambda request: answer if user_number(request) == 7 else user_info(user_number(request))
    )
    schedule("demographics", range(1, 31))
    assert run_due_lookups([DEMOGRAPHICS]) == 29
    assert stored_demographics() == set(range(1, 31)) - {7}
    failed = lookup("demographics", 7)
    assert failed.error and failed.attempts == 1 and failed.lease_token is None
    assert 1 < seconds_until_due(failed) <= 10
    assert not Lookup.objects.exclude(key=failed.key).exclude(error="").exists()


def test_unreadable_answer_is_stored_until_it_can_be_read(stub_service: StubService) -> None:
    readable = False

    def answer(request: IncomingRequest) -> Reply:
        number = user_number(request)
        if readable or number != 7:
            return user_info(number)
        return user_info(number, first_name={"a": "b"})

    stub_service(answer)
    schedule("demographics", range(5, 9))
    run_due_lookups([DEMOGRAPHICS])
    unread = UnreadRecord.objects.get()
    assert (unread.resource, unread.key) == ("demographics", str(UUID(int=7)))
    assert unread.path == "$.first_name" and '"Testperson"' in unread.record
    make_all_due()
    run_due_lookups([DEMOGRAPHICS])
    assert UnreadRecord.objects.get().first_seen == unread.first_seen  # not stored twice
    assert lookup("demographics", 7).attempts == 2
    readable = True
    make_all_due()
    assert run_due_lookups([DEMOGRAPHICS]) == 4
    assert not UnreadRecord.objects.exists() and lookup("demographics", 7).error == ""
    assert stored_demographics() == {5, 6, 7, 8}


@pytest.mark.parametrize("refused", [False, True])
def test_unreachable_service_stops_only_lookups_of_its_kind(
    stub_service: StubService, refused: bool
) -> None:
    """The remaining lookups of the kind are not sent. They are released unchanged and stay due."""
    down = True
    requested: list[int] = []

    def answer(request: IncomingRequest) -> Reply:
        if "/info" not in request.path:
            return user_connections(user_number(request))
        requested.append(user_number(request))
        refusal = Reply({"detail": "key"}, 401) if refused else UNAVAILABLE
        return refusal if down else user_info(user_number(request))

    stub_service(answer)
    schedule("demographics", range(1, 41))
    schedule("connections", range(1, 41))
    assert run_due_lookups([DEMOGRAPHICS, CONNECTIONS]) == 40
    assert Connection.objects.count() == 40 and not stored_demographics()
    failed = Lookup.objects.filter(kind="demographics").exclude(error="")
    left = Lookup.objects.filter(kind="demographics", error="")
    assert 1 <= failed.count() <= 8 and failed.count() + left.count() == 40
    assert len(set(requested)) == failed.count()
    for lookup in left:
        assert (lookup.lease_token, lookup.lease_until, lookup.attempts) == (None, None, 0)
        assert lookup.looked_at is None and seconds_until_due(lookup) <= 0
    due, down = left.count(), False
    assert run_due_lookups([DEMOGRAPHICS]) == due == len(stored_demographics())


def test_failed_store_postpones_only_the_failing_lookup(stub_service: StubService) -> None:
    """Storing one answer raises an internal error. The other answers, also 404, are settled."""
    stub_service(
        lambda request: (
            Reply({"detail": "User not found"}, 404)
            if user_number(request) == 3
            else user_info(user_number(request))
        )
    )

    def store(answers: Mapping[str, Record[UserInfo]]) -> Mapping[str, timedelta | None]:
        if any(answer.data.first_name == "First7" for answer in answers.values()):
            raise ZeroDivisionError("about one record")
        return DEMOGRAPHICS.store(answers)

    lookup_type = replace(DEMOGRAPHICS, store=store)
    schedule("demographics", range(1, 31))
    assert run_due_lookups([lookup_type]) == 29
    assert stored_demographics() == set(range(1, 31)) - {3, 7}
    failed = lookup("demographics", 7)
    assert (failed.error, failed.attempts, failed.lease_token) == ("ZeroDivisionError", 1, None)
    assert failed.looked_at is None and 1 < seconds_until_due(failed) <= 5
    others = Lookup.objects.exclude(key=failed.key)
    assert not others.exclude(error="").exists()
    assert not others.filter(looked_at=None).exists()
    make_all_due()
    run_due_lookups([lookup_type])
    failed = lookup("demographics", 7)
    assert failed.attempts == 2 and seconds_until_due(failed) > 5
    make_all_due()
    assert run_due_lookups([DEMOGRAPHICS]) == 30 and 7 in stored_demographics()


def test_internal_error_in_fetch_fails_only_its_lookup(stub_service: StubService) -> None:
    """An internal error during one call does not fail the other calls."""
    stub_service(lambda request: user_info(user_number(request)))

    def fetch(service: Any, key: str) -> Any:
        if UUID(key).int == 7:
            raise KeyError("ours")
        return DEMOGRAPHICS.fetch(service, key)

    schedule("demographics", range(1, 21))
    assert run_due_lookups([replace(DEMOGRAPHICS, fetch=fetch)]) == 19
    assert stored_demographics() == set(range(1, 21)) - {7}
    failed = lookup("demographics", 7)
    assert (failed.error, failed.attempts) == ("KeyError", 1) and seconds_until_due(failed) > 1


def with_concurrent_schedule(reply: Callable[[int], Reply]) -> Callable[[IncomingRequest], Reply]:
    """Schedule each lookup once more while its first call is in flight."""
    scheduled: set[int] = set()

    def answer(request: IncomingRequest) -> Reply:
        number = user_number(request)
        if number not in scheduled:
            scheduled.add(number)
            schedule_lookups("demographics", [UUID(int=number)])
            connection.close()
        return reply(number)

    return answer


def test_request_during_failing_lookup_is_due_at_once(stub_service: StubService) -> None:
    """The wait after a failure applies to the failed request. The newer one is due now."""
    stub_service(with_concurrent_schedule(lambda number: UNAVAILABLE))
    schedule("demographics", range(1, 2))
    assert run_due_lookups([DEMOGRAPHICS]) == 0
    first = lookup("demographics", 1)
    assert first.generation == 2 and "Unreachable" in first.error
    assert seconds_until_due(first) <= 0 and first.lease_token is None
    # Without a newer request it waits.
    run_due_lookups([DEMOGRAPHICS])
    assert seconds_until_due(lookup("demographics", 1)) > 1


def test_request_during_answered_lookup_is_looked_up_again(stub_service: StubService) -> None:
    """A call sent before the newer request does not answer it. It is sent again at once."""
    requested: list[int] = []

    def reply(number: int) -> Reply:
        requested.append(number)
        return user_info(number)

    stub_service(with_concurrent_schedule(reply))
    schedule("demographics", range(1, 4))
    assert run_due_lookups([DEMOGRAPHICS]) == 6
    assert sorted(requested) == [1, 1, 2, 2, 3, 3]
    assert seconds_until_due(lookup("demographics", 1)) > 3600


def test_lookup_waits_as_long_as_retry_after_says(stub_service: StubService) -> None:
    stub_service(lambda request: Reply({}, 429, {"retry-after": "200"}))
    schedule("demographics", range(1, 2))
    run_due_lookups([DEMOGRAPHICS])
    assert 190 < seconds_until_due(lookup("demographics", 1)) <= 200


def test_waits_after_failures_grow_to_an_hour(stub_service: StubService) -> None:
    stub_service(lambda request: Reply({"detail": "no"}, 403))
    schedule("demographics", range(1, 2))
    waited = []
    for _ in range(12):
        make_all_due()
        run_due_lookups([DEMOGRAPHICS])
        waited.append(round(seconds_until_due(lookup("demographics", 1))))
    assert waited[:4] == pytest.approx([5, 10, 20, 40], abs=1)
    assert waited == sorted(waited) and waited[-1] == pytest.approx(3600, abs=2)


def order_record(steps: int) -> Record[OrderRecord]:
    record = ORDER.read(json.dumps(order(1, steps)).encode(), datetime.now(UTC))
    assert isinstance(record, Record)
    return record


def test_deadlock_with_event_worker_stores_answers_again(stub_service: StubService) -> None:
    """The other worker holds the lookup and waits for the order. We hold the order and wait for the
    lookup. Our answers are stored again without a second request.

    They are stored once more or twice: after the first deadlock either side may get the lock first.
    """
    requests: list[IncomingRequest] = []
    request_counts: list[int] = []
    stored, scheduled = threading.Event(), threading.Event()

    def answer(request: IncomingRequest) -> Reply:
        requests.append(request)
        return Reply(order(1, 3))

    def store(answers: Mapping[str, Record[OrderRecord]]) -> Mapping[str, timedelta | None]:
        request_counts.append(len(requests))
        next_due = ORDER_LOOKUP.store(answers)
        if not stored.is_set():
            stored.set()
            assert scheduled.wait(10)
            wait_for_lock_wait()
        return next_due

    def apply_events() -> None:
        assert stored.wait(10)
        with transaction.atomic(), connection.cursor() as cursor:
            # The worker that stores lookups detects the deadlock first and is aborted.
            cursor.execute("SET LOCAL deadlock_timeout = '1min'")
            schedule_lookups("orders", [order_id(1)])
            scheduled.set()
            store_orders([order_record(4)])

    stub_service(answer)
    store_orders([order_record(2)])
    schedule_lookups("orders", [order_id(1)])
    with run_in_thread(apply_events) as errors:
        # The second lookup is the one that the other worker scheduled.
        assert run_due_lookups([replace(ORDER_LOOKUP, store=store)]) == 2
    assert errors == []
    assert request_counts[:2] == [1, 1] and request_counts[-1] == 2, request_counts
    assert request_counts.count(2) == 1
    assert Order.objects.get().low_level_status == "appointment_scheduled"
    assert Lookup.objects.get(kind="orders").lease_token is None


def test_database_error_in_one_kind_stores_other_kinds(stub_service: StubService) -> None:
    """The answers of the other kinds are stored, and no lookup stays claimed."""

    def store(answers: Mapping[str, Any]) -> Mapping[str, timedelta | None]:
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 1; SELECT pg_sleep(1)")
        raise AssertionError

    stub_service(
        lambda request: (user_info if "/info" in request.path else user_connections)(
            user_number(request)
        )
    )
    schedule("demographics", range(1, 4))
    schedule("connections", range(1, 4))
    with pytest.raises(OperationalError):
        run_due_lookups([replace(DEMOGRAPHICS, store=store), CONNECTIONS])
    assert Connection.objects.count() == 3
    assert not Lookup.objects.exclude(lease_token=None).exists()
    assert run_due_lookups([DEMOGRAPHICS, CONNECTIONS]) == 3


def test_scheduled_keys_are_stored_unchanged() -> None:
    keys = {'a "b"', "c\\d", "{e,f}", "", " g ", "NULL", "ü\n\t", '\\"', "it's %s"}
    schedule_lookups("payors", keys)
    assert set(Lookup.objects.values_list("key", flat=True)) == keys
