"""`/_control/answers`: the next reads of a path get what the test prepared."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.error import HTTPError

import httpx
import pytest

from tests.sandboxes import Sandbox, SandboxFactory

HEADERS = {"x-service-api-key": "sk_us_local_sandbox"}


@pytest.fixture(scope="module")
def world(sandbox_factory: SandboxFactory) -> Sandbox:
    return sandbox_factory(users=8, orders=20, seed=4, speed=0)


@pytest.fixture(autouse=True)
def no_answers_left(world: Sandbox) -> Iterator[None]:
    yield
    world.control("answers", method="DELETE")


def _get(world: Sandbox, path: str, **params: str) -> httpx.Response:
    return httpx.get(world.url + path, headers=HEADERS, params=params, timeout=20)


def test_body_status_and_headers_are_sent_as_given(world: Sandbox) -> None:
    body = {"odd": "NUL \x00 inside", "list": [1, None]}
    headers = {"Date": "Mon, 30 Nov 2026 10:00:00 GMT", "X-Odd": "1"}
    world.prepare_answer("^/v3/orders$", body=body, status=418, headers=headers)
    answer = _get(world, "/v3/orders", size="2")
    assert (answer.status_code, answer.json()) == (418, body)
    assert answer.headers.get_list("date") == [headers["Date"]]
    assert answer.headers["x-odd"] == "1"


def test_answer_is_served_as_often_as_asked_then_the_real_one(world: Sandbox) -> None:
    world.prepare_answer("^/v3/orders$", body={"orders": []}, times=2)
    totals = [len(_get(world, "/v3/orders", size="5").json()["orders"]) for _ in range(3)]
    assert totals == [0, 0, 5]
    assert world.control("answers")["answers"] == [
        {"path": "^/v3/orders$", "times": 2, "served": 2}
    ]


def test_string_and_base64_bodies_are_sent_byte_for_byte(world: Sandbox) -> None:
    world.prepare_answer("^/v3/orders$", body='{"orders": [')
    world.prepare_answer("^/v3/orders$", body_base64="/wD+")
    assert _get(world, "/v3/orders").content == b'{"orders": ['
    assert _get(world, "/v3/orders").content == b"\xff\x00\xfe"


def test_merge_changes_members_of_the_real_answer(world: Sandbox) -> None:
    real = _get(world, "/v3/orders", size="2").json()
    changes = {"orders": {"1": {"notes": "odd", "patient_details": {"gender": 7}}}}
    world.prepare_answer(r"/v3/orders\?.*size=2", merge=changes)
    merged = _get(world, "/v3/orders", size="2").json()
    assert merged["orders"][0] == real["orders"][0]
    assert merged["orders"][1]["notes"] == "odd"
    assert merged["orders"][1]["patient_details"] == {
        **real["orders"][1]["patient_details"],
        "gender": 7,
    }


def test_writes_are_carried_out_whatever_is_prepared(world: Sandbox) -> None:
    world.prepare_answer("^/v2/user", body={"odd": True}, times=None)
    made = httpx.post(f"{world.url}/v2/user", headers=HEADERS, json={"client_user_id": "made-up-1"})
    assert "user_id" in made.json()


def test_unreadable_path_or_two_kinds_of_body_are_refused(world: Sandbox) -> None:
    for wrong in ({"path": "("}, {"path": "/", "body": 1, "merge": {}}):
        with pytest.raises(HTTPError, match="400"):
            world.control("answers", wrong)
