"""The life cycle of one order: its next step, when that is due, and its effects (orders.md 4, 8).

Pure functions on `OrderState`: seeding runs them over simulated time, `world_loop` in real time.
The random numbers of a step are keyed by (seed, order number, step), so the outcome does not depend
on when or by whom the order is moved.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import Protocol

from sandbox import appointment_lifecycle
from sandbox.context import Context
from sandbox.keyed_random import KeyedRandom
from sandbox.records import amend_fixed_part
from sandbox.simulated_orders import activation_delay
from sandbox.states import EventState, OrderState, ShipmentState
from sandbox.transitions import (
    AT_HOME_VISITED,
    BLOCKED_DETAILS,
    BRANCHES,
    CANCELLED,
    COLLECT,
    COMPLETED,
    DWELL,
    ERROR_DETAILS,
    FORGOTTEN_KIT,
    HELD_BY_LAB,
    LAB_HOURS,
    LAPSE,
    MOST_PARTIALS,
    RESERVE,
    RESERVED,
    TERMINAL,
    VISIT,
    WALK_IN_COLLECTED,
    Branches,
    dotted,
)

INSTANT = timedelta(milliseconds=1)
LONGEST_WAIT = timedelta(days=10)  # for an appointment
# Statuses of a walk-in order in which the sample may have been collected.
WALKED_IN = ("requisition_created", "requisition_bypassed", "appointment_scheduled")
# Statuses that confirm a reserved slot.
FIRM = ("requisition_created", "appointment_pending")
OUTBOUND = ("courier-east", "courier-west")
COURIER_FAILURES = ("lost", "failure_to_deliver_to_customer", "failure_to_deliver_to_lab")


class Registrant(Protocol):
    """Who registers a kit; `patient_*` are JSON text."""

    @property
    def user_id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def dob(self) -> date: ...
    @property
    def patient_details(self) -> str: ...
    @property
    def patient_address(self) -> str: ...


ChooseRegistrant = Callable[[OrderState], Registrant]


def _branches(context: Context, order: OrderState) -> Branches:
    low = order.low_level_status
    if low == "completed":
        return COMPLETED
    if low in TERMINAL:
        return ()
    visit = order.appointment
    if low == "ordered" and visit is not None:
        return RESERVED
    if visit is not None and visit.status == "reserved":
        return HELD_BY_LAB
    if order.collected_at is not None and low in WALKED_IN and order.method == "walk_in_test":
        return WALK_IN_COLLECTED
    if low == "appointment_scheduled" and visit is not None and visit.status == "in_progress":
        return AT_HOME_VISITED
    kind = "registrable" if order.registrable else order.method
    wanted = "requisition_created" if low == "requisition_bypassed" else low
    return BRANCHES[kind].get(wanted, ())


def _target(context: Context, order: OrderState, rng: KeyedRandom) -> str:
    """Return the next step; empty if there is none."""
    branches = _branches(context, order)
    if not branches:
        return ""
    low = order.low_level_status
    target = rng.weighted_choice(branches)
    if target == RESERVE and (
        order.activate_by or not appointment_lifecycle.can_book(context, order)
    ):
        target = "requisition_created"
    if (
        low in ("requisition_created", "requisition_bypassed", "appointment_cancelled")
        and target.startswith("appointment")
        and order.appointment is None
        and not appointment_lifecycle.can_book(context, order)
    ):
        target = COLLECT if order.method == "walk_in_test" else "cancelled"
    if target == "redraw_available" and not (
        context.tests[order.lab_test_id].supports_redraw and order.origin == "initial"
    ):
        target = "completed"
    if target == "partial_results" and _partials(order) >= MOST_PARTIALS:
        target = "completed"
    return target


def _partials(order: OrderState) -> int:
    return sum(event.status.endswith(".partial_results") for event in order.events)


def _step_rng(context: Context, order: OrderState) -> KeyedRandom:
    return KeyedRandom(context.seed, "move", order.number, order.step)


def next_move(context: Context, order: OrderState) -> str:
    """Return what `step` will do; empty if the order stays as it is."""
    if order.planned is None:
        order.planned = _target(context, order, _step_rng(context, order))
    return order.planned


def schedule(context: Context, order: OrderState, at: datetime, pace: float = 1) -> None:
    """Set `next_at` of an order that has just changed."""
    rng = _step_rng(context, order)
    target = order.planned = _target(context, order, rng)
    low = order.low_level_status
    order.next_at = None
    if not target or (low == "with_customer" and rng.chance(FORGOTTEN_KIT)):
        return
    visit = order.appointment
    if low == "ordered" and order.activate_by is not None:
        midnight = datetime.combine(order.activate_by, time(), UTC)
        wait = midnight + activation_delay(order.activate_by) - at
        order.next_at = at + max(wait, INSTANT) / pace
        return
    if low == "appointment_scheduled" and visit is not None and visit.start_at and visit.end_at:
        if target in (COLLECT, VISIT):
            slot = visit.end_at if target == COLLECT else visit.start_at
            # A fast world does not wait for a slot that was booked at a slower pace.
            wait = min(slot - at, LONGEST_WAIT / pace) if pace > 4 else (slot - at) / pace
            order.next_at = at + max(wait, INSTANT)
            return
        if visit.status == "in_progress":
            order.next_at = at + max(visit.end_at - visit.start_at, INSTANT) / pace
            return
    low_hours, high_hours = DWELL.get(low, (1.0, 10.0))
    if order.collected_at is not None and low in WALKED_IN:
        low_hours, high_hours = LAB_HOURS
    hours = rng.uniform(low_hours, high_hours)
    order.next_at = at + timedelta(hours=hours) / pace


def step(
    context: Context,
    order: OrderState,
    at: datetime,
    register: ChooseRegistrant,
    pace: float = 1,
    target: str | None = None,
) -> str:
    """Move the order one step (to `target` if given) and schedule the next one.

    Return the step. After `redraw_available` the caller must place the redraw order. An empty
    result means that there was no next step, and only `next_at` changed.
    """
    done = next_move(context, order) if target is None else target
    if not done:
        order.next_at = None
        return ""
    at = max(at, order.updated_at + INSTANT)
    rng = KeyedRandom(context.seed, "effects", order.number, order.step)
    order.step += 1
    visit = order.appointment
    if done == RESERVE:
        appointment_lifecycle.book(context, order, rng, at, pace)
        assert order.appointment is not None
        appointment_lifecycle.set_status(order.appointment, "reserved", at + INSTANT)
        touch_details(order, at)
    elif done == LAPSE:
        waited_for = "requisition" if order.low_level_status == "ordered" else "confirmation"
        appointment_lifecycle.end_current(order, at, f"No {waited_for} in time")
        touch_details(order, at)
    elif done == VISIT:
        assert visit is not None
        appointment_lifecycle.set_status(visit, "in_progress", at)
        touch_details(order, at)
    elif done == COLLECT:
        if visit is not None:
            appointment_lifecycle.set_status(visit, "completed", at)
        _mark_collected(context, order, at)
        touch_details(order, at)
    else:
        _enter_status(context, order, done, at, rng, register, pace)
    order.updated_at = max(order.updated_at + INSTANT, order.events[-1].created_at, at)
    schedule(context, order, order.updated_at, pace)
    return done


def _enter_status(
    context: Context,
    order: OrderState,
    low: str,
    at: datetime,
    rng: KeyedRandom,
    register: ChooseRegistrant,
    pace: float,
) -> None:
    visit = order.appointment
    detail: str | None = None
    match low:
        case "requisition_created":
            order.has_requisition = True
            if order.sample_id is None:
                order.sample_id = f"S{rng.digits(9)}"
            if order.method == "testkit" and order.shipment is None:
                order.shipment = ShipmentState(rng.uuid(), at, at)
        case "registered":
            _register(order, register(order))
        case "appointment_pending":
            if visit is None or visit.status != "reserved":
                appointment_lifecycle.book(context, order, rng, at, pace)
        case "appointment_scheduled":
            if visit is None:
                appointment_lifecycle.book(context, order, rng, at, pace)
            if order.low_level_status == "appointment_scheduled":
                appointment_lifecycle.rebook(order, rng, at, pace)
            else:
                appointment_lifecycle.confirm(order, rng, at, pace)
        case "appointment_cancelled":
            appointment_lifecycle.cancel(order, rng, at)
        case "cancelled":
            # The lab's own appointment is not cancelled (orders.md 4.2).
            if (
                visit is not None
                and visit.type == "phlebotomy"
                and visit.event_status != "completed"
            ):
                appointment_lifecycle.end_current(order, at, "Order cancelled")
        case "draw_completed":
            if visit is not None:
                appointment_lifecycle.set_status(visit, "completed", at)
            _mark_collected(context, order, at)
        case "lab_processing_blocked":
            detail = rng.weighted_choice(BLOCKED_DETAILS)
        case "sample_error":
            detail = rng.weighted_choice(ERROR_DETAILS)
        case "partial_results" | "completed" | "corrected" | "redraw_available":
            if order.collected_at is None:
                _mark_collected(context, order, at)
            _add_result(context, order, low)
        case _:
            pass
    if order.method == "testkit":
        _update_shipment(context, order, low, at, rng)
    add_event(order, low, at, detail)
    if visit is not None and visit.status == "reserved" and low in FIRM:
        # The reserved slot is confirmed: order events in quick succession (appointments.md 7).
        if low == "requisition_created":
            add_event(order, "appointment_pending", at + INSTANT)
        appointment_lifecycle.confirm(order, rng, at + 2 * INSTANT, pace)
        add_event(order, "appointment_scheduled", at + 2 * INSTANT)
    if low.startswith("appointment") or order.method == "testkit":
        touch_details(order, at)


def add_event(order: OrderState, low: str, at: datetime, detail: str | None = None) -> None:
    """Add an event: the order enters a status."""
    at = max(at, order.last_event_at + INSTANT)
    order.low_level_status = low
    order.status = dotted(order.method, low)
    order.status_detail = detail
    order.last_event_at = at
    order.events.append(EventState(at, order.status, detail))


def touch_details(order: OrderState, at: datetime) -> None:
    """Update the time at which the order's `details` changed."""
    order.details_updated_at = max(at, order.details_updated_at + INSTANT)


def _register(order: OrderState, who: Registrant) -> None:
    order.fixed_part = amend_fixed_part(order.fixed_part, {"user_id": who.user_id}).replace(
        '"patient_details":null,"patient_address":null',
        f'"patient_details":{who.patient_details},"patient_address":{who.patient_address}',
        1,
    )
    order.user_id = who.user_id
    order.patient_name = who.name
    order.patient_dob = who.dob


def _update_shipment(
    context: Context, order: OrderState, low: str, at: datetime, rng: KeyedRandom
) -> None:
    if low == "transit_customer":
        if order.shipment is None:
            order.shipment = ShipmentState(rng.uuid(), at, at)
        number = f"OUT{rng.digits(10)}"
        order.shipment.outbound_tracking_number = number
        order.shipment.outbound_tracking_url = f"https://courier.invalid/track/{number}"
        order.shipment.outbound_courier = rng.choice(OUTBOUND)
        order.shipment.updated_at = at
    elif low == "transit_lab" and order.shipment is not None:
        number = f"INB{rng.digits(10)}"
        order.shipment.inbound_tracking_number = number
        order.shipment.inbound_tracking_url = f"https://courier.invalid/track/{number}"
        order.shipment.inbound_courier = rng.choice(OUTBOUND)
        order.shipment.updated_at = at
        _mark_collected(context, order, at)
    elif low in COURIER_FAILURES and order.shipment is not None:
        order.shipment.notes = "Courier reports a problem"
        order.shipment.updated_at = at


def _mark_collected(context: Context, order: OrderState, at: datetime) -> None:
    order.collected_at = at
    test = context.tests[order.lab_test_id]
    if test.common_tat_days is not None and test.worst_case_tat_days is not None:
        order.expected_result_by_date = (at + timedelta(days=test.common_tat_days)).date()
        order.worst_case_result_by_date = (at + timedelta(days=test.worst_case_tat_days)).date()


def _add_result(context: Context, order: OrderState, low: str) -> None:
    order.result_version += 1
    order.result_status = "partial" if low == "partial_results" else "final"
    rng = KeyedRandom(context.seed, "interpretation", order.number)
    first = rng.weighted_choice(((62, "normal"), (32, "abnormal"), (4, "critical"), (2, "unknown")))
    corrected = rng.weighted_choice(((60, first), (30, "abnormal"), (10, "normal")))
    order.interpretation = corrected if low == "corrected" else first
    order.has_missing_results = (
        True if low in ("partial_results", "redraw_available") else rng.chance(0.05)
    )


def transaction_status(orders: list[OrderState]) -> str:
    """Return the transaction status of a group (orders.md 4.1)."""
    lows = {order.low_level_status for order in orders}
    if lows <= CANCELLED:
        return "cancelled"
    return "completed" if lows <= TERMINAL else "active"
