"""What a fault does to a write, seen from both ends: the error told, and what the sandbox did."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from backoffice.service import Service, errors
from tests.contract.test_order_writes import new
from tests.sandbox.ordering import World, open_world
from tests.waiting import wait_until

CREATE = "^/v3/order/create$"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with open_world() as world:
        yield world


@pytest.fixture(scope="module")
def client(world: World) -> Iterator[Service]:
    with world.sandbox.service(write_deadline=4) as service:
        yield service


@pytest.fixture(autouse=True)
def _no_faults_left(world: World) -> Iterator[None]:
    yield
    world.sandbox.control("faults", method="DELETE")


def arm(world: World, kind: str, **more: Any) -> None:
    fault = {"kinds": [kind], "path": CREATE, "methods": ["POST"], "times": 1, **more}
    world.sandbox.control("faults", fault)


def seen(world: World) -> int:
    """How many requests to create an order have reached the sandbox."""
    writes = world.sandbox.control("writes?since=0")["writes"]
    return sum(each["path"] == "/v3/order/create" for each in writes)


@pytest.mark.parametrize(
    ("kind", "more", "told", "made"),
    [
        ("status", {"statuses": [429], "retry_after": 7}, errors.Limited, 0),
        ("status", {"statuses": [500]}, errors.Uncertain, 0),
        ("status", {"statuses": [503]}, errors.Uncertain, 0),
        ("status_after", {"statuses": [500]}, errors.Uncertain, 1),
        ("drop_before", {}, errors.Uncertain, 0),
        ("drop_after", {}, errors.Uncertain, 1),
        ("truncate", {}, errors.Uncertain, None),
        ("html", {}, errors.Uncertain, None),
        ("redirect", {}, errors.Uncertain, None),
        ("slow", {"latency_ms": 6_000}, errors.Uncertain, None),
        ("slow_after", {"latency_ms": 6_000}, errors.Uncertain, 1),
    ],
)
def test_one_request_and_an_honest_error(
    world: World,
    client: Service,
    kind: str,
    more: dict[str, Any],
    told: type[errors.ServiceError],
    made: int | None,
) -> None:
    body, key = new(world), str(uuid.uuid4())
    asked, orders = seen(world), world.count()
    arm(world, kind, **more)
    started = time.monotonic()
    with pytest.raises(errors.ServiceError) as caught:
        client.orders.create(body, idempotency_key=key, no_cache=True)
    assert time.monotonic() - started < 6
    assert type(caught.value) is told
    if isinstance(caught.value, errors.Limited):
        assert caught.value.retry_after == 7
    if made is not None:
        assert world.count() - orders == made
    if kind == "slow":
        wait_until(lambda: world.count() > orders, 60, "it is carried out all the same")
    # The same key again, as who recorded it would: whatever happened, there is one order.
    made_at_last = client.orders.create(body, idempotency_key=key, no_cache=True)
    assert world.count() - orders == 1
    assert seen(world) - asked == 2
    assert client.orders.get(made_at_last.data.id).data.passthrough == body.passthrough


def test_a_key_at_work_is_not_refused(world: World, client: Service) -> None:
    """A second request while the first is carried out says nothing about the outcome."""
    body, key = new(world), str(uuid.uuid4())
    orders = world.count()

    def place() -> object:
        try:
            return client.orders.create(body, idempotency_key=key).data.id
        except errors.ServiceError as error:
            return type(error)

    with ThreadPoolExecutor(8) as pool:
        ended = set(pool.map(lambda _: place(), range(8)))
    assert world.count() - orders == 1
    assert ended <= {errors.Uncertain, client.orders.create(body, idempotency_key=key).data.id}
