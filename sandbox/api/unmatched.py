"""Unmatched results and the harness that makes some (orders.md 9)."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, time, timedelta
from typing import Any

import orjson
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.http import HttpResponse

from sandbox import clock, event_queue, unmatched
from sandbox.api import order_rules, vocabulary
from sandbox.api.calls import ApiRequest, Call
from sandbox.api.errors import Invalid, Refusal, malformed, missing
from sandbox.api.idempotency import KEY, key_of
from sandbox.api.order_writes import order_record
from sandbox.api.paging import make_cursor, read_cursor
from sandbox.api.params import Day, OneOf, Param, Text, Uuid, Whole
from sandbox.api.request_bodies import Field, read_body, schema, text_map, typed_field
from sandbox.api.responses import json_bytes_response, json_response
from sandbox.models import LabTest, Order, UnmatchedResult, UnmatchedRun

Body = dict[str, Any]
CODES = OneOf(("match_sample_id", *unmatched.CASES))
STATUSES = OneOf(("pending_customer_review", "pending_ops_review", "resolved"))
RESULT_STATUSES = OneOf(("final", "partial"))
NOTE = Field("note", nullable=True)
ACCEPT = (
    typed_field("order_id", Uuid(), nullable=True),
    typed_field("user_id", Uuid(), nullable=True),
    NOTE,
)
RESOLVE = (typed_field("action", OneOf(("reject", "unsure")), required=True), NOTE)
RUN = (
    typed_field("case", OneOf(tuple(unmatched.CASES)), required=True),
    typed_field("order_source", OneOf(("managed", "provided")), required=True),
    Field("orders", text_map, nullable=True, shape={"type": "object"}),
    typed_field("result_status", RESULT_STATUSES, default="final"),
    typed_field("interpretation", vocabulary.INTERPRETATIONS, default="normal"),
    typed_field("lab_test_id", Uuid(), nullable=True),
    typed_field("wrong_lab_test_id", Uuid(), nullable=True),
)


def _queue(team: uuid.UUID) -> QuerySet[UnmatchedResult]:
    if not unmatched.MATCH_REVIEW.enabled:
        raise Refusal(400, "Match review is not enabled for this team")
    return UnmatchedResult.objects.filter(team_id=team).select_related("lab", "lab_test__lab")


def _between(first: Any, last: Any) -> Q:
    """Made on UTC days from the first to the last, both included."""
    found = Q()
    if first is not None:
        found &= Q(created_at__gte=datetime.combine(first, time(), UTC))
    if last is not None:
        end = datetime.combine(last, time(), UTC) + timedelta(days=1)
        found &= Q(created_at__lt=end)
    return found


def list_results(api_request: ApiRequest) -> HttpResponse:
    """Newest first; resolved ones only when asked for."""
    found = _queue(api_request.caller.team).filter(
        _between(api_request["created_at_start"], api_request["created_at_end"])
    )
    if api_request["status"] is None:
        found = found.exclude(status="resolved")
    else:
        found = found.filter(status=api_request["status"])
    if api_request["decision_code"] is not None:
        found = found.filter(decision_code=api_request["decision_code"])
    if api_request["lab_slug"] is not None:
        found = found.filter(lab__slug=api_request["lab_slug"])
    if api_request["search_input"]:
        part = api_request["search_input"]
        found = found.filter(
            Q(patient__first_name__icontains=part)
            | Q(patient__last_name__icontains=part)
            | Q(patient__dob__startswith=part)
        )
    question = ["unmatched", str(api_request.caller.team)]
    question += [str(api_request[param.name]) for param in _LIST[2:]]
    total = found.count()
    after = read_cursor(api_request["next_cursor"], question)
    if after is not None:
        moment, key = after
        found = found.filter(Q(created_at__lt=moment) | Q(created_at=moment, id__lt=key))
    limit = api_request["limit"]
    rows = list(found.order_by("-created_at", "-id")[: limit + 1])
    cursor = None
    if len(rows) > limit:
        rows = rows[:limit]
        cursor = make_cursor([rows[-1].created_at, rows[-1].pk], question)
    data = [unmatched.record(each) for each in rows]
    return json_response({"data": data, "next_cursor": cursor, "total": total})


def _find(api_request: ApiRequest) -> UnmatchedResult:
    found = _queue(api_request.caller.team).filter(pk=api_request["raw_result_id"]).first()
    if found is None:
        raise missing("Unmatched result")
    return found


def get_result(api_request: ApiRequest) -> HttpResponse:
    return json_response(unmatched.record(_find(api_request)))


def _reviewable(api_request: ApiRequest) -> UnmatchedResult:
    """The result, ours until the transaction ends; 404 once somebody has decided."""
    found = _queue(api_request.caller.team).select_for_update(of=("self",))
    result = found.filter(pk=api_request["raw_result_id"], status=unmatched.REVIEWABLE).first()
    if result is None:
        raise Refusal(404, "Unmatched result not found or no longer reviewable")
    return result


def accept_result(api_request: ApiRequest) -> HttpResponse:
    """The order that has the result now; it may be a new one."""
    empty: Body = {"order_id": None, "user_id": None, "note": None}
    body = read_body(api_request.request, ACCEPT) if api_request.request.body else empty
    with transaction.atomic():
        result = _reviewable(api_request)
        order = _chosen_order(result, body)
        if order is None:
            user = order_rules.find_user(api_request.caller.team, body["user_id"])
        else:
            user = order.user
        key = unmatched.attach(result, order, user)
        result.resolved_user_id, result.resolved_order_id = user.pk, uuid.UUID(key)
        _close(result, "resolved", "accept", body["note"])
        return json_bytes_response(order_record(key).encode())


def _chosen_order(result: UnmatchedResult, body: Body) -> Order | None:
    """The candidate that is meant; None: none, the user is."""
    known = unmatched.candidates(result)
    key, user = body["order_id"], body["user_id"]
    if key is None:
        fitting = [each for each, whose in known.items() if user is None or whose == str(user)]
        if not fitting and user is not None:
            return None
        if len(fitting) != 1:
            raise Refusal(422, "The choice is ambiguous: send order_id")
        key = fitting[0]
    if str(key) not in known:
        raise Refusal(422, "order_id is not a candidate of this result")
    order = Order.objects.select_related("user", "lab_test").get(id=key)
    if user is not None and order.user_id != user:
        raise Refusal(422, "order_id and user_id do not belong together")
    return order


def resolve_result(api_request: ApiRequest) -> HttpResponse:
    body = read_body(api_request.request, RESOLVE)
    with transaction.atomic():
        result = _reviewable(api_request)
        status = "resolved" if body["action"] == "reject" else "pending_ops_review"
        _close(result, status, body["action"], body["note"])
        return json_response(unmatched.record(result))


def _close(result: UnmatchedResult, status: str, action: str, note: str | None) -> None:
    now = clock.now()
    result.status, result.resolution_action = status, action
    result.note, result.allowed_actions = note, []
    result.updated_at = result.reviewed_at = now
    result.save()
    kind = "labtest.match_review.updated"
    event_queue.announce(kind, None, unmatched.summary(result), now, str(result.team_id))


# The harness


def _harness() -> None:
    if not unmatched.MATCH_REVIEW.enabled:
        raise missing("Page")


def list_cases(api_request: ApiRequest) -> HttpResponse:
    _harness()
    cases = [{"case": name, "roles": case.roles} for name, case in unmatched.CASES.items()]
    return json_response({"data": cases})


def start_run(api_request: ApiRequest) -> HttpResponse:
    """Make the result; the same key with the same body answers the same run."""
    _harness()
    key = key_of(api_request)
    if key is None:
        raise malformed(["header", KEY], Invalid("missing", "Field required"), None)
    body = read_body(api_request.request, RUN)
    plain = orjson.loads(orjson.dumps(body))
    team = api_request.caller.team
    try:
        with transaction.atomic():
            run = UnmatchedRun.objects.create(
                id=uuid.uuid4(),
                team_id=team,
                key=key,
                body=plain,
                status="running",
                created_at=clock.now(),
            )
            _carry_out(run, body)
    except IntegrityError:
        run = UnmatchedRun.objects.get(team_id=team, key=key)
        if run.body != plain:
            raise Refusal(409, "This idempotency key was used with another body") from None
    return json_response({"run_id": run.pk, "status": "running"}, 202)


def _carry_out(run: UnmatchedRun, body: Body) -> None:
    """A run that cannot be carried out fails; its key stays taken."""
    try:
        with transaction.atomic():
            run.result = _make(run.team_id, body)
            run.status = "succeeded"
    except Refusal as refusal:
        run.status, run.error = "failed", str(refusal.detail)
    run.save()


def _make(team: uuid.UUID, body: Body) -> UnmatchedResult:
    case = unmatched.CASES[body["case"]]
    tests = LabTest.objects.filter(team__isnull=True, status="active").select_related("lab")
    test = tests.filter(auto_generated=False, method="on_site_collection").first()
    if body["lab_test_id"] is not None:
        test = tests.filter(pk=body["lab_test_id"]).first()
    if test is None:
        raise Refusal(400, "Lab test not found")
    if body["order_source"] == "provided":
        orders = _provided(team, case, body["orders"] or {})
        test = orders[0].lab_test if orders else test
    else:
        orders = unmatched.place_for_test(team, test, case)
    if body["case"] == "wrong_lab":
        others = tests.exclude(lab_id=test.lab_id).filter(method="on_site_collection")
        others = others or tests.exclude(lab_id=test.lab_id).filter(auto_generated=False)
        if body["wrong_lab_test_id"] is not None:
            others = tests.filter(pk=body["wrong_lab_test_id"])
        test = others.order_by("slug").first()
        if test is None:
            raise Refusal(400, "Lab test not found")
    return unmatched.make_result(
        team, body["case"], orders, test, body["result_status"], body["interpretation"]
    )


def _provided(team: uuid.UUID, case: unmatched.MatchCase, given: dict[str, str]) -> list[Order]:
    if set(given) != set(case.roles):
        raise Refusal(400, f"The case needs orders for: {', '.join(case.roles) or 'nobody'}")
    orders = Order.objects.filter(team_id=team).select_related("lab_test__lab")
    found = [_one(orders, given[role]) for role in case.roles]
    if case.final and any(order.low_level_status != case.final for order in found):
        raise Refusal(400, f"The case needs orders that are {case.final}")
    if any(order.patient_dob is None for order in found):
        raise Refusal(400, "The case needs orders with a patient")
    return found


def _one(orders: QuerySet[Order], key: str) -> Order:
    try:
        order = orders.filter(id=uuid.UUID(key)).first()
    except ValueError:
        order = None
    if order is None:
        raise Refusal(400, "Order not found")
    return order


def get_run(api_request: ApiRequest) -> HttpResponse:
    _harness()
    run = UnmatchedRun.objects.filter(
        pk=api_request["run_id"], team_id=api_request.caller.team
    ).first()
    if run is None:
        raise missing("Run")
    return json_response(
        {
            "run_id": run.pk,
            "status": run.status,
            "error": run.error,
            "unmatched_result_id": run.result_id,
        }
    )


_LIST = (
    Param("limit", Whole(ge=1, le=100), 50),
    Param("next_cursor", Text(), note="opaque"),
    Param("decision_code", CODES),
    Param("lab_slug", Text()),
    Param("status", STATUSES, note="without it resolved ones are hidden"),
    Param("created_at_start", Day()),
    Param("created_at_end", Day()),
    Param("search_input", Text(), note="part of a name, or the birth date"),
)
CALLS = (
    Call("GET", "/v3/unmatched_result", list_results, "Results without a match", query=_LIST),
    Call("GET", "/v3/unmatched_result/{raw_result_id}", get_result, "One result without a match"),
    Call(
        "POST",
        "/v3/unmatched_result/{raw_result_id}/accept",
        accept_result,
        "Give a result to an order",
        takes=schema(ACCEPT),
    ),
    Call(
        "POST",
        "/v3/unmatched_result/{raw_result_id}/resolve",
        resolve_result,
        "Give a result to nobody",
        takes=schema(RESOLVE),
    ),
    Call("GET", "/v3/unmatched_result_test/case", list_cases, "Cases of the test harness"),
    Call(
        "POST",
        "/v3/unmatched_result_test",
        start_run,
        "Make a result without a match",
        takes=schema(RUN),
    ),
    Call("GET", "/v3/unmatched_result_test/{run_id}", get_run, "A run of the test harness"),
)
