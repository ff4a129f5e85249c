"""New orders with the update reason INCORRECT_LAB: a fresh lab account, the same transaction
(specification, notes on states and transitions)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.sandbox import soundness
from tests.sandbox.ordering import World, misfits, open_second_account, open_world, said

REASON = {"update_reason": "INCORRECT_LAB"}


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """A world in which one lab has two active accounts that offer all its tests."""
    with open_world() as world:
        open_second_account(world.sandbox)
        yield world


def account(world: World, name: str) -> str:
    found = world.value(
        "SELECT id FROM sandbox_labaccount WHERE account_name = %s", f"Made-up account {name}"
    )
    return str(found)


def first(world: World) -> str:
    return account(world, "south-shared")


def second(world: World) -> str:
    return account(world, "south-second")


def set_status(world: World, key: str, status: str) -> None:
    world.sandbox.query(
        "UPDATE sandbox_labaccount SET status = %s WHERE id = %s RETURNING 1", (status, key)
    )


def patient(world: World) -> str:
    """A user who has no order yet."""
    answer = world.post("/v2/user", {"client_user_id": f"made-up-{uuid.uuid4().hex}"})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["user_id"])


def canceled(world: World, user: str, *tests: str, **more: Any) -> str:
    """The id of an order of this patient that was canceled."""
    key = str(world.place(*tests, user_id=user, **{"lab_account_id": first(world), **more})["id"])
    assert world.post(f"/v3/order/{key}/cancel").status_code == 200
    return key


def account_of(world: World, order: str) -> str | None:
    found = world.value("SELECT lab_account_id::text FROM sandbox_order WHERE id = %s", order)
    return found and str(found)


def refused(world: World, body: dict[str, Any]) -> str:
    """The message of the refusal; no order is placed."""
    before = world.count()
    answer = world.post("/v3/order/create", body)
    assert answer.status_code == 400, answer.text
    assert world.count() == before
    return said(answer)


@pytest.mark.parametrize("path", ["/v3/order/create", "/v3/order"])
@pytest.mark.parametrize("named", ["none", "the incorrect one", "another one"])
def test_a_fresh_account_is_resolved(world: World, path: str, named: str) -> None:
    user = patient(world)
    former = canceled(world, user)
    keys = {"none": None, "the incorrect one": first(world), "another one": second(world)}
    body = world.body(user_id=user, lab_account_id=keys[named], **REASON)
    answer = world.post(path, body)
    assert answer.status_code == 200, answer.text
    made = answer.json()["order"]
    assert account_of(world, former) == first(world)
    assert account_of(world, made["id"]) == second(world)


def test_the_new_order_keeps_the_transaction(world: World) -> None:
    user = patient(world)
    former = canceled(world, user)
    before = world.record(former)
    assert before["order_transaction"]["status"] == "cancelled"
    made = world.place(user_id=user, **REASON)
    group = made["order_transaction"]
    assert made["origin"] == "recreation"
    assert (group["id"], group["status"]) == (before["order_transaction"]["id"], "active")
    shown = [(one["id"], one["origin"], one["parent_id"]) for one in group["orders"]]
    assert shown == [(former, "initial", None), (made["id"], "recreation", former)]
    assert group["orders"][0]["low_level_status"] == "cancelled"
    old = world.record(former)
    assert old["order_transaction"] == group
    assert old["updated_at"] > before["updated_at"]
    assert world.lows(former)[-1] == "cancelled"
    answer = world.http.get(f"/v3/order_transaction/{group['id']}")
    assert [one["id"] for one in answer.json()["orders"]] == [former, made["id"]]


def test_without_the_reason_an_order_stands_alone(world: World) -> None:
    user = patient(world)
    former = canceled(world, user)
    for reason in ({}, {"update_reason": None}):
        made = world.place(user_id=user, lab_account_id=first(world), **reason)
        assert made["origin"] == "initial"
        group = made["order_transaction"]
        assert group["id"] != world.record(former)["order_transaction"]["id"]
        assert account_of(world, made["id"]) == first(world)


def test_another_reason_is_refused(world: World) -> None:
    for reason in ("incorrect_lab", "", 1):
        answer = world.post("/v3/order/create", world.body(update_reason=reason))
        assert misfits(answer) == {"update_reason"}


def test_without_another_active_account_it_is_refused(world: World) -> None:
    user = patient(world)
    canceled(world, user)
    set_status(world, second(world), "suspended")
    try:
        for key in (None, first(world)):
            body = world.body(user_id=user, lab_account_id=key, **REASON)
            assert refused(world, body) == "No other lab account of lab-south is active"
    finally:
        set_status(world, second(world), "active")


def test_the_account_of_the_service_is_not_reused(world: World) -> None:
    user = patient(world)
    former = canceled(world, user, "Coast Check", lab_account_id=None)
    assert account_of(world, former) is None
    body = world.body("Coast Check", user_id=user, **REASON)
    assert refused(world, body) == "No other lab account of lab-coast is active"
    made = world.place(user_id=user, lab_account_id=first(world), **REASON)
    assert account_of(world, made["id"]) == first(world)


def test_there_must_be_a_canceled_order(world: World) -> None:
    user = patient(world)
    words = "The patient has no canceled order to replace"
    assert refused(world, world.body(user_id=user, **REASON)) == words
    world.place(user_id=user, lab_account_id=first(world))
    assert refused(world, world.body(user_id=user, **REASON)) == words


def test_each_canceled_order_is_replaced_once(world: World) -> None:
    user = patient(world)
    canceled(world, user)
    body = world.body(user_id=user, **REASON)
    with ThreadPoolExecutor(2) as pool:
        both = pool.map(lambda _: world.post("/v3/order/create", body).status_code, range(2))
        assert sorted(both) == [200, 400]
    assert "no canceled order" in refused(world, body)


def test_the_canceled_order_of_the_same_test_is_replaced(world: World) -> None:
    user = patient(world)
    earlier = canceled(world, user)
    same = canceled(world, user)
    later = canceled(world, user, "Home Visit Hormones")

    def replaced(**more: Any) -> str:
        made = world.place(user_id=user, **more, **REASON)
        found = world.value("SELECT parent_id::text FROM sandbox_order WHERE id = %s", made["id"])
        return str(found)

    assert [replaced() for _ in range(3)] == [same, earlier, later]


def test_what_was_made_is_sound(world: World) -> None:
    soundness.numbering(world.sandbox)
    soundness.records(world.sandbox)
    soundness.histories(world.sandbox)
    soundness.transactions(world.sandbox)


def test_the_field_is_in_the_openapi_document(world: World) -> None:
    paths = world.http.get("/openapi.json").json()["paths"]
    body = paths["/v3/order/create"]["post"]["requestBody"]["content"]["application/json"]
    assert "update_reason" in body["schema"]["properties"]


@pytest.mark.parametrize("field", ["reason_of_update", ""])
def test_the_name_of_the_field_is_a_setting(monkeypatch: pytest.MonkeyPatch, field: str) -> None:
    monkeypatch.setenv("SANDBOX_ORDER_REASON_FIELD", field)
    with open_world() as world:
        open_second_account(world.sandbox)
        user = patient(world)
        former = canceled(world, user)
        named = {"lab_account_id": first(world)}
        ignored = world.place(user_id=user, **named, **REASON)
        assert (ignored["origin"], account_of(world, ignored["id"])) == ("initial", first(world))
        if field:
            made = world.place(user_id=user, **named, **{field: "INCORRECT_LAB"})
            assert made["order_transaction"]["orders"][0]["id"] == former
            assert account_of(world, made["id"]) == second(world)
