"""Unmatched results, created by the test endpoint of the sandbox."""

from __future__ import annotations

import uuid
from typing import Any

import httpx

from backoffice.core.service_client import service
from orders.models import Order, UnmatchedResult
from orders.sync.orders import store_orders
from orders.sync.unmatched import store_unmatched
from tests.sandbox.conftest import TEAM_KEY
from tests.sandboxes import Sandbox


def create_unmatched_result(sandbox: Sandbox, case: str, **options: Any) -> str:
    """Create an unmatched result at the sandbox and return its id."""
    headers = {**TEAM_KEY, "x-idempotency-key": str(uuid.uuid4())}
    with httpx.Client(base_url=sandbox.url, headers=headers, timeout=30) as client:
        body = {"case": case, "order_source": "managed", **options}
        run_id = client.post("/v3/unmatched_result_test", json=body).json()["run_id"]
        result = client.get(f"/v3/unmatched_result_test/{run_id}").json()
    assert result["status"] == "succeeded", result
    return str(result["unmatched_result_id"])


def mirrored_unmatched_result(sandbox: Sandbox, case: str, **options: Any) -> UnmatchedResult:
    """Create an unmatched result and mirror it with its candidate orders."""
    item = service().unmatched.get(create_unmatched_result(sandbox, case, **options))
    store_unmatched([item])
    row = UnmatchedResult.objects.get(pk=item.data.id)
    for order_id in row.candidates.values_list("order_id", flat=True):
        if order_id and not Order.objects.filter(pk=order_id).exists():
            store_orders([service().orders.get(order_id)])
    return row
