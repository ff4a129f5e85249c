"""Move one order to a wanted status on demand (orders.md 10)."""

from collections import deque
from dataclasses import dataclass

from sandbox import appointment_lifecycle, clock, order_lifecycle, world_loop
from sandbox.context import Context
from sandbox.models import World
from sandbox.states import OrderState
from sandbox.transitions import (
    AT_HOME_VISITED,
    BRANCHES,
    COLLECT,
    LAPSE,
    RESERVE,
    TERMINAL,
    VISIT,
    WALK_IN_COLLECTED,
)

RESULTS = ("partial_results", "completed", "corrected", "redraw_available")


class Unreachable(Exception):
    """The order cannot reach the wanted status from its present one."""


@dataclass(frozen=True, slots=True)
class ResultFlags:
    """How results shall look; `has_missing` None: by chance."""

    interpretation: str = "normal"
    has_missing: bool | None = None


def route(order: OrderState, wanted: str) -> list[str]:
    """Return the shortest list of steps to a low-level status, without the present one."""
    start = order.low_level_status
    paths: deque[tuple[str, list[str]]] = deque([(start, [])])
    seen: set[str] = set()
    while paths:
        low, moves_so_far = paths.popleft()
        for steps in _next_routes(order, low):
            path = [*moves_so_far, *steps]
            if steps[-1] == wanted:
                return path
            if steps[-1] not in seen:
                seen.add(steps[-1])
                paths.append((steps[-1], path))
    raise Unreachable(f"The order cannot go from {start} to {wanted}")


def _next_routes(order: OrderState, low: str) -> list[list[str]]:
    """Return the ways out of a status: each is a list of steps that ends with the next status."""
    if low == "completed":
        return [["corrected"]]
    if low in TERMINAL:
        return []
    kind = "registrable" if order.registrable else order.method
    known = "requisition_created" if low == "requisition_bypassed" else low
    found: list[list[str]] = []
    for _, target in BRANCHES[kind].get(known, ()):
        if target == COLLECT:
            before = [] if order.collected_at is not None else [COLLECT]
            found += [[*before, end] for _, end in WALK_IN_COLLECTED]
        elif target == VISIT:
            visit = order.appointment
            before = [] if visit and visit.status == "in_progress" else [VISIT]
            found += [[*before, end] for _, end in AT_HOME_VISITED if end == "draw_completed"]
        elif target not in (RESERVE, LAPSE):
            found.append([target])
    return found


def run(
    context: Context,
    group: list[OrderState],
    order: OrderState,
    path: list[str],
    flags: ResultFlags,
) -> list[OrderState]:
    """Move the order of a locked group along the path; return the redraw orders it caused."""
    pace = world_loop.pace_for_speed(World.objects.get(id=1).speed)
    new: list[OrderState] = []
    for target in path:
        books = target == "appointment_pending" or (
            target == "appointment_scheduled" and order.appointment is None
        )
        if books and not appointment_lifecycle.can_book(context, order):
            raise Unreachable("Nobody draws blood at the patient's address")
        order_lifecycle.step(
            context, order, clock.now(), world_loop.registrant_chooser(context), pace, target
        )
        if target in RESULTS:
            order.interpretation = flags.interpretation
            if flags.has_missing is not None:
                order.has_missing_results = flags.has_missing
        if target == "redraw_available":
            made = world_loop.new_redraw(context, order, pace)
            group.append(made)
            new.append(made)
    return new
