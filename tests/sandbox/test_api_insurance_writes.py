"""Insurance records and payors of the team's own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.sandbox.conftest import TEAM_KEY
from tests.sandboxes import Sandbox, running

ADDRESS = {
    "first_line": "1 Sample Street",
    "city": "Phoenix",
    "state": "AZ",
    "zip": "85004",
    "country": "US",
}
INSURED = {
    "first_name": "Ada",
    "last_name": "Madeup",
    "gender": "female",
    "address": ADDRESS,
    "dob": "1980-02-03",
    "email": "ada@example.invalid",
    "phone_number": "+15550100001",
}
GUARANTOR = {
    "first_name": "Bruno",
    "last_name": "Madeup",
    "address": ADDRESS,
    "phone_number": "+15550100002",
}
RECORD: dict[str, Any] = {
    "payor_code": "MUPLAN1",
    "member_id": "M1",
    "relationship": "Self",
    "insured": INSURED,
}


@pytest.fixture(scope="module")
def world() -> Iterator[Sandbox]:
    with running(users=40, orders=40, seed=13) as world:
        yield world


@pytest.fixture(scope="module")
def http(world: Sandbox) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=world.url, headers=TEAM_KEY, timeout=30) as http:
        yield http


@pytest.fixture
def user(http: httpx.Client) -> str:
    """A new user with demographics in Arizona."""
    answer = http.post("/v2/user", json={"client_user_id": f"made-up-{uuid.uuid4()}"})
    found = str(answer.json()["user_id"])
    info = {**INSURED, "address": ADDRESS}
    assert http.patch(f"/v2/user/{found}/info", json=info).status_code == 200
    return found


def add(http: httpx.Client, user: str, **more: Any) -> httpx.Response:
    return http.post(f"/v2/user/{user}/insurance", json={**RECORD, **more})


def latest(http: httpx.Client, user: str, is_primary: bool = True) -> Any:
    path = f"/v2/user/{user}/insurance/latest"
    return http.get(path, params={"is_primary": is_primary}).json()


def test_each_record_is_added_and_the_newest_is_read(
    world: Sandbox, http: httpx.Client, user: str
) -> None:
    first = add(http, user, group_id="G1")
    assert first.status_code == 200, first.text
    assert first.json()["company"]["name"] == "Made-up Mutual"
    assert first.json()["is_primary"] is True and first.json()["insured"]["dob"] == "1980-02-03"
    assert latest(http, user) == first.json()
    second = add(http, user, member_id="M2").json()
    other = add(http, user, member_id="M3", is_primary=False).json()
    assert latest(http, user) == second
    assert latest(http, user, False) == other
    count = "SELECT count(*) FROM sandbox_insurance WHERE user_id = %s"
    assert world.query(count, (user,)) == [(3,)]


def test_demographics_come_first(http: httpx.Client) -> None:
    answer = http.post("/v2/user", json={"client_user_id": f"made-up-{uuid.uuid4()}"})
    refused = add(http, answer.json()["user_id"])
    assert refused.status_code == 422 and "demographics" in refused.json()["detail"]


def test_a_guarantor_unless_it_is_the_patient(http: httpx.Client, user: str) -> None:
    refused = add(http, user, relationship="Spouse")
    assert refused.status_code == 422
    assert refused.json()["detail"][0]["loc"] == ["body", "guarantor"]
    answer = add(http, user, relationship="Spouse", guarantor=GUARANTOR)
    assert answer.status_code == 200, answer.text
    assert answer.json()["guarantor"]["first_name"] == "Bruno"


def test_federal_codes_become_the_plan_of_the_state(http: httpx.Client, user: str) -> None:
    for code, plan in (("MEDFED", "MEDAZ"), ("MAIDFED", "MAIDAZ")):
        answer = add(http, user, payor_code=code)
        assert answer.status_code == 200, answer.text
        assert answer.json()["payor_code"] == plan == latest(http, user)["payor_code"]


@pytest.mark.parametrize(
    ("change", "loc"),
    [
        ({"payor_code": "NOBODY"}, ["body", "payor_code"]),
        ({"payor_code": "TEAM2PL"}, ["body", "payor_code"]),
        ({"relationship": "self"}, ["body", "relationship"]),
        ({"member_id": None}, ["body", "member_id"]),
        ({"insured": {**INSURED, "gender": "Male"}}, ["body", "insured", "gender"]),
        ({"insured": {**INSURED, "first_name": "Ada "}}, ["body", "insured", "first_name"]),
        (
            {"insured": {**INSURED, "address": {**ADDRESS, "zip": None}}},
            ["body", "insured", "address", "zip"],
        ),
        ({"is_primary": "yes"}, ["body", "is_primary"]),
    ],
)
def test_records_that_do_not_fit(
    http: httpx.Client, user: str, change: dict[str, Any], loc: list[str]
) -> None:
    answer = add(http, user, **change)
    assert answer.status_code == 422, answer.text
    assert [item["loc"] for item in answer.json()["detail"]] == [loc]
    assert http.get(f"/v2/user/{user}/insurance/latest").status_code == 404


def test_a_payor_of_the_teams_own(http: httpx.Client, user: str) -> None:
    body = {
        "name": "Corner Street Plan",
        "address": ADDRESS,
        "provider": "clearing-two",
        "provider_payor_id": "CSP-1",
    }
    answer = http.post("/v3/payor", json=body)
    assert answer.status_code == 200, answer.text
    payor = answer.json()
    assert (payor["name"], payor["source"]) == ("Corner Street Plan", "team")
    assert payor["org_address"]["zip"] == "85004"
    for query in (
        {"insurance_name": "corner street"},
        {"provider": "clearing-two", "provider_payor_id": "CSP-1"},
    ):
        assert http.get("/v3/insurance/search/payor", params=query).json() == [payor]
    used = add(http, user, payor_code=payor["payor_code"])
    assert used.json()["company"]["name"] == "Corner Street Plan"
    # Another of the same name is another payor: nothing keeps them apart.
    again = http.post("/v3/payor", json=body).json()
    assert again["payor_code"] != payor["payor_code"]


@pytest.mark.parametrize(
    ("change", "loc"),
    [
        ({"name": None}, ["body", "name"]),
        ({"address": {**ADDRESS, "state": ""}}, ["body", "address", "state"]),
        ({"provider": "nobody"}, ["body", "provider"]),
    ],
)
def test_payors_that_do_not_fit(http: httpx.Client, change: dict[str, Any], loc: list[str]) -> None:
    answer = http.post("/v3/payor", json={"name": "Plan", "address": ADDRESS, **change})
    assert answer.status_code == 422
    assert [item["loc"] for item in answer.json()["detail"]] == [loc]
