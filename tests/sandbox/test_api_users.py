"""Users, demographics, insurance, connections and introspection."""

from __future__ import annotations

import uuid
from typing import Any

import httpx
import pytest

from tests.sandbox.conftest import Sandbox

TEAM = "7ea00000-0000-4000-8000-000000000001"


@pytest.fixture(scope="module")
def team_users(sandbox: Sandbox) -> list[str]:
    """Ids of the team's users, oldest first."""
    return sandbox.column(
        "SELECT id::text FROM sandbox_user WHERE team_id = %s AND deleted_at IS NULL"
        " ORDER BY created_on, seq",
        TEAM,
    )


def test_users_are_listed_once_each(sandbox: Sandbox, team_users: list[str]) -> None:
    for size in (7, 100, 500):
        seen: list[str] = []
        for offset in range(0, len(team_users) + size, size):
            body = sandbox.get("/v2/user/", offset=offset, limit=size)
            assert (body["offset"], body["limit"]) == (offset, size)
            assert body["total"] == len(team_users)
            seen += [user["user_id"] for user in body["users"]]
        assert seen == team_users


def test_users_default_to_a_hundred_with_or_without_slash(sandbox: Sandbox) -> None:
    plain, slashed = sandbox.get("/v2/user"), sandbox.get("/v2/user/")
    assert plain == slashed
    assert plain["limit"] == 100 and len(plain["users"]) == 100


def test_one_user_in_three_ways(sandbox: Sandbox) -> None:
    for user in sandbox.get("/v2/user", limit=20)["users"]:
        assert user["team_id"] == TEAM
        assert sandbox.get(f"/v2/user/{user['user_id']}") == user
        assert sandbox.get(f"/v2/user/resolve/{user['client_user_id']}") == user
        assert user in sandbox.get("/v2/team/users/search", query_id=user["user_id"])
        assert user in sandbox.get("/v2/team/users/search", query_id=user["client_user_id"])
    assert sandbox.http.get("/v2/user/resolve/nobody-at-all").status_code == 404
    assert sandbox.get("/v2/team/users/search", query_id="nobody-at-all") == []


def test_search_shows_no_user_of_another_team(sandbox: Sandbox) -> None:
    foreign = sandbox.value("SELECT client_user_id FROM sandbox_user WHERE team_id <> %s", TEAM)
    found = sandbox.get("/v2/team/users/search", query_id=foreign)
    assert all(user["team_id"] == TEAM for user in found)
    own = sandbox.value("SELECT id::text FROM sandbox_user WHERE team_id <> %s", TEAM)
    assert sandbox.get("/v2/team/users/search", query_id=own) == []


def test_connected_sources_show_provider_and_source(sandbox: Sandbox) -> None:
    expected = sandbox.rows(
        "SELECT u.id::text, array_agg(c.provider_id ORDER BY c.created_on, c.id)"
        " FROM sandbox_user u JOIN sandbox_connection c ON c.user_id = u.id"
        " WHERE u.team_id = %s AND u.deleted_at IS NULL GROUP BY 1",
        TEAM,
    )
    assert expected
    for user_id, slugs in expected[:30]:
        user = sandbox.get(f"/v2/user/{user_id}")
        assert [each["provider"]["slug"] for each in user["connected_sources"]] == slugs
        for each in user["connected_sources"]:
            assert each["source"] == each["provider"]
            assert each["provider"].keys() == {"name", "slug", "logo"}
            assert each["created_on"]
        listed = sandbox.get(f"/v2/user/providers/{user_id}")["providers"]
        assert [connection["slug"] for connection in listed] == slugs
        for connection in listed:
            assert (connection["error_details"] is not None) == (connection["status"] == "error")


def test_demographics(sandbox: Sandbox, team_users: list[str]) -> None:
    known = dict(
        sandbox.rows(
            "SELECT user_id::text, jsonb_build_array(first_name, last_name, dob, zip, country)"
            " FROM sandbox_userinfo"
        )
    )
    seen = {200: 0, 404: 0}
    for user_id in team_users[:80]:
        answer = sandbox.http.get(f"/v2/user/{user_id}/info/latest")
        seen[answer.status_code] += 1
        assert (answer.status_code == 200) == (user_id in known)
        if answer.status_code == 200:
            info = answer.json()
            address = info["address"]
            assert known[user_id] == [
                info["first_name"],
                info["last_name"],
                info["dob"],
                address["zip"],
                address["country"],
            ]
            assert info["gender"] in ("female", "male", "other", "unknown")
    assert seen[200]


def test_insurance_is_the_newest_of_its_kind(sandbox: Sandbox) -> None:
    expected = sandbox.rows(
        "SELECT DISTINCT ON (i.user_id, i.is_primary) i.user_id::text, i.is_primary, i.member_id,"
        " i.payor_id, p.name FROM sandbox_insurance i"
        " JOIN sandbox_payor p ON p.payor_code = i.payor_id"
        " JOIN sandbox_user u ON u.id = i.user_id AND u.team_id = %s AND u.deleted_at IS NULL"
        " ORDER BY i.user_id, i.is_primary, i.created_at DESC",
        TEAM,
    )
    assert {row[1] for row in expected} == {True, False}
    for user_id, is_primary, member_id, payor_code, payor in expected:
        record = sandbox.get(f"/v2/user/{user_id}/insurance/latest", is_primary=is_primary)
        assert (record["member_id"], record["payor_code"]) == (member_id, payor_code)
        assert record["is_primary"] is is_primary
        assert record["company"]["name"] == payor
        assert {"zip", "country"} <= record["company"]["address"].keys()
        assert record["relationship"] == "Self" or record["guarantor"] is not None
    primary = next(row for row in expected if row[1])
    record = sandbox.get(f"/v2/user/{primary[0]}/insurance/latest")
    assert record["member_id"] == primary[2]


def test_insurance_missing(sandbox: Sandbox) -> None:
    user = sandbox.value(
        "SELECT u.id::text FROM sandbox_user u WHERE team_id = %s AND deleted_at IS NULL"
        " AND NOT EXISTS (SELECT FROM sandbox_insurance i WHERE i.user_id = u.id)",
        TEAM,
    )
    assert sandbox.http.get(f"/v2/user/{user}/insurance/latest").status_code == 404


def test_payor_search(sandbox: Sandbox) -> None:
    visible = set(
        sandbox.column(
            "SELECT payor_code FROM sandbox_payor WHERE team_id IS NULL OR team_id = %s", TEAM
        )
    )
    hidden = set(sandbox.column("SELECT payor_code FROM sandbox_payor")) - visible
    found = sandbox.get("/v3/insurance/search/payor")
    assert hidden and {payor["payor_code"] for payor in found} == visible
    for payor in found:
        own = payor["payor_code"] in sandbox.column(
            "SELECT payor_code FROM sandbox_payor WHERE team_id = %s", TEAM
        )
        assert payor["source"] == ("team" if own else "platform")
        by_name = sandbox.get("/v3/insurance/search/payor", insurance_name=payor["name"].upper())
        assert payor in by_name
        for alias in payor["aliases"]:
            assert payor in sandbox.get("/v3/insurance/search/payor", insurance_name=alias)
    assert sandbox.get("/v3/insurance/search/payor", insurance_name="no such thing") == []


def test_payor_by_connectivity_code(sandbox: Sandbox) -> None:
    code, ids = sandbox.rows(
        "SELECT payor_code, provider_payor_ids FROM sandbox_payor"
        " WHERE team_id IS NULL AND provider_payor_ids <> '{}' ORDER BY 1"
    )[0]
    provider, payor_id = next(iter(ids.items()))

    def codes(**params: str) -> list[str]:
        return [each["payor_code"] for each in sandbox.get("/v3/insurance/search/payor", **params)]

    assert codes(provider=provider, provider_payor_id=payor_id) == [code]
    assert code in codes(provider_payor_id=payor_id)
    assert codes(provider="clearing-seven", provider_payor_id=payor_id) == []


def test_diagnosis_search(sandbox: Sandbox) -> None:
    by_code = sandbox.get("/v3/insurance/search/diagnosis", diagnosis_query="e11")
    assert by_code and all(each["diagnosis_code"].startswith("E11") for each in by_code)
    by_text = sandbox.get("/v3/insurance/search/diagnosis", diagnosis_query="DIABETES")
    assert len(by_text) > 1
    assert all("diabetes" in each["description"].lower() for each in by_text)
    assert all(isinstance(each["is_secondary"], bool) for each in by_text)


def test_providers(sandbox: Sandbox) -> None:
    everything = sandbox.get("/v2/providers")
    assert [each["slug"] for each in everything] == sandbox.column(
        'SELECT slug FROM sandbox_provider ORDER BY slug COLLATE "C"'
    )
    watches = sandbox.get("/v2/providers", source_type="watch")
    assert 0 < len(watches) < len(everything)


def reports(sandbox: Sandbox, path: str, **params: Any) -> tuple[list[dict[str, Any]], list[int]]:
    """All reports by following next_cursor, and how many came on each page."""
    data: list[dict[str, Any]] = []
    counts: list[int] = []
    cursor: str | None = None
    while True:
        extra = {} if cursor is None else {"next_cursor": cursor}
        body = sandbox.get(path, **params, **extra)
        assert body.keys() == {"data", "next", "next_cursor"}
        data += body["data"]
        counts.append(len(body["data"]))
        cursor = body["next_cursor"]
        if cursor is None:
            return data, counts


@pytest.mark.parametrize("limit", [3, 50, 1000])
@pytest.mark.parametrize("path", ["historical_pull", "resources"])
def test_user_limit_is_an_upper_bound(
    sandbox: Sandbox, team_users: list[str], path: str, limit: int
) -> None:
    informed = sandbox.column(
        "SELECT DISTINCT p.user_id::text FROM sandbox_historicalpull p"
        " JOIN sandbox_user u ON u.id = p.user_id"
        " WHERE u.team_id = %s AND u.deleted_at IS NULL",
        TEAM,
    )
    assert 0 < len(informed) < len(team_users)
    data, counts = reports(sandbox, f"/v2/introspect/{path}", user_limit=limit)
    assert [each["user_id"] for each in data] == [
        user for user in team_users if user in set(informed)
    ]
    used = min(limit, 500)
    assert len(counts) == -(-len(team_users) // used)
    for place, count in enumerate(counts):
        turn = team_users[place * used : (place + 1) * used]
        assert count == len(set(turn) & set(informed))
    if limit == 3:
        assert any(count < 3 for count in counts[:-1]), "every page was full"


def test_pull_reports(sandbox: Sandbox) -> None:
    data, _ = reports(sandbox, "/v2/introspect/historical_pull", user_limit=500)
    statuses = set()
    for report in data[:40]:
        rows = sandbox.rows(
            "SELECT provider_id, resource, status, days_with_data, error_details"
            " FROM sandbox_historicalpull WHERE user_id = %s",
            report["user_id"],
        )
        shown = []
        for slug, provider in report["provider"].items():
            shown += [(slug, name, None) for name in provider["not_pulled"]]
            shown += [(slug, name, each["status"]) for name, each in provider["pulled"].items()]
            for each in provider["pulled"].values():
                assert each["timeline"]["scheduled_at"] is not None
                statuses.add(each["status"])
        assert sorted(map(str, shown)) == sorted(str(row[:3]) for row in rows)
    assert "success" in statuses and len(statuses) > 1


def test_introspection_filters(sandbox: Sandbox) -> None:
    user, provider = sandbox.rows(
        "SELECT p.user_id::text, min(p.provider_id) FROM sandbox_historicalpull p"
        " JOIN sandbox_user u ON u.id = p.user_id WHERE u.team_id = %s AND u.deleted_at IS NULL"
        " GROUP BY 1 ORDER BY count(DISTINCT provider_id) DESC, 1 LIMIT 1",
        TEAM,
    )[0]
    one, _ = reports(sandbox, "/v2/introspect/historical_pull", user_id=user)
    assert [each["user_id"] for each in one] == [user]
    some, _ = reports(sandbox, "/v2/introspect/historical_pull", provider=provider)
    assert some and all(list(each["provider"]) == [provider] for each in some)
    nobody, _ = reports(sandbox, "/v2/introspect/historical_pull", user_id=str(uuid.uuid4()))
    assert nobody == []


def test_the_deprecated_cursor_still_works(sandbox: Sandbox) -> None:
    first = sandbox.get("/v2/introspect/historical_pull", user_limit=5)
    new = sandbox.get("/v2/introspect/historical_pull", user_limit=5, next_cursor=first["next"])
    old = sandbox.get("/v2/introspect/historical_pull", user_limit=5, cursor=first["next"])
    assert new == old and new["next_cursor"] != first["next_cursor"]


@pytest.mark.parametrize("cursor", ["nonsense", "", "W10", "WyJhIiwxXQ", "é"])
def test_cursors_are_checked(sandbox: Sandbox, cursor: str) -> None:
    answer: httpx.Response = sandbox.http.get(
        "/v2/introspect/historical_pull", params={"next_cursor": cursor}
    )
    assert answer.status_code == (200 if cursor == "" else 400), answer.text


def test_a_cursor_of_another_query_is_refused(sandbox: Sandbox) -> None:
    cursor = sandbox.get("/v2/introspect/historical_pull", user_limit=5)["next_cursor"]
    other = sandbox.http.get("/v2/introspect/resources", params={"next_cursor": cursor})
    assert other.status_code == 400


def _resources(sandbox: Sandbox, **params: Any) -> dict[tuple[str, str, str], Any]:
    """States of all resources, over all pages, by user id, provider and name."""
    found: dict[tuple[str, str, str], Any] = {}
    cursor = None
    while True:
        extra: dict[str, str] = {} if cursor is None else {"next_cursor": cursor}
        page = sandbox.get("/v2/introspect/resources", **params, **extra)
        assert len(page["data"]) <= params.get("user_limit", 50)
        for report in page["data"]:
            for provider, states in report["provider"].items():
                for name, state in states.items():
                    assert (report["user_id"], provider, name) not in found
                    found[report["user_id"], provider, name] = state
        cursor = page["next_cursor"]
        if cursor is None:
            return found


def test_resources_of_connections_over_all_pages(sandbox: Sandbox) -> None:
    everything = _resources(sandbox)
    assert everything
    assert _resources(sandbox, user_limit=7).keys() == everything.keys()
    for state in everything.values():
        attempt = state["last_attempt"]
        assert attempt is None or attempt["status"] in ("success", "failure")
    user_id, provider, _ = min(everything)
    of_user = {key for key in everything if key[0] == user_id}
    of_provider = {key for key in everything if key[1] == provider}
    assert _resources(sandbox, user_id=user_id).keys() == of_user
    assert _resources(sandbox, provider=provider).keys() == of_provider
    refused = sandbox.http.get("/v2/introspect/resources", params={"provider": "nobody"})
    assert refused.status_code == 422
