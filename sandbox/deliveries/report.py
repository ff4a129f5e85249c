"""Figures about what has been sent so far. `sandbox_message` has every single message."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.db.models import Count, Q, Sum

from sandbox.deliveries import faults
from sandbox.models import Message, WebhookEndpoint

STATES = ("pending", "delivered", "failed")
SUMS = ("attempts", "copies", "forged", "stale", "swallowed")


def report() -> dict[str, Any]:
    """Return the active faults, messages by state, requests by kind, and the endpoints."""
    counts = Message.objects.aggregate(
        messages=Count("number"),
        **{state: Count("number", filter=Q(state=state)) for state in STATES},
        # A copy still to come: the message itself has arrived.
        repeating=Count("number", filter=Q(state="pending", ended_at__isnull=False)),
        altered=Count("number", filter=Q(altered=True)),
        **{name: Sum(name, default=0) for name in SUMS},
    )
    return {
        "faults": asdict(faults.current_faults()),
        "sent": counts,
        "endpoints": [
            {"id": each.id, "url": each.url, "disabled": each.disabled}
            for each in WebhookEndpoint.objects.order_by("created_at", "id")
        ],
    }
