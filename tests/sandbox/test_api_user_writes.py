"""Users, demographics and connections: created, changed, ended."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.sandbox.conftest import TEAM_KEY
from tests.sandboxes import Sandbox, running

TEAM = "7ea00000-0000-4000-8000-000000000001"
INFO: dict[str, Any] = {
    "first_name": "Anne-Marie",
    "last_name": "St. Madeup",
    "email": "anne@example.invalid",
    "phone_number": "+15550100001",
    "gender": "female",
    "dob": "1980-02-03",
    "address": {
        "first_line": "1 Sample Street",
        "city": "Phoenix",
        "state": "AZ",
        "zip": "85004",
        "country": "US",
    },
}


@pytest.fixture(scope="module")
def world() -> Iterator[Sandbox]:
    with running(users=40, orders=80, seed=13) as world:
        yield world


@pytest.fixture(scope="module")
def http(world: Sandbox) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=world.url, headers=TEAM_KEY, timeout=30) as http:
        yield http


def create(http: httpx.Client, **more: Any) -> dict[str, Any]:
    answer = http.post("/v2/user", json={"client_user_id": f"made-up-{uuid.uuid4()}", **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.parametrize(
    "reference",
    ["ada@example.test", "mrn-ada@example.test-1", "+15550100165", "(555) 010-0165", "5550100165",
     "1 555 010 0165", "p-555-010-0165"],
)  # fmt: skip
def test_personal_references_are_refused(http: httpx.Client, reference: str) -> None:
    answer = http.post("/v2/user", json={"client_user_id": reference})
    assert answer.status_code == 422
    assert [each["loc"] for each in answer.json()["detail"]] == [["body", "client_user_id"]]
    user = create(http)
    changed = http.patch(f"/v2/user/{user['user_id']}", json={"client_user_id": reference})
    assert changed.status_code == 422


@pytest.mark.parametrize("number", ["clinic-0000003", "55501000-1650-4000-8000-555010001650", "77"])
def test_references_of_digits_are_no_phone_numbers(http: httpx.Client, number: str) -> None:
    reference = f"{number}-{uuid.uuid4().hex}" if number == "77" else number
    answer = http.post("/v2/user", json={"client_user_id": reference})
    assert answer.status_code == 200 or "already exists" in answer.text


def test_a_new_user_is_found_in_every_way(http: httpx.Client) -> None:
    total = http.get("/v2/user").json()["total"]
    user = create(
        http,
        fallback_time_zone="America/Phoenix",
        fallback_birth_date="1980-02-03",
        ingestion_start="2026-01-01",
    )
    assert user["team_id"] == TEAM and user["connected_sources"] == []
    assert user["fallback_time_zone"]["id"] == "America/Phoenix"
    assert user["fallback_time_zone"]["source_slug"] == "manual"
    assert user["fallback_birth_date"]["value"] == "1980-02-03"
    assert (user["ingestion_start"], user["ingestion_end"]) == ("2026-01-01", None)
    assert http.get(f"/v2/user/{user['user_id']}").json() == user
    assert http.get(f"/v2/user/resolve/{user['client_user_id']}").json() == user
    assert http.get("/v2/user").json()["total"] == total + 1
    assert http.get("/v2/user", params={"offset": total}).json()["users"] == [user]


def test_duplicate_reference_names_the_first_user(http: httpx.Client) -> None:
    user = create(http)
    answer = http.post("/v2/user/", json={"client_user_id": user["client_user_id"]})
    assert answer.status_code == 400
    detail = answer.json()["detail"]
    assert detail.keys() == {"error_type", "error_message", "user_id", "created_on"}
    assert (detail["user_id"], detail["created_on"]) == (user["user_id"], user["created_on"])


def test_of_many_at_once_one_is_created(world: Sandbox, http: httpx.Client) -> None:
    reference = f"made-up-{uuid.uuid4()}"
    answers: list[httpx.Response] = []
    racers = [
        threading.Thread(
            target=lambda: answers.append(http.post("/v2/user", json={"client_user_id": reference}))
        )
        for _ in range(6)
    ]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert sorted(answer.status_code for answer in answers) == [200, 400, 400, 400, 400, 400]
    ids = {each.json().get("user_id") or each.json()["detail"]["user_id"] for each in answers}
    assert len(ids) == 1


@pytest.mark.parametrize(
    ("body", "locs"),
    [
        ({}, [["body", "client_user_id"]]),
        ({"client_user_id": ""}, [["body", "client_user_id"]]),
        (
            {"client_user_id": 5, "fallback_time_zone": "Phoenix", "ingestion_end": "soon"},
            [["body", "client_user_id"], ["body", "fallback_time_zone"], ["body", "ingestion_end"]],
        ),
    ],
)
def test_invalid_user_fields_are_reported_by_field(
    http: httpx.Client, body: dict[str, Any], locs: list[list[str]]
) -> None:
    answer = http.post("/v2/user", json=body)
    assert answer.status_code == 422
    assert [item["loc"] for item in answer.json()["detail"]] == locs


def test_a_change_touches_only_what_it_names(http: httpx.Client) -> None:
    user = create(http, fallback_time_zone="America/Denver", ingestion_start="2026-01-01")
    path = f"/v2/user/{user['user_id']}"
    answer = http.patch(path, json={"ingestion_end": "2026-05-01", "client_user_id": None})
    assert (answer.status_code, answer.content) == (204, b"")
    after = http.get(path).json()
    assert after == {**user, "ingestion_end": "2026-05-01"}
    renamed = f"made-up-{uuid.uuid4()}"
    http.patch(path, json={"client_user_id": renamed, "fallback_time_zone": None})
    after = http.get(path).json()
    assert (after["client_user_id"], after["fallback_time_zone"]) == (renamed, None)
    taken = http.patch(path, json={"client_user_id": create(http)["client_user_id"]})
    assert taken.status_code == 400 and taken.json()["detail"]["user_id"] != user["user_id"]
    assert http.patch(f"/v2/user/{uuid.uuid4()}", json={}).status_code == 404


def test_demographics_are_put_as_a_whole(http: httpx.Client) -> None:
    path = f"/v2/user/{create(http)['user_id']}/info"
    assert http.get(f"{path}/latest").status_code == 404
    first = http.patch(path, json={**INFO, "race": "asian"})
    assert first.status_code == 200, first.text
    assert first.json()["race"] == "asian" and first.json()["address"]["second_line"] == ""
    assert http.get(f"{path}/latest").json() == first.json()
    second = http.patch(path, json={**INFO, "gender": "other"}).json()
    assert (second["race"], second["gender"]) == (None, "other")
    assert http.get(f"{path}/latest").json() == second


def test_demographics_with_a_proxy(http: httpx.Client) -> None:
    path = f"/v2/user/{create(http)['user_id']}/info"
    proxy = {
        "first_name": "Ada",
        "last_name": "Madeup",
        "address": INFO["address"],
        "phone_number": "+15550100002",
        "household_size": 3,
    }
    answer = http.patch(path, json={**INFO, "dob": "2015-01-01", "medical_proxy": proxy})
    assert answer.status_code == 200, answer.text
    assert answer.json()["medical_proxy"]["household_size"] == 3
    proxy.pop("phone_number")
    answer = http.patch(path, json={**INFO, "medical_proxy": proxy})
    [item] = answer.json()["detail"]
    assert item["loc"] == ["body", "medical_proxy", "phone_number"]


@pytest.mark.parametrize(
    ("change", "loc"),
    [
        ({"first_name": "Zoë"}, ["body", "first_name"]),
        ({"last_name": " Madeup"}, ["body", "last_name"]),
        ({"email": "nobody"}, ["body", "email"]),
        ({"dob": "2999-01-01"}, ["body", "dob"]),
        ({"dob": "03.02.1980"}, ["body", "dob"]),
        ({"phone_number": None}, ["body", "phone_number"]),
        ({"race": "human"}, ["body", "race"]),
        ({"address": {**INFO["address"], "zip": None}}, ["body", "address", "zip"]),
        ({"address": None}, ["body", "address"]),
    ],
)
def test_demographics_that_do_not_fit(
    http: httpx.Client, change: dict[str, Any], loc: list[str]
) -> None:
    path = f"/v2/user/{create(http)['user_id']}/info"
    answer = http.patch(path, json={**INFO, **change})
    assert answer.status_code == 422, answer.text
    assert [item["loc"] for item in answer.json()["detail"]] == [loc]
    assert http.get(f"{path}/latest").status_code == 404


def test_part_of_the_demographics_is_not_enough(http: httpx.Client) -> None:
    path = f"/v2/user/{create(http)['user_id']}/info"
    answer = http.patch(path, json={"first_name": "Ada"})
    assert {tuple(item["loc"]) for item in answer.json()["detail"]} == {
        ("body", name) for name in INFO if name != "first_name"
    }


def _connection(world: Sandbox, auth: str) -> tuple[str, str]:
    rows = world.query(
        "SELECT c.user_id::text, c.provider_id FROM sandbox_connection c"
        " JOIN sandbox_provider p ON p.slug = c.provider_id JOIN sandbox_user u ON u.id = c.user_id"
        " WHERE p.auth_type = %s AND u.team_id = %s LIMIT 1",
        (auth, TEAM),
    )
    return rows[0][0], rows[0][1]


def _slugs(http: httpx.Client, user: str) -> set[str]:
    return {each["slug"] for each in http.get(f"/v2/user/providers/{user}").json()["providers"]}


def test_deregistering_ends_a_cloud_connection(world: Sandbox, http: httpx.Client) -> None:
    user, provider = _connection(world, "oauth")
    before = _slugs(http, user)
    answer = http.delete(f"/v2/user/{user}/{provider}")
    assert (answer.status_code, answer.json()) == (200, {"success": True})
    assert _slugs(http, user) == before - {provider}
    assert http.delete(f"/v2/user/{user}/{provider}").status_code == 404
    unknown = http.delete(f"/v2/user/{user}/no-such-provider")
    assert unknown.status_code == 422
    assert unknown.json()["detail"][0]["loc"] == ["path", "provider"]


def test_a_source_that_was_deregistered_may_be_connected_again(
    world: Sandbox, http: httpx.Client
) -> None:
    def connect_everybody(seed: int) -> None:
        world.control("connections", {"connect": 40, "seed": seed})

    for seed in range(1, 5):  # one source of each in turn, until all four are
        connect_everybody(seed)
    user, provider = _connection(world, "oauth")
    assert http.delete(f"/v2/user/{user}/{provider}").status_code == 200
    # Each time users are drawn to whom a source is connected that they lack.
    for seed in range(5, 60):
        connect_everybody(seed)
        if provider in _slugs(http, user):
            break
    assert provider in _slugs(http, user)
    pulls = "SELECT DISTINCT status FROM sandbox_historicalpull WHERE user_id = %s"
    assert ("scheduled",) in world.query(f"{pulls} AND provider_id = %s", (user, provider))


def test_a_connection_of_the_mobile_sdk_stays(world: Sandbox, http: httpx.Client) -> None:
    user, provider = _connection(world, "sdk")
    answer = http.delete(f"/v2/user/{user}/{provider}")
    assert (answer.status_code, answer.json()) == (200, {"success": True})
    assert provider in _slugs(http, user)


def test_a_link_to_connect_a_device(http: httpx.Client) -> None:
    user = create(http)["user_id"]
    body = {"user_id": user, "provider": "band-one", "redirect_url": "https://clinic.invalid/"}
    first, second = (http.post("/v2/link/token", json=body).json() for _ in range(2))
    assert first["link_token"] in first["link_web_url"]
    assert first["link_token"] != second["link_token"]
    for wrong, loc in (
        ({"provider": "nobody"}, ["body", "provider"]),
        ({"filter_on_providers": []}, ["body", "filter_on_providers"]),
        ({"filter_on_providers": ["nobody"]}, ["body", "filter_on_providers", 0]),
        ({"on_close": "stay"}, ["body", "on_close"]),
    ):
        answer = http.post("/v2/link/token", json={**body, **wrong})
        assert answer.status_code == 422 and answer.json()["detail"][0]["loc"] == loc
    assert http.post("/v2/link/token", json={"user_id": str(uuid.uuid4())}).status_code == 404


def test_simulation_ignores_users_created_by_the_team(world: Sandbox, http: httpx.Client) -> None:
    for _ in range(30):
        create(http)
    # Kits are registered by people of the seed only; one that failed would keep all others back.
    world.control("place", {"orders": 60})
    [(before,)] = world.query("SELECT max(id) FROM sandbox_orderevent")
    registered = (
        "SELECT count(*) FROM sandbox_orderevent WHERE id > %s AND status LIKE '%%.registered'"
    )
    world.control("clock", {"speed": 500_000})
    deadline = time.monotonic() + 60
    while world.query(registered, (before,)) == [(0,)]:
        assert time.monotonic() < deadline, "no kit was registered"
        time.sleep(0.5)
    world.control("clock", {"speed": 0})
