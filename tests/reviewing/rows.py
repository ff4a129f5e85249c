"""Orders and results of fictional patients, as the mirror stores them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from orders.models import Order, OrderEvent, Result, ResultMarker
from orders.sync.result_versions import store_versions
from tests.api.rows import NOW, envelope, order, uid

Line = tuple[str, str, str]
"""Name, text, interpretation."""


def make_order(n: int, **values: Any) -> Order:
    """Create a completed order."""
    row = order(
        n,
        **{
            "low_level_status": "completed",
            "bucket": "result-in",
            "lab_slug": "made-up-lab",
            "lab_test_name": "Made-up panel",
            "patient_first_name": "Maria",
            "patient_last_name": "Testperson",
            "patient_name": "maria testperson",
            "method": "walk_in_test",
            **values,
        },
    )
    row.save()
    return row


def receive_result(
    order_id: UUID,
    *lines: Line,
    status: str = "final",
    missing: tuple[str, ...] = (),
    store_version: bool = True,
    **values: Any,
) -> None:
    """Store a result of an order as if it had been received."""
    flags = {line[2] for line in lines}
    worst = next((one for one in ("critical", "abnormal") if one in flags), "normal")
    fields = {
        "status": status,
        "interpretation": worst,
        "returned": len(lines),
        "missing": len(missing),
        **envelope(),
        **values,
    }
    Result.objects.update_or_create(order_id=order_id, defaults=fields)
    ResultMarker.objects.filter(result_id=order_id).delete()
    for position, (name, text, flag) in enumerate(lines):
        number = text.replace(".", "", 1).isdigit()
        ResultMarker(
            result_id=order_id,
            position=position,
            name=name,
            slug=name.lower(),
            loinc_slug=name.lower(),
            text=text,
            value=float(text) if number else -1,
            type="numeric" if number else "comment",
            unit="mmol/L" if number else None,
            min_range_value=3 if number else None,
            max_range_value=5 if number else None,
            reference_range="3-5" if number else None,
            interpretation=flag,
            is_above_max_range=number and float(text) > 5,
            is_below_min_range=number and float(text) < 3,
            timestamp=NOW,
        ).save()
    for position, name in enumerate(missing, len(lines)):
        ResultMarker(
            result_id=order_id,
            position=position,
            name=name,
            slug=name.lower(),
            is_missing=True,
            failure_type="quantity_not_sufficient_failure",
        ).save()
    if store_version:
        store_versions([order_id])


def announce_correction(order_id: UUID) -> None:
    """Add the event with which the service announces a correction."""
    step = OrderEvent.objects.filter(order_id=order_id).count() + 1
    OrderEvent(
        order_id=order_id,
        event_id=step,
        created_at=NOW,
        status="completed.walk_in_test.corrected",
        low_level_status="corrected",
    ).save()
    store_versions([order_id])


__all__ = ["announce_correction", "make_order", "receive_result", "uid"]
