"""Deliveries over real HTTP: what is announced, how it is signed, retried, given up."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import Any

import httpx
import pytest

from backoffice.devtools.embedded import dies_with_parent, free_port
from tests.sandbox.receiver import Answer, Received, Receiver, receiving, settled
from tests.sandboxes import Sandbox, SandboxFactory, running

HEADERS = {"x-service-api-key": "sk_us_local_sandbox"}
TEAM = "7ea00000-0000-4000-8000-000000000001"
CATALOGUE_SIZE = 194


@pytest.fixture(scope="module")
def world(sandbox_factory: SandboxFactory) -> Sandbox:
    return sandbox_factory(users=40, orders=400, seed=17, speed=0)


@pytest.fixture
def receiver(world: Sandbox) -> Iterator[Receiver]:
    """A fresh receiver that `world` delivers to, for one test."""
    with receiving() as found:
        world.control("webhooks", {"url": found.url})
        yield found
        world.control("webhooks", {"url": None})
        world.control("delivery-faults", method="DELETE")


def _served(world: Sandbox, path: str) -> Any:
    answer = httpx.get(f"{world.url}{path}", headers=HEADERS, timeout=30)
    assert answer.status_code == 200, answer.text[:300]
    return answer.json()


def test_every_type_of_the_catalogue_arrives_signed(world: Sandbox, receiver: Receiver) -> None:
    answer = world.control("announce", {"all": True})
    got = receiver.wait(CATALOGUE_SIZE)
    assert answer["announced"] == len(got) == CATALOGUE_SIZE
    assert len(set(receiver.types())) == CATALOGUE_SIZE
    assert {post.id for post in got} == set(answer["message_ids"])
    users = {
        str(key): name for key, name in world.query("SELECT id, client_user_id FROM sandbox_user")
    }
    for post in got:
        assert post.signed_with()
        assert abs(post.off_by) < 30
        assert post.headers["content-type"] == "application/json"
        assert post.id.startswith("msg_")
        assert "." not in post.id
        body = post.body
        assert body["team_id"] == TEAM
        if "match_review" in body["event_type"]:
            assert body.keys() == {"event_type", "data", "team_id"}
            continue
        assert body["client_user_id"] == users[body["user_id"]]
        if isinstance(body["data"], dict) and "user_id" in body["data"]:
            assert body["data"]["user_id"] == body["user_id"]


def test_samples_have_the_shape_of_the_interface(world: Sandbox, receiver: Receiver) -> None:
    world.control("announce", {"all": True, "seed": 5, "samples": 24})
    receiver.wait(CATALOGUE_SIZE)
    by_type = {post.body["event_type"]: post.body["data"] for post in receiver.got}
    glucose = by_type["daily.data.glucose.created"]
    assert len(glucose["data"]) == 24
    assert glucose["data"][0].keys() >= {"timestamp", "timezone_offset", "type", "unit", "value"}
    assert "start" not in glucose["data"][0]
    steps = by_type["daily.data.steps.updated"]["data"][0]
    assert steps["start"] == steps["timestamp"] < steps["end"]
    pressure = by_type["daily.data.blood_pressure.created"]["data"][0]
    assert "value" not in pressure
    assert pressure["systolic"] > pressure["diastolic"]
    created = by_type["daily.data.activity.created"]
    updated = by_type["daily.data.activity.updated"]
    assert created["id"] == updated["id"]
    assert created["updated_at"] < updated["updated_at"]
    assert by_type["daily.data.workout_stream.created"].keys() >= {
        *("workout_id", "provider_id", "message", "sport", "source", "user_id"),
    }
    assert by_type["historical.data.sleep.created"].keys() >= {
        *("user_id", "start_date", "end_date", "provider"),
    }
    visit = by_type["labtest.appointment.updated"]
    assert visit.keys() >= {"id", "order_id", "event_status", "events", "address", "location"}
    order = by_type["labtest.order.updated"]
    assert _without_link(order) == _without_link(_served(world, f"/v3/order/{order['id']}"))


def test_former_types_come_only_when_asked_for(world: Sandbox, receiver: Receiver) -> None:
    former = [
        "daily.timeseries.hypnogram.created",
        "daily.timeseries.hypnogram.updated",
        "historical.timeseries.hypnogram.created",
    ]
    assert world.control("announce", {"event_types": former})["announced"] == 3
    receiver.wait(3)
    assert sorted(receiver.types()) == sorted(former)
    with pytest.raises(OSError, match="400"):
        world.control("announce", {"event_type": "user.created"})
    settled(world)
    assert len(receiver.got) == 3


def _without_link(order: dict[str, Any]) -> dict[str, Any]:
    """A requisition link is new at every reading."""
    return {name: value for name, value in order.items() if name != "requisition_form_url"}


def test_each_new_status_is_announced_once_with_the_record(
    world: Sandbox, receiver: Receiver
) -> None:
    newest = world.query("SELECT max(id) FROM sandbox_orderevent")[0][0]
    visited = world.query("SELECT coalesce(max(id), 0) FROM sandbox_appointmentevent")[0][0]
    keys = world.control("place", {"orders": 4})["order_ids"]
    for seed in range(4):
        world.control("change", {"orders": 60, "seed": seed})
    history = world.query(
        "SELECT o.id::text, e.status FROM sandbox_orderevent e JOIN sandbox_order o "
        "ON o.number = e.order_id WHERE e.id > %s AND o.team_id = %s",
        (newest, TEAM),
    )
    visits = world.query(
        "SELECT appointment_id::text, status FROM sandbox_appointmentevent WHERE id > %s",
        (visited,),
    )
    assert len(history) > 150
    assert len(visits) > 5
    settled(world)
    orders = Counter(
        post.body["data"]["id"]
        for post in receiver.got
        if post.body["event_type"].startswith("labtest.order.")
    )
    appointments = Counter(
        post.body["data"]["id"]
        for post in receiver.got
        if post.body["event_type"].startswith("labtest.appointment.")
    )
    assert orders == Counter(key for key, _ in history)
    assert appointments == Counter(key for key, _ in visits)
    created = [
        post.body["data"]["id"]
        for post in receiver.got
        if post.body["event_type"] == "labtest.order.created"
    ]
    fresh = world.query("SELECT id::text FROM sandbox_order WHERE origin = 'redraw'")
    assert set(keys) <= set(created) <= set(keys) | {key for (key,) in fresh}
    assert len(created) == len(set(created))
    last: dict[str, tuple[str, dict[str, Any]]] = {}
    for post in receiver.got:
        if post.body["event_type"].startswith("labtest.order."):
            data = post.body["data"]
            stamp = data["updated_at"]
            assert data["last_event"] == data["events"][-1]
            if data["id"] not in last or stamp >= last[data["id"]][0]:
                last[data["id"]] = (stamp, data)
    for key, (stamp, data) in last.items():
        served = _served(world, f"/v3/order/{key}")
        assert served["events"] == data["events"]
        assert datetime.fromisoformat(served["updated_at"]) >= datetime.fromisoformat(stamp)


def test_partial_results_send_no_event_if_team_turned_them_off(
    world: Sandbox, receiver: Receiver
) -> None:
    def partials(enabled: bool) -> tuple[int, int]:
        world.query(
            "UPDATE sandbox_team SET partial_webhooks_enabled = %s RETURNING id", (enabled,)
        )
        before = world.query("SELECT max(id) FROM sandbox_orderevent")[0][0]
        receiver.got.clear()
        world.control("place", {"orders": 100})
        for seed in range(9):
            world.control("change", {"orders": 150, "seed": seed})
        settled(world)
        told = [
            post.body["data"]["last_event"]["status"]
            for post in receiver.got
            if post.body["event_type"].startswith("labtest.order.")
        ]
        happened = world.query("SELECT status FROM sandbox_orderevent WHERE id > %s", (before,))
        count = sum(status.endswith(".partial_results") for (status,) in happened)
        return count, sum(status.endswith(".partial_results") for status in told)

    try:
        happened, told = partials(False)
        assert happened > 0
        assert told == 0
    finally:
        happened, told = partials(True)
    assert told == happened > 0


def test_critical_results_are_told_besides(world: Sandbox, receiver: Receiver) -> None:
    before = world.query("SELECT max(id) FROM sandbox_orderevent")[0][0]
    for seed in range(8):
        world.control("change", {"orders": 40, "seed": seed, "corrected": True})
    expected = world.query(
        "SELECT o.id::text FROM sandbox_orderevent e JOIN sandbox_order o ON o.number = e.order_id "
        "WHERE e.id > %s AND o.interpretation = 'critical' AND e.status LIKE '%%.corrected'",
        (before,),
    )
    assert expected
    settled(world)
    told = [p.body for p in receiver.got if p.body["event_type"] == "labtest.result.critical"]
    assert Counter(body["data"]["order_id"] for body in told) == Counter(k for (k,) in expected)
    for body in told:
        data = body["data"]
        result = _served(world, f"/v3/order/{data['order_id']}/result")
        assert data["interpretation"] == result["metadata"]["interpretation"] == "critical"
        assert data["status"] == result["metadata"]["status"]
        assert data["created_at"] < data["updated_at"]


def test_connections_come_and_break(world: Sandbox, receiver: Receiver) -> None:
    answer = world.control("connections", {"connect": 3, "fail": 2, "seed": 4})
    assert (len(answer["connected"]), len(answer["failed"])) == (3, 2)
    got = receiver.wait(5)
    for post in got:
        data = post.body["data"]
        user = _served(world, f"/v2/user/{data['user_id']}")
        rows = {each["source"]["slug"]: each["source"] for each in user["connected_sources"]}
        if post.body["event_type"] == "provider.connection.created":
            assert data["provider"] == rows[data["provider"]["slug"]]
            assert data["resource_availability"]
        else:
            assert data["provider"] in rows
            assert data["error_type"]
    assert Counter(receiver.types()) == {
        "provider.connection.created": 3,
        "provider.connection.error": 2,
    }


def test_without_an_endpoint_nothing_is_queued(world: Sandbox) -> None:
    world.control("change", {"orders": 5, "seed": 1})
    assert world.control("announce", {"all": True})["announced"] == 0
    assert world.query("SELECT count(*) FROM sandbox_message") == [(0,)]


def test_endpoint_is_deleted_while_messages_are_delivered(world: Sandbox) -> None:
    """Whoever deletes an endpoint and whoever records deliveries wait for each other in turn."""
    for _ in range(10):
        with receiving() as receiver:
            world.control("webhooks", {"url": receiver.url})
            world.control("announce", {"all": True})
            receiver.wait(20)
            world.control("webhooks", {"url": None})
            assert world.query("SELECT count(*) FROM sandbox_message") == [(0,)]


def _failing(statuses: list[int]) -> Any:
    """Answers each message with these statuses in turn, then 200."""
    seen: Counter[str] = Counter()

    def answer(post: Received) -> Answer:
        seen[post.id] += 1
        status = statuses[seen[post.id] - 1] if seen[post.id] <= len(statuses) else 200
        return status, {"location": "/elsewhere"} if status == 302 else {}

    return answer


def test_failures_and_redirects_are_tried_again_with_the_same_id(
    world: Sandbox, receiver: Receiver
) -> None:
    world.control("delivery-faults", {"retry_speed": 1000})
    receiver.answer = _failing([500, 302, 404])
    world.control("announce", {"event_type": "daily.data.steps.created"})
    got = receiver.wait(4)
    assert settled(world)["delivered"] == 1
    assert len({post.id for post in got}) == 1
    assert len({post.raw for post in got}) == 1
    assert all(post.signed_with() for post in got)
    assert len(receiver.got) == 4
    # 5 s, 5 min and 30 min, a thousand times as fast; a busy machine may take longer.
    gaps = [after.at - before.at for before, after in pairwise(got)]
    assert gaps[1] >= 0.3
    assert gaps[2] >= 1.8
    assert world.query("SELECT attempts, last_status, state FROM sandbox_message") == [
        (4, 200, "delivered")
    ]


def test_the_schedule_of_attempts_ends_in_a_notice(world: Sandbox, receiver: Receiver) -> None:
    receiver.answer = lambda post: (200 if "attempt.exhausted" in str(post.raw) else 503, {})
    world.control("delivery-faults", {"retry_speed": 20_000})
    [key] = world.control("announce", {"event_type": "labtest.order.updated"})["message_ids"]
    receiver.wait(9)
    assert settled(world)["failed"] == 1
    *tries, notice = receiver.got
    assert [post.id for post in tries] == [key] * 8
    gaps = [after.at - before.at for before, after in pairwise(tries)]
    waits = [5, 300, 1_800, 7_200, 18_000, 36_000, 36_000]
    for gap, wait in zip(gaps, waits, strict=True):
        assert gap >= wait / 20_000
    assert notice.body["type"] == "message.attempt.exhausted"
    assert notice.body["data"]["msg_id"] == key
    assert notice.body["data"]["last_attempt"]["response_status_code"] == 503
    assert notice.id != key
    assert notice.signed_with()


def test_a_dead_endpoint_is_disabled_after_five_days(world: Sandbox, receiver: Receiver) -> None:
    receiver.answer = lambda post: (500, {})
    world.control("delivery-faults", {"retry_speed": 100_000})  # five days: 4.3 s

    def disabled() -> bool:
        world.control("announce", {"event_type": "daily.data.steps.created"})
        time.sleep(0.2)
        return bool(world.control("delivery-faults")["endpoints"][0]["disabled"])

    begun = time.monotonic()
    receiver.until(disabled, 40)
    assert time.monotonic() - begun > 4.3
    count = world.query("SELECT count(*) FROM sandbox_message")
    assert world.control("announce", {"all": True})["announced"] == 0
    assert world.query("SELECT count(*) FROM sandbox_message") == count


def test_a_receiver_that_does_not_answer_in_time_has_failed(
    world: Sandbox, receiver: Receiver
) -> None:
    seen: list[float] = []

    def answer(_: Received) -> Answer:
        seen.append(time.monotonic())
        if len(seen) == 1:
            time.sleep(40)
        return 200, {}

    receiver.answer = answer
    world.control("delivery-faults", {"retry_speed": 100})
    world.control("announce", {"event_type": "daily.data.steps.created"})
    receiver.wait(2)
    assert 14 <= seen[1] - seen[0] < 40
    assert settled(world)["delivered"] == 1


def test_messages_survive_a_killed_sandbox() -> None:
    with receiving() as receiver, running(users=10, orders=30) as world:
        world.control("webhooks", {"url": receiver.url})
        hold = [True]

        def answer(_: Received) -> Answer:
            while hold[0]:
                time.sleep(0.02)
            return 200, {}

        receiver.answer = answer
        told = world.control("announce", {"all": True, "count": 60})["message_ids"]
        receiver.wait(5)
        world.process.kill()
        world.process.wait()
        hold[0] = False
        with _again(world) as restarted:
            receiver.until(lambda: {post.id for post in receiver.got} == set(told), 60)
            assert settled(restarted)["delivered"] == 60


def test_a_hung_receiver_does_not_keep_a_sandbox_from_ending() -> None:
    with receiving() as receiver, running(users=10, orders=30) as world:
        world.control("webhooks", {"url": receiver.url})
        old = world.control("announce", {"all": True, "count": 20})["message_ids"]
        settled(world)
        aged = world.query(
            "UPDATE sandbox_message SET ended_at = ended_at - interval '7 hours' RETURNING number"
        )
        assert len(aged) == len(old) == 20
        receiver.got.clear()
        hold = [True]

        def answer(_: Received) -> Answer:
            while hold[0]:
                time.sleep(0.02)
            return 200, {}

        receiver.answer = answer
        told = world.control("announce", {"all": True, "count": 60})["message_ids"]
        receiver.wait(5)
        world.process.terminate()
        world.process.wait(60)
        hold[0] = False
        with _again(world) as restarted:
            receiver.until(lambda: {post.id for post in receiver.got} == set(told), 60)
            assert settled(restarted)["delivered"] == 60
            # What ended hours ago has been forgotten by now, nothing else.
            kept = restarted.query("SELECT message_id FROM sandbox_message")
            assert {key for (key,) in kept} == set(told)


@contextlib.contextmanager
def _again(world: Sandbox) -> Iterator[Sandbox]:
    """The same world in a new process."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "sandbox", "--port", str(port)],
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "sandbox.settings",
            "SANDBOX_DATABASE_URL": world.database_url,
        },
        start_new_session=True,
        preexec_fn=dies_with_parent(signal.SIGTERM),
    )
    found = Sandbox(f"http://127.0.0.1:{port}", world.database_url, process)
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                found.control("status")
                break
            time.sleep(0.1)
        yield found
    finally:
        process.terminate()
        process.wait(60)
