"""Idempotency keys: what is kept, for whom, and what is not (orders.md 2.1)."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator

import httpx
import psycopg
import pytest

from tests.sandbox.ordering import World, misfits, open_world, said
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with open_world() as world:
        yield world


@pytest.fixture
def key() -> str:
    return str(uuid.uuid4())


def test_the_same_key_places_one_order(world: World, key: str) -> None:
    before = world.count()
    first = world.post("/v3/order/create", world.body(), key)
    # The stored answer is given whatever is sent with the key, by either path.
    second = world.post("/v3/order", world.body("Urine Screen"), key)
    assert (first.status_code, second.status_code) == (200, 200)
    assert second.content == first.content
    assert world.count() == before + 1
    assert world.post("/v3/order", world.body(), key + "2").json() != first.json()


def test_a_failure_is_kept(world: World, key: str) -> None:
    refused = world.post("/v3/order", world.body("Yearly Check"), key)
    assert refused.status_code == 400
    again = world.post("/v3/order", world.body(), key)
    assert (again.status_code, again.content) == (400, refused.content)


def test_no_cache_lets_a_failure_be_corrected(world: World, key: str) -> None:
    lenient = {"X-Idempotency-Error": "no-cache"}
    refused = world.post("/v3/order", world.body("Yearly Check"), key, **lenient)
    assert refused.status_code == 400
    placed = world.post("/v3/order", world.body(), key, **lenient)
    assert placed.status_code == 200
    again = world.post("/v3/order", world.body("Yearly Check"), key)
    assert again.content == placed.content


def test_what_does_not_validate_is_not_kept(world: World, key: str) -> None:
    bad = world.body(clinical_notes="x" * 1001)
    assert misfits(world.post("/v3/order", bad, key)) == {"clinical_notes"}
    assert world.post("/v3/order", world.body(), key).status_code == 200


def test_headers_that_do_not_fit(world: World, key: str) -> None:
    answer = world.post("/v3/order", world.body(), "k" * 256)
    assert misfits(answer) == {"X-Idempotency-Key"}
    answer = world.post("/v3/order", world.body(), key, **{"X-Idempotency-Error": "cache"})
    assert misfits(answer) == {"X-Idempotency-Error"}


def test_a_key_in_use_is_refused_and_may_be_sent_again(world: World, key: str) -> None:
    """The first request is kept waiting by a lock that placing needs."""
    before = world.count()
    body = world.body()
    answers: list[httpx.Response] = []
    with psycopg.connect(world.sandbox.database_url) as hold:
        hold.execute("SELECT 1 FROM sandbox_world FOR UPDATE")
        first = threading.Thread(target=lambda: answers.append(world.post("/v3/order", body, key)))
        first.start()
        waiting = (
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        wait_until(lambda: world.value(waiting), 60, "the first request waits for the lock")
        second = httpx.post(
            f"{world.sandbox.url}/v3/order",
            json=body,
            headers={**dict(world.http.headers), "X-Idempotency-Key": key},
            timeout=20,
        )
        assert second.status_code == 409
        assert "being carried out" in said(second)
        hold.rollback()
    first.join(20)
    assert answers[0].status_code == 200
    assert world.post("/v3/order", body, key).content == answers[0].content
    assert world.count() == before + 1


def test_keys_are_forgotten_after_a_day(world: World, key: str) -> None:
    first = world.post("/v3/order", world.body(), key).json()["order"]["id"]
    world.sandbox.control("clock", {"advance_seconds": 23 * 3600})
    assert world.post("/v3/order", world.body(), key).json()["order"]["id"] == first
    world.sandbox.control("clock", {"advance_seconds": 2 * 3600})
    assert world.post("/v3/order", world.body(), key).json()["order"]["id"] != first


def test_an_answer_lost_on_the_way_is_given_again(world: World, key: str) -> None:
    before = world.count()
    fault = {"kinds": ["drop_after"], "path": "^/v3/order$", "methods": ["POST"], "times": 1}
    world.sandbox.control("faults", fault)
    try:
        with pytest.raises(httpx.TransportError):
            world.post("/v3/order", world.body(), key)
    finally:
        world.sandbox.control("faults", method="DELETE")
    assert world.post("/v3/order", world.body(), key).status_code == 200
    assert world.count() == before + 1
