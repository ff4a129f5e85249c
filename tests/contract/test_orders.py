"""Calls about orders, results, documents and appointments, against the sandbox's own tables."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from backoffice.service import Service, errors
from backoffice.service.exchange import Document
from backoffice.service.orders import OrderPayload
from tests.sandboxes import Sandbox

TEAM = "7ea00000-0000-4000-8000-000000000001"
NOBODY = UUID(int=0)


def one(sandbox: Sandbox, statement: str, parameters: Any = None) -> Any:
    rows = sandbox.query(statement, parameters)
    assert rows, f"the made-up world has none: {statement}"
    return rows[0][0]


def some_order(sandbox: Sandbox, where: str = "true") -> UUID:
    statement = f"SELECT id FROM sandbox_order o WHERE team_id = '{TEAM}' AND {where}"
    found: UUID = one(sandbox, f"{statement} ORDER BY number LIMIT 1")
    return found


def listed(client: Service, size: int = 100, **asked: Any) -> list[OrderPayload]:
    """All pages."""
    orders: list[OrderPayload] = []
    number = 1
    while True:
        page = client.orders.list(page=number, size=size, **asked)
        assert page.unreadable == [] and page.page == number and page.size == size
        orders += [record.data for record in page.records]
        if number * size >= (page.total or 0):
            assert len(orders) == page.total
            return orders
        number += 1


Asked = tuple[dict[str, Any], str]


def _half(sandbox: Sandbox, column: str) -> datetime:
    moment: datetime = one(
        sandbox,
        f"SELECT {column} FROM sandbox_order WHERE team_id = '{TEAM}'"
        f" ORDER BY {column} OFFSET 450 LIMIT 1",
    )
    return moment


def by_moment(sandbox: Sandbox, name: str, column: str, sign: str) -> Asked:
    moment = _half(sandbox, column)
    return {name: moment}, f"{column} {sign} '{moment.isoformat()}'"


def by_day(sandbox: Sandbox, name: str, sign: str) -> Asked:
    day: date = _half(sandbox, "created_at").astimezone(UTC).date()
    return {name: day}, f"(created_at AT TIME ZONE 'UTC')::date {sign} '{day}'"


def by_value(sandbox: Sandbox, name: str, column: str) -> Asked:
    value = one(
        sandbox,
        f"SELECT {column} FROM sandbox_order WHERE team_id = '{TEAM}' AND {column} IS NOT NULL"
        f" GROUP BY {column} ORDER BY count(*) DESC LIMIT 1",
    )
    return {name: value}, f"{column} = '{value}'"


def by_part(sandbox: Sandbox, name: str, column: str) -> Asked:
    text = one(sandbox, f"SELECT {column} FROM sandbox_order WHERE team_id = '{TEAM}' LIMIT 1")
    part = text[1:6].upper()
    return {name: part}, f"{column} ILIKE '%{part}%'"


def search(sandbox: Sandbox, kind: str) -> Asked:
    row = sandbox.query(
        "SELECT id, user_id, patient_name, patient_dob FROM sandbox_order"
        f" WHERE team_id = '{TEAM}' AND patient_dob IS NOT NULL ORDER BY number OFFSET 40 LIMIT 1"
    )[0]
    key, user, name, born = row
    return {
        "order": ({"search_input": str(key)}, f"id = '{key}'"),
        "user": ({"search_input": str(user)}, f"user_id = '{user}'"),
        "name": (
            {"search_input": name},
            f"(patient_name ILIKE '%{name}%' OR recipient_name ILIKE '%{name}%')",
        ),
        "birth": ({"search_input": str(born)}, f"patient_dob = '{born}'"),
    }[kind]


def several(sandbox: Sandbox, name: str, column: str, count: int, as_text: bool = True) -> Asked:
    values = [
        row[0]
        for row in sandbox.query(
            f"SELECT DISTINCT {column} FROM sandbox_order WHERE team_id = '{TEAM}'"
            f" ORDER BY 1 LIMIT {count}"
        )
    ]
    quoted = ", ".join(f"'{value}'" for value in values)
    return {name: values}, f"{column} IN ({quoted})"


CRITICAL = "interpretation = 'critical'"
FILTERS: dict[str, Any] = {
    "everything": lambda s: ({}, "true"),
    "search_input: order": lambda s: search(s, "order"),
    "search_input: user": lambda s: search(s, "user"),
    "search_input: name": lambda s: search(s, "name"),
    "search_input: birth": lambda s: search(s, "birth"),
    "start_date": lambda s: by_moment(s, "start_date", "created_at", ">="),
    "end_date": lambda s: by_moment(s, "end_date", "created_at", "<="),
    "start_date: day": lambda s: by_day(s, "start_date", ">="),
    "end_date: day": lambda s: by_day(s, "end_date", "<="),
    "updated_start_date": lambda s: by_moment(s, "updated_start_date", "updated_at", ">="),
    "updated_end_date": lambda s: by_moment(s, "updated_end_date", "updated_at", "<="),
    "status": lambda s: several(s, "status", "low_level_status", 3),
    "order_type": lambda s: several(s, "order_type", "method", 2),
    "is_critical": lambda s: ({"is_critical": True}, CRITICAL),
    "is_critical: not": lambda s: ({"is_critical": False}, f"({CRITICAL}) IS NOT TRUE"),
    "interpretation": lambda s: by_value(s, "interpretation", "interpretation"),
    "order_activation_types: current": lambda s: (
        {"order_activation_types": ["current"]},
        "coalesce(activate_by <= (now() AT TIME ZONE 'UTC')::date, true)",
    ),
    "order_activation_types: scheduled": lambda s: (
        {"order_activation_types": ["scheduled"]},
        "activate_by > (now() AT TIME ZONE 'UTC')::date",
    ),
    "order_activation_types: both": lambda s: (
        {"order_activation_types": ["current", "scheduled"]},
        "true",
    ),
    "user_id": lambda s: by_value(s, "user_id", "user_id"),
    "patient_name": lambda s: by_part(s, "patient_name", "patient_name"),
    "shipping_recipient_name": lambda s: by_part(s, "shipping_recipient_name", "recipient_name"),
    "order_ids": lambda s: several(s, "order_ids", "id", 7),
    "order_transaction_id": lambda s: by_value(s, "order_transaction_id", "transaction_id"),
}


@pytest.mark.parametrize("name", FILTERS)
def test_orders_list(client: Service, asked_sandbox: Sandbox, name: str) -> None:
    """Every filter of the list, newest first unless asked otherwise."""
    asked, where = FILTERS[name](asked_sandbox)
    rows = asked_sandbox.query(
        f"SELECT id FROM sandbox_order WHERE team_id = '{TEAM}' AND {where} ORDER BY seq DESC"
    )
    assert rows, "a filter that finds nothing proves nothing"
    assert [order.id for order in listed(client, **asked)] == [row[0] for row in rows]


def test_orders_list_names_every_parameter() -> None:
    """The filters above are all there are."""
    import inspect

    parameters = set(inspect.signature(Service("http://a", "sk_b").orders.list).parameters)
    tried = {name.partition(":")[0] for name in FILTERS} - {"everything"}
    assert parameters - tried == {"page", "size", "order_key", "order_direction"}


@pytest.mark.parametrize("direction", ["asc", "desc"])
@pytest.mark.parametrize(
    ("key", "column"),
    [("created_at", "seq"), ("patient_name", "patient_name"), ("last_status", "low_level_status")],
)
def test_orders_list_sorted(
    client: Service, asked_sandbox: Sandbox, key: str, column: str, direction: str
) -> None:
    orders = listed(client, order_key=key, order_direction=direction)
    values = dict(asked_sandbox.query(f"SELECT id, {column} FROM sandbox_order"))
    found = [values[order.id] for order in orders]
    assert len(orders) >= 900
    if key == "last_status":
        # The order of statuses is the service's; equal ones stand together.
        groups = [
            value for value, before in zip(found, [None, *found], strict=False) if value != before
        ]
        assert len(groups) == len(set(groups)) > 5
    else:
        assert found == sorted(found, reverse=direction == "desc")


@pytest.mark.parametrize("size", [1, 7, 100])
def test_orders_list_pages(client: Service, asked_sandbox: Sandbox, size: int) -> None:
    total = one(asked_sandbox, f"SELECT count(*) FROM sandbox_order WHERE team_id = '{TEAM}'")
    last = -(-total // size)
    first, middle, end, past = (
        client.orders.list(page=number, size=size) for number in (1, 3, last, last + 1)
    )
    assert {page.total for page in (first, middle, end, past)} == {total}
    assert len(first.records) == size and len(end.records) == total - (last - 1) * size
    assert past.records == []
    assert first.server_date is not None
    assert abs(first.server_date - first.asked_at) < timedelta(seconds=5)


def test_orders_get(client: Service, asked_sandbox: Sandbox) -> None:
    """One order of each method, its dotted status, history and transaction."""
    for method in ("testkit", "walk_in_test", "at_home_phlebotomy", "on_site_collection"):
        key = some_order(asked_sandbox, f"method = '{method}'")
        order = client.orders.get(key).data
        row = asked_sandbox.query(
            "SELECT o.user_id, o.status, o.low_level_status, o.created_at, o.updated_at, o.origin,"
            " o.transaction_id, o.billing_type, o.lab_test_id, o.patient_dob, t.name, l.slug"
            " FROM sandbox_order o JOIN sandbox_labtest t ON t.id = o.lab_test_id"
            " JOIN sandbox_lab l ON l.id = t.lab_id WHERE o.id = %s",
            [key],
        )[0]
        assert order.order_transaction is not None and order.lab_test.lab is not None
        event = order.latest_event
        assert event is not None and order.patient_details is not None
        assert (
            order.user_id,
            event.status,
            event.status.rpartition(".")[2],
            order.created_at,
            order.updated_at,
            order.origin,
            order.order_transaction.id,
            order.billing_type,
            order.lab_test.id,
            order.patient_details.dob,
            order.lab_test.name,
            order.lab_test.lab.slug,
        ) == row
        events = asked_sandbox.query(
            "SELECT e.id, e.created_at, e.status, e.status_detail FROM sandbox_orderevent e"
            " JOIN sandbox_order o ON o.number = e.order_id WHERE o.id = %s ORDER BY e.id",
            [key],
        )
        assert [(e.id, e.created_at, e.status, e.status_detail) for e in order.events] == events
        assert order.lab_test.method == order.details.type == method
        assert len(order.lab_test.markers) > 0


def test_orders_transaction(client: Service, asked_sandbox: Sandbox) -> None:
    key = one(
        asked_sandbox,
        f"SELECT transaction_id FROM sandbox_order WHERE team_id = '{TEAM}'"
        " GROUP BY 1 ORDER BY count(*) DESC LIMIT 1",
    )
    group = client.orders.transaction(key).data
    rows = asked_sandbox.query(
        "SELECT o.id, o.low_level_status, o.last_event_at, o.origin, o.parent_id, o.created_at,"
        " o.updated_at FROM sandbox_order o WHERE transaction_id = %s ORDER BY seq",
        [key],
    )
    assert len(rows) > 1, "a redraw is wanted"
    assert [
        (o.id, o.last_status, o.last_status_created_at, o.origin, o.parent_id, o.created_at,
         o.updated_at) for o in group.orders
    ] == rows  # fmt: skip
    assert str(group.team_id) == TEAM
    assert group.status == one(
        asked_sandbox, "SELECT status FROM sandbox_ordertransaction WHERE id = %s", [key]
    )


# Results


def result_orders(sandbox: Sandbox) -> Iterable[UUID]:
    """A partial, a final, a corrected and a critical one, and one with values missing."""
    for where in (
        "result_status = 'partial'",
        "result_status = 'final'",
        "low_level_status = 'corrected'",
        "interpretation = 'critical'",
        "has_missing_results AND result_version > 0",
    ):
        yield some_order(sandbox, where)


def test_orders_result(client: Service, asked_sandbox: Sandbox) -> None:
    """Every expected result of the test that is no reflex is there, as a value or as missing."""
    for key in result_orders(asked_sandbox):
        result = client.orders.result(key).data
        lines, missing = result.results, result.missing_results or []
        expected = asked_sandbox.query(
            "SELECT e.slug, e.required FROM sandbox_expectedresult e"
            " JOIN sandbox_labtestmarker m ON m.marker_id = e.marker_id"
            " JOIN sandbox_order o ON o.lab_test_id = m.lab_test_id WHERE o.id = %s",
            [key],
        )
        told = [line.slug for line in lines] + [gap.slug for gap in missing]
        assert len(told) == len(set(told)) > 0
        assert {slug for slug, required in expected if required} <= set(told)
        status, interpretation = asked_sandbox.query(
            "SELECT result_status, interpretation FROM sandbox_order WHERE id = %s", [key]
        )[0]
        assert (result.metadata.status, result.metadata.interpretation) == (status, interpretation)
        if interpretation:
            assert interpretation in {line.interpretation for line in lines}
        assert all(line.result and line.timestamp for line in lines)
        assert result.order_transaction is not None


# Documents


def read(opened: AbstractContextManager[Document]) -> bytes:
    with opened as document:
        body = b"".join(document)
        assert document.content_type == "application/pdf"
        assert document.length is None or document.length == len(body)
    assert body.startswith(b"%PDF-") and body.rstrip().endswith(b"%%EOF")
    return body


def test_orders_result_pdf(client: Service, asked_sandbox: Sandbox) -> None:
    key = some_order(asked_sandbox, "result_version > 0")
    assert str(key).encode() in read(client.orders.result_pdf(key))


def test_orders_transaction_result_pdf(client: Service, asked_sandbox: Sandbox) -> None:
    key = one(
        asked_sandbox,
        f"SELECT transaction_id FROM sandbox_order WHERE team_id = '{TEAM}' AND result_version > 0"
        " LIMIT 1",
    )
    assert str(key).encode() in read(client.orders.transaction_result_pdf(key))


@pytest.mark.parametrize("count", [1, 3])
def test_orders_labels_pdf(client: Service, asked_sandbox: Sandbox, count: int) -> None:
    key = some_order(asked_sandbox)
    at = datetime(2026, 6, 1, 15, 30, tzinfo=UTC)
    body = read(client.orders.labels_pdf(key, at, count))
    assert body.count(b"(Specimen label)") == count and b"2026-06-01 15:30" in body


def test_orders_requisition_pdf(client: Service, asked_sandbox: Sandbox) -> None:
    key = some_order(asked_sandbox, "has_requisition AND NOT imported")
    assert str(key).encode() in read(client.orders.requisition_pdf(key))
    with (
        pytest.raises(errors.Missing),
        client.orders.requisition_pdf(some_order(asked_sandbox, "NOT has_requisition")),
    ):
        pass


def test_orders_abn_pdf(client: Service, asked_sandbox: Sandbox) -> None:
    key = some_order(asked_sandbox, "has_abn")
    assert str(key).encode() in read(client.orders.abn_pdf(key))
    assert client.orders.get(key).data.has_abn
    with (
        pytest.raises(errors.Missing),
        client.orders.abn_pdf(some_order(asked_sandbox, "NOT has_abn")),
    ):
        pass


def test_orders_collection_instruction_pdf(client: Service, asked_sandbox: Sandbox) -> None:
    key, name = asked_sandbox.query(
        "SELECT o.id, t.name FROM sandbox_order o JOIN sandbox_labtest t ON t.id = o.lab_test_id"
        f" WHERE o.team_id = '{TEAM}' AND t.has_collection_instructions LIMIT 1"
    )[0]
    assert name.encode() in read(client.orders.collection_instruction_pdf(key))
