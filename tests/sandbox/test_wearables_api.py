"""Reads of wearable data: names, types, units, ranges, pages and refusals (wearables.md)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from itertools import pairwise
from statistics import mean, median
from typing import Any

import httpx
import pytest

from tests.sandbox.wearables_tables import COMMON, EXTRAS, FIELDS, KEYS, POINTS, TYPES, UNITS
from tests.sandboxes import Sandbox, SandboxFactory

HEADERS = {"x-service-api-key": "sk_us_local_sandbox"}
TEAM = "7ea00000-0000-4000-8000-000000000001"
Record = dict[str, Any]


@pytest.fixture(scope="module")
def world(sandbox_factory: SandboxFactory) -> Sandbox:
    return sandbox_factory(users=120, orders=60, seed=13, speed=0)


@pytest.fixture(scope="module")
def http(world: Sandbox) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=world.url, headers=HEADERS, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def now(world: Sandbox) -> datetime:
    return datetime.fromisoformat(world.control("status")["now"])


def wearers(world: Sandbox, provider: str, status: str = "connected") -> list[str]:
    """Who wears it, longest first."""
    rows = world.query(
        "SELECT user_id::text FROM sandbox_connection c JOIN sandbox_user u ON u.id = c.user_id "
        "WHERE provider_id = %s AND status = %s AND u.team_id = %s ORDER BY c.created_on, c.id",
        (provider, status, TEAM),
    )
    return [str(key) for (key,) in rows]


def summaries(http: httpx.Client, kind: str, user: str, **params: str) -> list[Record]:
    answer = http.get(f"/v2/summary/{kind}/{user}", params=params)
    assert answer.status_code == 200, answer.text[:300]
    body = answer.json()
    assert list(body) == [KEYS.get(kind, kind)]
    found: list[Record] = body[KEYS.get(kind, kind)]
    return found


def everything(now: datetime) -> dict[str, str]:
    tomorrow = now + timedelta(days=1)
    return {"start_date": "2024-01-01", "end_date": tomorrow.date().isoformat()}


def pages(http: httpx.Client, user: str, resource: str, **params: str) -> Iterator[Record]:
    cursor: str | None = None
    while True:
        more = {"next_cursor": cursor} if cursor else {}
        answer = http.get(f"/v2/timeseries/{user}/{resource}/grouped", params={**params, **more})
        assert answer.status_code == 200, answer.text[:300]
        body: Record = answer.json()
        assert set(body) == {"groups", "next", "next_cursor"}
        assert body["next"] == body["next_cursor"]
        yield body
        cursor = body["next_cursor"]
        if cursor is None:
            return


def samples(
    http: httpx.Client, user: str, resource: str, **params: str
) -> list[tuple[Record, Record]]:
    """(source, sample) of all pages."""
    return [
        (group["source"], sample)
        for body in pages(http, user, resource, **params)
        for groups in body["groups"].values()
        for group in groups
        for sample in group["data"]
    ]


@pytest.mark.parametrize("kind", sorted(set(FIELDS) - {"profile"}))
def test_summaries_have_exactly_their_fields(
    world: Sandbox, http: httpx.Client, now: datetime, kind: str
) -> None:
    found: list[Record] = []
    for provider in ("band-one", "ring-two", "scale-three", "phone-four"):
        for user in wearers(world, provider)[:3]:
            found += summaries(http, kind, user, **everything(now))
    assert len(found) > 20 if kind != "menstrual_cycle" else found
    for record in found:
        assert set(record) == COMMON | set(FIELDS[kind].split()), kind
        assert uuid.UUID(record["id"]).version == 4
        created = datetime.fromisoformat(record["created_at"])
        assert created <= datetime.fromisoformat(record["updated_at"]) <= now + timedelta(hours=1)
        if "calendar_date" in record:
            date.fromisoformat(record["calendar_date"])
    by_user = [(record["user_id"], record["id"]) for record in found]
    assert len({key for _, key in by_user}) == len(set(by_user))


def test_summaries_make_sense(world: Sandbox, http: httpx.Client, now: datetime) -> None:
    user = wearers(world, "band-one")[0]
    days = summaries(http, "activity", user, provider="band-one", **everything(now))
    steps = [each["steps"] for each in days]
    assert 1500 < median(steps) < 20_000
    assert len({each["calendar_date"] for each in days}) == len(days)
    for each in summaries(http, "sleep", user, **everything(now)):
        parts = each["awake"] + each["light"] + each["rem"] + each["deep"]
        assert parts == each["duration"]
        assert each["total"] == each["duration"] - each["awake"]
        assert 0 < each["efficiency"] <= 100
        start, stop = (datetime.fromisoformat(each[f"bedtime_{end}"]) for end in ("start", "stop"))
        assert (stop - start).total_seconds() == each["duration"]
        assert each["type"] in ("long_sleep", "short_sleep", "acknowledged_nap", "unknown")
        assert (each["type"] == "long_sleep") == (each["duration"] >= 3 * 3600)


def test_steps_of_a_day_add_up(world: Sandbox, http: httpx.Client, now: datetime) -> None:
    user = wearers(world, "band-one")[0]
    only = {"provider": "band-one"}
    [day] = [
        each
        for each in summaries(
            http, "activity", user, start_date=(now - timedelta(days=9)).isoformat(), **only
        )
        if date.fromisoformat(each["calendar_date"]) < (now - timedelta(days=3)).date()
    ][:1]
    local = datetime.fromisoformat(day["date"]) - timedelta(seconds=day["timezone_offset"])
    until = (local + timedelta(days=1) - timedelta(seconds=1)).isoformat()
    found = samples(http, user, "steps", start_date=local.isoformat(), end_date=until, **only)
    assert sum(sample["value"] for _, sample in found) == day["steps"]


def test_the_cycle_of_a_sleep_names_it(world: Sandbox, http: httpx.Client, now: datetime) -> None:
    user = wearers(world, "ring-two")[0]
    nights = {each["id"]: each for each in summaries(http, "sleep", user, **everything(now))}
    cycles = summaries(http, "sleep_cycle", user, **everything(now))
    assert len(cycles) > 20
    for each in cycles:
        night = nights[each["sleep_id"]]
        assert night["bedtime_start"] == each["session_start"]
        starts, ends = each["stage_start_offset_second"], each["stage_end_offset_second"]
        assert len(starts) == len(ends) == len(each["stage_type"])
        assert starts[1:] == ends[:-1]
        assert ends[-1] == night["duration"]
        assert set(each["stage_type"]) <= {-1, 1, 2, 3, 4, 5}


def test_a_range_of_days_includes_both_ends(
    world: Sandbox, http: httpx.Client, now: datetime
) -> None:
    user = wearers(world, "band-one")[0]
    band = {"provider": "band-one"}

    def days(start: str, end: str) -> list[str]:
        found = summaries(http, "activity", user, start_date=start, end_date=end, **band)
        return [each["calendar_date"] for each in found]

    every = sorted(days("0001-01-01", "9999-12-31"))
    assert len(every) > 20
    first, last = every[-12], every[-6]
    assert sorted(days(first, last)) == every[-12:-5]
    assert sorted(days(f"{first}T00:00:01Z", f"{last}T00:00:00Z")) == every[-11:-5]


def test_profile_is_one_object(world: Sandbox, http: httpx.Client) -> None:
    user = wearers(world, "band-one")[0]
    found = http.get(f"/v2/summary/profile/{user}", params={"provider": "band-one"}).json()
    assert set(found) == COMMON | set(FIELDS["profile"].split())
    assert 140 < found["height"] < 220
    without = wearers(world, "scale-three")[0]
    answer = http.get(f"/v2/summary/profile/{without}", params={"provider": "scale-three"})
    assert answer.status_code == 404


def test_raw_records_have_no_personal_data(
    world: Sandbox, http: httpx.Client, now: datetime
) -> None:
    user = wearers(world, "band-one")[0]
    plain = {
        "id", "user_id", "timestamp", "data", "source", "source_device_id", "created_at",
        "updated_at",
    }  # fmt: skip
    for kind in ("activity", "body", "sleep", "workouts"):
        answer = http.get(f"/v2/summary/{kind}/{user}/raw", params=everything(now))
        found = answer.json()[kind]
        wanted = plain | {"sport", "sport_id"} if kind == "workouts" else plain
        assert set(found[0]) == wanted
        assert set(found[0]["source"]) == {"name", "slug", "logo"}
    profile = http.get(f"/v2/summary/profile/{user}/raw").json()["profile"]
    assert set(profile) == plain - {"timestamp"}
    [device] = http.get(f"/v2/summary/devices/{user}/raw", params={"provider": "band-one"}).json()[
        "devices"
    ]
    assert set(device) == plain - {"timestamp"}


@pytest.mark.parametrize("resource", sorted(UNITS))
def test_every_resource_is_measured_by_somebody(
    world: Sandbox, http: httpx.Client, now: datetime, resource: str
) -> None:
    found: list[tuple[Record, Record]] = []
    keys: list[tuple[Any, ...]] = []
    rare = resource in ("ige", "igg", "fall", "cholesterol", "sleep_apnea_alert")
    for provider in ("band-one", "ring-two", "scale-three", "phone-four", "sensor-five"):
        for user in wearers(world, provider)[:6]:
            start = (now - timedelta(days=200 if rare else 9)).date().isoformat()
            theirs = samples(http, user, resource, start_date=start, provider=provider)
            found += theirs
            keys += [
                (user, source["provider"], source["type"], sample["timestamp"], sample["type"])
                for source, sample in theirs
            ]
    assert found, "nobody measures it"
    fields = {"id", "timestamp", "timezone_offset", "type", "unit"}
    fields |= {"systolic", "diastolic"} if resource == "blood_pressure" else {"value"}
    fields |= set() if resource in POINTS else {"start", "end"}
    fields |= set(EXTRAS.get(resource, {})) | ({"tags"} if resource == "note" else set())
    for source, sample in found:
        assert set(sample) == fields
        assert sample["unit"] == UNITS[resource]
        assert sample["type"] in TYPES.get(resource, {sample["type"], None})
        if resource not in POINTS:
            assert sample["start"] == sample["timestamp"] < sample["end"]
        for name, words in EXTRAS.get(resource, {}).items():
            assert sample[name] in words
        if resource == "note":
            assert isinstance(sample["value"], str)
        assert {"provider", "type", "app_id", "device_id"} <= set(source)
        assert ("workout_id" in source) == resource.startswith("workout_")
    assert len(keys) == len(set(keys)), "two samples with the same key"


def test_heart_rate_by_minute_has_gaps_and_a_day_curve(
    world: Sandbox, http: httpx.Client, now: datetime
) -> None:
    user = wearers(world, "band-one")[0]
    start = (now - timedelta(days=10)).date().isoformat()
    end = (now - timedelta(days=4)).date().isoformat()
    params = {"start_date": start, "end_date": end, "provider": "band-one"}
    found = samples(http, user, "heartrate", **params)
    assert 7000 < len(found) <= 7 * 1440
    times = [datetime.fromisoformat(sample["timestamp"]) for _, sample in found]
    assert times == sorted(set(times))
    gaps = [(b - a).total_seconds() for a, b in pairwise(times)]
    assert median(gaps) == 60
    assert max(gaps) >= 3000
    by_hour: dict[int, list[float]] = {}
    for at, (_, sample) in zip(times, found, strict=True):
        local = at + timedelta(seconds=sample["timezone_offset"])
        by_hour.setdefault(local.hour, []).append(sample["value"])
    assert mean(by_hour[3]) + 5 < mean(by_hour[15])


def test_some_sources_have_no_time_zone(world: Sandbox, http: httpx.Client, now: datetime) -> None:
    params = {"start_date": (now - timedelta(days=2)).isoformat(), "provider": "sensor-five"}
    found = samples(http, wearers(world, "sensor-five")[0], "glucose", **params)
    assert {sample["timezone_offset"] for _, sample in found} == {None}
    assert {source["type"] for source, _ in found} == {"automatic", "manual_scan"}
    assert {sample["type"] for _, sample in found} == {"automatic", "manual_scan"}


def test_pages_are_whole_and_bound_to_their_question(
    world: Sandbox, http: httpx.Client, now: datetime
) -> None:
    user = wearers(world, "phone-four")[0]
    params = {"start_date": (now - timedelta(days=20)).isoformat(), "end_date": now.isoformat()}
    bodies = list(pages(http, user, "steps", **params))
    assert len(bodies) > 4
    sizes = [sum(len(g["data"]) for gs in b["groups"].values() for g in gs) for b in bodies]
    assert set(sizes[:-1]) == {1000}
    path = f"/v2/timeseries/{user}/steps/grouped"
    cursor = bodies[0]["next_cursor"]
    other = {**params, "end_date": (now - timedelta(days=1)).isoformat(), "next_cursor": cursor}
    assert http.get(path, params=other).status_code == 400
    assert http.get(path, params={**params, "next_cursor": "nonsense"}).status_code == 400
    assert http.get(path, params={**params, "next_cursor": cursor}).json() == bodies[1]


def test_history_reaches_back_as_far_as_it_was_pulled(world: Sandbox, http: httpx.Client) -> None:
    rows = world.query(
        "SELECT p.user_id::text, p.range_start, p.range_end, p.status FROM "
        "sandbox_historicalpull p JOIN sandbox_user u ON u.id = p.user_id "
        "WHERE resource = 'heartrate' AND p.provider_id = 'ring-two' AND u.team_id = %s "
        "AND p.scheduled_at IS NOT NULL ORDER BY p.status DESC, p.id",
        (TEAM,),
    )
    good = [row for row in rows if row[3] == "success"]
    params = {"provider": "ring-two"}
    user, start, _, _ = good[0]
    before = (start - timedelta(days=3)).isoformat()
    until = (start + timedelta(days=3)).isoformat()
    found = samples(http, user, "heartrate", start_date=before, end_date=until, **params)
    times = [datetime.fromisoformat(sample["timestamp"]) for _, sample in found]
    assert start <= min(times) < start + timedelta(days=2)
    for user, _, _, _ in [row for row in rows if row[3] != "success"][:2]:
        [[made]] = world.query(
            "SELECT created_on FROM sandbox_connection WHERE user_id = %s AND provider_id = %s",
            (user, "ring-two"),
        )
        body = {"start_date": (made - timedelta(days=9)).isoformat(), "end_date": made.isoformat()}
        assert samples(http, user, "heartrate", **body, **params) == []


def test_broken_connections_stop(world: Sandbox, http: httpx.Client, now: datetime) -> None:
    [[user, broke]] = world.query(
        "SELECT user_id::text, errored_at FROM sandbox_connection c JOIN sandbox_user u "
        "ON u.id = c.user_id WHERE status = 'error' AND u.team_id = %s AND provider_id = "
        "'phone-four' AND errored_at < %s ORDER BY c.id LIMIT 1",
        (TEAM, now - timedelta(days=1)),
    )
    params = {"start_date": (broke - timedelta(days=4)).isoformat(), "provider": "phone-four"}
    found = samples(http, user, "steps", **params)
    times = [datetime.fromisoformat(sample["timestamp"]) for _, sample in found]
    assert broke - timedelta(days=3) < max(times) <= broke


def test_sleep_streams(world: Sandbox, http: httpx.Client, now: datetime) -> None:
    user = wearers(world, "ring-two")[0]
    night = next(
        each
        for each in reversed(summaries(http, "sleep", user, provider="ring-two", **everything(now)))
        if each["type"] == "long_sleep"
    )
    found = http.get(f"/v2/timeseries/sleep/{night['id']}/stream").json()
    assert set(found) == {"hrv", "heartrate", "hypnogram", "respiratory_rate"}
    assert found["hypnogram"]
    for sample in found["heartrate"]:
        assert night["bedtime_start"] <= sample["timestamp"] <= night["bedtime_stop"]


def test_devices(world: Sandbox, http: httpx.Client) -> None:
    user = wearers(world, "phone-four")[0]
    found = http.get(f"/v2/user/{user}/device").json()
    assert {each["source_type"] for each in found} >= {"watch", "insulin_pump"}
    for each in found:
        assert set(each) == {
            "id", "user_id", "provider", "source_type", "app_id", "device_manufacturer",
            "device_model", "device_version", "device_id",
        }  # fmt: skip
        assert http.get(f"/v2/user/{user}/device/{each['id']}").json() == each
    assert http.get(f"/v2/user/{user}/device/{uuid.uuid4()}").status_code == 404
    sources = {s["device_id"] for s, _ in samples(http, user, "steps", start_date="2026-01-01")}
    assert sources - {None} <= {each["id"] for each in found}


def test_providers_list_what_they_send(http: httpx.Client) -> None:
    found = {each["slug"]: each for each in http.get("/v2/providers").json()}
    assert {"ige", "wheelchair_push", "menstrual_cycle"} <= set(
        found["phone-four"]["supported_resources"]
    )
    assert "workout_stream" in found["band-one"]["supported_resources"]
    assert all("hypnogram" not in each["supported_resources"] for each in found.values())


def test_refusals(world: Sandbox, http: httpx.Client) -> None:
    user = wearers(world, "band-one")[0]
    other = world.query("SELECT id::text FROM sandbox_user WHERE team_id <> %s LIMIT 1", (TEAM,))
    calls = (
        "/v2/summary/activity/{}",
        "/v2/summary/sleep_cycle/{}",
        "/v2/timeseries/{}/heartrate/grouped",
    )
    for call in calls:
        good = {"start_date": "2026-11-01"}
        path = call.format(user)
        assert http.get(path, params=good).status_code == 200
        assert httpx.get(f"{world.url}{path}", params=good).status_code == 401
        for bad in (
            {},
            {"start_date": "yesterday"},
            {"start_date": "2026-02-30"},
            good | {"end_date": "never"},
            good | {"provider": "no-such-provider"},
        ):
            assert http.get(path, params=bad).status_code == 422, (path, bad)
        assert http.get(call.format("not-a-uuid"), params=good).status_code == 422
        for stranger in (str(uuid.uuid4()), other[0][0]):
            answer = http.get(call.format(stranger), params=good)
            assert answer.status_code == 404
            assert answer.json() == {"detail": "User not found"}
        assert http.get(path, params=good | {"provider": ""}).status_code == 200
        assert http.post(path).status_code == 405
    moment = http.get(
        f"/v2/summary/sleep_cycle/{user}", params={"start_date": "2026-11-01T10:00:00Z"}
    )
    assert moment.status_code == 422  # plain dates only
    assert http.get(f"/v2/timeseries/{user}/no_such_resource/grouped").status_code == 404
    assert http.get(f"/v2/timeseries/workouts/{uuid.uuid4()}/stream").status_code == 404
    assert http.get(f"/v2/timeseries/sleep/{uuid.uuid4()}/stream").status_code == 404
    assert http.get("/v2/timeseries/sleep/nonsense/stream").status_code == 422


def test_the_document_names_the_new_calls(http: httpx.Client) -> None:
    paths = http.get("/openapi.json").json()["paths"]
    for resource in UNITS:
        assert "get" in paths[f"/v2/timeseries/{{user_id}}/{resource}/grouped"]
    for kind in FIELDS:
        assert "get" in paths[f"/v2/summary/{kind}/{{user_id}}"]
    upload = paths["/lab_report/v1/parser/job"]["post"]["requestBody"]["content"]
    assert set(upload) == {"multipart/form-data"}
