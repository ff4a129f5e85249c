"""Results of orders and of groups (orders.md 8)."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse, StreamingHttpResponse

from sandbox import results
from sandbox.api.calls import ApiRequest, Call
from sandbox.api.errors import Refusal
from sandbox.api.orders import find_order, find_transaction, transaction_ref
from sandbox.api.pdf_files import pdf
from sandbox.api.responses import PDF, json_response, pdf_response
from sandbox.api.snapshot import snapshot
from sandbox.models import Order

_ROWS_ON_A_PAGE = 45

Record = dict[str, Any]


def _find(api_request: ApiRequest) -> Order:
    """The order in the path; 404 while it has no result, partial ones included."""
    order = find_order(api_request, "lab_test__lab", "lab_account")
    if not results.has_result(order):
        raise Refusal(404, "This order has no result yet")
    return order


def _result(order: Order) -> Record:
    return {**results.result_record(order), "order_transaction": transaction_ref(order)}


def order_result(api_request: ApiRequest) -> HttpResponse:
    with snapshot():
        return json_response(_result(_find(api_request)))


def order_result_metadata(api_request: ApiRequest) -> HttpResponse:
    with snapshot():
        return json_response(results.metadata_record(_find(api_request)))


def _group(api_request: ApiRequest) -> list[Order]:
    """The group's orders with results, oldest first; 404 without any."""
    transaction = find_transaction(api_request)
    orders = transaction.orders.select_related("lab_test__lab", "lab_account").order_by("seq")
    found = [order for order in orders if results.has_result(order)]
    if not found:
        raise Refusal(404, "This order transaction has no result yet")
    return found


def _key(row: Record) -> tuple[object, object]:
    return row["slug"], row["provider_id"]


def _combined(orders: list[Order]) -> Record:
    """One result of all orders: a later one replaces what it repeats and fills what was missing."""
    rows: dict[tuple[object, object], Record] = {}
    missing: dict[tuple[object, object], Record] = {}
    samples: Record = {}
    latest: Record = {}
    for order in orders:
        latest = _result(order)
        for row in latest["results"]:
            rows[_key(row)] = row
            missing.pop(_key(row), None)
        missing |= {_key(row): row for row in latest["missing_results"] if _key(row) not in rows}
        samples |= latest["sample_information"]
    return {
        **latest,
        "results": list(rows.values()),
        "missing_results": list(missing.values()),
        "sample_information": samples,
    }


def group_result(api_request: ApiRequest) -> HttpResponse:
    with snapshot():
        return json_response(_combined(_group(api_request)))


def _report(result: Record, about: str) -> bytes:
    lines = [
        f"{row['name']}: {row['result']} {row['unit'] or ''} ({row['interpretation']})"
        for row in result["results"]
    ]
    head = ["Laboratory report", about, f"Status {result['metadata']['status']}", ""]
    parts = [
        lines[start : start + _ROWS_ON_A_PAGE]
        for start in range(0, max(1, len(lines)), _ROWS_ON_A_PAGE)
    ]
    return pdf([head + part for part in parts])


def order_result_pdf(api_request: ApiRequest) -> StreamingHttpResponse:
    with snapshot():
        order = _find(api_request)
        document = _report(_result(order), f"Order {order.id}")
    return pdf_response(document, "result.pdf")


def group_result_pdf(api_request: ApiRequest) -> StreamingHttpResponse:
    with snapshot():
        orders = _group(api_request)
        document = _report(_combined(orders), f"Order transaction {orders[0].transaction_id}")
    return pdf_response(document, "result.pdf")


CALLS = (
    Call("GET", "/v3/order/{order_id}/result", order_result, "Result of an order"),
    Call(
        "GET",
        "/v3/order/{order_id}/result/metadata",
        order_result_metadata,
        "Header of an order's result",
    ),
    Call(
        "GET",
        "/v3/order/{order_id}/result/pdf",
        order_result_pdf,
        "Report of an order",
        produces=PDF,
    ),
    Call(
        "GET",
        "/v3/order_transaction/{transaction_id}/result",
        group_result,
        "Combined result of a group",
    ),
    Call(
        "GET",
        "/v3/order_transaction/{transaction_id}/result/pdf",
        group_result_pdf,
        "Combined report of a group",
        produces=PDF,
    ),
)
