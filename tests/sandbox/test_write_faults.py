"""Faults of writes, and the log that says how often each call came."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.sandbox.ordering import World, open_world
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with open_world() as world:
        yield world


@pytest.fixture(autouse=True)
def _no_faults_left(world: World) -> Iterator[None]:
    yield
    world.sandbox.control("faults", method="DELETE")


def _arm(world: World, kind: str, **more: Any) -> None:
    fault = {"kinds": [kind], "path": "/cancel$", "methods": ["POST"], "times": 1, **more}
    world.sandbox.control("faults", fault)


def _log(world: World, since: int = 0) -> Any:
    return world.sandbox.control(f"writes?since={since}")


def test_drop_after_carries_out_the_request_once(world: World) -> None:
    order = world.place()["id"]
    before = _log(world)["last"]
    _arm(world, "drop_after")
    with pytest.raises(httpx.TransportError):
        world.post(f"/v3/order/{order}/cancel")
    assert world.lows(order) == ["ordered", "cancelled"]
    assert world.post(f"/v3/order/{order}/cancel").status_code == 400
    calls = _log(world, before)["writes"]
    assert [(each["status"], each["fault"]) for each in calls] == [(200, "drop_after"), (400, "")]
    assert {(each["method"], each["path"]) for each in calls} == {
        ("POST", f"/v3/order/{order}/cancel")
    }


def test_drop_before_does_nothing(world: World) -> None:
    order = world.place()["id"]
    _arm(world, "drop_before")
    with pytest.raises(httpx.TransportError):
        world.post(f"/v3/order/{order}/cancel")
    assert world.lows(order) == ["ordered"]
    assert _log(world)["writes"][-1]["status"] is None


def test_500_after_doing_the_work(world: World) -> None:
    order = world.place()["id"]
    _arm(world, "status_after", statuses=[500])
    assert world.post(f"/v3/order/{order}/cancel").status_code == 500
    assert world.lows(order) == ["ordered", "cancelled"]


def test_429_before_doing_anything(world: World) -> None:
    order = world.place()["id"]
    _arm(world, "status", statuses=[429], retry_after=2)
    answer = world.post(f"/v3/order/{order}/cancel")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")
    assert world.lows(order) == ["ordered"]
    assert world.post(f"/v3/order/{order}/cancel").status_code == 200


def test_slow_is_carried_out_after_the_client_has_given_up(world: World) -> None:
    order = world.place()["id"]
    _arm(world, "slow", latency_ms=5_000)
    with pytest.raises(httpx.ReadTimeout):
        world.http.post(f"/v3/order/{order}/cancel", timeout=0.3)
    assert world.lows(order) == ["ordered"]
    wait_until(lambda: world.lows(order) == ["ordered", "cancelled"], 60, "the cancellation")


def test_slow_after_has_done_the_work_while_the_client_waits(world: World) -> None:
    order = world.place()["id"]
    _arm(world, "slow_after", latency_ms=12_000)
    with pytest.raises(httpx.ReadTimeout):
        world.http.post(f"/v3/order/{order}/cancel", timeout=6)
    assert world.lows(order) == ["ordered", "cancelled"]


def test_faults_keep_to_their_methods(world: World) -> None:
    order = world.place()["id"]
    world.sandbox.control("faults", {"rate": 1, "path": "^/v3/order", "methods": ["PATCH"]})
    assert world.http.get(f"/v3/order/{order}").status_code == 200
    changed = world.http.patch(f"/v3/order/{order}", json={"activate_by": None})
    assert changed.status_code in (429, 500, 503)


def test_the_log_names_keys_and_holds_no_bodies(world: World) -> None:
    before = _log(world)["last"]
    world.post("/v3/order", world.body(), key="a-key")
    world.http.get("/v3/orders")
    [entry] = _log(world, before)["writes"]
    assert (entry["key"], entry["status"], entry["path"]) == ("a-key", 200, "/v3/order")
    assert set(entry) == {"number", "at", "method", "path", "key", "fault", "status"}
