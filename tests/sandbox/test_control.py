"""The control path: clock, placing, deleting, and the faults it switches on."""

from __future__ import annotations

import json
from datetime import datetime

import httpx
import pytest

from tests.sandboxes import Sandbox, SandboxFactory

HEADERS = {"x-service-api-key": "sk_us_local_sandbox"}


@pytest.fixture(scope="module")
def world(sandbox_factory: SandboxFactory) -> Sandbox:
    return sandbox_factory(users=30, orders=80, seed=4, speed=0)


def _kinds(world: Sandbox, count: int) -> list[str]:
    """How `count` readings of a list came out."""
    outcomes = []
    with httpx.Client(base_url=world.url, headers=HEADERS, timeout=20) as client:
        for _ in range(count):
            try:
                answer = client.get("/v3/orders", params={"size": 2})
            except httpx.RemoteProtocolError:
                outcomes.append("drop")
                continue
            if answer.headers["content-type"].startswith("text/html"):
                outcomes.append("html" if answer.status_code == 502 else "redirect")
                continue
            try:
                answer.json()
            except json.JSONDecodeError:
                outcomes.append("truncate")
                continue
            outcomes.append(str(answer.status_code))
    return outcomes


def test_status_counts_what_there_is(world: Sandbox) -> None:
    status = world.control("status")
    assert status["speed"] == 0
    assert status["counts"]["user"] == 35
    assert status["counts"]["order"] == 100
    assert datetime.fromisoformat(status["now"]).tzinfo is not None


def test_clock_is_moved_by_seconds(world: Sandbox) -> None:
    before = datetime.fromisoformat(world.control("status")["now"])
    after = datetime.fromisoformat(world.control("clock", {"advance_seconds": 7200})["now"])
    assert 7200 <= (after - before).total_seconds() < 7230


def test_placed_orders_are_the_newest(world: Sandbox) -> None:
    total = httpx.get(f"{world.url}/v3/orders", headers=HEADERS).json()["total"]
    keys = world.control("place", {"orders": 6, "seed": 2})["order_ids"]
    assert len(keys) == 6
    assert httpx.get(f"{world.url}/v3/orders", headers=HEADERS).json()["total"] == total + 6
    rows = world.query("SELECT id::text FROM sandbox_order ORDER BY number DESC LIMIT 6")
    assert [row[0] for row in rows] == keys[::-1]


def test_deleted_users_are_gone_and_their_orders_stay(world: Sandbox) -> None:
    user, order = world.query(
        "SELECT user_id::text, min(id::text) FROM sandbox_order "
        "WHERE user_id IN (SELECT user_id FROM sandbox_connection) AND user_id IN "
        "(SELECT id FROM sandbox_user WHERE team_id = %s) GROUP BY 1 LIMIT 1",
        ("7ea00000-0000-4000-8000-000000000001",),
    )[0]
    assert httpx.get(f"{world.url}/v2/user/{user}", headers=HEADERS).status_code == 200
    answer = world.control("delete_users", {"user_ids": [user]})
    assert answer["deleted"] == 1
    assert httpx.get(f"{world.url}/v2/user/{user}", headers=HEADERS).status_code == 404
    assert httpx.get(f"{world.url}/v3/order/{order}", headers=HEADERS).status_code == 200
    for table in ("connection", "historicalpull"):
        left = world.query(f"SELECT count(*) FROM sandbox_{table} WHERE user_id = %s", (user,))
        assert left[0][0] == 0
    assert world.control("delete_users", {"user_ids": [user]})["deleted"] == 0


def test_faults_hit_a_share_the_same_way_each_time(world: Sandbox) -> None:
    wanted = {
        "rate": 0.5,
        "drop_rate": 0.1,
        "statuses": [429, 500],
        "kinds": ["status", "truncate", "html"],
        "seed": 6,
    }
    world.control("faults", wanted)
    first = _kinds(world, 60)
    world.control("faults", wanted)
    second = _kinds(world, 60)
    world.control("faults", method="DELETE")
    assert first == second
    assert set(first) == {"200", "429", "500", "drop", "truncate", "html"}
    assert 15 < first.count("200") < 45
    assert _kinds(world, 5) == ["200"] * 5


def test_faults_keep_to_their_paths_and_spare_the_control_path(world: Sandbox) -> None:
    world.control("faults", {"rate": 1, "paths": "^/v2/", "statuses": [503], "retry_after": 3})
    try:
        assert httpx.get(f"{world.url}/v3/orders", headers=HEADERS).status_code == 200
        refused = httpx.get(f"{world.url}/v2/user", headers=HEADERS)
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "3"
        assert world.control("status")["faults"]["hit"] == {"status": 1}
    finally:
        world.control("faults", method="DELETE")


def test_slow_and_redirect(world: Sandbox) -> None:
    world.control("faults", {"rate": 1, "kinds": ["slow"], "latency_ms": 400})
    try:
        answer = httpx.get(f"{world.url}/v2/user", headers=HEADERS)
        assert answer.status_code == 200
        assert answer.elapsed.total_seconds() >= 0.4
        world.control("faults", {"rate": 1, "kinds": ["redirect"]})
        answer = httpx.get(f"{world.url}/v2/user", headers=HEADERS)
        assert answer.status_code == 302
        assert answer.headers["location"].startswith("/")
    finally:
        world.control("faults", method="DELETE")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("faults", {"kinds": ["unheard-of"]}),
        ("faults", {"no_such_option": 1}),
        ("clock", {"speed": -1}),
        ("change", [1]),
    ],
)
def test_nonsense_is_refused(world: Sandbox, path: str, body: object) -> None:
    answer = httpx.post(f"{world.url}/_control/{path}", json=body)
    assert answer.status_code == 400
    assert "detail" in answer.json()
