"""Making and archiving lab tests, and the markers of an order set (catalogue.md 3 and 4)."""

from __future__ import annotations

import uuid
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.http import HttpResponse

from sandbox import clock
from sandbox.api import accounts, order_rules, vocabulary
from sandbox.api.calls import ApiRequest, Call
from sandbox.api.catalogue import marker_page
from sandbox.api.errors import Refusal, missing
from sandbox.api.order_bodies import ORDER_SET
from sandbox.api.paging import PAGE, SIZE
from sandbox.api.params import Text, Uuid
from sandbox.api.request_bodies import (
    Field,
    flag,
    limited_text,
    read_body,
    schema,
    typed_field,
    whole,
)
from sandbox.api.responses import json_bytes_response
from sandbox.models import Lab, LabAccount, LabTest, LabTestMarker, Marker
from sandbox.records import refresh_lab_test

Body = dict[str, Any]
_BOOLEAN = {"type": "boolean"}
CREATION = (
    Field("marker_ids", whole(0, 2**31 - 1), many=True, nullable=True, shape={"type": "integer"}),
    Field("provider_ids", many=True, nullable=True),
    typed_field("name", Text(min_length=1, max_length=200), required=True),
    typed_field("method", vocabulary.METHODS, required=True),
    Field("description", limited_text(500), required=True),
    Field("fasting", flag, nullable=True, default=False, shape=_BOOLEAN),
    typed_field("lab_account_id", Uuid(), nullable=True),
    Field("lab_slug", nullable=True),
)
CHANGE = (
    typed_field("name", Text(min_length=1, max_length=200), nullable=True),
    Field("active", flag, nullable=True, shape=_BOOLEAN),
)


def create_lab_test(api_request: ApiRequest) -> HttpResponse:
    """Create a test of the team; the service approves it before it can be ordered."""
    body = read_body(api_request.request, CREATION)
    team = api_request.caller.team
    account = _account(team, body["lab_account_id"])
    markers = _markers(body, account)
    [lab_id] = {marker.lab_id for marker in markers}
    lab = Lab.objects.get(pk=lab_id)
    if body["method"] not in lab.collection_methods:
        raise Refusal(400, f"{lab.slug} does not collect by {body['method']}")
    now = clock.now()
    turnaround = Marker.objects.filter(pk__in=[marker.pk for marker in markers]).aggregate(
        common=Max("common_tat_days"), worst=Max("worst_case_tat_days")
    )
    with transaction.atomic():
        key = uuid.uuid4()
        test = LabTest.objects.create(
            id=key,
            team_id=team,
            lab=lab,
            lab_account=account,
            slug=f"team-test-{key.hex[:8]}",
            name=body["name"],
            description=body["description"],
            sample_type=lab.sample_types[0],
            method=body["method"],
            price_minor=sum(marker.price_minor or 0 for marker in markers),
            status="pending_approval",
            fasting=bool(body["fasting"]),
            common_tat_days=turnaround["common"],
            worst_case_tat_days=turnaround["worst"],
            created_at=now,
            updated_at=now,
        )
        LabTestMarker.objects.bulk_create(
            LabTestMarker(lab_test=test, marker=marker, position=position)
            for position, marker in enumerate(markers)
        )
        refresh_lab_test(test)
    return json_bytes_response(test.document.encode())


def _account(team: uuid.UUID, key: uuid.UUID | None) -> LabAccount | None:
    if key is None:
        return None
    account = accounts.team_accounts(team).filter(pk=key).first()
    if account is None:
        raise Refusal(400, "The lab account is not linked to the team")
    return account


def _markers(body: Body, account: LabAccount | None) -> list[Marker]:
    """Return the requested markers, each once; all must be of one lab."""
    ids, codes = body["marker_ids"], body["provider_ids"]
    if bool(ids) == bool(codes):
        raise Refusal(400, "A lab test needs either marker_ids or provider_ids")
    known = accounts.available_markers(account).filter(is_active=True, is_orderable=True)
    if body["lab_slug"] is not None:
        known = known.filter(lab__slug=body["lab_slug"])
    known = known.filter(pk__in=ids) if ids else known.filter(provider_id__in=codes)
    found = {(marker.pk if ids else marker.provider_id): marker for marker in known}
    for key in ids or codes:
        if key not in found:
            raise Refusal(400, f"Marker {key} not found")
    markers = [found[key] for key in dict.fromkeys(ids or codes)]
    if len({marker.lab_id for marker in markers}) > 1:
        raise Refusal(400, "All markers of a lab test must belong to the same lab")
    return markers


def change_lab_test(api_request: ApiRequest) -> HttpResponse:
    """Rename a test, archive it (`active` false) or restore it."""
    body = read_body(api_request.request, CHANGE)
    with transaction.atomic():
        tests = LabTest.objects.select_for_update(of=("self",)).select_related("lab")
        test = tests.filter(pk=api_request["lab_test_id"]).first()
        if test is None or test.team_id not in (None, api_request.caller.team):
            raise missing("Lab test")
        if test.team_id is None:
            raise Refusal(403, "This lab test does not belong to the team")
        if body["active"] is not None:
            if test.status == "pending_approval" and body["active"]:
                raise Refusal(400, "This lab test has not been approved yet")
            test.status = "active" if body["active"] else "inactive"
        if body["name"] is not None:
            test.name = body["name"]
        test.updated_at = clock.now()
        test.save()
        refresh_lab_test(test)
    return json_bytes_response(test.document.encode())


def list_order_set_markers(api_request: ApiRequest) -> HttpResponse:
    """Return the markers that an order of this set would measure, for questions and prices."""
    order_set = read_body(api_request.request, ORDER_SET)
    team = api_request.caller.team
    tests, added = order_rules.members(team, order_set)
    account = _account(team, order_set["lab_account_id"])
    numbers = {marker.pk for marker in added}
    numbers |= set(
        LabTestMarker.objects.filter(lab_test__in=tests).values_list("marker_id", flat=True)
    )
    markers = accounts.available_markers(account).filter(pk__in=numbers)
    return marker_page(markers, api_request, pricing=False)


CALLS = (
    Call("POST", "/v3/lab_tests", create_lab_test, "A new lab test", takes=schema(CREATION)),
    Call(
        "PATCH",
        "/v3/lab_tests/{lab_test_id}",
        change_lab_test,
        "Rename or archive a lab test",
        takes=schema(CHANGE),
    ),
    Call(
        "POST",
        "/v3/lab_tests/list_order_set_markers",
        list_order_set_markers,
        "Markers of an order set",
        query=(PAGE, SIZE),
        takes=schema(ORDER_SET),
    ),
)
