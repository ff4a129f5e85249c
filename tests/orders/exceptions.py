"""Helpers for tests of the exception queue."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.test import Client
from django.utils import timezone

from backoffice.accounts.models import User
from orders.exceptions import queue
from orders.exceptions.outcomes import outcome_stamp
from orders.models import Handling, Order
from tests.api.rows import envelope, order, staff

PHOENIX = ZoneInfo("America/Phoenix")


RECORD = {
    "patient_address": {"city": "Phoenix", "state": "AZ", "first_line": "1 Sample Street"},
    "patient_details": {"phone_number": "+15550100123"},
}


BUCKET_OF = {"teleported": "unknown", "with_customer": "with-patient", "completed": "result-in",
           "cancelled": "closed"}  # fmt: skip


GROUP_OF = {
    "lost": "lost", "sample_error": "lost", "lab_processing_blocked": "stuck",
    "problem_in_transit_customer": "delivery", "problem_in_transit_lab": "delivery",
    "failure_to_deliver_to_customer": "delivery", "failure_to_deliver_to_lab": "delivery",
    "redraw_available": "draw", "appointment_cancelled": "draw", "teleported": "unknown",
    "with_customer": "quiet", "completed": "", "cancelled": "",
}  # fmt: skip


def create_order(n: int, low: str = "lost", days_over: float = 3, **values: Any) -> Order:
    now = timezone.now()
    row = order(
        n,
        **{
            "low_level_status": low,
            "bucket": BUCKET_OF.get(low, "needs-action"),
            "method": "testkit",
            "last_event_at": now - timedelta(days=days_over + 1),
            "quiet_at": now - timedelta(days=days_over),
            "patient_first_name": f"Maria{n}",
            "patient_last_name": "Testperson",
            **envelope(json.dumps(RECORD)),
            **values,
        },
    )
    row.save()
    return row


def keys_in_group(group: str) -> list[UUID]:
    return [row.pk for row in queue.group_page(group, timezone.now()).rows]


def count_groups(role: str = "lab coordinator") -> dict[str, int]:
    found = queue.group_counts(timezone.now(), staff(role, f"reader-{User.objects.count()}"))
    return {key: count.value for key, count in found.items() if count.value}


def send_outcome(client: Client, row: Order, outcome: str, **more: Any) -> Any:
    """Send an outcome as a freshly opened page would."""
    last = Handling.objects.filter(pk=row.pk).first()
    given = {"outcome": outcome, "event": row.last_event_id, "seen": outcome_stamp(last), **more}
    group = queue.group_of(row, timezone.now()) or "lost"
    return client.post(f"/exceptions/{group}/{row.pk}/", given)


def pass_time(row: Order, *, after: timedelta) -> None:
    """Shift the last outcome as if this much time had passed since."""
    handling = Handling.objects.get(pk=row.pk)
    handling.until = handling.until - after if handling.until else None
    handling.save()
