"""The histories of generated orders: their steps and their record.

What follows from the steps alone (stage, bucket, usual spelling and so on) is not written here: the
function that promotes a real order is called once for each history.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from backoffice.mirror.tables import RowValues
from backoffice.service import Record
from backoffice.service.orders import ORDER
from orders.sync import orders as orders_sync
from patients.search_keys import name_key

METHODS: Final = {
    "testkit": 55,
    "walk_in_test": 25,
    "at_home_phlebotomy": 15,
    "on_site_collection": 5,
}
"""Percentages."""

STAGES: Final = {
    "received": "ordered awaiting_registration requisition_created requisition_bypassed",
    "collecting_sample": "transit_customer out_for_delivery with_customer registered"
    " appointment_pending appointment_scheduled appointment_cancelled draw_completed transit_lab"
    " problem_in_transit_customer problem_in_transit_lab",
    "sample_with_lab": "delivered_to_lab partial_results lab_processing_blocked",
    "completed": "completed corrected",
    "cancelled": "cancelled do_not_process",
    "failed": "failure_to_deliver_to_customer failure_to_deliver_to_lab lost sample_error"
    " redraw_available",
}
STAGE_OF: Final = {low: stage for stage, lows in STAGES.items() for low in lows.split()}

_KIT = (
    "ordered requisition_created transit_customer out_for_delivery with_customer transit_lab"
    " delivered_to_lab completed"
)
_WALK = (
    "ordered requisition_created appointment_pending appointment_scheduled draw_completed"
    " delivered_to_lab completed"
)
_OPEN_WALK = "ordered requisition_created draw_completed delivered_to_lab completed"
_HOME = (
    "ordered requisition_created appointment_pending appointment_scheduled draw_completed"
    " transit_lab delivered_to_lab completed"
)
_SITE = "ordered requisition_created draw_completed transit_lab delivered_to_lab completed"
PLANS: Final = {
    "testkit": [(_KIT, 1)],
    "walk_in_test": [(_WALK, 3), (_OPEN_WALK, 1)],
    "at_home_phlebotomy": [(_HOME, 1)],
    "on_site_collection": [(_SITE, 1)],
}
MOST_STEPS: Final = 10

DETAILS: Final = (
    "sample_hemolyzed",
    "sample_quantity_not_sufficient",
    "demographic_information_mismatch",
)


@dataclass(frozen=True)
class OrderHistory:
    """One way an order can go, and the share of orders with this history."""

    method: str
    steps: tuple[str, ...]
    weight: float
    open: bool
    interpretation: str | None = None
    detail: str | None = None
    scheduled: bool = False

    @property
    def hours(self) -> int:
        """The hours from the first step to the last."""
        return 20 * len(self.steps)

    @property
    def visit(self) -> str | None:
        """The status of the order's appointment."""
        if "appointment_pending" not in self.steps:
            return None
        final_states = {"appointment_cancelled": "cancelled", "cancelled": "cancelled"}
        booked = "confirmed" if "appointment_scheduled" in self.steps else "pending"
        if "draw_completed" in self.steps:
            return "completed"
        return final_states.get(self.steps[-1], booked)

    @property
    def has_sample(self) -> bool:
        return bool({"transit_lab", "delivered_to_lab", "draw_completed"} & set(self.steps))

    @property
    def result_status(self) -> str | None:
        if {"completed", "corrected"} & set(self.steps):
            return "final"
        return "partial" if "partial_results" in self.steps else None

    def record(self) -> dict[str, Any]:
        """Return an order with `format` placeholders: see the columns of `rows.INSERT_ORDERS`."""
        events = [
            {
                "id": f"<%17$s{position:02d}>",
                "created_at": f"%{25 + position}$s",
                "status": f"{STAGE_OF[low]}.{self.method}.{low}",
                "status_detail": self.detail if position == len(self.steps) - 1 else None,
            }
            for position, low in enumerate(self.steps)
        ]
        address = {
            "receiver_name": "%3$s %4$s",
            "first_line": "%9$s",
            "second_line": None,
            "city": "%10$s",
            "state": "%11$s",
            "zip": "%12$s",
            "country": "US",
        }
        data: dict[str, Any] = {"id": "%1$s", "created_at": "%15$s", "updated_at": "%16$s"}
        if self.visit:
            data["appointment_id"] = "%24$s"
        if self.method == "testkit" and "transit_customer" in self.steps:
            is_returned = "transit_lab" in self.steps
            data["shipment"] = {
                "outbound_tracking_number": "OUT000%17$s",
                "inbound_tracking_number": "INB000%17$s" if is_returned else None,
            }
        return {
            "id": "%1$s",
            "team_id": "7ea00000-0000-4000-8000-000000000001",
            "user_id": "%2$s",
            "patient_details": {
                "first_name": "%3$s",
                "last_name": "%4$s",
                "dob": "%5$s",
                "gender": "%6$s",
                "phone_number": "%7$s",
                "email": "%8$s",
            },
            "patient_address": address,
            "lab_test": "<%13$s>",
            "details": {"type": self.method, "data": data},
            "sample_id": "<%14$s>",
            "notes": None,
            "created_at": "%15$s",
            "updated_at": "%16$s",
            "events": events,
            "last_event": events[-1],
            "status": STAGE_OF[self.steps[-1]],
            "physician": {"first_name": "Dora", "last_name": "Madeup", "npi": "1234567893"},
            "health_insurance_id": None,
            "requisition_form_url": None,
            "priority": "<%21$s>",
            "shipping_details": None,
            "activate_by": "<%22$s>",
            "billing_type": "client_bill",
            "icd_codes": ["Z00.00"],
            "has_abn": False,
            "interpretation": self.interpretation,
            "has_missing_results": False if self.result_status else None,
            "expected_result_by_date": "%23$s",
            "worst_case_result_by_date": None,
            "origin": "%20$s",
            "order_transaction": {"id": "%18$s", "status": "active", "orders": "<%19$s>"},
        }

    def text(self) -> str:
        return as_format(self.record())

    def promoted(self) -> RowValues:
        """Return the columns that follow from the history alone, from the function that real orders
        go through."""
        filled = self.text()
        for number, value in EXAMPLE_VALUES.items():
            filled = filled.replace(f"%{number}$s", value)
        read = ORDER.read(filled.encode(), datetime.now(UTC))
        assert isinstance(read, Record), read
        values = orders_sync.ORDERS.promote(orders_sync.mirror_record_of(read))
        names = (
            *("last_status", "status", "low_level_status", "status_detail", "bucket", "method"),
            *("interpretation", "has_missing_results", "billing_type", "has_abn"),
        )
        return {name: values[name] for name in names}


EXAMPLE_VALUES: Final = {
    **dict.fromkeys(range(25 + MOST_STEPS, 24, -1), "2026-01-02T03:04:05+00:00"),
    **dict.fromkeys((24, 18, 1, 2), "00000000-0000-4000-8000-000000000001"),
    **dict.fromkeys((3, 4, 6, 7, 8, 9, 10, 11, 12), "A"),
    5: "1980-01-01",
    13: '{"id":"00000000-0000-4000-8000-000000000001","name":"A","method":""}',
    14: "null",
    15: "2026-01-02T03:04:05+00:00",
    16: "2026-01-02T03:04:05+00:00",
    17: "1",
    19: "[]",
    20: "initial",
    21: "false",
    22: "null",
    23: "2026-01-02",
}


def as_format(record: dict[str, Any]) -> str:
    """Return JSON.

    `"<%1$s>"` becomes a placeholder without quotes, for values that have their own or need none.
    """
    return json.dumps(record, ensure_ascii=False).replace('"<%', "%").replace('>"', "")


def order_histories() -> list[OrderHistory]:
    """Return all histories.

    The weights of the open ones and of the others are each shares of a total.
    """
    histories = []
    for method, share in METHODS.items():
        for plan, plan_weight in PLANS[method]:
            plan_share = share * plan_weight / sum(weight for _, weight in PLANS[method])
            histories += _closed_histories(method, tuple(plan.split()), plan_share)
            histories += _open_histories(method, tuple(plan.split()), plan_share)
    return histories


def _closed_histories(method: str, steps: tuple[str, ...], share: float) -> list[OrderHistory]:
    interpretations = {"normal": 0.70, "abnormal": 0.2, "critical": 0.008, "unknown": 0.012}
    histories = [
        OrderHistory(method, steps, share * part, False, interpretation)
        for interpretation, part in interpretations.items()
    ]
    corrected = (*steps, "corrected")
    return [
        *histories,
        OrderHistory(method, corrected, share * 0.015, False, "abnormal"),
        OrderHistory(method, (*steps[:2], "cancelled"), share * 0.05, False),
        OrderHistory(method, (*steps[:-2], "cancelled"), share * 0.01, False),
        OrderHistory(method, (*steps[:-1], "sample_error"), share * 0.01, False, None, DETAILS[0]),
        OrderHistory(method, (*steps[:1], "do_not_process"), share * 0.005, False),
    ]


def _open_histories(method: str, steps: tuple[str, ...], share: float) -> list[OrderHistory]:
    histories = [
        OrderHistory(method, steps[:reached], share * 0.83 / (len(steps) - 1), True)
        for reached in range(1, len(steps))
    ]
    histories += [
        OrderHistory(method, (*steps[:-1], "partial_results"), share * 0.03, True, "normal"),
        OrderHistory(method, (*steps[:-1], "partial_results"), share * 0.002, True, "critical"),
        OrderHistory(
            method, (*steps[:-1], "lab_processing_blocked"), share * 0.01, True, None, DETAILS[2]
        ),
        OrderHistory(method, (*steps[:-1], "sample_error"), share * 0.02, True, None, DETAILS[0]),
        OrderHistory(method, (*steps[:-1], "sample_error"), share * 0.02, True, None, DETAILS[1]),
        OrderHistory(method, (*steps[:-1], "redraw_available"), share * 0.01, True),
        OrderHistory(method, steps[:1], share * 0.02, True, scheduled=True),
    ]
    if "appointment_scheduled" in steps:
        step_count = steps.index("appointment_scheduled") + 1
        histories.append(
            OrderHistory(method, (*steps[:step_count], "appointment_cancelled"), share * 0.03, True)
        )
    elif method == "testkit":
        histories += [
            OrderHistory(method, (*steps[:3], "problem_in_transit_customer"), share * 0.02, True),
            OrderHistory(method, (*steps[:5], "lost"), share * 0.01, True),
        ]
    return histories


NAME_KEY_HAS_TWO_PARTS: Final = name_key("De É", "O Ñ") == "de e o n  dee on"
assert NAME_KEY_HAS_TWO_PARTS, "name keys no longer have two parts (see `rows.PEOPLE`)"
