"""Paging, filters, and what an item looks like."""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.test import Client

from backoffice.audit.models import AuditEntry
from backoffice.sync.models import SyncRun
from labs.models import ExpectedResult, Lab, LabAccount, LabAccountTeam, LabTest, Marker
from labs.models import LabTestMarker as InTest
from orders.models import (
    Appointment,
    AppointmentEvent,
    Order,
    OrderEvent,
    Result,
    ResultMarker,
    Transaction,
)
from patients.models import Connection, Insurance, Patient, Payor
from patients.wearables.models import HistoricalPull
from tests.api.rows import NOW, TEAM, demographics, envelope, order, patient, staff, token_for, uid

pytestmark = pytest.mark.django_db

Headers = dict[str, str]


@pytest.fixture
def headers() -> Headers:
    return token_for(staff("service account"))


def _get(client: Client, headers: Headers, address: str, **query: str) -> dict[str, Any]:
    answer = client.get(f"/api/{address}/", query, headers=headers)
    assert answer.status_code == 200, answer.content
    body: dict[str, Any] = answer.json()
    return body


def _one(client: Client, headers: Headers, resource: str, key: object) -> dict[str, Any]:
    """The item by its own address; the list must show the very same."""
    item = _get(client, headers, f"{resource}/{key}")
    listed = _get(client, headers, resource)["results"]
    assert item in listed
    return item


# Paging


@pytest.mark.parametrize("limit", [1000, 333])
def test_a_walk_meets_every_row_once(client: Client, headers: Headers, limit: int) -> None:
    Order.objects.bulk_create([order(n) for n in range(2500)], batch_size=500)
    seen: list[str] = []
    cursor: str | None = ""
    pages = 0
    while cursor is not None:
        query = {"cursor": cursor} if cursor else {}
        body = _get(client, headers, "orders", limit=str(limit), **query)
        seen += [item["id"] for item in body["results"]]
        cursor, pages = body["next"], pages + 1
    assert seen == sorted(str(order(n).pk) for n in range(2500))
    assert pages == -(-2500 // limit)


def test_a_full_last_page_ends_the_walk(client: Client, headers: Headers) -> None:
    Lab.objects.bulk_create([_lab(n) for n in range(1, 5)])
    first = _get(client, headers, "labs", limit="2")
    second = _get(client, headers, "labs", limit="2", cursor=first["next"])
    assert [item["id"] for item in first["results"] + second["results"]] == [1, 2, 3, 4]
    assert second["next"] is None


def test_a_row_deleted_behind_the_cursor_skips_nothing(client: Client, headers: Headers) -> None:
    Lab.objects.bulk_create([_lab(n) for n in range(1, 6)])
    first = _get(client, headers, "labs", limit="2")
    Lab.objects.filter(pk__in=[1, 2]).delete()
    rest = _get(client, headers, "labs", cursor=first["next"])
    assert [item["id"] for item in rest["results"]] == [3, 4, 5]


def test_the_limit_defaults_to_a_hundred(client: Client, headers: Headers) -> None:
    Order.objects.bulk_create([order(n) for n in range(101)])
    assert len(_get(client, headers, "orders")["results"]) == 100


@pytest.mark.parametrize("limit", ["0", "1001", "-1", "ten", "", "1e2", "99999999999999999999"])
def test_a_limit_out_of_bounds_is_refused(client: Client, headers: Headers, limit: str) -> None:
    answer = client.get("/api/orders/", {"limit": limit}, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["message"] == "limit must be a whole number from 1 to 1000."


@pytest.mark.parametrize(
    "cursor", ["x", "!!", "e30", "bnVsbA", "WyJvcmRlcnMub3JkZXIiLCJ4Il0", "\u00e9", "WzEsMl0"]
)
def test_a_cursor_of_no_list_is_refused(client: Client, headers: Headers, cursor: str) -> None:
    answer = client.get("/api/orders/", {"cursor": cursor}, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["code"] == "bad_request"
    assert answer.json()["message"].startswith("This cursor is not one that this list has given")


@pytest.mark.parametrize("last", ["[]", "{}", "7", "null", '"\\ud800"', '"\\u0000"', "[" * 5000])
def test_a_made_up_cursor_is_refused(client: Client, headers: Headers, last: str) -> None:
    text = f'["patients.payor",{last}]'
    cursor = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
    answer = client.get("/api/payors/", {"cursor": cursor}, headers=headers)
    assert answer.status_code == 400


def test_a_cursor_of_another_list_is_refused(client: Client, headers: Headers) -> None:
    Lab.objects.bulk_create([_lab(1), _lab(2)])
    cursor = _get(client, headers, "labs", limit="1")["next"]
    answer = client.get("/api/markers/", {"cursor": cursor}, headers=headers)
    assert answer.status_code == 400


# Filters


def test_filters(client: Client, headers: Headers) -> None:
    Order.objects.bulk_create(
        [
            order(1, as_of=NOW, status="completed"),
            order(2, as_of=NOW - timedelta(days=1), low_level_status="lost"),
            order(3, as_of=NOW - timedelta(days=2), order_transaction_id=uid("transaction", 1)),
        ]
    )

    def found(**query: str) -> set[int]:
        ids = {item["id"] for item in _get(client, headers, "orders", **query)["results"]}
        return {n for n in (1, 2, 3) if str(order(n).pk) in ids}

    assert found(user_id=str(uid("patient", 1))) == {1}
    assert found(status="completed") == {1}
    assert found(low_level_status="lost") == {2}
    assert found(order_transaction_id=str(uid("transaction", 1))) == {3}
    assert found(status="completed", user_id=str(uid("patient", 2))) == set()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"user_id": "me"}, "user_id must be a UUID."),
        # The moment a row came here is not the moment it could be read here: rows would be lost.
        ({"updated_since": "2026-11-19T12:00:00Z"}, "There is no parameter of that name here"),
        ({"status": "a\x00b"}, "status must be text."),
        ({"made_up": "x"}, "There is no parameter of that name here. These are known: "),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(
    client: Client, headers: Headers, query: dict[str, str], words: str
) -> None:
    answer = client.get("/api/orders/", query, headers=headers)
    assert answer.status_code == 400
    said = answer.json()["message"]
    assert said.startswith(words) and "[" not in said and "'" not in said


# Items


def test_the_record_leaves_byte_for_byte(client: Client, headers: Headers) -> None:
    record = '{ "b":1.50,  "a":"\\u00e9\\/", "a":null, "n":12345678901234567890.10 }'
    order(1, record=record).save()
    page = client.get("/api/orders/", headers=headers).content
    one = client.get(f"/api/orders/{order(1).pk}/", headers=headers).content
    assert b'"record":' + record.encode() in page
    assert b'"record":' + record.encode() in one


def test_a_patient(client: Client, headers: Headers) -> None:
    patient(1, missing_since=NOW, fallback_time_zone="America/Phoenix").save()
    patient(2).save()
    demographics(1, record='{"dob": "1990-01-02"}', dob="1990-01-02").save()
    item = _one(client, headers, "patients", uid("patient", 1))
    assert item["id"] == str(uid("patient", 1))
    assert item["team_id"] == str(TEAM)
    assert item["created_on"] == "2026-11-19T12:00:00Z"
    assert item["as_of"] == item["missing_since"] == "2026-11-20T12:00:00Z"
    assert item["demographics"]["last_name"] == "Testperson"
    assert item["demographics"]["dob"] == "1990-01-02"
    assert item["demographics"]["record"] == {"dob": "1990-01-02"}
    assert not item["demographics"].keys() & {"name_key", "phone_digits", "content_hash"}
    assert _one(client, headers, "patients", uid("patient", 2))["demographics"] is None


def test_records_without_an_id_of_the_service(client: Client, headers: Headers) -> None:
    user = uid("patient", 1)
    Connection(
        user_id=user, slug="band-one", name="Band", created_on=NOW, status="connected", **envelope()
    ).save()
    HistoricalPull(
        user_id=user, provider="band-one", resource="sleep", status="success", **envelope()
    ).save()
    Insurance(
        id=uid("insurance", 1),
        user_id=user,
        is_primary=True,
        payor_code="P1",
        member_id="M1",
        relationship="Self",
        **envelope(),
    ).save()
    Payor(payor_code="P/1", name="Sample Payor", **envelope()).save()
    assert _one(client, headers, "connections", f"{user}:band-one")["status"] == "connected"
    assert _one(client, headers, "pulls", f"{user}:band-one:sleep")["status"] == "success"
    assert _one(client, headers, "insurance", uid("insurance", 1))["member_id"] == "M1"
    assert _one(client, headers, "payors", "P/1")["id"] == "P/1"


def test_the_catalogue(client: Client, headers: Headers) -> None:
    _lab(1).save()
    for n in (5, 6):
        Marker(id=n, lab_id=1, name=f"Marker {n}", slug=f"marker-{n}", **envelope()).save()
    for position, result in enumerate((31, 30)):
        ExpectedResult(
            marker_id=5, position=position, result_id=result, name=f"R{result}", slug="r"
        ).save()
    test = uid("lab test", 1)
    LabTest(
        id=test, slug="t", name="T", sample_type="serum", method="m", status="active", **envelope()
    ).save()
    for position, marker in enumerate((6, 5)):
        InTest(lab_test_id=test, marker_id=marker, position=position).save()
    account = uid("account", 1)
    LabAccount(
        id=account,
        lab="lab-north",
        status="active",
        delegated_flow="not_delegated",
        provider_account_id="A1",
        **envelope(),
    ).save()
    LabAccountTeam(account_id=account, team_id=TEAM).save()

    assert _one(client, headers, "labs", 1)["slug"] == "lab-1"
    expected = _one(client, headers, "markers", 5)["expected_results"]
    assert [each["result_id"] for each in expected] == [31, 30]
    assert _one(client, headers, "markers", 6)["expected_results"] == []
    assert _one(client, headers, "lab-tests", test)["marker_ids"] == [6, 5]
    assert _one(client, headers, "lab-accounts", account)["team_id_allowlist"] == [str(TEAM)]


def test_lab_testing(client: Client, headers: Headers) -> None:
    group = uid("transaction", 1)
    Transaction(id=group, status="active", **envelope()).save()
    order(1, order_transaction_id=group, patient_name="ada", recipient_name="ada").save()
    for event_id in (12, 11):
        OrderEvent(
            order_id=order(1).pk,
            event_id=event_id,
            created_at=NOW,
            status=f"a.b.{event_id}",
            low_level_status=str(event_id),
        ).save()
    draw = uid("appointment", 1)
    Appointment(
        id=draw,
        user_id=uid("patient", 1),
        order_id=order(1).pk,
        type="phlebotomy",
        provider="draw-west",
        status="confirmed",
        event_status="scheduled",
        **envelope(),
    ).save()
    AppointmentEvent(appointment_id=draw, position=0, created_at=NOW, status="pending").save()
    Result(order_id=order(1).pk, status="final", **envelope()).save()
    ResultMarker(result_id=order(1).pk, position=0, name="Glucose", text="91", value=91).save()
    Result(order_id=order(2).pk, status="partial", **envelope()).save()

    item = _one(client, headers, "orders", order(1).pk)
    assert [each["event_id"] for each in item["events"]] == [11, 12]
    assert not item.keys() & {"patient_name", "recipient_name", "bucket", "content_hash"}
    assert _one(client, headers, "appointments", draw)["events"][0]["status"] == "pending"
    assert _one(client, headers, "transactions", group)["orders"][0]["id"] == str(order(1).pk)
    result = _one(client, headers, "results", order(1).pk)
    assert result["user_id"] == str(uid("patient", 1))
    assert result["markers"][0]["value"] == 91
    early = _one(client, headers, "results", order(2).pk)
    assert early["user_id"] is None, "its order is not here yet"
    mine = _get(client, headers, "results", user_id=str(uid("patient", 1)))["results"]
    assert [each["id"] for each in mine] == [str(order(1).pk)]


def test_a_run(client: Client, headers: Headers) -> None:
    run = SyncRun.objects.create(resource="orders", full=True, fetched=7, checkpoint={"page": 3})
    item = _one(client, headers, "runs", run.pk)
    assert item["fetched"] == 7
    assert not item.keys() & {"record", "checkpoint", "fence", "lease_until"}


@pytest.mark.parametrize(
    "address",
    [
        f"orders/{uid('order', 9)}",
        "orders/nine",
        "labs/9",
        "labs/99999999999999999999999",
        "connections/x",
        f"connections/{uid('patient', 1)}:",
        "pulls/a:b:c",
        "results/x",
    ],
)
def test_a_record_that_is_not_here(client: Client, headers: Headers, address: str) -> None:
    answer = client.get(f"/api/{address}/", headers=headers)
    assert answer.status_code == 404
    assert answer.json()["message"] == "There is no such record."


# Audit, queries, schema


def test_a_page_of_health_data_is_recorded(client: Client, headers: Headers) -> None:
    Patient.objects.bulk_create([patient(n) for n in range(3)])
    _get(client, headers, "patients", limit="2")
    entry = AuditEntry.objects.get()
    shown = sorted(uid("patient", n) for n in range(3))[:2]
    assert (entry.action, entry.object_type, entry.row_count) == ("list", "patient", 2)
    assert entry.actor_kind == "token"
    assert entry.actor is not None
    assert entry.patient_ids == shown
    assert [UUID(key) for key in entry.object_ids] == shown
    _get(client, headers, f"patients/{shown[0]}")
    entry = AuditEntry.objects.latest("pk")
    assert (entry.action, entry.patient_ids) == ("view", [shown[0]])


def test_whose_orders_a_transaction_holds_is_recorded(client: Client, headers: Headers) -> None:
    Transaction(id=uid("transaction", 1), status="active", **envelope()).save()
    order(1, order_transaction_id=uid("transaction", 1)).save()
    _get(client, headers, "transactions")
    assert AuditEntry.objects.get().patient_ids == [uid("patient", 1)]


def test_the_catalogue_is_no_health_data(client: Client, headers: Headers) -> None:
    _lab(1).save()
    _get(client, headers, "labs")
    assert AuditEntry.objects.count() == 0


@pytest.mark.parametrize("rows", [1, 60])
def test_queries_do_not_grow_with_the_page(
    client: Client, headers: Headers, rows: int, django_assert_num_queries: Any
) -> None:
    Order.objects.bulk_create([order(n) for n in range(rows)])
    OrderEvent.objects.bulk_create(
        OrderEvent(order_id=order(n).pk, event_id=e, created_at=NOW, status="s")
        for n in range(rows)
        for e in range(4)
    )
    Result.objects.bulk_create(Result(order_id=order(n).pk, **envelope()) for n in range(rows))
    _get(client, headers, "labs")
    # Token, roles, page, events, the audit entry in its own transaction (in a test a savepoint).
    with django_assert_num_queries(6):
        _get(client, headers, "orders", limit="50")
    with django_assert_num_queries(9):
        _get(client, headers, "results", limit="50")


def test_the_schema_is_valid_and_names_every_resource(client: Client, headers: Headers) -> None:
    call_command("spectacular", "--validate", "--fail-on-warn", "--file", "/dev/null")
    answer = client.get("/api/schema/", headers=headers)
    assert answer.status_code == 200
    schema = json.loads(answer.content)
    assert schema["openapi"].startswith("3.")
    item = schema["components"]["schemas"]["OrdersItem"]
    order(1).save()
    shown = _get(client, headers, "orders")["results"][0]
    assert item["properties"].keys() == shown.keys()
    assert set(item["required"]) == shown.keys()


def _lab(n: int) -> Lab:
    return Lab(id=n, slug=f"lab-{n}", name=f"Lab {n}", **envelope())


@pytest.mark.parametrize("limit", ["0", "1001", "0000001001", "000001", "1e3", "\u0663", "-1", ""])
def test_a_limit_is_a_number_from_1_to_1000(client: Client, headers: Headers, limit: str) -> None:
    answer = client.get("/api/labs/", {"limit": limit}, headers=headers)
    assert answer.status_code == (200 if limit == "000001" else 400), answer.content
