"""What must hold in the sandbox's database at every moment."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from tests.sandboxes import Sandbox

Step = tuple[str, bool, str, str]
"""method, registrable, from, to"""

# Exits of orders.md 4.1 by method; registrable kits have more.
KIT_SHIPPED = {
    "transit_customer": {
        "out_for_delivery",
        "failure_to_deliver_to_customer",
        "problem_in_transit_customer",
    },
    "out_for_delivery": {"with_customer", "failure_to_deliver_to_customer"},
    "problem_in_transit_customer": {
        "out_for_delivery",
        "with_customer",
        "failure_to_deliver_to_customer",
        "lost",
    },
    "transit_lab": {"delivered_to_lab", "failure_to_deliver_to_lab", "problem_in_transit_lab"},
    "problem_in_transit_lab": {"delivered_to_lab", "failure_to_deliver_to_lab", "lost"},
    "delivered_to_lab": {"completed", "sample_error", "lab_processing_blocked"},
    "lab_processing_blocked": {"completed", "sample_error"},
    "completed": {"corrected"},
}
ALLOWED: dict[tuple[str, bool], dict[str, set[str]]] = {
    ("testkit", False): {
        "ordered": {"requisition_created", "cancelled", "do_not_process"},
        "requisition_created": {"transit_customer", "cancelled", "do_not_process"},
        "requisition_bypassed": {"transit_customer", "cancelled", "do_not_process"},
        "with_customer": {"transit_lab"},
        **KIT_SHIPPED,
    },
    ("testkit", True): {
        "ordered": {"awaiting_registration", "cancelled"},
        "awaiting_registration": {"transit_customer", "cancelled", "registered"},
        "with_customer": {"registered"},
        "registered": {"requisition_created", "cancelled"},
        "requisition_created": {"transit_lab"},
        **KIT_SHIPPED,
    },
    ("walk_in_test", False): {
        "ordered": {"requisition_created", "cancelled"},
        "requisition_created": {
            "appointment_pending",
            "partial_results",
            "cancelled",
            "completed",
            "redraw_available",
            "sample_error",
        },
        "requisition_bypassed": {
            "appointment_pending",
            "partial_results",
            "cancelled",
            "completed",
            "redraw_available",
            "sample_error",
        },
        "appointment_pending": {"appointment_scheduled", "appointment_cancelled", "cancelled"},
        "appointment_scheduled": {
            "appointment_pending",
            "appointment_cancelled",
            "appointment_scheduled",
            "partial_results",
            "completed",
            "cancelled",
            "redraw_available",
            "sample_error",
        },
        "appointment_cancelled": {"appointment_pending", "cancelled"},
        "partial_results": {"partial_results", "completed", "redraw_available"},
        "completed": {"corrected"},
    },
    ("at_home_phlebotomy", False): {
        "ordered": {"requisition_created", "cancelled"},
        "requisition_created": {"appointment_pending", "cancelled"},
        "requisition_bypassed": {"appointment_pending", "cancelled"},
        "appointment_pending": {"appointment_scheduled", "appointment_cancelled", "cancelled"},
        "appointment_scheduled": {
            "appointment_scheduled",
            "appointment_cancelled",
            "draw_completed",
            "cancelled",
        },
        "appointment_cancelled": {"appointment_pending", "appointment_scheduled", "cancelled"},
        "draw_completed": {"partial_results", "completed", "cancelled", "sample_error"},
        "partial_results": {"partial_results", "completed"},
        "completed": {"corrected"},
    },
    ("on_site_collection", False): {
        "ordered": {"requisition_created", "cancelled"},
        "requisition_created": {"draw_completed", "cancelled"},
        "requisition_bypassed": {"draw_completed", "cancelled"},
        "draw_completed": {"partial_results", "completed", "cancelled", "sample_error"},
        "partial_results": {"partial_results", "completed"},
        "completed": {"corrected"},
    },
}


def histories(sandbox: Sandbox) -> set[Step]:
    """Checks every history against orders.md 4.1; the steps that were taken."""
    rows = sandbox.query(
        "SELECT o.number, o.method, o.registrable, array_agg(e.status ORDER BY e.id), "
        "array_agg(e.created_at ORDER BY e.id), o.status, o.low_level_status "
        "FROM sandbox_order o JOIN sandbox_orderevent e ON e.order_id = o.number GROUP BY o.number"
    )
    seen: set[Step] = set()
    for number, method, registrable, statuses, moments, status, low in rows:
        assert statuses[-1] == status
        assert moments == sorted(set(moments)), number
        lows = [each.split(".")[2] for each in statuses]
        assert all(each.split(".")[1] == method for each in statuses)
        assert lows[-1] == low
        assert lows[0] in ("ordered", "requisition_bypassed")
        for before, after in pairwise(lows):
            assert after in ALLOWED[method, registrable].get(before, set()), (
                number,
                method,
                before,
                after,
            )
            seen.add((method, registrable, before, after))
    return seen


def records(sandbox: Sandbox) -> None:
    """Checks that the JSON kept for every order says what the rows say."""
    rows = sandbox.query(
        "SELECT o.fixed_part, o.moving_part, o.id::text, o.updated_at, o.created_at, o.status, "
        "o.sample_id, o.interpretation, t.status, t.id::text, o.user_id::text, "
        "(SELECT count(*) FROM sandbox_orderevent e WHERE e.order_id = o.number), "
        "(SELECT a.id::text FROM sandbox_appointment a WHERE a.order_id = o.number "
        " AND a.is_current), o.method "
        "FROM sandbox_order o JOIN sandbox_ordertransaction t ON t.id = o.transaction_id"
    )
    for fixed, moving, key, updated, created, status, sample, interpretation, *rest in rows:
        record = json.loads("{" + fixed + "," + moving + "}")
        group_status, group, user, events, visit, method = rest
        assert record["id"] == key
        assert record["user_id"] == user
        assert record["updated_at"] == updated.isoformat()
        assert record["created_at"] == created.isoformat()
        assert updated >= created
        assert record["status"] == status.split(".")[0]
        assert record["last_event"] == record["events"][-1]
        assert record["last_event"]["status"] == status
        assert len(record["events"]) == events
        assert record["sample_id"] == sample
        assert record["interpretation"] == interpretation
        assert record["order_transaction"]["id"] == group
        assert record["order_transaction"]["status"] == group_status
        assert record["details"]["type"] == method
        if method in ("walk_in_test", "at_home_phlebotomy"):
            assert record["details"]["data"]["appointment_id"] == visit


def transactions(sandbox: Sandbox) -> set[str]:
    """Checks the status of every transaction; the statuses found."""
    rows = sandbox.query(
        "SELECT t.status, array_agg(o.low_level_status) FROM sandbox_ordertransaction t "
        "JOIN sandbox_order o ON o.transaction_id = t.id GROUP BY t.id"
    )
    over = {
        "completed",
        "corrected",
        "sample_error",
        "lost",
        "redraw_available",
        "cancelled",
        "do_not_process",
        "failure_to_deliver_to_lab",
        "failure_to_deliver_to_customer",
    }
    found: set[str] = set()
    for status, lows in rows:
        found.add(status)
        if status == "cancelled":
            assert set(lows) <= {"cancelled", "do_not_process"}
        elif status == "completed":
            assert set(lows) <= over
            assert set(lows) - {"cancelled", "do_not_process"}
        else:
            assert set(lows) - over
    return found


def numbering(sandbox: Sandbox) -> None:
    """Checks that `seq` is dense per team and ascends with `created_at`."""
    rows = sandbox.query("SELECT team_id, seq, created_at FROM sandbox_order ORDER BY team_id, seq")
    by_team: dict[Any, list[tuple[int, Any]]] = {}
    for team, seq, created_at in rows:
        by_team.setdefault(team, []).append((seq, created_at))
    totals = dict(sandbox.query("SELECT id, order_count FROM sandbox_team WHERE order_count > 0"))
    assert set(by_team) == set(totals)
    for team, found in by_team.items():
        assert [seq for seq, _ in found] == list(range(1, totals[team] + 1))
        moments = [moment for _, moment in found]
        assert moments == sorted(moments)
