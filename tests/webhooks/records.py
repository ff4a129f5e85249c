"""Made-up records as events carry them. Knows no Django: the long proofs use it too."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

TEAM = "7ea00000-0000-4000-8000-000000000001"
USER = "0a5e0000-0000-4000-8000-000000000001"
START = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
STEPS = (
    "received.walk_in_test.ordered",
    "received.walk_in_test.requisition_created",
    "collecting_sample.walk_in_test.appointment_pending",
    "collecting_sample.walk_in_test.appointment_scheduled",
    "sample_with_lab.walk_in_test.partial_results",
    "completed.walk_in_test.completed",
)

OUR_TEAM = f"""
INSERT INTO patients_patient (id, team_id, client_user_id, created_on, record, content_hash, as_of)
VALUES ('0a5e0000-0000-4000-8000-00000000ffff', '{TEAM}', 'made-up-somebody', now(), '{{}}', 'x',
 now()) ON CONFLICT DO NOTHING
"""
"""A patient read from the service: from then on it is known which team is ours."""


def order_id(number: int) -> str:
    return f"5ad1f000-0000-4000-8000-{number:012d}"


def at(minutes: float) -> str:
    return (START + timedelta(minutes=minutes)).isoformat()


def order(number: int, steps: int, **changed: Any) -> dict[str, Any]:
    """Order `number` after its first `steps` steps, an hour apart."""
    events = [
        {"id": number * 100 + step, "created_at": at(60 * step), "status": STEPS[step]}
        for step in range(steps)
    ]
    whole = {
        "id": order_id(number),
        "user_id": USER,
        "team_id": TEAM,
        "patient_details": {"first_name": "Made", "last_name": "Up", "dob": "1980-01-01"},
        "patient_address": None,
        "lab_test": {"id": order_id(999), "name": "Made-up panel", "method": "walk_in_test"},
        "details": {"type": "walk_in_test", "data": {"id": order_id(998)}},
        "sample_id": None,
        "notes": None,
        "created_at": at(0),
        "updated_at": at(60 * (steps - 1)),
        "events": events,
        "last_event": events[-1] if events else None,
        "status": STEPS[steps - 1].partition(".")[0],
        "health_insurance_id": None,
        "requisition_form_url": None,
        "priority": False,
        "has_abn": False,
    }
    return {**whole, **changed}
