"""Labs, lab tests, markers and physicians (catalogue.md 1-5, 8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson
from django.db.models import F, Q, QuerySet
from django.http import HttpResponse

from sandbox import records, specification_forms
from sandbox.api import accounts, vocabulary
from sandbox.api.accounts import LAB_ACCOUNT
from sandbox.api.calls import ANY_TEXT, ApiRequest, Call
from sandbox.api.errors import Refusal, missing
from sandbox.api.paging import PAGE, SIZE, make_cursor, page_count, read_cursor
from sandbox.api.params import Flag, Param, Text, Whole
from sandbox.api.responses import json_bytes_response, json_response
from sandbox.models import Lab, LabTest, Marker, Physician

_PRICING = Param("include_pricing", Flag(), False, note="fills `pricing`")


# Labs and physicians


def list_labs(api_request: ApiRequest) -> HttpResponse:
    return json_response([records.lab_record(lab) for lab in Lab.objects.order_by("id")])


def list_physicians(api_request: ApiRequest) -> HttpResponse:
    """Physicians of the caller's own team."""
    if api_request["team_id"] != api_request.caller.team:
        raise Refusal(403, "The key belongs to another team")
    found = Physician.objects.filter(team_id=api_request["team_id"]).order_by("last_name", "npi")
    return json_response(list(found.values("first_name", "last_name", "npi")))


# Lab tests

_LAB_TEST_FILTERS = (
    Param("generation_method", vocabulary.GENERATION_METHODS, "manual"),
    Param("lab_slug", Text()),
    Param("collection_method", vocabulary.METHODS),
    Param("status", vocabulary.LAB_TEST_STATUSES),
    Param("marker_ids", Whole(), many=True, note="tests that hold all of these"),
    Param("provider_ids", Text(), many=True, note="tests that hold all of these codes"),
    Param("name", Text(), note="part of the name, in any case"),
    Param("order_key", vocabulary.LAB_TEST_KEYS),
    Param("order_direction", vocabulary.DIRECTIONS, "asc"),
)


def _filtered(tests: QuerySet[LabTest], api_request: ApiRequest) -> QuerySet[LabTest]:
    if api_request["generation_method"] != "all":
        tests = tests.filter(auto_generated=api_request["generation_method"] == "auto")
    if api_request["lab_slug"] is not None:
        tests = tests.filter(lab__slug=api_request["lab_slug"])
    if api_request["collection_method"] is not None:
        tests = tests.filter(method=api_request["collection_method"])
    if api_request["status"] is not None:
        tests = tests.filter(status=api_request["status"])
    if api_request["name"] is not None:
        tests = tests.filter(name__icontains=api_request["name"])
    for marker_id in api_request["marker_ids"] or ():
        tests = tests.filter(pk__in=LabTest.objects.filter(markers__id=marker_id).values("pk"))
    for code in api_request["provider_ids"] or ():
        tests = tests.filter(pk__in=LabTest.objects.filter(markers__provider_id=code).values("pk"))
    return tests


_COLUMNS = {"price": "price_minor", "created_at": "created_at", "updated_at": "updated_at"}


def _ordered(tests: QuerySet[LabTest], api_request: ApiRequest) -> QuerySet[LabTest]:
    column = _COLUMNS[api_request["order_key"] or "created_at"]
    sign = "-" if api_request["order_direction"] == "desc" else ""
    return tests.order_by(f"{sign}{column}", f"{sign}id")


def _documents(tests: Iterable[LabTest]) -> list[orjson.Fragment]:
    return [orjson.Fragment(test.document) for test in tests]


def page_lab_tests(api_request: ApiRequest) -> HttpResponse:
    """Lab tests, `lab_test_limit` after the cursor."""
    account = accounts.find_account(api_request)
    column = _COLUMNS[api_request["order_key"] or "created_at"]
    question = {
        name: str(api_request[name])
        for name in ("lab_account_id", *(param.name for param in _LAB_TEST_FILTERS))
    }
    tests = _filtered(accounts.available_lab_tests(api_request.caller.team, account), api_request)
    after = read_cursor(api_request["next_cursor"], question)
    if after is not None:
        value, last_id = after
        beyond = "lt" if api_request["order_direction"] == "desc" else "gt"
        tests = tests.filter(
            Q(**{f"{column}__{beyond}": value}) | Q(**{column: value, f"id__{beyond}": last_id})
        )
    limit = api_request["lab_test_limit"]
    found = list(_ordered(tests, api_request)[: limit + 1])
    cursor = None
    if len(found) > limit:
        found = found[:limit]
        cursor = make_cursor([getattr(found[-1], column), found[-1].pk], question)
    pricing = _lab_test_pricing(found) if api_request["include_pricing"] else None
    return json_response({"data": _documents(found), "next_cursor": cursor, "pricing": pricing})


def list_lab_tests(api_request: ApiRequest) -> HttpResponse:
    """All lab tests at once; deprecated."""
    tests = _filtered(accounts.available_lab_tests(api_request.caller.team, None), api_request)
    return json_response(_documents(_ordered(tests, api_request)))


def _find_lab_test(api_request: ApiRequest) -> LabTest:
    """The lab test in the path; 404 when unknown, another team's, or not under the account."""
    account = accounts.find_account(api_request)
    found = accounts.available_lab_tests(api_request.caller.team, account)
    test = found.filter(pk=api_request["lab_test_id"]).first()
    if test is None:
        raise missing("Lab test")
    return test


def get_lab_test(api_request: ApiRequest) -> HttpResponse:
    return json_bytes_response(_find_lab_test(api_request).document.encode())


# Markers


def _price(marker: Marker) -> dict[str, Any]:
    if marker.price_minor is None:
        return {"unspecified": "refer_to_contract"}
    return {"base_amount_minor": marker.price_minor, "modifiers": None}


def _pricing(data: dict[str, Any]) -> dict[str, Any]:
    return {"currency": "USD", "data": data}


def _lab_test_pricing(tests: list[LabTest]) -> dict[str, Any]:
    prices: dict[Any, dict[str, Any]] = {test.pk: {} for test in tests}
    placed = Marker.objects.filter(lab_tests__in=prices).annotate(test=F("lab_tests__id"))
    for marker in placed.order_by("id"):
        prices[marker.test][str(marker.pk)] = _price(marker)
    return _pricing(
        {
            str(test.pk): {
                "pricing": {"base_amount_minor": test.price_minor, "modifiers": None},
                "marker_breakdown": prices[test.pk] or None,
            }
            for test in tests
        }
    )


def marker_page(
    markers: QuerySet[Marker], api_request: ApiRequest, *, pricing: bool
) -> HttpResponse:
    total = markers.count()
    start = (api_request["page"] - 1) * api_request["size"]
    found: list[Marker] = []
    if start < total:
        ordered = markers.order_by("id").prefetch_related("expected_results__loinc")
        found = list(ordered[start : start + api_request["size"]])
    return json_response(
        {
            "markers": [
                specification_forms.marker(records.marker_record(marker)) for marker in found
            ],
            "total": total,
            "page": api_request["page"],
            "size": api_request["size"],
            "pages": page_count(total, api_request["size"]),
            "pricing": _pricing({str(marker.pk): _price(marker) for marker in found})
            if pricing
            else None,
        }
    )


def list_markers(api_request: ApiRequest) -> HttpResponse:
    """Active, orderable markers without reflex ones; `lab_slug` wins over `lab_id`."""
    markers = accounts.available_markers(accounts.find_account(api_request)).filter(
        is_active=True, is_orderable=True, is_reflex=False
    )
    if api_request["lab_slug"] is not None:
        markers = markers.filter(lab__slug=api_request["lab_slug"])
    elif api_request["lab_id"] is not None:
        markers = markers.filter(lab_id__in=api_request["lab_id"])
    if api_request["name"]:
        markers = markers.filter(
            Q(name__icontains=api_request["name"]) | Q(provider_id__icontains=api_request["name"])
        )
    if api_request["a_la_carte_enabled"] is not None:
        markers = markers.filter(a_la_carte_enabled=api_request["a_la_carte_enabled"])
    return marker_page(markers, api_request, pricing=api_request["include_pricing"])


def list_lab_test_markers(api_request: ApiRequest) -> HttpResponse:
    """All markers of the lab test and the reflex markers that hang on them."""
    test = _find_lab_test(api_request)
    ordered = Marker.objects.filter(lab_tests=test).values("pk")
    markers = Marker.objects.filter(Q(pk__in=ordered) | Q(is_reflex=True, reflex_of__in=ordered))
    return marker_page(markers, api_request, pricing=False)


def get_marker(api_request: ApiRequest) -> HttpResponse:
    """One marker by the lab's own code, without expected results."""
    offered = accounts.available_markers(accounts.find_account(api_request))
    marker = offered.filter(
        lab_id=api_request["lab_id"], provider_id=api_request["provider_id"]
    ).first()
    if marker is None:
        raise missing("Marker")
    return json_response(
        specification_forms.marker(records.marker_record(marker, expected_results=False))
    )


CALLS = (
    Call("GET", "/v3/lab_tests/labs", list_labs, "Labs"),
    Call(
        "GET",
        "/v3/lab_test",
        page_lab_tests,
        "Lab tests",
        query=(
            Param("lab_test_limit", Whole(ge=1), 50),
            Param("next_cursor", Text(), note="opaque"),
            _PRICING,
            LAB_ACCOUNT,
            *_LAB_TEST_FILTERS,
        ),
    ),
    Call(
        "GET",
        "/v3/lab_tests",
        list_lab_tests,
        "Lab tests, unpaged",
        query=_LAB_TEST_FILTERS,
        deprecated=True,
    ),
    Call("GET", "/v3/lab_tests/{lab_test_id}", get_lab_test, "One lab test", query=(LAB_ACCOUNT,)),
    Call(
        "GET",
        "/v3/lab_tests/markers",
        list_markers,
        "Orderable markers",
        query=(
            Param("lab_id", Whole(), many=True),
            Param("lab_slug", Text(), note="wins over lab_id"),
            Param("name", Text(), "", note="name or test code"),
            Param("a_la_carte_enabled", Flag()),
            _PRICING,
            LAB_ACCOUNT,
            PAGE,
            SIZE,
        ),
    ),
    Call(
        "GET",
        "/v3/lab_tests/{lab_test_id}/markers",
        list_lab_test_markers,
        "Markers of a lab test, reflex ones included",
        query=(LAB_ACCOUNT, PAGE, SIZE),
    ),
    Call(
        "GET",
        "/v3/lab_tests/{lab_id}/markers/{provider_id}",
        get_marker,
        "One marker of a lab by its code",
        query=(LAB_ACCOUNT,),
        places={"lab_id": Whole(), "provider_id": ANY_TEXT},
    ),
    Call("GET", "/v2/team/{team_id}/physicians", list_physicians, "Physicians of the team"),
)
