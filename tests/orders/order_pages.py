"""Helpers for tests of the page of one order."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from django.test import Client
from django.utils import timezone

from orders.models import (
    Order,
    OrderEvent,
    Transaction,
)
from tests.api.rows import envelope, order, uid

RECORD = {
    "details": {
        "type": "testkit",
        "data": {
            "shipment": {
                "outbound_courier": "courier-east",
                "outbound_tracking_number": "TRK-1",
                "outbound_tracking_url": "https://example.com/track/1",
                "inbound_tracking_url": "javascript:alert(1)",
                "notes": "Canary parcel",
            }
        },
    },
    "patient_address": {"receiver_name": "Rec Sample", "first_line": "1 Sample Street"},
    "patient_details": {"phone_number": "+15550100123"},
    "physician": {"first_name": "Pat", "last_name": "Madeup", "npi": "1234567890"},
    "clinical_notes": "Canary note <b>",
    "icd_codes": ["E11.9"],
}


def create_order(n: int = 1, **values: Any) -> Order:
    Transaction(id=uid("transaction", 1), status="active", **envelope()).save()
    row = order(
        n,
        **{
            "order_transaction_id": uid("transaction", 1),
            "method": "testkit",
            "low_level_status": "with_customer",
            "bucket": "with-patient",
            "last_event_at": timezone.now() - timedelta(days=9, minutes=1),
            "patient_first_name": "Maria",
            "patient_last_name": "Testperson",
            "patient_name": "maria testperson",
            "lab_test_name": "Made-up panel",
            **envelope(json.dumps(RECORD)),
            **values,
        },
    )
    row.save()
    return row


def create_events(row: Order, *statuses: str) -> None:
    start = timezone.now() - timedelta(days=20)
    for step, status in enumerate(statuses):
        OrderEvent(
            order_id=row.pk,
            event_id=step,
            created_at=start + timedelta(hours=step),
            status=f"collecting_sample.{row.method}.{status}",
            low_level_status=status,
        ).save()


def get_page(client: Client, row: Order, **query: str) -> Any:
    answer = client.get(f"/orders/{row.pk}/", query)
    assert answer.status_code == 200
    return answer
