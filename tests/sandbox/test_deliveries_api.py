"""Webhook endpoints over the management interface, and order events sent once more."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.sandbox.receiver import SECRET, Receiver, receiving
from tests.sandboxes import Sandbox, SandboxFactory

TEAM_KEY = {"x-service-api-key": "sk_us_local_sandbox"}
MANAGEMENT_KEY = {"X-Management-Key": "mg_local_sandbox"}
ORG = "0d4f7c1e-0000-4000-8000-00000000c11c"
TEAM = "7ea00000-0000-4000-8000-000000000001"
HERE = f"/v1/org/{ORG}/team/{TEAM}/sandbox/webhook"
OTHER_SECRET = "whsec_Y2xpbmljLWJhY2stb2ZmaWNlLXRlc3Qta2V5LTAwMDE="  # noqa: S105
THIRD_SECRET = "whsec_YW5vdGhlci1tYWRlLXVwLXNlY3JldC1mb3ItdGVzdHM="  # noqa: S105


@pytest.fixture(scope="module")
def world(sandbox_factory: SandboxFactory) -> Sandbox:
    return sandbox_factory(users=30, orders=150, seed=23, speed=0)


@pytest.fixture
def management(world: Sandbox) -> Iterator[httpx.Client]:
    """The management interface; every endpoint is gone afterwards."""
    with httpx.Client(base_url=world.url, headers=MANAGEMENT_KEY, timeout=30) as client:
        yield client
        for each in client.get(HERE).json()["data"]:
            assert client.delete(f"{HERE}/{each['id']}").status_code == 204


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


def _make(management: httpx.Client, **body: Any) -> dict[str, Any]:
    answer = management.post(HERE, json=body)
    assert answer.status_code == 200, answer.text
    made: dict[str, Any] = answer.json()
    return made


def test_endpoint_is_created_changed_and_deleted(
    management: httpx.Client, receiver: Receiver, world: Sandbox
) -> None:
    made = _make(management, url=receiver.url, description="Made-up endpoint")
    assert made.keys() == {
        *("id", "url", "description", "rate_limit", "disabled", "filter_types"),
        *("created_at", "updated_at"),
    }
    assert made["disabled"] is False
    assert management.get(f"{HERE}/{made['id']}").json() == made
    secret = management.get(f"{HERE}/{made['id']}/secret").json()
    assert secret["key"].startswith("whsec_")
    world.control("announce", {"event_type": "daily.data.steps.created"})
    assert receiver.wait(1)[0].signed_with(secret["key"])

    changed = management.patch(f"{HERE}/{made['id']}", json={"disabled": True}).json()
    assert changed["disabled"] is True
    assert changed["description"] == "Made-up endpoint"
    assert changed["updated_at"] > made["updated_at"]
    assert world.control("announce", {"all": True})["announced"] == 0
    assert management.delete(f"{HERE}/{made['id']}").status_code == 204
    assert management.get(f"{HERE}/{made['id']}").status_code == 404
    assert management.delete(f"{HERE}/{made['id']}").status_code == 404


def test_endpoint_gets_only_its_filter_types(
    management: httpx.Client, receiver: Receiver, world: Sandbox
) -> None:
    wanted = ["labtest.order.updated", "provider.device.created"]
    _make(management, url=receiver.url, filter_types=wanted)
    assert world.control("announce", {"all": True})["announced"] == 2
    receiver.wait(2)
    assert sorted(receiver.types()) == wanted


def test_every_endpoint_gets_its_own_messages(management: httpx.Client, world: Sandbox) -> None:
    with receiving() as one, receiving() as two:
        _make(management, url=one.url, secret=OTHER_SECRET)
        _make(management, url=two.url, secret=THIRD_SECRET)
        world.control("announce", {"event_type": "labtest.order.updated"})
        [first], [second] = one.wait(1), two.wait(1)
    assert first.signed_with(OTHER_SECRET)
    assert second.signed_with(THIRD_SECRET)
    assert first.raw == second.raw
    assert first.id != second.id


def test_headers_are_sent_along(
    management: httpx.Client, receiver: Receiver, world: Sandbox
) -> None:
    path = f"{HERE}/{_make(management, url=receiver.url)['id']}/headers"
    assert management.get(path).json() == {"headers": {}, "sensitive": []}
    given = {"X-Clinic": "made-up", "Authorization": "Bearer made-up"}
    assert management.put(path, json={"headers": given}).status_code == 204
    shown = management.get(path).json()
    assert shown == {"headers": {"X-Clinic": "made-up"}, "sensitive": ["Authorization"]}
    world.control("announce", {"event_type": "daily.data.steps.created"})
    [post] = receiver.wait(1)
    assert post.headers["x-clinic"] == "made-up"
    assert post.headers["authorization"] == "Bearer made-up"
    for wrong in ({"webhook-id": "mine"}, {"host": "elsewhere"}, {"x y": "1"}, {"x": "a\r\nb"}):
        assert management.put(path, json={"headers": wrong}).status_code == 422
    assert management.get(path).json() == shown


def test_a_rotated_secret_signs_beside_the_former_one(
    management: httpx.Client, receiver: Receiver, world: Sandbox
) -> None:
    path = f"{HERE}/{_make(management, url=receiver.url, secret=SECRET)['id']}/secret"
    rotated = management.post(f"{path}/rotate", json={"key": OTHER_SECRET})
    assert rotated.status_code == 204
    assert management.get(path).json() == {"key": OTHER_SECRET}
    world.control("announce", {"event_type": "daily.data.steps.created"})
    [post] = receiver.wait(1)
    assert post.signed_with(SECRET)
    assert post.signed_with(OTHER_SECRET)
    assert len(post.headers["webhook-signature"].split()) == 2

    assert management.post(f"{path}/rotate", json={"key": None}).status_code == 204
    made_up = management.get(path).json()["key"]
    assert made_up not in (SECRET, OTHER_SECRET)
    world.query(
        "UPDATE sandbox_webhookendpoint SET former_until = former_until - interval '25 hours' "
        "RETURNING id"
    )
    world.control("announce", {"event_type": "daily.data.steps.updated"})
    post = receiver.wait(2)[1]
    assert post.signed_with(made_up)
    assert not post.signed_with(OTHER_SECRET)


def test_the_rate_limit_holds(management: httpx.Client, receiver: Receiver, world: Sandbox) -> None:
    _make(management, url=receiver.url, rate_limit=10)
    world.control("announce", {"all": True, "count": 35})
    got = receiver.wait(35)
    assert 1.5 < got[-1].at - got[0].at < 30


def test_endpoints_are_paged(management: httpx.Client) -> None:
    made = [_make(management, url=f"http://127.0.0.1:9/{n}")["id"] for n in range(5)]
    found, cursor = [], None
    while True:
        params = {"limit": 2} | ({"next_cursor": cursor} if cursor else {})
        page = management.get(HERE, params=params).json()
        found += [each["id"] for each in page["data"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert found == made
    assert management.get(HERE, params={"next_cursor": "nonsense"}).status_code == 400


@pytest.mark.parametrize(
    ("body", "loc"),
    [
        ({}, ["body", "url"]),
        ({"url": None}, ["body", "url"]),
        ({"url": "ftp://example.invalid/"}, ["body", "url"]),
        ({"url": "http://"}, ["body", "url"]),
        ({"url": "http://a b/"}, ["body", "url"]),
        ({"url": "http://a:99999/"}, ["body", "url"]),
        ({"url": "http://a/", "rate_limit": 0}, ["body", "rate_limit"]),
        ({"url": "http://a/", "rate_limit": True}, ["body", "rate_limit"]),
        ({"url": "http://a/", "disabled": "no"}, ["body", "disabled"]),
        ({"url": "http://a/", "filter_types": "all"}, ["body", "filter_types"]),
        ({"url": "http://a/", "filter_types": ["user.created"]}, ["body", "filter_types", 0]),
        ({"url": "http://a/", "secret": "whsec_c2hvcnQ="}, ["body", "secret"]),
        ({"url": "http://a/", "secret": "plain"}, ["body", "secret"]),
        ([], ["body"]),
    ],
)
def test_invalid_endpoint_fields_are_named(
    management: httpx.Client, body: Any, loc: list[Any]
) -> None:
    answer = management.post(HERE, json=body)
    assert answer.status_code == 422, answer.text
    assert loc in [item["loc"] for item in answer.json()["detail"]]
    assert management.get(HERE).json()["data"] == []


def test_keys_and_paths_are_checked(management: httpx.Client) -> None:
    foreign = HERE.replace(ORG, "0d4f7c1e-0000-4000-8000-000000000bad")
    unknown = HERE.replace(TEAM, "7ea00000-0000-4000-8000-00000000dead")
    production = HERE.replace("/sandbox/", "/production/")
    assert management.get(foreign).status_code == 403
    assert management.get(unknown).status_code == 404
    assert management.get(HERE.replace("/sandbox/", "/moon/")).status_code == 422
    assert management.get(production).json() == {"data": [], "next_cursor": None}
    assert management.put(HERE).status_code == 405
    bare = httpx.Client(base_url=management.base_url, timeout=30)
    assert bare.get(HERE).status_code == 401
    assert bare.get(HERE, headers=TEAM_KEY).status_code == 401


# Sent once more


def _resend(world: Sandbox, body: Any) -> httpx.Response:
    url = f"{world.url}/v3/order/resend_events"
    return httpx.post(url, json=body, headers=TEAM_KEY, timeout=60)


def test_the_latest_event_of_orders_is_sent_again(
    management: httpx.Client, receiver: Receiver, world: Sandbox
) -> None:
    _make(management, url=receiver.url, secret=SECRET)
    keys = [
        k
        for (k,) in world.query(
            "SELECT id::text FROM sandbox_order WHERE team_id = %s ORDER BY number DESC LIMIT 12",
            (TEAM,),
        )
    ]
    [(foreign,)] = world.query(
        "SELECT id::text FROM sandbox_order WHERE team_id <> %s LIMIT 1", (TEAM,)
    )
    answer = _resend(world, {"order_ids": [*keys, foreign, "00000000-0000-4000-8000-000000000000"]})
    assert answer.status_code == 200, answer.text
    assert sorted(answer.json()["order_ids"]) == sorted(keys)
    got = receiver.wait(len(keys))
    assert sorted(post.body["data"]["id"] for post in got) == sorted(keys)
    for post in got:
        data = post.body["data"]
        served = httpx.get(f"{world.url}/v3/order/{data['id']}", headers=TEAM_KEY).json()
        assert data["events"] == served["events"]
        verb = "created" if len(data["events"]) == 1 else "updated"
        assert post.body["event_type"] == f"labtest.order.{verb}"
    assert len({post.id for post in got}) == len(keys)


def test_a_window_selects_what_happened_in_it(
    management: httpx.Client, receiver: Receiver, world: Sandbox
) -> None:
    _make(management, url=receiver.url)
    now = datetime.fromisoformat(world.control("status")["now"])
    start, end = now - timedelta(days=40), now - timedelta(days=10)
    expected = [
        k
        for (k,) in world.query(
            "SELECT DISTINCT o.id::text FROM sandbox_order o JOIN sandbox_orderevent e "
            "ON e.order_id = o.number WHERE o.team_id = %s AND e.created_at BETWEEN %s AND %s",
            (TEAM, start, end),
        )
    ]
    assert expected
    answer = _resend(world, {"start_at": start.isoformat(), "end_at": end.isoformat()})
    assert sorted(answer.json()["order_ids"]) == sorted(expected)
    got = receiver.wait(len(expected))
    assert sorted(post.body["data"]["id"] for post in got) == sorted(expected)
    both = {"order_ids": expected[:2], "start_at": start.isoformat(), "end_at": end.isoformat()}
    assert sorted(_resend(world, both).json()["order_ids"]) == sorted(expected[:2])


def test_the_window_is_limited(management: httpx.Client, world: Sandbox) -> None:
    now = datetime.fromisoformat(world.control("status")["now"])
    sixty = {"start_at": (now - timedelta(days=60) + timedelta(minutes=1)).isoformat()}
    assert _resend(world, sixty).status_code == 200
    longer = {"start_at": (now - timedelta(days=60, minutes=1)).isoformat()}
    refused = [longer, {}, {"order_ids": None}, {"end_at": now.isoformat()}]
    refused.append({"start_at": now.isoformat(), "end_at": (now - timedelta(1)).isoformat()})
    for body in refused:
        answer = _resend(world, body)
        assert answer.status_code == 400, body
        assert isinstance(answer.json()["detail"], str)
    misfits: list[Any] = [{"order_ids": ["x"]}, {"order_ids": "x"}, {"start_at": "soon"}, [], None]
    for misfit in misfits:
        assert _resend(world, misfit).status_code == 422, misfit
    # With no endpoint there is nothing to send again.
    keys = [str(k) for (k,) in world.query("SELECT id FROM sandbox_order LIMIT 3")]
    assert _resend(world, {"order_ids": keys}).json() == {"order_ids": []}
