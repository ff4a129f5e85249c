"""Unmatched results, and what happens to them (orders.md 9)."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time
from typing import Any

import orjson

from sandbox import (
    clock,
    event_queue,
    order_lifecycle,
    order_store,
    simulation,
    team_orders,
    world_loop,
)
from sandbox.context import load_context
from sandbox.deliveries import order_events
from sandbox.models import LabAccount, LabTest, Order, UnmatchedResult, User, UserInfo
from sandbox.simulation import ResultFlags
from sandbox.states import OrderState
from sandbox.team_orders import OrderSpec
from sandbox.transitions import TERMINAL

Record = dict[str, Any]
ACTIONS = ["accept", "reject", "unsure"]
REVIEWABLE = "pending_customer_review"


@dataclass(slots=True)
class MatchReviewSettings:
    """Settings of the control path: whether the team's queue is enabled."""

    enabled: bool = True


MATCH_REVIEW = MatchReviewSettings()


@dataclass(frozen=True, slots=True)
class MatchCase:
    """A case of the test harness: orders by role, the status to bring them to, and how they
    match."""

    roles: tuple[str, ...]
    final: str
    candidate: str
    confidence: str
    reasons: tuple[str, ...]
    why: str


CASES = {
    "match_completed": MatchCase(
        ("order",), "completed", "provenance_order", "high",
        ("sample_id_match", "matched_completed_order", "demographic_match", "same_lab"),
        "The sample belongs to an order that is completed",
    ),
    "match_cancelled": MatchCase(
        ("order",), "cancelled", "provenance_order", "high",
        ("sample_id_match", "matched_cancelled_order", "demographic_match", "same_lab"),
        "The sample belongs to an order that is cancelled",
    ),
    "wrong_collection": MatchCase(
        ("order",), "", "provenance_order", "high",
        ("sample_id_match", "invalid_collection_state", "demographic_match", "same_lab"),
        "The sample belongs to an order that has not been collected",
    ),
    "wrong_lab": MatchCase(
        ("order",), "", "provenance_order", "medium",
        ("possible_wrong_lab", "lab_account_mismatch", "demographic_match"),
        "The order of this patient went to another lab",
    ),
    "multiple_demo_match": MatchCase(
        ("first_order", "second_order"), "", "order_option", "medium",
        ("demographic_match", "same_user", "same_lab", "marker_overlap_exact"),
        "Several orders of this patient could be meant",
    ),
    "match_sample_id_mismatch_demo": MatchCase(
        ("order",), "", "provenance_order", "medium",
        ("sample_id_match", "demographic_mismatch", "same_lab"),
        "The sample belongs to an order of somebody with other demographics",
    ),
    "match_demo": MatchCase(
        ("order",), "", "order_option", "low",
        ("demographic_match", "same_lab", "marker_overlap_exact"),
        "The demographics fit an order, the sample id is unknown",
    ),
    "no_match": MatchCase((), "", "", "", (), "Neither the sample nor the patient is known"),
}  # fmt: skip
SCORES = {"high": 0.97, "medium": 0.74, "low": 0.42}


def summary(result: UnmatchedResult) -> Record:
    """`data` of a match review event (webhooks.md 4.2)."""
    return {
        "id": str(result.pk),
        "status": result.status,
        "decision_code": result.decision_code,
        "sub_reason_codes": result.sub_reason_codes,
        "resolution_action": result.resolution_action,
        "resolved_user_id": result.resolved_user_id,
        "resolved_order_id": result.resolved_order_id,
    }


def record(result: UnmatchedResult) -> Record:
    """UnmatchedResult (orders.md 9)."""
    lab = result.lab
    markers = result.lab_test.markers.order_by("id").values("provider_id", "name")
    return {
        **summary(result),
        "reason": result.reason,
        "patient": result.patient,
        "lab": {"id": lab.pk, "name": lab.name, "slug": lab.slug},
        "markers": list(markers),
        "interpretation": result.interpretation,
        "result_status": result.result_status,
        "note": result.note,
        "allowed_actions": result.allowed_actions,
        "candidate_groups": result.candidate_groups,
        "created_at": result.created_at,
        "updated_at": result.updated_at,
        "reviewed_at": result.reviewed_at,
    }


def make_result(
    team: uuid.UUID,
    name: str,
    orders: Sequence[Order],
    lab_test: LabTest,
    result_status: str,
    interpretation: str,
) -> UnmatchedResult:
    """Create a result for the team's queue. Needs an open transaction."""
    case, now = CASES[name], clock.now()
    result = UnmatchedResult.objects.create(
        id=uuid.uuid4(),
        team_id=team,
        lab=lab_test.lab,
        lab_test=lab_test,
        sample_id=orders[0].sample_id if "sample_id_match" in case.reasons else None,
        status=REVIEWABLE,
        decision_code=name,
        sub_reason_codes=["lab_account_mismatch"] if name == "wrong_lab" else [],
        reason=case.why,
        patient=_patient(orders, name),
        interpretation=interpretation,
        result_status=result_status,
        allowed_actions=ACTIONS,
        candidate_groups=_groups(case, orders),
        created_at=now,
        updated_at=now,
    )
    event_queue.announce("labtest.match_review.created", None, summary(result), now, str(team))
    return result


def _patient(orders: Sequence[Order], name: str) -> Record:
    if not orders:
        return {
            "first_name": "Nemo",
            "last_name": "Unmatched",
            "dob": "1970-01-01T00:00:00+00:00",
            "gender": "unknown",
        }
    details = orjson.loads("{" + orders[0].fixed_part + "}")["patient_details"]
    shown = {key: details[key] for key in ("first_name", "last_name", "dob", "gender")}
    if name == "match_sample_id_mismatch_demo":
        shown["last_name"] = "Otherwise"
    return shown


def _groups(case: MatchCase, orders: Sequence[Order]) -> list[Record]:
    users = dict.fromkeys(str(order.user_id) for order in orders)
    return [
        {
            "user_id": user,
            "candidates": [
                {
                    "candidate_type": case.candidate,
                    "order_id": str(order.id),
                    "order_transaction_id": str(order.transaction_id),
                    "last_status": order.low_level_status,
                    "confidence_level": case.confidence,
                    "confidence_score": SCORES[case.confidence],
                    "reasons": list(case.reasons),
                    "marker_overlap": None,
                    "status_context": {"last_status": order.low_level_status},
                }
                for order in orders
                if str(order.user_id) == user
            ],
        }
        for user in users
    ]


def candidates(result: UnmatchedResult) -> dict[str, str | None]:
    """Return the orders that may be accepted, with their users."""
    return {
        each["order_id"]: group["user_id"]
        for group in result.candidate_groups
        for each in group["candidates"]
        if each["order_id"]
    }


def attach(result: UnmatchedResult, order: Order | None, user: User) -> str:
    """Give the result to the order, or to a new one if the order cannot take it; return its id."""
    flags = ResultFlags(result.interpretation, result.result_status == "partial")
    wanted = "partial_results" if result.result_status == "partial" else "completed"
    context = load_context()
    world_loop.lock_moves("pg_advisory_xact_lock_shared")
    if order is None:
        state = _new_order(result, user, None)
    else:
        [group] = order_store.lock_groups("id = %s", [str(order.id)], 1, wait=True)
        [state] = [each for each in group if each.id == str(order.id)]
        if state.low_level_status in TERMINAL or order.lab_test.lab_id != result.lab_id:
            state = _new_order(result, user, state)
    [group] = order_store.lock_groups("id = %s", [state.id], 1, wait=True)
    [state] = [each for each in group if each.id == state.id]
    if state.method == "testkit":
        wanted = "completed"  # Kits have no partial results.
    if result.sample_id and state.sample_id is None:
        state.sample_id = result.sample_id
    path = _route_or_completed(state, wanted)
    new = simulation.run(context, group, state, path, flags)
    world_loop.update_transaction(group)
    told = order_events.collect_entries([group])
    order_store.save_groups([group], new)
    order_events.announce_entries(told)
    return state.id


def _route_or_completed(state: OrderState, wanted: str) -> list[str]:
    try:
        return simulation.route(state, wanted)
    except simulation.Unreachable:
        return simulation.route(state, "completed")


def _new_order(result: UnmatchedResult, user: User, parent: OrderState | None) -> OrderState:
    """Place a recreation for the former order's patient, at the lab that sent the result."""
    fixed = orjson.loads("{" + parent.fixed_part + "}") if parent else _user_parts(user)
    details = dict(fixed["patient_details"])
    details["dob"] = datetime.fromisoformat(details["dob"]).date()
    account = LabAccount.objects.filter(
        lab=result.lab, status="active", team_id_allowlist__contains=[result.team_id]
    ).first()
    return team_orders.place_order(
        OrderSpec(
            result.team_id,
            user.pk,
            result.lab_test,
            result.lab_test.method,
            account.pk if account else None,
            details,
            fixed["patient_address"],
            low_level="requisition_bypassed",
            physician=fixed["physician"],
            sample_id=f"R{result.pk.hex[:9]}",
            imported=True,
            parent=parent,
            is_recreation=True,
        )
    )


def _user_parts(user: User) -> Record:
    info = UserInfo.objects.get(user=user)
    name = f"{info.first_name} {info.last_name}"
    address = ("first_line", "second_line", "city", "state", "zip", "country", "access_notes")
    details = (
        "first_name", "last_name", "gender", "phone_number", "email", "medical_proxy", "race",
        "ethnicity", "sexual_orientation", "gender_identity",
    )  # fmt: skip
    born = datetime.combine(info.dob, time(), UTC)
    return {
        "patient_details": {
            **{key: getattr(info, key) for key in details},
            "dob": born.isoformat(),
            "household_income": None,
            "household_size": None,
        },
        "patient_address": {
            "receiver_name": name,
            **{key: getattr(info, key) for key in address},
            "phone_number": info.phone_number,
        },
        "physician": None,
    }


def place_for_test(team: uuid.UUID, lab_test: LabTest, case: MatchCase) -> list[Order]:
    """Place the orders that a case needs, and bring them to its status."""
    user = (
        User.objects.filter(team_id=team, deleted_at__isnull=True, info__isnull=False)
        .order_by("seq")
        .first()
    )
    assert user is not None
    fixed = _user_parts(user)
    details = dict(fixed["patient_details"])
    details["dob"] = datetime.fromisoformat(details["dob"]).date()
    made = []
    for _ in case.roles:
        state = team_orders.place_order(
            OrderSpec(
                team, user.pk, lab_test, lab_test.method, None, details, fixed["patient_address"]
            )
        )
        [group] = order_store.lock_groups("id = %s", [state.id], 1, wait=True)
        [state] = group
        context = load_context()
        order_lifecycle.step(
            context,
            state,
            clock.now(),
            world_loop.registrant_chooser(context),
            1,
            "requisition_created",
        )
        if case.final:
            simulation.run(
                context, group, state, simulation.route(state, case.final), ResultFlags()
            )
        world_loop.update_transaction(group)
        told = order_events.collect_entries([group])
        order_store.save_groups([group])
        order_events.announce_entries(told)
        made.append(Order.objects.select_related("lab_test").get(id=state.id))
    return made
