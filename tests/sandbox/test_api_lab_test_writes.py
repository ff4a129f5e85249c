"""Making, approving and archiving lab tests, and the markers of an order set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.sandbox.ordering import World, misfits, open_world, said


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with open_world() as world:
        yield world


def _codes(world: World, lab: str, count: int = 2) -> list[str]:
    rows = world.sandbox.query(
        "SELECT m.provider_id FROM sandbox_marker m JOIN sandbox_lab l ON l.id = m.lab_id"
        " WHERE l.slug = %s AND NOT m.is_reflex AND m.aoe IS NULL ORDER BY m.id LIMIT %s",
        (lab, count),
    )
    return [row[0] for row in rows]


def _wanted(world: World, **more: Any) -> dict[str, Any]:
    return {
        "provider_ids": _codes(world, "lab-south"),
        "name": "Made-up Morning Panel",
        "method": "on_site_collection",
        "description": "Made up for a test",
        **more,
    }


def test_a_new_test_waits_for_approval_before_it_is_ordered(world: World) -> None:
    answer = world.post("/v3/lab_tests", _wanted(world, fasting=True))
    assert answer.status_code == 200, answer.text
    test = answer.json()
    assert (test["status"], test["fasting"]) == ("pending_approval", True)
    assert test["lab"]["slug"] == "lab-south"
    codes = {marker["provider_id"] for marker in test["markers"]}
    assert codes >= set(_codes(world, "lab-south"))
    body = world.body(order_set={"lab_test_ids": [test["id"]]})
    assert "not active" in said(world.post("/v3/order", body))
    approved = world.sandbox.control("lab_tests", {"lab_test_ids": [test["id"]]})
    assert approved["approved"] == [test["id"]]
    assert world.http.get(f"/v3/lab_tests/{test['id']}").json()["status"] == "active"
    assert world.post("/v3/order", body).status_code == 200


def test_a_test_is_renamed_archived_and_brought_back(world: World) -> None:
    key = world.test("Clinic Draw Urine")
    path = f"/v3/lab_tests/{key}"
    assert world.http.patch(path, json={"name": "Renamed Urine"}).json()["name"] == "Renamed Urine"
    archived = world.http.patch(path, json={"active": False}).json()
    assert (archived["status"], archived["name"]) == ("inactive", "Renamed Urine")
    listed = world.http.get("/v3/lab_test", params={"status": "inactive"}).json()["data"]
    assert key in {each["id"] for each in listed}
    assert world.http.patch(path, json={"active": True}).json()["status"] == "active"


def test_tests_of_others_stay_as_they_are(world: World) -> None:
    def change(name: str, active: bool = False) -> int:
        path = f"/v3/lab_tests/{world.test(name)}"
        return world.http.patch(path, json={"active": active}).status_code

    assert change("Yearly Check") == 403
    assert change("Other Team Panel") == 404
    assert change("Men's Panel Draft", True) == 400


def test_invalid_lab_tests_are_refused(world: World) -> None:
    def refused(**more: Any) -> str:
        answer = world.post("/v3/lab_tests", _wanted(world, **more))
        assert answer.status_code == 400
        return said(answer)

    assert "either marker_ids or" in refused(provider_ids=[])
    assert "either marker_ids or" in refused(marker_ids=[1])
    assert "not found" in refused(provider_ids=["none"])
    mixed = _codes(world, "lab-south", 1) + _codes(world, "lab-east", 1)
    assert "same lab" in refused(provider_ids=mixed)
    assert "does not collect" in refused(method="testkit")
    answer = world.post("/v3/lab_tests", {"method": "by post"})
    assert misfits(answer) == {"name", "method", "description"}


def test_markers_of_an_order_set(world: World) -> None:
    added = world.value(
        "SELECT id FROM sandbox_marker WHERE a_la_carte_enabled AND lab_id = 12"
        " AND slug = 'glucose'"
    )
    test = world.test("Clinic Draw Basic")
    body = {"lab_test_ids": [test], "add_on": {"marker_ids": [added]}}
    page = world.post("/v3/lab_tests/list_order_set_markers", body).json()
    ids = {marker["id"] for marker in page["markers"]}
    parts = world.sandbox.query(
        "SELECT marker_id FROM sandbox_labtestmarker WHERE lab_test_id = %s", (test,)
    )
    assert ids == {row[0] for row in parts} | {added}
    assert page["total"] == len(ids)
    asked = {marker["id"]: marker["aoe"] for marker in page["markers"]}
    assert asked[added]["questions"][0]["code"] == "FASTING"
    second = world.post("/v3/lab_tests/list_order_set_markers?size=1&page=2", body).json()
    assert (len(second["markers"]), second["pages"]) == (1, len(ids))
    assert world.post("/v3/lab_tests/list_order_set_markers", {}).status_code == 400
