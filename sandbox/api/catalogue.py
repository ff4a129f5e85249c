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
from sandbox.api.calls import ANY_TEXT, Asked, Call
from sandbox.api.errors import Refusal, missing
from sandbox.api.paging import PAGE, SIZE, make_cursor, page_count, read_cursor
from sandbox.api.params import Flag, Param, Text, Whole
from sandbox.api.responses import json_answer, json_bytes
from sandbox.models import Lab, LabTest, Marker, Physician

_PRICING = Param("include_pricing", Flag(), False, note="fills `pricing`")


# Labs and physicians


def list_labs(asked: Asked) -> HttpResponse:
    return json_answer([records.lab_record(lab) for lab in Lab.objects.order_by("id")])


def list_physicians(asked: Asked) -> HttpResponse:
    """Physicians of the caller's own team."""
    if asked["team_id"] != asked.caller.team:
        raise Refusal(403, "The key belongs to another team")
    found = Physician.objects.filter(team_id=asked["team_id"]).order_by("last_name", "npi")
    return json_answer(list(found.values("first_name", "last_name", "npi")))


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


def _filtered(tests: QuerySet[LabTest], asked: Asked) -> QuerySet[LabTest]:
    if asked["generation_method"] != "all":
        tests = tests.filter(auto_generated=asked["generation_method"] == "auto")
    if asked["lab_slug"] is not None:
        tests = tests.filter(lab__slug=asked["lab_slug"])
    if asked["collection_method"] is not None:
        tests = tests.filter(method=asked["collection_method"])
    if asked["status"] is not None:
        tests = tests.filter(status=asked["status"])
    if asked["name"] is not None:
        tests = tests.filter(name__icontains=asked["name"])
    for marker_id in asked["marker_ids"] or ():
        tests = tests.filter(pk__in=LabTest.objects.filter(markers__id=marker_id).values("pk"))
    for code in asked["provider_ids"] or ():
        tests = tests.filter(pk__in=LabTest.objects.filter(markers__provider_id=code).values("pk"))
    return tests


_COLUMNS = {"price": "price_minor", "created_at": "created_at", "updated_at": "updated_at"}


def _ordered(tests: QuerySet[LabTest], asked: Asked) -> QuerySet[LabTest]:
    column = _COLUMNS[asked["order_key"] or "created_at"]
    sign = "-" if asked["order_direction"] == "desc" else ""
    return tests.order_by(f"{sign}{column}", f"{sign}id")


def _documents(tests: Iterable[LabTest]) -> list[orjson.Fragment]:
    return [orjson.Fragment(test.document) for test in tests]


def page_lab_tests(asked: Asked) -> HttpResponse:
    """Lab tests, `lab_test_limit` after the cursor."""
    account = accounts.find_account(asked)
    column = _COLUMNS[asked["order_key"] or "created_at"]
    question = {
        name: str(asked[name])
        for name in ("lab_account_id", *(param.name for param in _LAB_TEST_FILTERS))
    }
    tests = _filtered(accounts.available_lab_tests(asked.caller.team, account), asked)
    after = read_cursor(asked["next_cursor"], question)
    if after is not None:
        value, last_id = after
        beyond = "lt" if asked["order_direction"] == "desc" else "gt"
        tests = tests.filter(
            Q(**{f"{column}__{beyond}": value}) | Q(**{column: value, f"id__{beyond}": last_id})
        )
    limit = asked["lab_test_limit"]
    found = list(_ordered(tests, asked)[: limit + 1])
    cursor = None
    if len(found) > limit:
        found = found[:limit]
        cursor = make_cursor([getattr(found[-1], column), found[-1].pk], question)
    pricing = _lab_test_pricing(found) if asked["include_pricing"] else None
    return json_answer({"data": _documents(found), "next_cursor": cursor, "pricing": pricing})


def list_lab_tests(asked: Asked) -> HttpResponse:
    """All lab tests at once; deprecated."""
    tests = _filtered(accounts.available_lab_tests(asked.caller.team, None), asked)
    return json_answer(_documents(_ordered(tests, asked)))


def _find_lab_test(asked: Asked) -> LabTest:
    """The lab test in the path; 404 when unknown, another team's, or not under the account."""
    account = accounts.find_account(asked)
    found = accounts.available_lab_tests(asked.caller.team, account)
    test = found.filter(pk=asked["lab_test_id"]).first()
    if test is None:
        raise missing("Lab test")
    return test


def get_lab_test(asked: Asked) -> HttpResponse:
    return json_bytes(_find_lab_test(asked).document.encode())


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


def marker_page(markers: QuerySet[Marker], asked: Asked, *, pricing: bool) -> HttpResponse:
    total = markers.count()
    start = (asked["page"] - 1) * asked["size"]
    found: list[Marker] = []
    if start < total:
        ordered = markers.order_by("id").prefetch_related("expected_results__loinc")
        found = list(ordered[start : start + asked["size"]])
    return json_answer(
        {
            "markers": [
                specification_forms.marker(records.marker_record(marker)) for marker in found
            ],
            "total": total,
            "page": asked["page"],
            "size": asked["size"],
            "pages": page_count(total, asked["size"]),
            "pricing": _pricing({str(marker.pk): _price(marker) for marker in found})
            if pricing
            else None,
        }
    )


def list_markers(asked: Asked) -> HttpResponse:
    """Active, orderable markers without reflex ones; `lab_slug` wins over `lab_id`."""
    markers = accounts.available_markers(accounts.find_account(asked)).filter(
        is_active=True, is_orderable=True, is_reflex=False
    )
    if asked["lab_slug"] is not None:
        markers = markers.filter(lab__slug=asked["lab_slug"])
    elif asked["lab_id"] is not None:
        markers = markers.filter(lab_id__in=asked["lab_id"])
    if asked["name"]:
        markers = markers.filter(
            Q(name__icontains=asked["name"]) | Q(provider_id__icontains=asked["name"])
        )
    if asked["a_la_carte_enabled"] is not None:
        markers = markers.filter(a_la_carte_enabled=asked["a_la_carte_enabled"])
    return marker_page(markers, asked, pricing=asked["include_pricing"])


def list_lab_test_markers(asked: Asked) -> HttpResponse:
    """All markers of the lab test and the reflex markers that hang on them."""
    test = _find_lab_test(asked)
    ordered = Marker.objects.filter(lab_tests=test).values("pk")
    markers = Marker.objects.filter(Q(pk__in=ordered) | Q(is_reflex=True, reflex_of__in=ordered))
    return marker_page(markers, asked, pricing=False)


def get_marker(asked: Asked) -> HttpResponse:
    """One marker by the lab's own code, without expected results."""
    offered = accounts.available_markers(accounts.find_account(asked))
    marker = offered.filter(lab_id=asked["lab_id"], provider_id=asked["provider_id"]).first()
    if marker is None:
        raise missing("Marker")
    return json_answer(
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
