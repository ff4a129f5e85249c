"""Kits that are registered later, and the papers of orders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.sandbox import soundness
from tests.sandbox.ordering import ADDRESS, DETAILS, PHYSICIAN, World, misfits, open_world, said


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with open_world() as world:
        yield world


def _kit(world: World, **more: Any) -> dict[str, Any]:
    shipping = {name: each for name, each in ADDRESS.items() if name != "access_notes"}
    return {
        "user_id": world.value("SELECT id::text FROM sandbox_user WHERE seq = 1"),
        "lab_test_id": world.test("Heart Kit"),
        "shipping_details": shipping,
        **more,
    }


def _order(world: World) -> dict[str, Any]:
    answer = world.post("/v3/order/testkit", _kit(world, passthrough="shelf 3"))
    assert answer.status_code == 200, answer.text
    order: dict[str, Any] = answer.json()["order"]
    return order


def _registration(world: World, sample_id: str, **more: Any) -> dict[str, Any]:
    return {
        "user_id": world.user(),
        "sample_id": sample_id,
        "patient_details": DETAILS,
        "patient_address": ADDRESS,
        **more,
    }


def test_kit_has_no_patient_until_registered(world: World) -> None:
    order = _order(world)
    assert order["patient_details"] is None
    assert order["shipping_details"]["zip"] == "85004"
    assert order["sample_id"]
    key = order["id"]
    body = _registration(world, order["sample_id"])
    early = world.post("/v3/order/testkit/register", body)
    assert early.status_code == 400
    assert "A kit in ordered" in said(early)
    world.go(key, "collecting_sample.testkit.with_customer")
    answer = world.post("/v3/order/testkit/register", body)
    assert answer.status_code == 200, answer.text
    bound = answer.json()["order"]
    assert bound["id"] == key
    assert bound["user_id"] == world.user()
    assert bound["patient_details"]["first_name"] == "Nora"
    assert bound["last_event"]["status"] == "received.testkit.registered"
    assert "registered already" in said(world.post("/v3/order/testkit/register", body))
    listed = world.http.get("/v3/orders", params={"search_input": "Notreal"}).json()
    assert key in {each["id"] for each in listed["orders"]}
    assert world.post(f"/v3/order/{key}/test").status_code == 200
    assert world.lows(key)[-1] == "completed"


def test_invalid_kit_orders_are_refused(world: World) -> None:
    walk_in = _kit(world, lab_test_id=world.test("Yearly Check"))
    assert "method testkit" in said(world.post("/v3/order/testkit", walk_in))
    bare = _kit(world)
    del bare["shipping_details"]["phone_number"]
    assert misfits(world.post("/v3/order/testkit", bare)) == {"shipping_details.phone_number"}
    nobody = _registration(world, "K000")
    assert world.post("/v3/order/testkit/register", nobody).status_code == 404
    strange = _registration(world, "K000", patient_details=DETAILS | {"last_name": "-"})
    answer = world.post("/v3/order/testkit/register", strange)
    assert misfits(answer) == {"patient_details.last_name"}


def test_the_requisition_shows_what_was_ordered(world: World) -> None:
    note = "Own made-up note"
    order = world.place("Yearly Check", physician=PHYSICIAN, clinical_notes=note)
    path = f"/v3/order/{order['id']}/requisition/pdf"
    assert world.http.get(path).status_code == 404
    world.go(order["id"], "received.walk_in_test.requisition_created")
    answer = world.http.get(path, headers={"accept": "application/pdf"})
    assert answer.headers["content-type"] == "application/pdf"
    for part in (note, "phone results before noon", "Physician Ada Madeup", "Nora Notreal"):
        assert part.encode() in answer.content


def test_labels_need_a_collection_date(world: World) -> None:
    path = f"/v3/order/{world.place()['id']}/labels/pdf"
    assert world.http.get(path).status_code == 422
    answer = world.http.get(path, params={"collection_date": "2026-03-04T10:00:00Z"})
    assert answer.content.count(b"Specimen label") == 3


def test_the_world_is_sound_after_all_this(world: World) -> None:
    soundness.numbering(world.sandbox)
    soundness.records(world.sandbox)
    soundness.histories(world.sandbox)
    soundness.transactions(world.sandbox)
