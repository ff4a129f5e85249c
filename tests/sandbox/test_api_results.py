"""One order's things: result, transaction, appointment, documents; areas and centers."""

from __future__ import annotations

import re
import zlib
from typing import Any, LiteralString

import pytest

from tests.sandbox.conftest import Sandbox

OWN: LiteralString = (
    "SELECT id::text FROM sandbox_order o"
    " WHERE team_id = '7ea00000-0000-4000-8000-000000000001' AND "
)


def some(sandbox: Sandbox, where: LiteralString, most: int = 12) -> list[str]:
    """Ids of a few orders of the team."""
    ids = sandbox.column(OWN + where + " ORDER BY number DESC")[:most]
    assert ids, "no such order in this world"
    return ids


# Results


def test_results_fit_the_order(sandbox: Sandbox) -> None:
    for order in some(sandbox, "result_version > 0"):
        result = sandbox.get(f"/v3/order/{order}/result")
        assert {"metadata", "results", "missing_results", "order_transaction"} <= result.keys()
        assert sandbox.get(f"/v3/order/{order}/result/metadata") == result["metadata"]
        assert "clia_#" in result["metadata"]
        record = sandbox.get(f"/v3/order/{order}")
        assert result["order_transaction"] == record["order_transaction"]
        ordered = {marker["id"] for marker in record["lab_test"]["markers"]}
        for row in [*result["results"], *result["missing_results"]]:
            assert {source["marker_id"] for source in row["source_markers"]} <= ordered
        assert result["results"]


def test_partial_results_are_readable(sandbox: Sandbox) -> None:
    for order in some(sandbox, "low_level_status = 'partial_results'"):
        assert sandbox.get(f"/v3/order/{order}/result")["metadata"]["status"] == "partial"


@pytest.mark.parametrize("suffix", ["result", "result/metadata", "result/pdf"])
def test_no_result_yet(sandbox: Sandbox, suffix: str) -> None:
    for order in some(sandbox, "result_version = 0", 3):
        answer = sandbox.http.get(f"/v3/order/{order}/{suffix}")
        assert answer.status_code == 404 and isinstance(answer.json()["detail"], str)


def test_a_group_combines_the_results_of_its_orders(sandbox: Sandbox) -> None:
    groups = sandbox.column(
        "SELECT transaction_id::text FROM sandbox_order"
        " WHERE team_id = '7ea00000-0000-4000-8000-000000000001' AND result_version > 0"
        " GROUP BY 1 HAVING count(*) > 1 ORDER BY 1 LIMIT 5"
    )
    assert groups, "no redraw with results in this world"
    for group in groups:
        orders = sandbox.column(
            "SELECT id::text FROM sandbox_order WHERE transaction_id = %s AND result_version > 0"
            " ORDER BY created_at",
            group,
        )
        single = [sandbox.get(f"/v3/order/{order}/result") for order in orders]
        combined = sandbox.get(f"/v3/order_transaction/{group}/result")
        assert combined["metadata"] == single[-1]["metadata"]
        slugs = [row["slug"] for row in combined["results"]]
        assert len(slugs) == len(set(slugs))
        assert set(slugs) == {row["slug"] for each in single for row in each["results"]}
        for row in single[-1]["results"]:
            assert row in combined["results"]
        assert not {row["slug"] for row in combined["missing_results"]} & set(slugs)


def test_order_transactions(sandbox: Sandbox) -> None:
    groups = sandbox.column(
        "SELECT transaction_id::text FROM sandbox_order"
        " WHERE team_id = '7ea00000-0000-4000-8000-000000000001'"
        " GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 8"
    )
    for group in groups:
        record = sandbox.get(f"/v3/order_transaction/{group}")
        assert record["id"] == group and record["team_id"] == sandbox.team_id
        expected = sandbox.rows(
            "SELECT o.id::text, o.origin, (SELECT split_part(e.status, '.', 3)"
            "  FROM sandbox_orderevent e WHERE e.order_id = o.number ORDER BY e.id DESC LIMIT 1)"
            " FROM sandbox_order o WHERE transaction_id = %s ORDER BY number",
            group,
        )
        assert expected == [
            (each["id"], each["origin"], each["last_status"]) for each in record["orders"]
        ]
        reference = sandbox.get(f"/v3/order/{expected[0][0]}")["order_transaction"]
        assert reference["status"] == record["status"]


# Appointments


@pytest.mark.parametrize(
    ("path", "kind"), [("phlebotomy", "phlebotomy"), ("psc", "patient_service_center")]
)
def test_current_appointments(sandbox: Sandbox, path: str, kind: str) -> None:
    rows = sandbox.rows(
        "SELECT o.id::text, a.id::text, a.status, a.event_status,"
        " (SELECT count(*) FROM sandbox_appointmentevent e WHERE e.appointment_id = a.id)"
        " FROM sandbox_appointment a JOIN sandbox_order o ON o.number = a.order_id"
        " WHERE a.is_current AND a.type = %s"
        " AND o.team_id = '7ea00000-0000-4000-8000-000000000001' ORDER BY o.number DESC LIMIT 10",
        kind,
    )
    assert rows
    for order, appointment, status, event_status, events in rows:
        record = sandbox.get(f"/v3/order/{order}/{path}/appointment")
        assert (record["id"], record["order_id"], record["type"]) == (appointment, order, kind)
        assert (record["status"], record["event_status"]) == (status, event_status)
        assert len(record["events"]) == events > 0
        moments = [event["created_at"] for event in record["events"]]
        assert moments == sorted(moments)
        assert {"first_line", "city", "state", "zip_code"} <= record["address"].keys()
        other = "psc" if path == "phlebotomy" else "phlebotomy"
        assert sandbox.http.get(f"/v3/order/{order}/{other}/appointment").status_code == 404


def test_orders_without_appointment(sandbox: Sandbox) -> None:
    [order] = some(sandbox, "method = 'testkit'", 1)
    assert sandbox.http.get(f"/v3/order/{order}/phlebotomy/appointment").status_code == 404


def test_cancellation_reasons(sandbox: Sandbox) -> None:
    visits = sandbox.get("/v3/order/phlebotomy/appointment/cancellation-reasons")
    centers = sandbox.get("/v3/order/psc/appointment/cancellation-reasons")
    assert len(visits) == 11 and [reason["name"] for reason in centers] == ["Other"]
    ids = {reason["id"] for reason in [*visits, *centers]}
    assert len(ids) == 12
    assert visits == sandbox.get("/v3/order/phlebotomy/appointment/cancellation-reasons")


def test_communication_settings(sandbox: Sandbox) -> None:
    [order] = some(sandbox, "true", 1)
    assert sandbox.get(f"/v3/order/{order}/communication_settings") == {
        "order_id": order,
        "sms_enabled": sandbox.value("SELECT sms_enabled FROM sandbox_order WHERE id = %s", order),
    }


# Documents


def check_pdf(sandbox: Sandbox, path: str, **params: Any) -> bytes:
    """A streamed PDF whose cross-reference table is right; its bytes."""
    headers = {"Accept": "application/pdf"}
    with sandbox.http.stream("GET", path, params=params, headers=headers) as answer:
        document = b"".join(answer.iter_bytes())
    assert answer.status_code == 200, document[:300]
    assert answer.headers["content-type"] == "application/pdf"
    assert document.startswith(b"%PDF-1.4") and document.endswith(b"%%EOF\n")
    assert b"sandbox sample" in document
    table = int(document.rsplit(b"startxref\n", 1)[1].split()[0])
    lines = document[table:].split(b"\n")
    assert lines[0] == b"xref"
    for number, line in enumerate(lines[3 : 2 + int(lines[1].split()[1])], start=1):
        assert document[int(line[:10]) :].startswith(b"%d 0 obj" % number)
    for length, content in re.findall(rb"/Length (\d+) >>\nstream\n(.*?)endstream", document, re.S):
        assert int(length) == len(content)
    assert zlib.crc32(document)
    return document


def test_result_report(sandbox: Sandbox) -> None:
    [order] = some(sandbox, "result_version > 0", 1)
    assert order.encode() in check_pdf(sandbox, f"/v3/order/{order}/result/pdf")
    group = sandbox.value("SELECT transaction_id::text FROM sandbox_order WHERE id = %s", order)
    assert group.encode() in check_pdf(sandbox, f"/v3/order_transaction/{group}/result/pdf")


def test_labels(sandbox: Sandbox) -> None:
    [order] = some(sandbox, "sample_id IS NOT NULL", 1)
    path = f"/v3/order/{order}/labels/pdf"
    document = check_pdf(sandbox, path, collection_date="2026-11-20T10:30:00Z")
    assert document.count(b"/Type /Page ") == 3 and b"1234567890" in document
    document = check_pdf(sandbox, path, collection_date="2026-11-20", number_of_labels=5)
    assert document.count(b"/Type /Page ") == 5
    for params in ({}, {"collection_date": "soon"}):
        assert sandbox.http.get(path, params=params).status_code == 422


def test_requisitions(sandbox: Sandbox) -> None:
    for order in some(sandbox, "has_requisition AND NOT imported", 3):
        check_pdf(sandbox, f"/v3/order/{order}/requisition/pdf")
    for order in [
        *some(sandbox, "imported", 3),
        *some(sandbox, "low_level_status = 'ordered'", 3),
    ]:
        answer = sandbox.http.get(f"/v3/order/{order}/requisition/pdf")
        assert answer.status_code == 404 and isinstance(answer.json()["detail"], str)


def test_notices(sandbox: Sandbox) -> None:
    for order in some(sandbox, "has_abn", 2):
        check_pdf(sandbox, f"/v3/order/{order}/abn_pdf")
    for order in some(sandbox, "NOT has_abn", 2):
        assert sandbox.http.get(f"/v3/order/{order}/abn_pdf").status_code == 404


def test_collection_instructions(sandbox: Sandbox) -> None:
    rows = sandbox.rows(
        "SELECT DISTINCT ON (t.id) t.id::text, o.id::text, t.has_collection_instructions"
        " FROM sandbox_labtest t JOIN sandbox_order o ON o.lab_test_id = t.id"
        " WHERE o.team_id = '7ea00000-0000-4000-8000-000000000001' ORDER BY t.id"
    )
    assert {row[2] for row in rows} == {True, False}
    for test, order, has_instructions in rows:
        for path in (f"/v3/lab_test/{test}", f"/v3/order/{order}"):
            path += "/collection_instruction_pdf"
            if has_instructions:
                check_pdf(sandbox, path)
            else:
                assert sandbox.http.get(path).status_code == 404


# Areas and centers


def test_area_info(sandbox: Sandbox) -> None:
    for zip_code, phlebotomy in sandbox.rows(
        "SELECT zip_code, phlebotomy FROM sandbox_servicearea ORDER BY 1"
    ):
        area = sandbox.get("/v3/order/area/info", zip_code=zip_code)
        assert area["zip_code"] == zip_code
        assert area["phlebotomy"]["is_served"] is bool(phlebotomy)
        shown = {each["name"]: each["service_types"] for each in area["phlebotomy"]["providers"]}
        assert shown == phlebotomy
        for slug, lab in area["central_labs"].items():
            centers = sandbox.get(
                "/v3/order/psc/info", zip_code=zip_code, lab_id=lab["lab_id"], radius="25"
            )
            assert centers["slug"] == slug
            counted = lab["patient_service_centers"]["within_radius"]
            assert counted == len(centers["patient_service_centers"])
    assert sandbox.get("/v3/order/area/info", zip_code="00000")["phlebotomy"] == {
        "is_served": False,
        "providers": [],
    }


def test_area_info_of_chosen_labs(sandbox: Sandbox) -> None:
    def labs(**params: Any) -> list[str]:
        return list(sandbox.get("/v3/order/area/info", zip_code="85004", **params)["central_labs"])

    assert labs(labs=["lab-south"]) == ["lab-south"]
    assert labs(labs=["lab-south", "lab-north"]) == ["lab-south", "lab-north"]
    assert labs(lab="lab-north") == ["lab-north"]


def test_an_account_limits_billing(sandbox: Sandbox) -> None:
    for account in sandbox.get("/v3/lab_test/lab_account")["data"]:
        area = sandbox.get(
            "/v3/order/area/info",
            zip_code="85004",
            labs=[account["lab"]],
            lab_account_id=account["id"],
        )
        shown = area["central_labs"][account["lab"]]["supported_bill_types"]
        allowed = account["allowed_billing"]
        assert set(shown) == {kind for kind, states in allowed.items() if "AZ" in states}


def test_centers_are_near_and_sorted(sandbox: Sandbox) -> None:
    lab = sandbox.value("SELECT id FROM sandbox_lab WHERE supports_psc_booking")
    counts = []
    for radius in ("10", "20", "25", "50", "100"):
        found = sandbox.get("/v3/order/psc/info", zip_code="85004", lab_id=lab, radius=radius)
        distances = [each["distance"] for each in found["patient_service_centers"]]
        assert distances == sorted(distances)
        assert all(distance <= int(radius) for distance in distances)
        counts.append(len(distances))
    assert counts == sorted(counts) and 0 < counts[-1] <= 30
    everything = sandbox.get("/v3/order/psc/info", zip_code="85004", lab_id=lab, radius="100")
    wanted = "appointment_scheduling_via_service"
    some_of_them = sandbox.get(
        "/v3/order/psc/info", zip_code="85004", lab_id=lab, radius="100", capabilities=wanted
    )
    assert [each["site_code"] for each in some_of_them["patient_service_centers"]] == [
        each["site_code"]
        for each in everything["patient_service_centers"]
        if wanted in each["capabilities"]
    ]
    assert (
        sandbox.http.get(
            "/v3/order/psc/info", params={"zip_code": "85004", "lab_id": 1}
        ).status_code
        == 404
    )


def test_centers_of_an_order(sandbox: Sandbox) -> None:
    [order] = some(sandbox, "method = 'walk_in_test'", 1)
    record = sandbox.get(f"/v3/order/{order}")
    found = sandbox.get(f"/v3/order/{order}/psc/info", radius="100")
    assert found["lab_id"] == record["lab_test"]["lab"]["id"]
    zip_code = record["patient_address"]["zip"][:5]
    plain = sandbox.get(
        "/v3/order/psc/info", zip_code=zip_code, lab_id=found["lab_id"], radius="100"
    )
    assert [each["site_code"] for each in found["patient_service_centers"]] == [
        each["site_code"] for each in plain["patient_service_centers"]
    ]
    [kit] = some(sandbox, "method = 'testkit'", 1)
    assert sandbox.http.get(f"/v3/order/{kit}/psc/info").status_code == 400
