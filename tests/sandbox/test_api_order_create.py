"""POST /v3/order/create and /v3/order: what is accepted, and every refusal (orders.md 2)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.sandbox import soundness
from tests.sandbox.ordering import ADDRESS, DETAILS, PHYSICIAN, World, misfits, open_world, said


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with open_world() as world:
        yield world


def _today(world: World) -> Any:
    return datetime.fromisoformat(world.sandbox.control("status")["now"]).date()


def _refused(world: World, body: dict[str, Any], status: int = 400) -> str:
    """What the refusal says; nothing has been placed."""
    before = world.count()
    answer = world.post("/v3/order/create", body)
    assert answer.status_code == status, answer.text
    assert world.count() == before
    return said(answer)


def _marker(world: World, lab: str, slug: str) -> tuple[int, str, list[dict[str, Any]]]:
    """The number, code and questions of a marker."""
    [(number, code, aoe)] = world.sandbox.query(
        "SELECT m.id, m.provider_id, m.aoe FROM sandbox_marker m"
        " JOIN sandbox_lab l ON l.id = m.lab_id WHERE l.slug = %s AND m.slug = %s",
        (lab, slug),
    )
    return number, code, aoe["questions"] if aoe else []


@pytest.mark.parametrize("path", ["/v3/order/create", "/v3/order"])
def test_an_order_is_placed_with_its_transaction_and_first_event(world: World, path: str) -> None:
    body = world.body(passthrough="visit 17", clinical_notes="Made up: fasting since eight")
    answer = world.post(path, body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["status"] == "success"
    order = answer.json()["order"]
    assert order["last_event"]["status"] == "received.on_site_collection.ordered"
    assert len(order["events"]) == 1
    assert order["passthrough"] == "visit 17"
    assert order["clinical_notes"] == "Made up: fasting since eight"
    assert order["user_id"] == body["user_id"]
    assert order["patient_details"]["first_name"] == "Nora"
    assert order["patient_address"]["zip"] == "85004"
    assert order["lab_test"]["name"] == "Clinic Draw Basic"
    group = order["order_transaction"]
    assert group["status"] == "active"
    assert [each["id"] for each in group["orders"]] == [order["id"]]
    record = world.record(order["id"])
    assert record == order | {"requisition_form_url": record["requisition_form_url"]}
    newest = world.http.get("/v3/orders", params={"size": 1}).json()["orders"][0]
    assert newest["id"] == order["id"]


def test_notes_of_the_order_and_of_its_account_are_joined(world: World) -> None:
    order = world.place("Yearly Check", physician=PHYSICIAN, clinical_notes="Own made-up note")
    assert order["clinical_notes"] == (
        "Own made-up note\nMade-up clinic: phone results before noon."
    )
    assert order["physician"] == PHYSICIAN


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"first_name": "Zoë"}, "patient_details.first_name"),
        ({"first_name": ""}, "patient_details.first_name"),
        ({"first_name": "x" * 51}, "patient_details.first_name"),
        ({"last_name": " Sample"}, "patient_details.last_name"),
        ({"last_name": "Two  Spaces"}, "patient_details.last_name"),
        ({"last_name": "-Hyphen"}, "patient_details.last_name"),
        ({"last_name": "At@Sign"}, "patient_details.last_name"),
        ({"dob": "2999-01-01"}, "patient_details.dob"),
        ({"dob": "05/06/1980"}, "patient_details.dob"),
        ({"gender": "Female"}, "patient_details.gender"),
        ({"email": "nobody"}, "patient_details.email"),
        ({"phone_number": "call me"}, "patient_details.phone_number"),
        ({"race": "green"}, "patient_details.race"),
        ({"medical_proxy": {"first_name": "A"}}, "patient_details.medical_proxy.last_name"),
    ],
)
def test_details_that_do_not_fit(world: World, change: dict[str, Any], field: str) -> None:
    answer = world.post("/v3/order/create", world.body(patient_details=DETAILS | change))
    assert field in misfits(answer)


@pytest.mark.parametrize("name", ["D'Arcy", "Anne-Marie", "St. Clair", "2nd"])
def test_names_the_labs_accept(world: World, name: str) -> None:
    order = world.place(patient_details=DETAILS | {"last_name": name})
    assert order["patient_details"]["last_name"] == name


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"zip": "8500"}, "patient_address.zip"),
        ({"zip": "85004-12"}, "patient_address.zip"),
        ({"state": "Arizona"}, "patient_address.state"),
        ({"first_line": " "}, "patient_address.first_line"),
        ({"access_notes": "x" * 1001}, "patient_address.access_notes"),
    ],
)
def test_addresses_that_do_not_fit(world: World, change: dict[str, Any], field: str) -> None:
    answer = world.post("/v3/order/create", world.body(patient_address=ADDRESS | change))
    assert misfits(answer) == {field}


def test_all_problems_of_a_new_order_are_reported_at_once(world: World) -> None:
    body = world.body(
        clinical_notes="x" * 1001,
        billing_type="cash",
        physician={"first_name": "Ada", "last_name": "Madeup", "npi": "12"},
        consents=[{"consentType": "anything"}],
        aoe_answers=[{"marker_id": 1, "question_id": 2, "answer": 3}],
    )
    del body["user_id"]
    assert misfits(world.post("/v3/order/create", body)) == {
        "user_id",
        "clinical_notes",
        "billing_type",
        "physician.npi",
        "consents.0.consentType",
        "aoe_answers.0.answer",
    }


def test_unknown_address_is_refused(world: World) -> None:
    assert "could not be validated" in _refused(
        world, world.body(patient_address=ADDRESS | {"zip": "00012"})
    )


def test_unknown_users_and_tests(world: World) -> None:
    nobody = "00000000-0000-4000-8000-000000000000"
    assert _refused(world, world.body(user_id=nobody), 404) == "User not found"
    body = world.body(order_set={"lab_test_ids": [nobody]})
    assert "not found" in _refused(world, body, 404)
    assert "not found" in _refused(world, world.body("Other Team Panel"), 404)
    assert "not active" in _refused(world, world.body("Old Heart Kit"))
    assert "needs lab tests" in _refused(world, world.body(order_set={"lab_test_ids": []}))


def test_several_tests_become_one_generated_one(world: World) -> None:
    names = ("Yearly Check", "Liver Screen")
    order = world.place(*names, physician=PHYSICIAN)
    test = order["lab_test"]
    assert test["auto_generated"]
    assert test["status"] == "active"
    parts = {
        row[0]
        for row in world.sandbox.query(
            "SELECT m.marker_id FROM sandbox_labtestmarker m JOIN sandbox_labtest t"
            " ON t.id = m.lab_test_id WHERE t.name = ANY(%s)",
            (list(names),),
        )
    }
    assert parts <= {marker["id"] for marker in test["markers"]}
    again = world.place(*names, physician=PHYSICIAN)
    assert again["lab_test"]["id"] == test["id"]


def test_tests_of_several_labs_or_methods(world: World) -> None:
    assert "same lab" in _refused(world, world.body("Yearly Check", "Clinic Draw Basic"))
    body = world.body("Yearly Check", "Home Visit Wellness", physician=PHYSICIAN)
    assert "share one collection method" in _refused(world, body)
    placed = world.post("/v3/order", body | {"collection_method": "at_home_phlebotomy"})
    assert placed.json()["order"]["details"]["type"] == "at_home_phlebotomy"
    assert "does not collect" in _refused(world, body | {"collection_method": "testkit"})
    alone = world.body(collection_method="walk_in_test")
    assert "not collected by" in _refused(world, alone)


def test_add_ons(world: World) -> None:
    number, code, _ = _marker(world, "lab-south", "glucose")
    test = world.test("Clinic Draw Basic")
    how = {"collection_method": "on_site_collection"}

    def body(add_on: dict[str, Any], **more: Any) -> dict[str, Any]:
        return world.body(order_set={"lab_test_ids": [test], "add_on": add_on}, **more)

    enabled = world.value("SELECT a_la_carte_enabled FROM sandbox_marker WHERE id = %s", number)
    assert enabled
    by_id = world.post("/v3/order", body({"marker_ids": [number]}, **how)).json()["order"]
    by_code = world.post("/v3/order", body({"provider_ids": [code]}, **how)).json()["order"]
    assert by_id["lab_test"]["id"] == by_code["lab_test"]["id"]
    assert number in {marker["id"] for marker in by_id["lab_test"]["markers"]}
    alone = world.body(order_set={"add_on": {"marker_ids": [number]}}, **how)
    assert world.post("/v3/order", alone).status_code == 200
    assert "collection_method is required" in _refused(world, body({"marker_ids": [number]}))
    both = {"marker_ids": [number], "provider_ids": [code]}
    assert "either marker_ids or" in _refused(world, body(both, **how))
    assert "either marker_ids or" in _refused(world, body({}, **how))
    fixed = world.value(
        "SELECT id FROM sandbox_marker WHERE NOT a_la_carte_enabled AND lab_id = 12 LIMIT 1"
    )
    assert "cannot be ordered as an add-on" in _refused(world, body({"marker_ids": [fixed]}, **how))
    foreign = world.value(
        "SELECT id FROM sandbox_marker WHERE a_la_carte_enabled AND lab_id = 11 LIMIT 1"
    )
    assert "same lab" in _refused(world, body({"marker_ids": [foreign]}, **how))
    assert "not found" in _refused(world, body({"marker_ids": [1]}, **how))


def test_questions_of_every_type_must_be_answered(world: World) -> None:
    cortisol = _marker(world, "lab-west", "cortisol")
    testosterone = _marker(world, "lab-west", "testosterone-total")
    main = world.value(
        "SELECT id::text FROM sandbox_labaccount WHERE account_name = 'Made-up account west-main'"
    )
    body = world.body("Stress Kit", physician=PHYSICIAN, lab_account_id=main)
    text = _refused(world, body)
    assert text.startswith("Missing required AOE answers")
    assert "Hour of waking" in text
    assert "Date of last dose" in text
    assert "Weight" not in text

    def answer(marker: tuple[int, str, list[dict[str, Any]]], said: str) -> dict[str, Any]:
        return {"marker_id": marker[0], "question_id": marker[2][0]["id"], "answer": said}

    waking, dose = answer(cortisol, "7"), answer(testosterone, "20260101")
    assert "Date of last dose" in _refused(world, body | {"aoe_answers": [waking]})
    wrong = answer(cortisol, "seven")
    assert "is a number" in _refused(world, body | {"aoe_answers": [wrong, dose]})
    assert "twice" in _refused(world, body | {"aoe_answers": [waking, waking, dose]})
    strange = {"marker_id": cortisol[0], "question_id": 1, "answer": "7"}
    assert "has no question" in _refused(world, body | {"aoe_answers": [strange]})
    order = world.post("/v3/order", body | {"aoe_answers": [waking, dose]}).json()["order"]
    stored = world.value(
        "SELECT p.aoe_answers FROM sandbox_placement p"
        " JOIN sandbox_order o ON o.number = p.order_id WHERE o.id = %s",
        order["id"],
    )
    assert stored == [waking, dose]


def test_choices_are_answered_by_code(world: World) -> None:
    source = _marker(world, "lab-south", "urinalysis-appearance")
    body = world.body("Urine Screen")
    assert "Specimen source" in _refused(world, body)
    given = {"marker_id": source[0], "question_id": source[2][0]["id"], "answer": "Midstream"}
    assert "is one of MID, CATH, OTH" in _refused(world, body | {"aoe_answers": [given]})
    placed = world.post("/v3/order", body | {"aoe_answers": [given | {"answer": "MID"}]})
    assert placed.status_code == 200, placed.text


def test_account_must_be_active_and_of_lab_and_team(world: World) -> None:
    def with_account(key: str) -> dict[str, Any]:
        return world.body("Yearly Check", physician=PHYSICIAN, lab_account_id=key)

    right = world.account("active", "lab-north")
    assert world.post("/v3/order", with_account(right)).status_code == 200
    assert "is pending" in _refused(world, with_account(world.account("pending", "lab-north")))
    assert "not of lab-north" in _refused(world, with_account(world.account("active", "lab-east")))
    nobody = "00000000-0000-4000-8000-000000000000"
    assert "not linked" in _refused(world, with_account(nobody))


def test_several_active_accounts_leave_the_choice_to_the_caller(world: World) -> None:
    chosen, other = (world.account(status, "lab-north") for status in ("active", "pending"))
    body = world.body("Yearly Check", physician=PHYSICIAN)
    _set_status(world, other, "active")
    try:
        assert "send lab_account_id" in _refused(world, body)
        assert world.post("/v3/order", body | {"lab_account_id": chosen}).status_code == 200
    finally:
        _set_status(world, other, "pending")
    _set_status(world, chosen, "suspended")
    try:
        assert "No lab account of lab-north is active" in _refused(world, body)
    finally:
        _set_status(world, chosen, "active")


def _set_status(world: World, account: str, status: str) -> None:
    world.sandbox.query(
        "UPDATE sandbox_labaccount SET status = %s WHERE id = %s RETURNING 1", (status, account)
    )


def test_a_delegated_account_needs_a_physician(world: World) -> None:
    assert "physician is required" in _refused(world, world.body("Yearly Check"))


def test_insured_orders(world: World) -> None:
    body = world.body("Yearly Check", physician=PHYSICIAN, billing_type="commercial_insurance")
    allowed = world.value(
        "SELECT allowed_billing -> 'commercial_insurance' ->> 0 FROM sandbox_labaccount"
        " WHERE id = %s",
        world.account("active", "lab-north"),
    )
    body["patient_address"] = ADDRESS | {"state": allowed}
    assert "At least one icd_codes" in _refused(world, body)
    assert "Invalid ICD codes: A99" in _refused(world, body | {"icd_codes": ["I10", "A99"]})
    assert "exclude each other" in _refused(world, body | {"icd_codes": ["E11.9", "E10.9"]})
    bare = body | {"user_id": world.user(primary=False), "icd_codes": ["I10"]}
    assert "no primary insurance" in _refused(world, bare)
    order = world.post("/v3/order", body | {"icd_codes": ["I10"]}).json()["order"]
    newest = world.value(
        "SELECT id::text FROM sandbox_insurance WHERE user_id = %s AND is_primary"
        " ORDER BY created_at DESC LIMIT 1",
        body["user_id"],
    )
    assert (order["health_insurance_id"], order["icd_codes"]) == (newest, ["I10"])
    elsewhere = ADDRESS | {"state": "VT"}
    assert "not allowed for this lab account in VT" in _refused(
        world, body | {"icd_codes": ["I10"], "patient_address": elsewhere}
    )


def test_minors_need_a_proxy(world: World) -> None:
    born = (_today(world) - timedelta(days=365 * 15)).isoformat()
    proxy = {
        "first_name": "Pia",
        "last_name": "Notreal",
        "phone_number": "+15550100002",
        "address": {
            "first_line": "12 Sample Street",
            "city": "Phoenix",
            "state": "AZ",
            "zip": "85004",
            "country": "US",
        },
    }
    child = DETAILS | {"dob": born}
    assert "medical proxy" in _refused(world, world.body(patient_details=child))
    order = world.place(patient_details=child | {"medical_proxy": proxy})
    assert order["patient_details"]["medical_proxy"]["first_name"] == "Pia"


def test_scheduled_orders(world: World) -> None:
    today = _today(world)
    later = (today + timedelta(days=9)).isoformat()
    order = world.place(activate_by=later)
    assert order["activate_by"] == later
    scheduled = world.http.get("/v3/orders", params={"order_activation_types": "scheduled"}).json()
    assert order["id"] in {each["id"] for each in scheduled["orders"]}
    past = (today - timedelta(days=1)).isoformat()
    assert "today or later" in _refused(world, world.body(activate_by=past))


def test_a_new_order_is_announced(world: World) -> None:
    world.sandbox.control("webhooks", {"url": "http://127.0.0.1:9/"})
    try:
        order = world.place()
        [(kind, body)] = world.sandbox.query(
            "SELECT event_type, body FROM sandbox_message WHERE user_id = %s"
            " ORDER BY number DESC LIMIT 1",
            (order["user_id"],),
        )
        assert kind == "labtest.order.created"
        assert json.loads(body)["data"]["id"] == order["id"]
    finally:
        world.sandbox.control("webhooks", {"url": None})


def test_the_world_is_sound_after_all_this(world: World) -> None:
    soundness.numbering(world.sandbox)
    soundness.records(world.sandbox)
    soundness.histories(world.sandbox)
    soundness.transactions(world.sandbox)
