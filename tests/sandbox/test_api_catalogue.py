"""Labs, lab tests, markers, lab accounts, physicians."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, LiteralString

import httpx
import pytest

from tests.sandbox.conftest import MANAGEMENT_KEY, Sandbox

TEAM = "7ea00000-0000-4000-8000-000000000001"
OTHER_TEAM = "7ea00000-0000-4000-8000-000000000002"
ACCOUNTS = "/v1/org/0d4f7c1e-0000-4000-8000-00000000c11c/lab_account/sandbox/us"


def test_labs(sandbox: Sandbox) -> None:
    labs = sandbox.get("/v3/lab_tests/labs")
    assert [lab["id"] for lab in labs] == sandbox.column("SELECT id FROM sandbox_lab ORDER BY id")
    needed = {"id", "slug", "name", "first_line_address", "city", "zipcode"}
    assert all(needed | {"collection_methods", "sample_types"} <= lab.keys() for lab in labs)


# Lab tests


def lab_tests(sandbox: Sandbox, **params: Any) -> list[str]:
    """Ids over all pages of three, following next_cursor."""
    ids: list[str] = []
    cursor: str | None = None
    while True:
        extra = {} if cursor is None else {"next_cursor": cursor}
        body = sandbox.get("/v3/lab_test", lab_test_limit=3, **params, **extra)
        assert body.keys() == {"data", "next_cursor", "pricing"}
        assert len(body["data"]) == 3 or body["next_cursor"] is None
        ids += [test["id"] for test in body["data"]]
        cursor = body["next_cursor"]
        if cursor is None:
            return ids


OWN: LiteralString = (
    "SELECT id::text FROM sandbox_labtest t"
    " WHERE (team_id IS NULL OR team_id = '7ea00000-0000-4000-8000-000000000001') AND "
)


@pytest.mark.parametrize(
    ("params", "where"),
    [
        ({}, "NOT auto_generated"),
        ({"generation_method": "auto"}, "auto_generated"),
        ({"generation_method": "all"}, "true"),
        (
            {"lab_slug": "lab-north"},
            "NOT auto_generated AND lab_id = (SELECT id FROM sandbox_lab WHERE slug = 'lab-north')",
        ),
        ({"collection_method": "testkit"}, "NOT auto_generated AND method = 'testkit'"),
        ({"status": "inactive"}, "NOT auto_generated AND status = 'inactive'"),
        ({"status": "pending_approval"}, "NOT auto_generated AND status = 'pending_approval'"),
        ({"name": "KIT"}, "NOT auto_generated AND lower(name) LIKE '%%kit%%'"),
    ],
)
def test_lab_test_filters(sandbox: Sandbox, params: dict[str, str], where: LiteralString) -> None:
    expected = sandbox.column(OWN + where + " ORDER BY created_at, id")
    assert expected
    assert lab_tests(sandbox, **params) == expected
    if params.get("generation_method") != "all":
        assert [test["id"] for test in sandbox.get("/v3/lab_tests", **params)] == expected


@pytest.mark.parametrize("direction", ["asc", "desc"])
@pytest.mark.parametrize(
    ("key", "order"),
    [("price", "price_minor"), ("created_at", "created_at"), ("updated_at", "updated_at")],
)
def test_lab_test_order(sandbox: Sandbox, key: str, order: str, direction: str) -> None:
    rows = sandbox.rows(
        "SELECT id::text, price_minor, created_at, updated_at FROM sandbox_labtest"
        " WHERE (team_id IS NULL OR team_id = '7ea00000-0000-4000-8000-000000000001')"
    )
    column = ["id", "price_minor", "created_at", "updated_at"].index(order)
    expected = sorted(rows, key=lambda row: (row[column], row[0]), reverse=direction == "desc")
    ids = lab_tests(sandbox, generation_method="all", order_key=key, order_direction=direction)
    assert ids == [row[0] for row in expected]


def test_lab_tests_by_marker_and_code(sandbox: Sandbox) -> None:
    test, markers, codes = sandbox.rows(
        "SELECT t.id::text, array_agg(m.id), array_agg(m.provider_id) FROM sandbox_labtest t"
        " JOIN sandbox_labtestmarker x ON x.lab_test_id = t.id"
        " JOIN sandbox_marker m ON m.id = x.marker_id"
        " WHERE t.team_id IS NULL AND NOT t.auto_generated GROUP BY t.id"
        " HAVING count(*) > 1 ORDER BY t.id LIMIT 1"
    )[0]
    assert test in lab_tests(sandbox, marker_ids=markers)
    assert test in lab_tests(sandbox, provider_ids=codes)
    for found in sandbox.get("/v3/lab_test", marker_ids=markers)["data"]:
        assert set(markers) <= {marker["id"] for marker in found["markers"]}
    assert lab_tests(sandbox, marker_ids=[*markers, 10**9]) == []


def test_one_lab_test(sandbox: Sandbox) -> None:
    for test in sandbox.get("/v3/lab_test")["data"]:
        assert sandbox.get(f"/v3/lab_tests/{test['id']}") == test
        assert test["is_active"] == (test["status"] == "active")
    hidden = sandbox.value("SELECT id::text FROM sandbox_labtest WHERE team_id = %s", OTHER_TEAM)
    assert sandbox.http.get(f"/v3/lab_tests/{hidden}").status_code == 404
    assert hidden not in lab_tests(sandbox, generation_method="all")


def test_lab_test_pricing(sandbox: Sandbox) -> None:
    body = sandbox.get("/v3/lab_test", include_pricing=True)
    assert body["pricing"]["currency"] == "USD"
    assert set(body["pricing"]["data"]) == {test["id"] for test in body["data"]}
    for test in body["data"]:
        price = body["pricing"]["data"][test["id"]]
        assert price["pricing"]["base_amount_minor"] == round(test["price"] * 100)
    assert sandbox.get("/v3/lab_test")["pricing"] is None


def test_a_cursor_belongs_to_its_query(sandbox: Sandbox) -> None:
    cursor = sandbox.get("/v3/lab_test", lab_test_limit=2)["next_cursor"]
    answer = sandbox.http.get("/v3/lab_test", params={"next_cursor": cursor, "name": "x"})
    assert answer.status_code == 400


# Markers


def markers(sandbox: Sandbox, path: str = "/v3/lab_tests/markers", **params: Any) -> list[int]:
    """Ids over all pages of seven; the counts of each page must agree."""
    ids: list[int] = []
    page = 1
    while True:
        body = sandbox.get(path, **params, page=page, size=7)
        assert (body["page"], body["size"]) == (page, 7)
        assert body["pages"] == -(-body["total"] // 7)
        ids += [marker["id"] for marker in body["markers"]]
        if page >= body["pages"]:
            assert len(ids) == len(set(ids)) == body["total"]
            return ids
        page += 1


LISTED: LiteralString = (
    "SELECT id FROM sandbox_marker m WHERE is_active AND is_orderable AND NOT is_reflex AND "
)


def test_marker_list_leaves_out_reflex_and_unorderable_ones(sandbox: Sandbox) -> None:
    everything = sandbox.value("SELECT count(*) FROM sandbox_marker")
    expected = sandbox.column(LISTED + "true ORDER BY id")
    assert 0 < len(expected) < everything
    assert sandbox.column("SELECT id FROM sandbox_marker WHERE is_reflex")
    assert markers(sandbox) == expected


def test_lab_slug_wins_over_lab_id(sandbox: Sandbox) -> None:
    labs = dict(sandbox.rows("SELECT slug, id FROM sandbox_lab"))
    north = sandbox.column(LISTED + "lab_id = %s ORDER BY id", labs["lab-north"])
    both = sandbox.column(
        LISTED + "lab_id = ANY(%s) ORDER BY id", [labs["lab-north"], labs["lab-east"]]
    )
    assert markers(sandbox, lab_id=labs["lab-north"]) == north
    assert markers(sandbox, lab_id=[labs["lab-north"], labs["lab-east"]]) == both
    assert markers(sandbox, lab_id=labs["lab-east"], lab_slug="lab-north") == north
    assert markers(sandbox, lab_slug="lab-nowhere") == []


def test_marker_name_and_code(sandbox: Sandbox) -> None:
    expected = sandbox.column(LISTED + "name ILIKE '%%glucose%%' ORDER BY id")
    assert expected and markers(sandbox, name="GLUCOSE") == expected
    code, lab_id, marker_id = sandbox.rows(
        "SELECT provider_id, lab_id, id FROM sandbox_marker"
        " WHERE is_active AND is_orderable AND NOT is_reflex ORDER BY id"
    )[0]
    assert marker_id in markers(sandbox, name=code)
    one = sandbox.get(f"/v3/lab_tests/{lab_id}/markers/{code}")
    assert one["id"] == marker_id and "expected_results" not in one
    assert sandbox.http.get(f"/v3/lab_tests/{lab_id}/markers/none").status_code == 404


def test_a_la_carte(sandbox: Sandbox) -> None:
    for flag in (True, False):
        expected = sandbox.column(LISTED + "a_la_carte_enabled = %s ORDER BY id", flag)
        assert expected and markers(sandbox, a_la_carte_enabled=flag) == expected


def test_marker_pricing(sandbox: Sandbox) -> None:
    body = sandbox.get("/v3/lab_tests/markers", include_pricing=True, size=100)
    data = body["pricing"]["data"]
    assert set(data) == {str(marker["id"]) for marker in body["markers"]}
    for marker in body["markers"]:
        price = data[str(marker["id"])]
        if marker["price"] == "N/A":
            assert price == {"unspecified": "refer_to_contract"}
        else:
            assert price["base_amount_minor"] == round(float(marker["price"]) * 100)
    assert sandbox.get("/v3/lab_tests/markers")["pricing"] is None


def test_expected_results(sandbox: Sandbox) -> None:
    body = sandbox.get("/v3/lab_tests/markers", size=100)
    shown = {
        result["id"]: marker["id"]
        for marker in body["markers"]
        for result in marker["expected_results"]
    }
    ids = [marker["id"] for marker in body["markers"]]
    assert shown == dict(
        sandbox.rows(
            "SELECT id, marker_id FROM sandbox_expectedresult WHERE marker_id = ANY(%s)", ids
        )
    )


def test_lab_test_markers_include_reflex_ones(sandbox: Sandbox) -> None:
    reflexes = 0
    for test in lab_tests(sandbox, generation_method="all"):
        expected = sandbox.column(
            "SELECT DISTINCT m.id FROM sandbox_marker m"
            " JOIN sandbox_labtestmarker x ON x.marker_id = m.id OR x.marker_id = m.reflex_of_id"
            " WHERE x.lab_test_id = %s ORDER BY m.id",
            test,
        )
        assert markers(sandbox, f"/v3/lab_tests/{test}/markers") == expected
        reflexes += len(
            sandbox.rows("SELECT FROM sandbox_marker WHERE is_reflex AND id = ANY(%s)", expected)
        )
    assert reflexes, "no lab test of this world has reflex markers"


# Lab accounts


def visible_accounts(sandbox: Sandbox) -> list[str]:
    return sandbox.column(
        "SELECT id::text FROM sandbox_labaccount WHERE %s::uuid = ANY(team_id_allowlist)"
        " ORDER BY lab_id, id",
        TEAM,
    )


def test_team_accounts(sandbox: Sandbox) -> None:
    expected = visible_accounts(sandbox)
    data = sandbox.get("/v3/lab_test/lab_account")["data"]
    assert [account["id"] for account in data] == expected
    assert all(TEAM in account["team_id_allowlist"] for account in data)
    for account in data:
        one = sandbox.get("/v3/lab_test/lab_account", lab_account_id=account["id"])["data"]
        assert one == [account]
        same = sandbox.get("/v3/lab_test/lab_account", status=account["status"])["data"]
        assert account in same and {each["status"] for each in same} == {account["status"]}


@pytest.fixture
def hidden_account(sandbox: Sandbox) -> Iterator[str]:
    """An account only another team may use."""
    [(account,)] = sandbox.rows(
        "INSERT INTO sandbox_labaccount (id, lab_id, org_id, status, delegated_flow,"
        " provider_account_id, allowed_billing, team_id_allowlist)"
        " SELECT gen_random_uuid(), lab_id, org_id, status, delegated_flow, 'HIDDEN', '{}',"
        " ARRAY[%s::uuid] FROM sandbox_labaccount ORDER BY id LIMIT 1 RETURNING id::text",
        OTHER_TEAM,
    )
    yield account
    sandbox.rows("DELETE FROM sandbox_labaccount WHERE id = %s RETURNING id", account)


def test_accounts_of_others_are_unknown(sandbox: Sandbox, hidden_account: str) -> None:
    assert sandbox.get("/v3/lab_test/lab_account", lab_account_id=hidden_account)["data"] == []
    for path in ("/v3/lab_test", "/v3/lab_tests/markers"):
        answer = sandbox.http.get(path, params={"lab_account_id": hidden_account})
        assert answer.status_code == 404


def test_an_account_decides_what_is_available(sandbox: Sandbox) -> None:
    narrowed = 0
    for account in visible_accounts(sandbox):
        own_markers = sandbox.column(
            "SELECT marker_id FROM sandbox_labaccount_markers WHERE labaccount_id = %s", account
        )
        own_tests = sandbox.column(
            "SELECT labtest_id::text FROM sandbox_labaccount_lab_tests WHERE labaccount_id = %s",
            account,
        )
        narrowed += bool(own_markers) + bool(own_tests)
        expected = sandbox.column(
            LISTED + "lab_id = (SELECT lab_id FROM sandbox_labaccount WHERE id = %s)"
            " AND (%s OR id = ANY(%s)) ORDER BY id",
            account,
            not own_markers,
            own_markers,
        )
        assert markers(sandbox, lab_account_id=account) == expected
        lab = sandbox.value(
            "SELECT slug FROM sandbox_lab WHERE id ="
            " (SELECT lab_id FROM sandbox_labaccount WHERE id = %s)",
            account,
        )
        offered = lab_tests(sandbox, lab_account_id=account, generation_method="all")
        of_lab = lab_tests(sandbox, lab_slug=lab, generation_method="all")
        assert set(offered) <= set(of_lab)
        if own_tests:
            assert set(offered) == set(own_tests) & set(of_lab)
        for test in set(lab_tests(sandbox, generation_method="all")) - set(offered):
            answer = sandbox.http.get(
                f"/v3/lab_tests/{test}/markers", params={"lab_account_id": account}
            )
            assert answer.status_code == 404
    assert narrowed, "no account of this world has its own list"


def test_management_accounts(sandbox: Sandbox) -> None:
    def listed(path: str = ACCOUNTS, **params: str) -> list[str]:
        answer = httpx.get(f"{sandbox.base_url}{path}", headers=MANAGEMENT_KEY, params=params)
        assert answer.status_code == 200
        return [account["id"] for account in answer.json()["data"]]

    everything = sandbox.column(
        "SELECT id::text FROM sandbox_labaccount WHERE org_id = %s ORDER BY lab_id, id",
        sandbox.org_id,
    )
    assert listed() == everything
    assert listed(lab_account_id=everything[0]) == everything[:1]
    for team in (TEAM, OTHER_TEAM):
        expected = sandbox.column(
            "SELECT id::text FROM sandbox_labaccount"
            " WHERE org_id = %s AND %s::uuid = ANY(team_id_allowlist) ORDER BY lab_id, id",
            sandbox.org_id,
            team,
        )
        assert listed(team_id=team) == expected
    assert listed(status="suspended") == sandbox.column(
        "SELECT id::text FROM sandbox_labaccount WHERE org_id = %s AND status = 'suspended'"
        " ORDER BY lab_id, id",
        sandbox.org_id,
    )
    assert listed(ACCOUNTS.replace("sandbox/us", "production/us")) == []


def test_physicians(sandbox: Sandbox) -> None:
    found = sandbox.get(f"/v2/team/{TEAM}/physicians")
    assert sorted(each["npi"] for each in found) == sorted(
        sandbox.column("SELECT npi FROM sandbox_physician WHERE team_id = %s", TEAM)
    )
    assert found and all(each.keys() == {"first_name", "last_name", "npi"} for each in found)
