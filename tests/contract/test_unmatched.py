"""Results without a match against the sandbox: made by its harness, listed, accepted, resolved."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from backoffice.service import Service, errors
from backoffice.service.unmatched import UnmatchedResultPayload
from tests.contract.test_orders import NOBODY
from tests.sandbox.conftest import TEAM_KEY
from tests.sandboxes import Sandbox, SandboxFactory

OPEN = {"pending_customer_review", "pending_ops_review"}


@pytest.fixture(scope="module")
def review_sandbox(sandbox_factory: SandboxFactory, as_specified: bool) -> Sandbox:
    return sandbox_factory(as_specified=as_specified, users=20, orders=60, seed=37)


@pytest.fixture(scope="module")
def client(review_sandbox: Sandbox) -> Iterator[Service]:
    with review_sandbox.service() as service:
        yield service


def make(sandbox: Sandbox, case: str, **more: Any) -> None:
    """Have the harness of the interface make one."""
    with httpx.Client(base_url=sandbox.url, headers=TEAM_KEY, timeout=30) as http:
        asked = {"case": case, "order_source": "managed", **more}
        key = {"X-Idempotency-Key": str(uuid.uuid4())}
        answer = http.post("/v3/unmatched_result_test", json=asked, headers=key)
        assert answer.status_code == 202, answer.text
        run = answer.json()["run_id"]
        for _ in range(100):
            status = http.get(f"/v3/unmatched_result_test/{run}").json()["status"]
            if status in ("succeeded", "failed"):
                break
            time.sleep(0.1)
        assert status == "succeeded"


def listed(client: Service, **asked: Any) -> list[UnmatchedResultPayload]:
    """All pages."""
    found: list[UnmatchedResultPayload] = []
    cursor: str | None = None
    while True:
        page = client.unmatched.list(2, cursor, **asked)
        assert page.unreadable == [] and len(page.records) <= 2
        found += [record.data for record in page.records]
        cursor = page.next_cursor
        if cursor is None:
            assert page.total == len(found)
            return found


def made(sandbox: Sandbox, client: Service, case: str, **more: Any) -> UnmatchedResultPayload:
    before = {one.id for one in listed(client)}
    make(sandbox, case, **more)
    (one,) = [one for one in listed(client) if one.id not in before]
    return one


def test_unmatched_list(review_sandbox: Sandbox, client: Service) -> None:
    one = made(review_sandbox, client, "no_match", interpretation="critical")
    other = made(review_sandbox, client, "multiple_demo_match")
    assert (one.decision_code, one.interpretation) == ("no_match", "critical")
    assert one.status in OPEN and one.lab and one.lab.slug and one.created_at
    assert {one.id, other.id} <= {each.id for each in listed(client)}
    codes = listed(client, decision_code="multiple_demo_match")
    assert [each.id for each in codes] == [other.id]
    assert listed(client, lab_slug="no-such-lab") == []
    assert {one.id, other.id}.isdisjoint(each.id for each in listed(client, status="resolved"))
    day = one.created_at.date()
    between = listed(client, created_at_start=day, created_at_end=day)
    assert one.id in {each.id for each in between}


def test_unmatched_get(review_sandbox: Sandbox, client: Service) -> None:
    one = made(review_sandbox, client, "match_demo")
    read = client.unmatched.get(one.id).data
    assert (read.id, read.status, read.allowed_actions) == (one.id, one.status, one.allowed_actions)
    assert [group.user_id for group in read.candidate_groups] == [
        group.user_id for group in one.candidate_groups
    ]
    with pytest.raises(errors.Missing) as missing:
        client.unmatched.get(NOBODY)
    assert missing.value.message


def test_unmatched_accept(review_sandbox: Sandbox, client: Service) -> None:
    one = made(review_sandbox, client, "match_demo")
    candidate = next(
        candidate
        for group in one.candidate_groups
        for candidate in group.candidates
        if candidate.order_id
    )
    order = client.unmatched.accept(one.id, order_id=candidate.order_id, note="same person")
    assert client.orders.get(order.data.id).data.id == order.data.id
    settled = listed(client, status="resolved")
    assert (one.id, "accept") in {(each.id, each.resolution_action) for each in settled}
    with pytest.raises(errors.Missing) as decided:
        client.unmatched.accept(one.id, order_id=candidate.order_id)
    assert decided.value.message


def test_unmatched_resolve(review_sandbox: Sandbox, client: Service) -> None:
    one, other = (made(review_sandbox, client, "no_match") for _ in range(2))
    rejected = client.unmatched.resolve(one.id, "reject", "not ours").data
    assert (rejected.id, rejected.status, rejected.note) == (one.id, "resolved", "not ours")
    unsure = client.unmatched.resolve(other.id, "unsure").data
    assert (unsure.status, unsure.allowed_actions) == ("pending_ops_review", [])
    with pytest.raises(errors.Missing):
        client.unmatched.resolve(other.id, "reject")
    third = made(review_sandbox, client, "no_match")
    with pytest.raises(errors.Refused) as refused:
        client.unmatched.resolve(third.id, "maybe")
    assert [field.path for field in refused.value.fields] == ["action"]
