"""Wearable data as it is told: what the events said is what the reads answer."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from backoffice.devtools.embedded.processes import free_port
from tests.sandboxes import Sandbox, SandboxFactory

HEADERS = {"x-service-api-key": "sk_us_local_sandbox"}
TEAM = "7ea00000-0000-4000-8000-000000000001"
READ_NAMES = {"weight": "body_weight", "fat": "body_fat"}
KEYS = {"meal": "meals"}
BY_DAY = ("sleep_cycle", "menstrual_cycle", "electrocardiogram")
SUMMARIES = ("activity", "body", "meal", "sleep", "workouts", *BY_DAY)
Record = dict[str, Any]


def _listen(sandbox: Sandbox) -> None:
    """Queue events for a port nobody listens at: they stay in the sandbox's database."""
    sandbox.control("webhooks", {"url": f"http://127.0.0.1:{free_port()}/"})


@pytest.fixture(scope="module")
def world(sandbox_factory: SandboxFactory) -> Sandbox:
    sandbox = sandbox_factory(users=60, orders=60, seed=7, speed=0)
    _listen(sandbox)
    return sandbox


@pytest.fixture(scope="module")
def http(world: Sandbox) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=world.url, headers=HEADERS, timeout=60) as client:
        yield client


def _heard(sandbox: Sandbox, after: int = 0) -> list[Record]:
    rows = sandbox.query(
        "SELECT body FROM sandbox_message WHERE number > %s ORDER BY number", (after,)
    )
    return [json.loads(body) for (body,) in rows]


def _last(sandbox: Sandbox) -> int:
    [[number]] = sandbox.query("SELECT coalesce(max(number), 0) FROM sandbox_message")
    return int(number)


def _user_of(sandbox: Sandbox, provider: str, **more: str) -> str:
    status = more.get("status", "connected")
    rows = sandbox.query(
        "SELECT user_id::text FROM sandbox_connection c JOIN sandbox_user u ON u.id = c.user_id "
        "WHERE provider_id = %s AND status = %s AND u.team_id = %s "
        "ORDER BY c.created_on, c.id",
        (provider, status, TEAM),
    )
    assert rows, f"nobody wears {provider}"
    return str(rows[0][0])


Kept = dict[tuple[Any, ...], Record]


def _key(resource: str, user: str, source: Record, sample: Record) -> tuple[Any, ...]:
    at = datetime.fromisoformat(sample["timestamp"])
    kind = sample["type"] or ""
    return (resource, user, source["provider"], source["type"], at, kind)


def _kept(events: Iterable[Record]) -> tuple[Kept, Kept]:
    """Samples and summaries as a listener keeps them: the latest of each key."""
    samples: Kept = {}
    summaries: Kept = {}
    for event in events:
        head, _, rest = event["event_type"].partition(".data.")
        if head != "daily" or rest.startswith("workout_stream"):
            continue
        name, verb = rest.split(".")
        data = event["data"]
        if "id" in data:
            assert verb == "updated" or (name, data["id"]) not in summaries, event
            summaries[name, data["id"]] = data
            continue
        assert 1 <= len(data["data"]) <= 300
        for sample in data["data"]:
            key = _key(name, event["user_id"], data["source"], sample)
            assert verb == "updated" or key not in samples, key
            samples[key] = sample | {"source": data["source"]}
    return samples, summaries


def _read_samples(http: httpx.Client, user: str, resource: str, start: str, end: str) -> Kept:
    found: Kept = {}
    cursor = None
    while True:
        params = {"start_date": start, "end_date": end}
        if cursor:
            params["next_cursor"] = cursor
        path = f"/v2/timeseries/{user}/{READ_NAMES.get(resource, resource)}/grouped"
        answer = http.get(path, params=params)
        assert answer.status_code == 200, answer.text[:300]
        body = answer.json()
        for provider, groups in body["groups"].items():
            for group in groups:
                assert group["source"]["provider"] == provider
                for sample in group["data"]:
                    key = _key(resource, user, group["source"], sample)
                    assert key not in found, "a sample was served twice"
                    found[key] = sample | {"source": group["source"]}
        cursor = body["next_cursor"]
        if cursor is None:
            return found


def _read_summaries(http: httpx.Client, user: str, kind: str, start: str, end: str) -> Kept:
    answer = http.get(
        f"/v2/summary/{kind}/{user}", params={"start_date": start[:10], "end_date": end[:10]}
    )
    assert answer.status_code == 200, answer.text[:300]
    return {(kind, each["id"]): each for each in answer.json()[KEYS.get(kind, kind)]}


def test_announced_days_equal_what_reads_return(world: Sandbox, http: httpx.Client) -> None:
    users = [_user_of(world, slug) for slug in ("band-one", "ring-two", "phone-four")]
    before = _last(world)
    told = world.control("wearables", {"user_ids": users, "days": 3})
    events = _heard(world, before)
    assert told["messages"] == len(events) == sum(told["events"].values())
    samples, summaries = _kept(events)
    assert len(samples) == told["samples"] > 3000
    names = {key[0] for key in samples}
    assert {"heartrate", "steps", "hrv", "glucose", "stand_hour", "water"} <= names
    now = datetime.fromisoformat(world.control("status")["now"])
    begun = now - timedelta(days=2)
    wide = ((now - timedelta(days=9)).isoformat(), (now + timedelta(days=2)).isoformat())
    for user in {event["user_id"] for event in events}:
        for resource in sorted(names):
            theirs = {k: v for k, v in samples.items() if k[:2] == (resource, user)}
            read = _read_samples(http, user, resource, begun.isoformat(), now.isoformat())
            # Told before this moment, read after it: what arrived in between is not compared.
            settled = {k: v for k, v in read.items() if k in theirs or k[4] < begun}
            assert settled.keys() == {k for k in theirs if begun <= k[4] <= now}
            assert all(theirs[k] == v for k, v in settled.items())
            assert len(read) - len(settled) <= 2
        for kind in SUMMARIES:
            theirs = {k: v for k, v in summaries.items() if k[0] == kind and v["user_id"] == user}
            read = _read_summaries(http, user, kind, *wide)
            assert {k: read[k] for k in theirs} == theirs


def test_day_announced_in_parts_equals_what_reads_return(sandbox_factory: SandboxFactory) -> None:
    """Batches every few hours, with late arrivals and corrections, add up to what a read says."""
    world = sandbox_factory(users=60, orders=60, seed=7, speed=0)
    # Always the same day: what is corrected is left to chance, by the day.
    now = datetime.fromisoformat(world.control("status")["now"])
    noon = datetime(now.year + 1, 3, 1, 12, tzinfo=now.tzinfo)
    world.control("clock", {"advance_seconds": (noon - now).total_seconds()})
    _listen(world)
    users = [_user_of(world, slug) for slug in ("band-one", "ring-two", "phone-four")]
    assert world.control("wearables", {"user_ids": users, "news": True}) == {"events": 0}
    begun = datetime.fromisoformat(world.control("status")["now"])
    for hours in (0.3, 5, 1, 7, 11, 0.5, 9, 6):
        world.control("clock", {"advance_seconds": hours * 3600})
        world.control("wearables", {"user_ids": users, "news": True})
    ended = datetime.fromisoformat(world.control("status")["now"])
    events = _heard(world)
    samples, summaries = _kept(events)
    kinds = {event["event_type"] for event in events}
    assert {"daily.data.steps.updated", "daily.data.activity.updated"} <= kinds
    assert "daily.data.sleep.created" in kinds
    with httpx.Client(base_url=world.url, headers=HEADERS, timeout=60) as http:
        compared = 0
        for user in users:
            for resource in sorted({key[0] for key in samples}):
                theirs = {k: v for k, v in samples.items() if k[:2] == (resource, user)}
                read = _read_samples(http, user, resource, begun.isoformat(), ended.isoformat())
                fresh = ended - timedelta(minutes=2)
                expected = {k: v for k, v in theirs.items() if begun <= k[4] < fresh}
                got = {k: v for k, v in read.items() if k[4] < fresh}
                # The last bit was told a moment before `ended`: only its newest can be missing.
                got = {k: v for k, v in got.items() if k in expected or _end(v) < fresh}
                assert got == expected, resource
                compared += len(got)
            for kind in SUMMARIES:
                wide = ("2025-01-01", f"{ended.year}-12-31")
                read = _read_summaries(http, user, kind, *wide)
                for key, record in summaries.items():
                    if key[0] == kind and record["user_id"] == user:
                        assert read[key] == record
        assert compared > 5000


def _end(sample: Record) -> datetime:
    return datetime.fromisoformat(sample.get("end") or sample["timestamp"])


def test_broken_connection_stops_and_catches_up_later(
    sandbox_factory: SandboxFactory,
) -> None:
    world = sandbox_factory(users=60, orders=60, seed=7, speed=0)
    _listen(world)
    user = _user_of(world, "phone-four")
    asked = {"user_ids": [user], "news": True}
    world.control("wearables", asked)
    begun = datetime.fromisoformat(world.control("status")["now"])
    params = (begun.isoformat(), (begun + timedelta(days=3)).isoformat())

    def later(hours: float) -> int:
        world.control("clock", {"advance_seconds": hours * 3600})
        return int(world.control("wearables", asked)["events"])

    assert later(3) > 0
    world.control("clock", {"advance_seconds": 1800})
    assert user in world.control("connections", {"fail": 1000})["failed"]
    assert later(1) > 0  # the half hour before it broke
    with httpx.Client(base_url=world.url, headers=HEADERS, timeout=60) as http:
        for resource in ("steps", "distance", "stand_hour"):
            samples, _ = _kept(_heard(world))
            theirs = {k: v for k, v in samples.items() if k[:2] == (resource, user)}
            read = _read_samples(http, user, resource, *params)
            assert read == {k: v for k, v in theirs.items() if k[4] >= begun}
        assert later(20) == 0
        assert user in world.control("mend", {"count": 1000})["user_ids"]
        # Long enough for the person to wake, whatever the time is now.
        assert sum(later(2) for _ in range(7)) > 0
        samples, _ = _kept(_heard(world))
        read = _read_samples(http, user, "steps", *params)
        told = {k: v for k, v in samples.items() if k[:2] == ("steps", user) and k[4] >= begun}
        assert read == told
        assert max(key[4] for key in read) > begun + timedelta(hours=20)
    kinds = [event["event_type"] for event in _heard(world) if event["user_id"] == user]
    first = kinds.index("provider.connection.error")
    assert "provider.connection.created" in kinds[first:]


def test_device_software_is_updated(sandbox_factory: SandboxFactory) -> None:
    world = sandbox_factory(users=60, orders=60, seed=7, speed=0)
    _listen(world)
    user = _user_of(world, "band-one")
    asked = {"user_ids": [user], "news": True}
    world.control("wearables", asked)
    before = httpx.get(f"{world.url}/v2/user/{user}/device", headers=HEADERS).json()
    for _ in range(62):
        world.control("clock", {"advance_seconds": 86_400})
        world.control("wearables", asked)
    after = httpx.get(f"{world.url}/v2/user/{user}/device", headers=HEADERS).json()
    told = [e["data"] for e in _heard(world) if e["event_type"] == "provider.device.updated"]
    assert [each["id"] for each in before] == [each["id"] for each in after]
    changed = [each for each, old in zip(after, before, strict=True) if each != old]
    assert len(changed) >= 1
    assert all(each in told for each in changed)


def test_workout_streams_are_announced_and_can_be_read(world: Sandbox, http: httpx.Client) -> None:
    before = _last(world)
    user = _user_of(world, "band-one")
    body = {"user_ids": [user], "days": 30, "resources": ["workout_stream", "workouts"]}
    told = world.control("wearables", body)
    assert told["events"]["daily.data.workout_stream.created"] >= 3
    streams = [e for e in _heard(world, before) if ".workout_stream." in e["event_type"]]
    for event in streams:
        data = event["data"]
        assert set(data) == {"user_id", "source", "workout_id", "provider_id", "message", "sport"}
        found = http.get(f"/v2/timeseries/workouts/{data['workout_id']}/stream")
        assert found.status_code == 200
        stream = found.json()
        assert len(stream) == 11
        assert len(stream["time"]) == len(stream["heartrate"]) == len(stream["distance"]) > 100


def test_backfill_passes_its_states_and_announces_end(world: Sandbox, http: httpx.Client) -> None:
    user = _user_of(world, "ring-two")

    def pulled() -> Record:
        params = {"user_id": user, "provider": "ring-two"}
        body = http.get("/v2/introspect/historical_pull", params=params).json()
        found: Record = body["data"][0]["provider"]["ring-two"]["pulled"]["hrv"]
        return found

    asked = {"user_ids": [user], "resources": ["hrv"]}
    assert world.control("backfill", asked)["pulls"] == 1
    assert pulled()["status"] == "scheduled"
    assert pulled()["timeline"]["started_at"] is None
    world.control("backfill", asked | {"outcome": "in_progress", "finished": True})
    assert pulled()["status"] == "in_progress"
    world.control("backfill", asked | {"outcome": "retrying", "finished": True})
    assert pulled()["status"] == "retrying"
    assert pulled()["error_details"] in (
        "provider_rate_limit_exceeded",
        "provider_unavailable",
        "transport_failure",
    )
    world.control("backfill", asked | {"outcome": "failure", "finished": True})
    assert pulled()["status"] == "failure"
    assert pulled()["error_details"]
    before = _last(world)
    answer = world.control("backfill", asked | {"outcome": "success", "finished": True})
    assert answer == {"pulls": 1, "succeeded": ["hrv"]}
    [event] = _heard(world, before)
    assert event["event_type"] == "historical.data.hrv.created"
    assert event["data"]["provider"] == "ring-two"
    assert pulled()["status"] == "success"
    assert pulled()["error_details"] is None
    assert pulled()["range_start"] == event["data"]["start_date"]
    assert pulled()["days_with_data"] > 100

    # A range read of it, twice and in parts, gives the same rows.
    start, end = event["data"]["start_date"], event["data"]["end_date"]
    rows = _read_samples(http, user, "hrv", start, end)
    assert len(rows) > 10_000
    assert rows == _read_samples(http, user, "hrv", start, end)
    middle = (datetime.fromisoformat(end) - timedelta(days=40)).isoformat()
    just = (datetime.fromisoformat(middle) + timedelta(milliseconds=1)).isoformat()
    parts = _read_samples(http, user, "hrv", start, middle)
    parts |= _read_samples(http, user, "hrv", just, end)
    assert parts == rows
    assert min(key[4] for key in rows) >= datetime.fromisoformat(start)


def test_nothing_is_announced_without_endpoint_or_at_speed_0(
    sandbox_factory: SandboxFactory,
) -> None:
    still = sandbox_factory(users=20, orders=60, seed=7, speed=0)
    told = still.control("wearables", {"users": 3, "days": 1})
    assert told["messages"] == 0
    _listen(still)
    still.control("clock", {"advance_seconds": 86_400})
    time.sleep(2.5)
    assert _last(still) == 0


def test_running_world_announces_data_at_moderate_rate(
    sandbox_factory: SandboxFactory,
) -> None:
    alive = sandbox_factory(users=60, orders=60, seed=7, speed=1440)
    _listen(alive)
    alive.control("connections", {"connect": 4, "seed": 3})
    seen: set[str] = set()
    began = time.monotonic()
    wanted = {"daily", "provider.device.created", "historical", "provider.connection.created"}
    while time.monotonic() - began < 90 and not wanted <= seen:
        time.sleep(1)
        alive.control("clock", {"advance_seconds": 300})
        for event in _heard(alive):
            kind = event["event_type"]
            seen |= {kind, kind.split(".")[0]}
    assert wanted <= seen, sorted(seen)
    passed = time.monotonic() - began
    events = [e for e in _heard(alive) if e["event_type"].startswith(("daily", "historical"))]
    assert len(events) < 60 + 12 * passed
    samples, _ = _kept(events)
    now = datetime.now(UTC) + timedelta(days=2)
    assert all(key[4] < now for key in samples)


def test_unknown_resources_are_refused(world: Sandbox) -> None:
    answer = httpx.post(
        f"{world.url}/_control/wearables", json={"users": 1, "resources": ["hypnogram"]}
    )
    assert answer.status_code == 400
    assert "hypnogram" in answer.json()["detail"]
