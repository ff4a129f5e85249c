"""Keys, refusals and what every answer carries."""

from __future__ import annotations

import datetime as dt
import uuid
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
import pytest

from tests.sandbox.conftest import MANAGEMENT_KEY, TEAM_KEY, Sandbox

NOBODY = "11111111-1111-4111-8111-111111111111"
ACCOUNTS = "/v1/org/0d4f7c1e-0000-4000-8000-00000000c11c/lab_account/sandbox/us"


def keyless(sandbox: Sandbox, path: str, headers: dict[str, str]) -> httpx.Response:
    return httpx.get(f"{sandbox.base_url}{path}", headers=headers)


def misfits(answer: httpx.Response) -> list[tuple[list[Any], str]]:
    """(loc, type) of a 422 body, each item having the documented keys."""
    assert answer.status_code == 422, answer.text[:300]
    detail = answer.json()["detail"]
    for item in detail:
        assert {"loc", "msg", "type"} <= item.keys()
        assert isinstance(item["msg"], str) and item["msg"]
    return [(item["loc"], item["type"]) for item in detail]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-service-api-key": ""},
        {"x-service-api-key": "sk_us_wrong"},
        {"x-service-api-key": "mg_local_sandbox"},
        MANAGEMENT_KEY,
        {"x-service-api-key": "sk_us_local_sandbox\xe9"},
    ],
)
def test_the_team_key_is_required(sandbox: Sandbox, headers: dict[str, str]) -> None:
    encoded = {name: value.encode("latin-1") for name, value in headers.items()}
    for path in ("/v2/user", "/v3/orders", f"/v3/order/{NOBODY}", "/v3/orders?size=0"):
        answer = httpx.get(f"{sandbox.base_url}{path}", headers=encoded)  # type: ignore[arg-type]
        assert answer.status_code == 401
        assert isinstance(answer.json()["detail"], str)


def test_the_header_name_is_case_insensitive(sandbox: Sandbox) -> None:
    answer = keyless(sandbox, "/v2/user", {"X-SERVICE-API-KEY": TEAM_KEY["x-service-api-key"]})
    assert answer.status_code == 200


def test_management_takes_a_management_key_only(sandbox: Sandbox) -> None:
    assert keyless(sandbox, ACCOUNTS, {}).status_code == 401
    assert keyless(sandbox, ACCOUNTS, TEAM_KEY).status_code == 401
    wrong = {"X-Management-Key": TEAM_KEY["x-service-api-key"]}
    assert keyless(sandbox, ACCOUNTS, wrong).status_code == 401
    assert keyless(sandbox, ACCOUNTS, MANAGEMENT_KEY).status_code == 200
    older = {"X-Service-Org-Key": MANAGEMENT_KEY["X-Management-Key"]}
    assert keyless(sandbox, ACCOUNTS, older).status_code == 200


def test_unknown_paths_and_methods(sandbox: Sandbox) -> None:
    unknown = sandbox.http.get("/v3/nothing/here")
    assert (unknown.status_code, unknown.json()) == (404, {"detail": "Not Found"})
    for method in ("POST", "PUT", "DELETE"):
        answer = sandbox.http.request(method, "/v3/orders")
        assert answer.status_code == 405
        assert answer.headers["allow"] == "GET"
        assert answer.json() == {"detail": "Method Not Allowed"}


def test_every_answer_carries_the_world_clock_and_a_request_id(sandbox: Sandbox) -> None:
    answers = [
        sandbox.http.get("/v2/user"),
        sandbox.http.get("/v3/nothing"),
        sandbox.http.get("/v3/orders", params={"size": 0}),
        keyless(sandbox, "/v3/orders", {}),
        sandbox.http.post("/v3/orders"),
    ]
    offset = sandbox.value("SELECT clock_offset FROM sandbox_world")
    for answer in answers:
        assert len(answer.headers.get_list("date")) == 1
        shown = parsedate_to_datetime(answer.headers["date"])
        assert abs(shown - dt.datetime.now(dt.UTC) - offset) < dt.timedelta(seconds=5)
    assert len({answer.headers["x-request-id"] for answer in answers}) == len(answers)


ORDER_MISFITS: list[tuple[str, str, str]] = [
    ("size", "0", "greater_than_equal"),
    ("size", "101", "less_than_equal"),
    ("size", "ten", "int_parsing"),
    ("size", "", "int_parsing"),
    ("size", "1.5", "int_parsing"),
    ("page", "0", "greater_than_equal"),
    ("page", "99999999999999999999", "int_parsing"),
    ("user_id", "not-a-uuid", "uuid_parsing"),
    ("order_transaction_id", "1", "uuid_parsing"),
    ("is_critical", "perhaps", "bool_parsing"),
    ("interpretation", "Normal", "enum"),
    ("order_key", "updated_at", "enum"),
    ("order_direction", "up", "enum"),
    ("start_date", "20260101", "datetime_from_date_parsing"),
    ("start_date", "2026-02-30", "datetime_from_date_parsing"),
    ("end_date", "2026-01-01T25:00:00", "datetime_from_date_parsing"),
    ("updated_start_date", "yesterday", "datetime_from_date_parsing"),
    ("updated_end_date", "2026-01-01T00:00:00 00:00", "datetime_from_date_parsing"),
    ("search_input", "a\x00b", "string_type"),
]


@pytest.mark.parametrize(("name", "value", "kind"), ORDER_MISFITS)
def test_order_list_misfits(sandbox: Sandbox, name: str, value: str, kind: str) -> None:
    answer = sandbox.http.get("/v3/orders", params={name: value})
    assert misfits(answer) == [(["query", name], kind)]


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("status", ["ordered", "shipped"], "enum"),
        ("status", ["ordered", "ordered,cancelled"], "enum"),
        ("order_type", ["testkit", "kit"], "enum"),
        ("order_activation_types", ["current", "past"], "enum"),
        ("order_ids", [NOBODY, "x"], "uuid_parsing"),
    ],
)
def test_invalid_repeated_parameter_names_its_index(
    sandbox: Sandbox, name: str, values: list[str], kind: str
) -> None:
    answer = sandbox.http.get("/v3/orders", params={name: values})
    assert misfits(answer) == [(["query", name, 1], kind)]


def test_all_invalid_parameters_are_reported_at_once(sandbox: Sandbox) -> None:
    answer = sandbox.http.get("/v3/orders", params={"size": 0, "page": "x", "user_id": "y"})
    assert sorted(loc[1] for loc, _ in misfits(answer)) == ["page", "size", "user_id"]


@pytest.mark.parametrize(
    ("path", "params", "loc", "kind"),
    [
        ("/v2/user", {"limit": 501}, "limit", "less_than_equal"),
        ("/v2/user", {"limit": 0}, "limit", "greater_than_equal"),
        ("/v2/user", {"offset": -1}, "offset", "greater_than_equal"),
        ("/v2/team/users/search", {}, "query_id", "missing"),
        ("/v2/team/users/search", {"query_id": "a"}, "query_id", "string_too_short"),
        ("/v3/insurance/search/diagnosis", {}, "diagnosis_query", "missing"),
        ("/v3/insurance/search/payor", {"provider": "nobody"}, "provider", "enum"),
        ("/v2/introspect/historical_pull", {"user_limit": 0}, "user_limit", "greater_than_equal"),
        ("/v2/introspect/historical_pull", {"user_id": "x"}, "user_id", "uuid_parsing"),
        ("/v2/introspect/historical_pull", {"provider": "nobody"}, "provider", "enum"),
        ("/v3/lab_test", {"lab_test_limit": 0}, "lab_test_limit", "greater_than_equal"),
        ("/v3/lab_test", {"generation_method": "some"}, "generation_method", "enum"),
        ("/v3/lab_test", {"order_key": "name"}, "order_key", "enum"),
        ("/v3/lab_test", {"status": "draft"}, "status", "enum"),
        ("/v3/lab_test", {"collection_method": "mail"}, "collection_method", "enum"),
        ("/v3/lab_test/lab_account", {"status": "open"}, "status", "enum"),
        ("/v3/lab_test/lab_account", {"lab_account_id": "x"}, "lab_account_id", "uuid_parsing"),
        ("/v3/lab_tests/markers", {"size": 101}, "size", "less_than_equal"),
        ("/v3/lab_tests/markers", {"page": 0}, "page", "greater_than_equal"),
        ("/v3/order/area/info", {}, "zip_code", "missing"),
        ("/v3/order/area/info", {"zip_code": "8500"}, "zip_code", "string_pattern_mismatch"),
        ("/v3/order/area/info", {"zip_code": "85004-1"}, "zip_code", "string_pattern_mismatch"),
        ("/v3/order/area/info", {"zip_code": "85004", "radius": "30"}, "radius", "enum"),
        ("/v3/order/area/info", {"zip_code": "85004", "lab": "lab-nowhere"}, "lab", "enum"),
        ("/v3/order/psc/info", {"zip_code": "85004"}, "lab_id", "missing"),
    ],
)
def test_misfits_elsewhere(
    sandbox: Sandbox, path: str, params: dict[str, Any], loc: str, kind: str
) -> None:
    assert misfits(sandbox.http.get(path, params=params)) == [(["query", loc], kind)]


@pytest.mark.parametrize(
    "path",
    [
        "/v2/user/{}",
        "/v2/user/{}/info/latest",
        "/v2/user/{}/insurance/latest",
        "/v2/user/providers/{}",
        "/v3/lab_tests/{}",
        "/v3/lab_tests/{}/markers",
        "/v3/lab_test/{}/collection_instruction_pdf",
        "/v3/order/{}",
        "/v3/order/{}/communication_settings",
        "/v3/order/{}/result",
        "/v3/order/{}/result/metadata",
        "/v3/order/{}/result/pdf",
        "/v3/order/{}/requisition/pdf",
        "/v3/order/{}/labels/pdf?collection_date=2026-01-01",
        "/v3/order/{}/abn_pdf",
        "/v3/order/{}/collection_instruction_pdf",
        "/v3/order/{}/phlebotomy/appointment",
        "/v3/order/{}/psc/appointment",
        "/v3/order/{}/psc/info",
        "/v3/order_transaction/{}",
        "/v3/order_transaction/{}/result",
        "/v3/order_transaction/{}/result/pdf",
    ],
)
def test_unknown_and_malformed_ids(sandbox: Sandbox, path: str) -> None:
    unknown = sandbox.http.get(path.format(uuid.uuid4()))
    assert unknown.status_code == 404
    assert isinstance(unknown.json()["detail"], str)
    [(loc, kind)] = misfits(sandbox.http.get(path.format("not-a-uuid")))
    assert (loc[0], kind) == ("path", "uuid_parsing")


def foreign_order(sandbox: Sandbox) -> tuple[str, str, str]:
    order, user, group = sandbox.rows(
        "SELECT id::text, user_id::text, transaction_id::text FROM sandbox_order"
        " WHERE team_id <> '7ea00000-0000-4000-8000-000000000001' ORDER BY number LIMIT 1"
    )[0]
    return order, user, group


def test_records_of_other_teams_are_refused(sandbox: Sandbox) -> None:
    order, user, group = foreign_order(sandbox)
    for path in ("", "/result", "/labels/pdf?collection_date=2026-01-01", "/psc/appointment"):
        assert sandbox.http.get(f"/v3/order/{order}{path}").status_code == 403
    assert sandbox.http.get(f"/v3/order_transaction/{group}").status_code == 403
    for path in (f"/v2/user/{user}", f"/v2/user/{user}/info/latest", f"/v2/user/providers/{user}"):
        assert sandbox.http.get(path).status_code == 404
    other = "7ea00000-0000-4000-8000-000000000002"
    assert sandbox.http.get(f"/v2/team/{other}/physicians").status_code == 403


def test_management_path_is_checked(sandbox: Sandbox) -> None:
    def status(path: str) -> int:
        return keyless(sandbox, path, MANAGEMENT_KEY).status_code

    assert status(ACCOUNTS.replace("sandbox/us", "staging/us")) == 422
    assert status(ACCOUNTS.replace("sandbox/us", "sandbox/mars")) == 422
    assert status(ACCOUNTS.replace("0d4f7c1e", "0d4f7c1f")) == 403
    assert status(ACCOUNTS.replace("sandbox/us", "production/us")) == 200
