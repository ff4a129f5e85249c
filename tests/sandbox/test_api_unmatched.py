"""Unmatched results: the harness, the queue, and every decision (orders.md 9)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.sandbox import soundness
from tests.sandbox.ordering import World, misfits, open_world, said
from tests.sandboxes import running

CASES = (
    "match_completed",
    "match_cancelled",
    "wrong_collection",
    "wrong_lab",
    "multiple_demo_match",
    "match_sample_id_mismatch_demo",
    "match_demo",
    "no_match",
)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with open_world() as world:
        yield world


def _run(world: World, case: str, **more: Any) -> dict[str, Any]:
    """The run of a case, ended."""
    body = {"case": case, "order_source": "managed", **more}
    answer = world.post("/v3/unmatched_result_test", body, str(uuid.uuid4()))
    assert answer.status_code == 202, answer.text
    run = world.http.get(f"/v3/unmatched_result_test/{answer.json()['run_id']}")
    found: dict[str, Any] = run.json()
    return found


def _make(world: World, case: str, **more: Any) -> dict[str, Any]:
    """An unmatched result of a case."""
    run = _run(world, case, **more)
    assert run["status"] == "succeeded", run
    return _get(world, run["unmatched_result_id"])


def _get(world: World, key: str) -> dict[str, Any]:
    answer = world.http.get(f"/v3/unmatched_result/{key}")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def _candidates(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for group in result["candidate_groups"] for each in group["candidates"]]


def _decide(world: World, result: dict[str, Any], how: str, body: Any = None) -> Any:
    return world.post(f"/v3/unmatched_result/{result['id']}/{how}", body)


@pytest.mark.parametrize("case", CASES)
def test_every_case_waits_for_a_decision(world: World, case: str) -> None:
    result = _make(world, case, interpretation="abnormal")
    assert (result["status"], result["decision_code"]) == ("pending_customer_review", case)
    assert result["allowed_actions"] == ["accept", "reject", "unsure"]
    assert result["interpretation"] == "abnormal"
    assert result["markers"]
    assert len(_candidates(result)) == {"multiple_demo_match": 2, "no_match": 0}.get(case, 1)
    page = world.http.get("/v3/unmatched_result", params={"decision_code": case}).json()
    assert page["data"][0]["id"] == result["id"]


@pytest.mark.parametrize("case", ["wrong_collection", "match_demo"])
def test_an_open_order_takes_the_result(world: World, case: str) -> None:
    result = _make(world, case, interpretation="critical")
    [candidate] = _candidates(result)
    answer = _decide(world, result, "accept", {"note": "Made-up reason"})
    assert answer.status_code == 200, answer.text
    order = answer.json()
    assert order["id"] == candidate["order_id"]
    assert order["last_event"]["status"].endswith(".completed")
    assert order["interpretation"] == "critical"
    assert world.http.get(f"/v3/order/{order['id']}/result").status_code == 200
    now = _get(world, result["id"])
    assert (now["status"], now["resolution_action"]) == ("resolved", "accept")
    assert (now["resolved_order_id"], now["resolved_user_id"]) == (order["id"], order["user_id"])
    assert (now["note"], now["allowed_actions"]) == ("Made-up reason", [])
    assert now["reviewed_at"] is not None


@pytest.mark.parametrize("case", ["match_completed", "match_cancelled", "wrong_lab"])
def test_otherwise_the_order_is_recreated(world: World, case: str) -> None:
    result = _make(world, case)
    [candidate] = _candidates(result)
    order = _decide(world, result, "accept").json()
    assert order["id"] != candidate["order_id"]
    assert order["origin"] == "recreation"
    assert order["order_transaction"]["id"] == candidate["order_transaction_id"]
    parents = {each["id"]: each["parent_id"] for each in order["order_transaction"]["orders"]}
    assert parents[order["id"]] == candidate["order_id"]
    assert order["lab_test"]["lab"]["slug"] == result["lab"]["slug"]
    assert _get(world, result["id"])["resolved_order_id"] == order["id"]


def test_a_result_for_nobody_known_goes_to_a_user(world: World) -> None:
    result = _make(world, "no_match", result_status="partial")
    assert _decide(world, result, "accept").status_code == 422
    order = _decide(world, result, "accept", {"user_id": world.user()}).json()
    assert (order["origin"], order["user_id"]) == ("recreation", world.user())
    assert order["last_event"]["status"].endswith(".partial_results")


def test_choices_that_do_not_agree(world: World) -> None:
    result = _make(world, "multiple_demo_match")
    first, second = _candidates(result)
    before = world.count()
    assert _decide(world, result, "accept").status_code == 422
    other = world.value(
        "SELECT id::text FROM sandbox_user WHERE team_id = (SELECT team_id FROM sandbox_order"
        " WHERE id = %s) AND id <> (SELECT user_id FROM sandbox_order WHERE id = %s) LIMIT 1",
        first["order_id"],
        first["order_id"],
    )
    both = {"order_id": first["order_id"], "user_id": other}
    assert "do not belong together" in said(_decide(world, result, "accept", both))
    stranger = {"order_id": world.place()["id"]}
    assert "not a candidate" in said(_decide(world, result, "accept", stranger))
    assert world.count() == before + 1
    accepted = _decide(world, result, "accept", {"order_id": second["order_id"]})
    assert accepted.json()["id"] == second["order_id"]


@pytest.mark.parametrize(
    ("action", "status"), [("reject", "resolved"), ("unsure", "pending_ops_review")]
)
def test_results_are_rejected_or_passed_on(world: World, action: str, status: str) -> None:
    result = _make(world, "match_demo")
    answer = _decide(world, result, "resolve", {"action": action, "note": "Made up"})
    assert (answer.json()["status"], answer.json()["allowed_actions"]) == (status, [])
    assert answer.json()["resolution_action"] == action
    for how, body in (("accept", None), ("resolve", {"action": "reject"})):
        late = _decide(world, result, how, body)
        assert late.status_code == 404
        assert "no longer reviewable" in said(late)
    listed = world.http.get("/v3/unmatched_result", params={"limit": 100}).json()["data"]
    assert (result["id"] in {each["id"] for each in listed}) == (action == "unsure")
    assert misfits(_decide(world, result, "resolve", {"action": "accept"})) == {"action"}


def test_the_list_is_filtered_and_paged(world: World) -> None:
    for _ in range(3):
        _make(world, "no_match")
    first = world.http.get("/v3/unmatched_result", params={"limit": 2, "search_input": "nemo"})
    page = first.json()
    assert len(page["data"]) == 2
    assert page["total"] >= 3
    more = {"limit": 2, "search_input": "nemo", "next_cursor": page["next_cursor"]}
    second = world.http.get("/v3/unmatched_result", params=more).json()
    assert not {each["id"] for each in page["data"]} & {each["id"] for each in second["data"]}
    now = page["data"][0]["created_at"][:10]
    inside = {"created_at_start": now, "created_at_end": now}
    assert world.http.get("/v3/unmatched_result", params=inside).json()["total"] >= 3
    before = {"created_at_end": "2020-01-01"}
    assert world.http.get("/v3/unmatched_result", params=before).json()["total"] == 0


def test_decisions_are_announced_without_a_user(world: World) -> None:
    world.sandbox.control("webhooks", {"url": "http://127.0.0.1:9/"})
    try:
        result = _make(world, "match_demo")
        _decide(world, result, "resolve", {"action": "reject"})
        rows = world.sandbox.query(
            "SELECT event_type, user_id FROM sandbox_message"
            " WHERE event_type LIKE 'labtest.match%%' ORDER BY number"
        )
        assert rows == [
            ("labtest.match_review.created", None),
            ("labtest.match_review.updated", None),
        ]
    finally:
        world.sandbox.control("webhooks", {"url": None})


def test_harness_repeats_answer_for_same_key(world: World) -> None:
    body = {"case": "no_match", "order_source": "managed"}
    key = str(uuid.uuid4())
    first = world.post("/v3/unmatched_result_test", body, key).json()
    assert world.post("/v3/unmatched_result_test", body, key).json() == first
    other = world.post("/v3/unmatched_result_test", body | {"case": "match_demo"}, key)
    assert other.status_code == 409
    assert misfits(world.post("/v3/unmatched_result_test", body)) == {"X-Idempotency-Key"}
    cases = world.http.get("/v3/unmatched_result_test/case").json()["data"]
    assert {each["case"] for each in cases} == set(CASES)


def test_provided_orders_must_fit_the_case(world: World) -> None:
    order = world.place()["id"]
    provided = {"order_source": "provided", "orders": {"order": order}}
    assert _run(world, "match_completed", **provided)["status"] == "failed"
    world.go(order, "completed.on_site_collection.completed")
    result = _make(world, "match_completed", **provided)
    assert _candidates(result)[0]["order_id"] == order
    assert _run(world, "multiple_demo_match", **provided)["status"] == "failed"


def test_a_queue_that_is_not_enabled(world: World) -> None:
    world.sandbox.control("match_review", {"enabled": False})
    try:
        assert world.http.get("/v3/unmatched_result").status_code == 400
        assert world.http.get("/v3/unmatched_result_test/case").status_code == 404
    finally:
        world.sandbox.control("match_review", {"enabled": True})


def test_the_world_is_sound_after_all_this(world: World) -> None:
    soundness.numbering(world.sandbox)
    soundness.records(world.sandbox)
    soundness.histories(world.sandbox)
    soundness.transactions(world.sandbox)


def test_a_world_may_be_seeded_with_results_that_match_no_order() -> None:
    with running(users=60, orders=900, strays="6") as sandbox, sandbox.service() as service:
        found = service.unmatched.list().records
        codes = [item.data.decision_code for item in found]
        assert len(set(codes)) == len(codes) == 6
        offered = {
            one.order_id
            for item in found
            for group in item.data.candidate_groups
            for one in group.candidates
        }
        for order_id in filter(None, offered):
            service.orders.get(order_id)
