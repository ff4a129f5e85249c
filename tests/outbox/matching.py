"""Results that nobody could match, made by the sandbox's harness."""

from __future__ import annotations

import uuid
from typing import Any

import httpx

from backoffice.core.service_client import service
from orders.models import Order, UnmatchedResult
from orders.sync.orders import store_orders
from orders.unmatched.sync import store_unmatched
from tests.sandbox.conftest import TEAM_KEY
from tests.sandboxes import Sandbox


def make(sandbox: Sandbox, case: str, **more: Any) -> str:
    """The id of a new one."""
    heads = {**TEAM_KEY, "x-idempotency-key": str(uuid.uuid4())}
    with httpx.Client(base_url=sandbox.url, headers=heads, timeout=30) as client:
        body = {"case": case, "order_source": "managed", **more}
        run = client.post("/v3/unmatched_result_test", json=body).json()["run_id"]
        made = client.get(f"/v3/unmatched_result_test/{run}").json()
    assert made["status"] == "succeeded", made
    return str(made["unmatched_result_id"])


def unmatched(sandbox: Sandbox, case: str, **more: Any) -> UnmatchedResult:
    """A new one, as the mirror has it, with the orders it may belong to."""
    item = service().unmatched.get(make(sandbox, case, **more))
    store_unmatched([item])
    row = UnmatchedResult.objects.get(pk=item.data.id)
    for order_id in row.candidates.values_list("order_id", flat=True):
        if order_id and not Order.objects.filter(pk=order_id).exists():
            store_orders([service().orders.get(order_id)])
    return row
