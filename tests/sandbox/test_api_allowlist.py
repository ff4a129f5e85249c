"""The allowlist of a lab account: replaced as a whole, by the management key alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.sandbox.conftest import MANAGEMENT_KEY, TEAM_KEY
from tests.sandboxes import Sandbox, running

ORG = "0d4f7c1e-0000-4000-8000-00000000c11c"
TEAMS = [f"7ea00000-0000-4000-8000-{number:012d}" for number in (1, 2, 3)]
PATH = f"/v1/org/{ORG}/lab_account/sandbox/us"


@pytest.fixture(scope="module")
def world() -> Iterator[Sandbox]:
    with running(users=5, orders=5, seed=13) as world:
        yield world


@pytest.fixture(scope="module")
def http(world: Sandbox) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=world.url, headers=MANAGEMENT_KEY, timeout=30) as http:
        yield http


def account(http: httpx.Client, status: str = "active") -> str:
    return str(http.get(PATH, params={"status": status}).json()["data"][0]["id"])


def put(http: httpx.Client, key: str, teams: Any) -> httpx.Response:
    return http.patch(f"{PATH}/{key}", json={"team_id_allowlist": teams})


def shown(http: httpx.Client, key: str) -> Any:
    [found] = http.get(PATH, params={"lab_account_id": key}).json()["data"]
    return found


def test_the_list_is_replaced_and_counts_at_once(world: Sandbox, http: httpx.Client) -> None:
    key = account(http)
    answer = put(http, key, [TEAMS[2], TEAMS[1], TEAMS[2]])
    assert answer.status_code == 200, answer.text
    assert answer.json()["lab_account"] == shown(http, key)
    assert shown(http, key)["team_id_allowlist"] == [TEAMS[2], TEAMS[1]]
    with httpx.Client(base_url=world.url, headers=TEAM_KEY) as team:
        mine = [each["id"] for each in team.get("/v3/lab_test/lab_account").json()["data"]]
        assert key not in mine
        assert put(http, key, TEAMS).status_code == 200
        mine = [each["id"] for each in team.get("/v3/lab_test/lab_account").json()["data"]]
        assert key in mine
        assert put(team, key, TEAMS).status_code == 401
    assert put(http, key, []).json()["lab_account"]["team_id_allowlist"] == []
    put(http, key, TEAMS[:1])


def test_the_answer_may_hold_no_account(http: httpx.Client) -> None:
    key = account(http, "ready_to_launch")
    assert put(http, key, TEAMS[:2]).json() == {"lab_account": None}
    assert shown(http, key)["team_id_allowlist"] == TEAMS[:2]


def test_what_is_refused_changes_nothing(http: httpx.Client) -> None:
    key = account(http)
    before = shown(http, key)
    stranger = "7ea00000-0000-4000-8000-000000000099"
    for teams, loc in (
        ([TEAMS[0], stranger], ["body", "team_id_allowlist", 1]),
        (TEAMS[0], ["body", "team_id_allowlist"]),
        (["nobody"], ["body", "team_id_allowlist", 0]),
    ):
        answer = put(http, key, teams)
        assert answer.status_code == 422
        assert answer.json()["detail"][0]["loc"] == loc
    assert put(http, ORG, TEAMS).status_code == 404
    elsewhere = PATH.replace("sandbox/us", "production/us")
    body = {"team_id_allowlist": TEAMS}
    assert http.patch(f"{elsewhere}/{key}", json=body).status_code == 404
    foreign = PATH.replace(ORG, TEAMS[0])
    assert http.patch(f"{foreign}/{key}", json=body).status_code == 403
    assert shown(http, key) == before


def test_somebody_else_edits_it(world: Sandbox, http: httpx.Client) -> None:
    key = account(http)
    put(http, key, TEAMS[:2])
    change = {"account_id": key, "add": [TEAMS[2]], "remove": [TEAMS[1]]}
    assert world.control("allowlist", change)["team_id_allowlist"] == [TEAMS[0], TEAMS[2]]
    assert shown(http, key)["team_id_allowlist"] == [TEAMS[0], TEAMS[2]]
